"""Finds the label at a line's head that tells its writer apart from others: `[rank3]`, `  12:`, `(Worker pid=71`.

It is compiled from the formats and much faster than to read all labels of a line. Digits decide nothing in it but the
label's own: lines of one shape (`shapes`) have their labels at one place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from slurmdoctor.model import LineFormat, SourceFormat
from slurmdoctor.search.compiled import later
from slurmdoctor.search.engine import DIGITS

if TYPE_CHECKING:
    from regex import Match

HEAD = 160
"""Bytes of a line in which its label stands."""
_BEGIN = 16
"""Bytes that mostly tell where a label stands."""
_MOST_KNOWN = 4000
"""Shapes of heads to remember; then they are learnt anew."""
_REACH = 48
"""Characters that a logger prints before the tag that tells its writer."""
Span = tuple[int, int, int, int]
"""Two slices of the head that together are the label; the second is empty for most."""

_PROCESS = frozenset({"rank", "local_rank", "pid"})
"""Groups that name one process."""
_PLACE = frozenset({"node", "writer"})
"""Groups that name what may hold several ranks."""
_NAMING = _PROCESS | _PLACE
_NUMBERED = re.compile(r"\\[1-9]")


def stamp_pattern(formats: Iterable[LineFormat]) -> str:
    """What a collector (kubectl, docker, moreutils' ts, a script) prints before each line, its label too."""
    return _any(form.pattern for form in formats if form.stamp)


def tag_pattern(formats: Iterable[LineFormat]) -> str:
    """A logger's tag, behind what the logger prints before it."""
    return rf"[^\n]{{0,{_REACH}}}?(?P<tag>{_any(form.writer for form in formats if form.writer)})"


class WriterKey:
    """Finds the labels in the heads of one source's lines.

    A label ends with the character behind its last group: `[1,3]<stderr>:` and `[1,3]<stdout>:` are of one writer. Under a
    label of a node or a container several ranks may print: a tag behind it is part of the label.
    """

    def __init__(self, formats: Sequence[LineFormat], source: SourceFormat) -> None:
        usable = [form for form in formats if not form.lock or form.id in source.locked]
        labels = [form for form in usable if not form.writer and _is_label(form)]
        shared = [f for f in labels if not f.groups & _PROCESS or (f.launcher and source.label_is_node)]
        tag = tag_pattern(usable)
        own = [form for form in labels if form not in shared]
        self._groups = sorted({name for form in own for name in form.groups & _NAMING})
        self._find = later(_any([*(f.pattern for f in own), f"(?P<shared>{_any(f.pattern for f in shared)})", tag]))
        self._tag = later(tag)
        self._stamp = later(stamp_pattern(formats)) if source.stamped else None
        self._known: dict[bytes, Span] = {}
        self._begun: dict[bytes, Span | None] = {}
        """By the first letters' shape, where those tell it for all lines that begin so."""

    def __call__(self, head: bytes) -> bytes:
        """The label at the head of a line; empty where there is none."""
        start, end, start2, end2 = self.span(head)
        return head[start:end] + head[start2:end2]

    def span(self, head: bytes) -> Span:
        """Where the label stands: in lines of one shape, in one place."""
        begin = head[:_BEGIN].translate(DIGITS)
        told = self._begun.get(begin)
        if told is None and begin not in self._begun and len(self._begun) < _MOST_KNOWN:
            told = self._begun[begin] = self._span(head) if self.settled(head[:_BEGIN]) else None
        if told is not None:
            return told
        shape = head[:HEAD].translate(DIGITS)
        span = self._known.get(shape)
        if span is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            span = self._known[shape] = self._span(head)
        return span

    def _span(self, head: bytes) -> Span:
        text = head[:HEAD].decode("latin-1")  # a character a byte
        stamp = self._stamp.match(text) if self._stamp else None
        at = stamp.end() if stamp else 0
        found = self._find.match(text, at)
        if found is None:
            return 0, 0, 0, 0
        start, end = found.span("tag")
        if end >= 0:
            return start, end, 0, 0
        if found.end("shared") >= 0:
            # loggers tag some lines of a writer and not others; only here does the tag tell writers apart
            tag = self._tag.match(text, found.end())
            return (at, found.end(), *tag.span("tag")) if tag else (at, found.end(), 0, 0)
        return at, max(at, min(found.end(), max(map(found.end, self._groups)) + 1)), 0, 0

    def settled(self, beginning: bytes) -> bool:
        """Whether the label stands at one place in all lines that begin so."""
        if len(beginning) >= HEAD:
            return True
        text = beginning.decode("latin-1")

        def told(found: Match[str] | None) -> bool:
            return found is None or not (found.partial or found.end() == len(text))

        stamp = self._stamp.match(text, partial=True) if self._stamp else None
        found = self._find.match(text, stamp.end() if stamp else 0, partial=True)
        if not (told(stamp) and told(found)):
            return False
        shared = found is not None and found.end("shared") >= 0 and found.end("tag") < 0
        return not shared or told(self._tag.match(text, found.end(), partial=True))  # type: ignore[union-attr]

    def rank(self, label: bytes) -> int | None:
        """The rank that a label names by itself; None where its lines must be read for it."""
        found = self._find.match(label.decode("latin-1"))
        if found is None or found.end("shared") >= 0:
            return None
        rank = found.groupdict().get("rank")
        return None if rank is None else int(rank)


def _is_label(form: LineFormat) -> bool:
    """Whether each line of a writer carries it. What holds a time or a level is a logger's, which tags some lines only."""
    loggers = form.groups & {"time", "level"}
    return bool(form.groups & _NAMING) and not loggers and not _NUMBERED.search(form.pattern)


def _any(patterns: Iterable[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)"
