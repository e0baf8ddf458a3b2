"""Makes of a line the pattern that lines of one kind share: what differs from run to run becomes `<number>`, `<path>`, `<name>`."""

from __future__ import annotations

import re
from functools import lru_cache

from slurmdoctor.report import disarm

_LONGEST = 400
"""Characters of a line that are looked at,"""
WORDS = 8
"""and words of a pattern, besides the placeholders between them: what stands behind so many is detail."""
_MOST = 16
"""Words and placeholders."""
_CUT = "…"
_PARTS = re.compile(
    r"""
    (?:(?<!\w)|(?=["`]))(?:
    (?P<url>\b[a-z][a-z0-9+.-]{1,9}://[^\s'")\]>]+)
    |(?P<time>\b\d{4}[-/]\d\d[-/]\d\d(?:[T_\ :-]{1,2}\d\d:\d\d(?::\d\d)?(?:[.,:]\d+){0,3}(?:Z|[+-]\d\d:?\d\d)?)?
      |\b[A-Z][a-z]{2}[-\ ]\d{1,2}\ \d\d:\d\d:\d\d(?:[.,]\d+)?|\b\d{1,3}:\d\d(?::\d\d)?(?:[.,]\d+)?\b)
    |(?P<quoted>(?<!\w)'[^']{1,200}'(?!\w)|"[^"]{1,200}"|`[^`']{1,200}[`'])
    |(?P<path>(?<![\w.])(?:~|\.{1,2})?/(?:[\w.@+~^=%,*/-]*[\w@+~/-])?|(?<![\w./-])[\w.-]+/[\w./-]*\w)
    |(?P<hex>\b0x[0-9a-fA-F]+|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{6,}\b(?:-[0-9a-f]{4,12}){0,4})
    |(?P<host>(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?:[:<]\d+>?)?)
    |(?P<option>(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+|\ \d+(?![\w.]))?)
    |(?P<size>\b\d+(?:\.\d+)?\ ?[KMGT]i?B\b)
    |(?P<call>\b[A-Za-z_][\w.]*(?=\(\)))
    |(?P<number>(?<!\w)[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?(?:ms|s|%)?(?!\w))
    |(?P<name>\b(?=[\w.-]*\d)[A-Za-z][\w.-]*\w(?:\[[\d,-]+\])?|\b[A-Za-z][\w-]*\[\d[\d,-]*\]|\b[\w-]+\.[a-z]{1,4}\b(?![.(\w]))
    )""",
    re.VERBOSE,
)
"""What differs from run to run. A name is what holds a digit, or looks like a file's: `node07`, `train.py`."""
_SHOWN = {"quoted": "name", "call": "name"}
_PACKAGE = re.compile(r"(?<!\w\.)\b(?:[A-Za-z_]\w*\.)+(?=[A-Z]\w*(?:Error|Exception|Interrupt|Warning)\b)")
"""An exception's package: programs print it, or leave it out."""
_GAP = re.compile(r"[^\S ]")
_LIST = re.compile(r"(<\w+>)(?:(?:, ?| ?x ?|[-/:\s])\1)+")
_PLACE = re.compile(r"^\S+: line <number>: ")
"""Where in a script a shell met what it complains of."""


def flat(text: str) -> str:
    """The text as one harmless line; unlike `one_line` it keeps blanks as they are, for a rule's pattern has to match them."""
    return _GAP.sub(" ", disarm(text)).strip()


@lru_cache(maxsize=8192)
def pattern_of(line: str) -> str:
    """The line's pattern: its first eight words as they are, and the placeholders between them."""
    text = _PACKAGE.sub("", " ".join(line[:_LONGEST].split()))
    text = _PARTS.sub(lambda found: f"<{_SHOWN.get(found.lastgroup or '', found.lastgroup)}>", text)
    return cut(_PLACE.sub("", _LIST.sub(r"\1", text)), WORDS)


def cut(pattern: str, fixed: int) -> str:
    """The pattern up to so many words that are as they are."""
    kept: list[str] = []
    for word in pattern.split():
        if fixed <= 0 or len(kept) == _MOST:
            kept.append(_CUT)
            break
        fixed -= is_fixed(word)
        kept.append(word)
    return " ".join(kept)


def is_fixed(word: str) -> bool:
    """Whether a word of a pattern tells something by itself."""
    return word[:1] != "<" and any(char.isalpha() for char in word)
