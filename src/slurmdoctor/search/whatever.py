"""Tells what follows from a line's shape whatever its marks stand for (`marks`): exactly, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from slurmdoctor.model.matches import Matcher
from slurmdoctor.search import marks
from slurmdoctor.search.literals import Literals
from slurmdoctor.search.shapes import DIGITS
from slurmdoctor.search.tally import Match
from slurmdoctor.search.writer_key import WriterKey

_LONGEST = 2048
"""Bytes of a line for which it is worth to find out."""


class Whatever(Struct, frozen=True):
    """What the search asks of those who know labels and rules."""

    settled: Callable[[str], bool]
    """A line with marks -> whether its labels are the same whatever they stand for."""
    strip_labels: Callable[[bytes], str]
    kinds_of: Callable[[Matcher, str], tuple[str, ...] | None]
    """(matcher, line without labels, with marks) -> the kinds of all such lines; None where they differ."""


class Found(Struct, frozen=True):
    """The matches of all lines of a shape."""

    matches: tuple[Match, ...]


def whatever_marks(
    line: bytes, literals: Literals, matchers: Sequence[Matcher], writer_key: WriterKey, ask: Whatever
) -> Found | None:
    """The matches of all lines that differ from this one in digits and hexadecimal words; None where they may differ."""
    marked = marks.marked(line)
    if len(line) > _LONGEST or any(odd in line for odd in (b"\x1b", b"\0", b"\r", marks.MARK.encode())):
        return None
    if not writer_key.settled(marked[: marked.index(marks.BYTE)].removesuffix(b"0x")):
        return None
    if literals.hidden(marked.translate(DIGITS)) or literals.crossing(marked):
        return None
    if not ask.settled(marked.decode("utf-8", "replace").replace(marks.BYTE.decode(), marks.MARK)):
        return None
    text = ask.strip_labels(marked).replace(marks.BYTE.decode(), marks.MARK)
    matches: list[Match] = []
    for number in literals.wanted(marked + b"\n"):
        kinds = ask.kinds_of(matchers[number], text)
        if kinds is None:
            return None
        matches += [(number, kind) for kind in kinds]
    return Found(tuple(matches))
