"""Groups the last lines of jobs whose cause is not known by what they say, each kind with the command that drafts a rule for it.

A line's pattern is what lines of one kind share: what differs from run to run becomes `<number>`, `<path>`, `<name>`. The groups
depend on the lines alone, not on their order.
"""

from __future__ import annotations

import re
import shlex
from typing import Any

from slurmdoctor.report import disarm
from slurmdoctor.survey.answers import UnknownKind

_LONGEST = 400
"""Characters of a line that are looked at,"""
_WORDS = 8
"""and words of a pattern, besides the placeholders between them: what comes after so many is detail."""
_MOST = 16
"""Words and placeholders."""
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
_LONGEST_LINE, _LONGEST_NAME = 300, 40
_NO_NAME = "unknown-end"
_NAMED = re.compile(r"<[a-z]+>")
_SIGNS = re.compile(r"[^\w<>]+")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


_KINDS = """
    WITH read AS (FROM lines JOIN patterns USING (last_line)), forms AS (
        SELECT kind, pattern, count(*) AS jobs, first(shown ORDER BY length(shown), shown) AS example FROM read GROUP BY ALL
    ), named AS (
        SELECT kind, first(pattern ORDER BY jobs DESC, pattern) AS form, first(example ORDER BY jobs DESC, pattern) AS example
        FROM forms GROUP BY kind
    )
    -- added up in whole millionths: sums of floats depend on their order
    SELECT form, count(*) AS jobs, count(DISTINCT "user") AS users, CAST(sum(CAST(round(lost * 1e6) AS BIGINT)) AS DOUBLE) / 1e6 AS hours, example
    FROM read JOIN named USING (kind) GROUP BY kind, form, example ORDER BY jobs DESC, coalesce(hours, 0) DESC, form LIMIT $1
"""
"""A kind is called by its commonest pattern, and shown by the shortest line of that."""


def kinds_of(connection: Any, most: int) -> tuple[UnknownKind, ...]:
    """The kinds of the table `lines` (`last_line`, `user`, GPU hours `lost`), a job each; those of the most jobs first, and at most so many."""
    import pyarrow as pa  # those who make rows need it not

    patterns = []
    for (line,) in connection.execute("SELECT DISTINCT last_line FROM lines").fetchall():
        shown = flat(line)
        pattern = pattern_of(shown)
        kind = _SIGNS.sub(" ", _NAMED.sub("<>", pattern))
        patterns.append({"last_line": line, "shown": shown, "pattern": pattern, "kind": kind})
    columns = pa.schema([(name, pa.string()) for name in ("last_line", "shown", "pattern", "kind")])
    connection.register("patterns", pa.Table.from_pylist(patterns, columns))
    taken: set[str] = set()
    return tuple(
        UnknownKind(pattern, jobs, users, hours, example, draft_command(pattern, example, taken))
        for pattern, jobs, users, hours, example in connection.execute(_KINDS, [most]).fetchall()
    )


def draft_command(pattern: str, example: str, taken: set[str]) -> str:
    """The command that drafts a rule from a line, to be pasted into a shell; `taken` are names that other drafts have."""
    parts = [
        word.lower() for part in _NAMED.sub(" ", pattern).split() if is_fixed(part) for word in _WORD.findall(part)
    ]
    while len(words := "-".join(parts)) > _LONGEST_NAME:
        parts.pop()
    name = words = words or _NO_NAME
    number = 1
    while name in taken:
        number += 1
        name = f"{words}-{number}"
    taken.add(name)
    return f"slurmdoctor rules new site/{name} --line={shlex.quote(flat(example)[:_LONGEST_LINE])}"


def flat(text: str) -> str:
    """The text as one harmless line; unlike `one_line` it keeps blanks as they are, for a rule's pattern has to match them."""
    return _GAP.sub(" ", disarm(text)).strip()


def pattern_of(line: str) -> str:
    """The line's pattern: its first eight words as they are, and the placeholders between them."""
    text = _PACKAGE.sub("", " ".join(line[:_LONGEST].split()))
    text = _PARTS.sub(lambda found: f"<{_SHOWN.get(found.lastgroup or '', found.lastgroup)}>", text)
    kept: list[str] = []
    fixed = 0
    for word in _PLACE.sub("", _LIST.sub(r"\1", text)).split():
        if fixed == _WORDS or len(kept) == _MOST:
            return " ".join([*kept, "…"])
        fixed += is_fixed(word)
        kept.append(word)
    return " ".join(kept)


def is_fixed(word: str) -> bool:
    """Whether a word of a pattern tells something by itself."""
    return word[:1] != "<" and any(char.isalpha() for char in word)
