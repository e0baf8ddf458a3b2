"""What lines of one *shape* have in common, and whether a pattern treats them the same: each shape is asked once, not each line.

- Digits are all one: `rank (?P<rank>\\d+) failed` takes `rank 3 failed` and `rank 7 failed`, so a line of that shape is confirmed once;
  `exit code 137` does not, and is confirmed for every text (`reader.ShapePlan`).
- Hexadecimal words are, too: addresses, ids, hashes. `comm 0x55d0c8a3b2f0 rank 3` and `comm 0x7f3a1c09e4d2 rank 7` are of one shape, which has
  a *mark* for each of their characters. Such a word has five characters at least, a letter and a digit among them, and no letter, digit or
  underscore beside it. What lines of such a shape mean is learnt once where other words in their place mean the same
  (`with_other_words`); else the walk looks at them by their digits alone (`tally.BY_DIGITS`).

Limits: `digits_matter` says yes when in doubt.
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING

from slurmdoctor.matching import DIGITS as DIGITS, apart, lazy, search, spans

if TYPE_CHECKING:
    from slurmdoctor.model import Knowledge

_NO_DIGITS_MEANT = lazy(
    r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[dDwWsSbBAZ])"  # escapes that stand for classes or fixed characters
    r"|(?<!\\)\{\d{0,9},?\d{0,9}\}"  # quantifiers
    r"|\(\?P<\w+>"  # names of groups
    r"|0-9|0-\?"  # all digits at once
)


_DIGIT = lazy(r"[0-9]")
_STRICT = lazy(r"\(\?>|\(\?\(|\(\?P=|\\[0-9]|[+*?}]\+")
_SAME_AGAIN = lazy(r"\(\?P=\w+\)|\\[1-9]")
_MAY_TAKE_DIGITS = lazy(r"\\[dwS]|(?<!\\)\.|\[\^|0-9")


@cache
def digits_matter(pattern: str) -> bool:
    """Whether a pattern may take one line and refuse another that differs in its digits only."""
    if "(?(" in pattern or (_SAME_AGAIN.search(pattern) and _MAY_TAKE_DIGITS.search(pattern)):
        return True
    pattern = _SAME_AGAIN.sub("", pattern)
    return _DIGIT.search(_NO_DIGITS_MEANT.sub("", pattern)) is not None


def digit_sensitive(knowledge: Knowledge) -> frozenset[str]:
    """All patterns of rules, signals and labels to which digits matter."""
    if knowledge.digit_sensitive is not None:
        return knowledge.digit_sensitive
    patterns = {rule.regex for rule in knowledge.rules} | {signal.regex for signal in knowledge.signals}
    patterns |= {form.pattern for form in knowledge.formats}
    return frozenset(filter(digits_matter, patterns))


TOKEN = lazy(
    r"(?P<kept>\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\D)|\{\d{0,9},?\d{0,9}\}|\(\?P?<\w+>)"
    r"|(?P<these>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<digit>[0-9])|(?P<not>\(\?<?!)|(?P<open>\()|(?P<close>\))|(?s:.)"
)
"""The parts of a pattern."""


@cache
def relaxed(pattern: str) -> str | None:
    """A pattern that takes every line which differs in digits only from one that this one takes, and more.

    None where it is not to be made: what holds on to its text may refuse more when its parts take more.
    """
    if _STRICT.search(pattern):
        return None
    made: list[str] = []
    depth = 0
    dropped = 0
    for token in TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        if kind in ("not", "open") or text.startswith(("(?P<", "(?<")):
            depth += 1
            if kind == "not" and not dropped:
                dropped = depth
        if kind == "these" and _DIGIT.search(_NO_DIGITS_MEANT.sub("", text)):
            if text.startswith("[^"):
                return None
            text = text[:-1] + r"\d]"
        if not dropped:
            made.append(r"\d" if kind == "digit" else text)
        if kind == "close":
            if depth == dropped:
                dropped = 0  # what must not follow is left out: without it more is taken
            depth -= 1
    return "".join(made)


class Shaped:
    """A pattern to which all digits are the same, searched once for all texts that differ in nothing else.

    It remembers where in such a text its groups stand: thousands of ranks print one line with numbers of their own.
    """

    _MOST = 2000
    """Texts to remember; then they are learnt anew."""
    _LONG = 2048
    """Bytes of a text that is worth remembering."""

    def __init__(self, pattern: str, of_site: bool = False) -> None:
        self.pattern = pattern
        self._of_site = of_site
        self._places: dict[bytes, dict[str, tuple[int, int]] | None] = {}

    def groups(self, text: str, shape: bytes) -> dict[str, str] | None:
        """The named groups that took part in the first match; None where there is none. `shape` is `shape_of(text)`."""
        try:
            places = self._places[shape]
        except KeyError:
            try:
                found = search(apart(self.pattern), text, self._of_site)
            except TimeoutError:
                found = None
            places = None if found is None else spans(found)
            if len(self._places) >= self._MOST:
                self._places.clear()
            if len(shape) <= self._LONG:
                self._places[shape] = places
        return None if places is None else {name: text[start:end] for name, (start, end) in places.items()}


def shape_of(text: str) -> bytes:
    """What texts that differ in their digits only have in common."""
    return text.encode("utf-8", "surrogatepass").translate(DIGITS)


_VARIABLE = lazy(r"\b(?:0x)?(?=\w*\d)[0-9a-f]{5,}\b|\b0x\w+|[\d.]+|'[^']*'?|\"[^\"]*\"?|/\S*")


def template_of(text: str) -> str:
    """The text with `#` for each number, address, path and quoted text: what messages of one kind have in common."""
    return _VARIABLE.sub("#", text)


# ── hexadecimal words ─────────────────────────────────────────────────────────────────────────

BYTE = b"\x01"
"""A mark in a shape. Lines that hold this byte have no shape."""

_MAYBE = re.compile(rb"[0-9][a-f]|[a-f][0-9]")
_WORD = re.compile(rb"(?<![0-9A-Za-z_])(0x)?(?=[a-f]*[0-9])(?=[0-9]*[a-f])([0-9a-f]{5,})(?![0-9A-Za-z_])")
_PAIRS = (b"0a", b"f9")


def marked(line: bytes) -> bytes:
    """The line with a mark for each character of its hexadecimal words."""
    if _MAYBE.search(line) is None:
        return line
    return _WORD.sub(lambda word: (word[1] or b"") + BYTE * len(word[2]), line)


def marked_shape(line: bytes) -> bytes | None:
    """What lines have in common that differ in digits and hexadecimal words only; None where a line has no shape."""
    return None if BYTE in line else marked(line).translate(DIGITS)


def with_other_words(line: bytes) -> list[bytes]:
    """The line with other hexadecimal words in the place of its own, once for each pair."""
    return [_WORD.sub(partial(_filled, pair), line) for pair in _PAIRS]


def _filled(pair: bytes, word: re.Match[bytes]) -> bytes:
    return (word[1] or b"") + (pair * len(word[2]))[: len(word[2])]
