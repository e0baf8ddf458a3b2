"""Takes hexadecimal words as alike, as digits are: addresses, ids, hashes. A line's *shape* has a mark for each of their characters.

Example: `comm 0x55d0c8a3b2f0 rank 3` and `comm 0x7f3a1c09e4d2 rank 7` are of one shape. Such a word has five characters at least, a letter and
a digit among them, and no letter, digit or underscore beside it.

What lines of a shape with marks mean is learnt once where the line shows it whatever the marks stand for (`readers/whatever`); else the
walk is told to look at such lines by their digits alone (`walk.BY_DIGITS`).
"""

from __future__ import annotations

import re
from functools import lru_cache

from slurmdoctor.search.compiled import compiled, lazy
from slurmdoctor.search.shapes import DIGITS, TOKEN

MARK = "ĸ"
"""A mark in a text: a letter that no rule has in mind. Patterns take it where they take any letter, and nowhere else."""
BYTE = b"\x01"
"""A mark in a shape. Lines that hold this byte have no shape."""

_MAYBE = re.compile(rb"[0-9][a-f]|[a-f][0-9]")
_WORD = re.compile(rb"(?<![0-9A-Za-z_])(0x)?(?=[a-f]*[0-9])(?=[0-9]*[a-f])([0-9a-f]{5,})(?![0-9A-Za-z_])")
_ANY = bytes.maketrans(b"123456789abcdef\x01", b"0" * 16)
_CROSSES = re.compile(
    rb"^x?[0-9a-f]+(?![0-9A-Za-z_])|(?<![0-9A-Za-z_])[0-9a-f]+$|0x|^[0-9a-fx]+$"
    rb"|[^0-9A-Za-z_](?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{5,}[^0-9A-Za-z_]"
)


def marked(line: bytes) -> bytes:
    """The line with a mark for each character of its hexadecimal words."""
    if _MAYBE.search(line) is None:
        return line
    return _WORD.sub(lambda word: (word[1] or b"") + BYTE * len(word[2]), line)


def shape(line: bytes) -> bytes | None:
    """What lines have in common that differ in digits and hexadecimal words only; None where a line has no shape."""
    return None if BYTE in line else marked(line).translate(DIGITS)


def may_cross(literal: bytes) -> bool:
    """Whether a literal may stand partly in a hexadecimal word."""
    return _CROSSES.search(literal) is not None


def anything(text: bytes) -> bytes:
    """The text with all that a mark may stand for made one."""
    return text.translate(_ANY)


# ── patterns ─────────────────────────────────────────────────────────────────────────────────

_UNCLEAR = lazy(r"\(\?>|\(\?\(|\(\?P=|[+*?}]\+|\\[^\W_bBdDsSwWAZntrfvxuU]|\(\?\w{0,9}[abef]\w{0,9}[:)]")
"""What holds on to its text, asks for it again, or is read by rules that this module does not know."""
_REFUSES = lazy(r"\\D|\(\?<?!")
"""What may take a mark and refuse what it stands for."""
_HEX = "0123456789abcdefABCDEF"


def never(pattern: str, text: str) -> bool:
    """Whether the pattern takes no such text, whatever its marks stand for."""
    more = _wider(pattern)
    return more is not None and compiled(more).search(text) is None


def always(pattern: str, text: str) -> bool:
    """Whether the pattern takes every such text, whatever its marks stand for."""
    return _is_plain(pattern) and compiled(pattern).search(text) is not None


@lru_cache(maxsize=4096)
def _wider(pattern: str) -> str | None:
    """A pattern that takes a mark wherever this one takes some hexadecimal digit; None where it is not to be made."""
    if _UNCLEAR.search(pattern):
        return None
    made: list[str] = []
    depth = dropped = 0
    for token in TOKEN.finditer(pattern):
        kind, text = token.lastgroup, token[0]
        if kind in ("not", "open") or text.startswith(("(?P<", "(?<")):
            depth += 1
            if kind == "not" and not dropped:
                dropped = depth
        if not dropped:
            if kind == "these" and _taken(text, _HEX) and not _taken(text, MARK):
                if text.startswith("[^"):
                    return None
                text = f"{text[:-1]}{MARK}]"
            elif text == r"\d" or text in _HEX or (text[:2] in (r"\x", r"\u", r"\U") and _taken(text, _HEX)):
                text = f"[{text}{MARK}]"
            made.append(text)
        if kind == "close":
            if depth == dropped:
                dropped = 0
            depth -= 1
    return "".join(made)


@lru_cache(maxsize=4096)
def _is_plain(pattern: str) -> bool:
    """Whether all that takes a mark takes every hexadecimal digit, too."""
    if _UNCLEAR.search(pattern) or _REFUSES.search(pattern):
        return False
    classes = [token[0] for token in TOKEN.finditer(pattern) if token.lastgroup == "these"]
    return all(_taken(text, _HEX) == len(_HEX) or not _taken(text, MARK) for text in classes)


def _taken(characters: str, some: str) -> int:
    """How many of some characters a class takes."""
    return sum(compiled(characters).match(one) is not None for one in some)
