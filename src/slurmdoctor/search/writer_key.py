"""Finds the label at a line's head that tells its writer apart from others: `[rank3]`, `  12:`, `(Worker pid=71`.

It is compiled from the formats and much faster than to read all labels of a line. Digits decide nothing in it but the
label's own: lines of one shape (`shapes`) have their labels at one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurmdoctor.matching import DIGITS, apart, compiled, lazy, named, spans
from slurmdoctor.model import LineFormat, SourceFormat

HEAD = 160
"""Bytes of a line in which its label is."""
_MOST_KNOWN = 4000
"""Shapes of heads to remember; then they are learnt anew."""
_REACH = 48
"""Characters that a logger prints before the tag that tells its writer."""
Span = tuple[int, int, int, int]
"""Two slices of the head that together are the label; the second is empty for most."""

_PROCESS = frozenset({"rank", "local_rank", "worker", "pid"})
"""Groups that name one process."""
_PLACE = frozenset({"node", "writer"})
"""Groups that name what may hold several ranks."""
_NAMING = _PROCESS | _PLACE
_NUMBERED = lazy(r"\\[1-9]")


def tag_pattern(formats: Iterable[LineFormat]) -> str:
    """A logger's tag, behind what the logger prints before it."""
    return apart(rf"[^\n]{{0,{_REACH}}}?(?P<tag>{_any(form.writer for form in formats if form.writer)})")


class WriterKey:
    """Finds the labels in the heads of one source's lines.

    A label ends with the character behind its last group: `[1,3]<stderr>:` and `[1,3]<stdout>:` are of one writer. Under a
    label of a node or a container several ranks may print: a tag behind it is part of the label.
    """

    def __init__(self, formats: Sequence[LineFormat], source: SourceFormat) -> None:
        usable = [form for form in formats if not form.lock or form.id in source.locked]
        labels = [form for form in usable if not form.writer and _is_label(form)]
        shared = [f for f in labels if not f.groups & _PROCESS or (f.numbers and source.label_is_node)]
        self._labels = [(form, form in shared) for form in [form for form in labels if form not in shared] + shared]
        self._tag = tag_pattern(usable)
        self._stamps = [form for form in formats if form.stamp] if source.stamped else []
        self._known: dict[bytes, Span] = {}

    def __call__(self, head: bytes) -> bytes:
        """The label at the head of a line; empty where there is none."""
        start, end, start2, end2 = self.span(head)
        return head[start:end] + head[start2:end2]

    def span(self, head: bytes) -> Span:
        """Where the label is: in lines of one shape, in one place."""
        shape = head[:HEAD].translate(DIGITS)
        span = self._known.get(shape)
        if span is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            span = self._known[shape] = self._span(head)
        return span

    def _span(self, head: bytes) -> Span:
        text = head[:HEAD].decode("latin-1")  # a character a byte
        at = self._behind_stamp(text)
        for form, shared in self._labels:
            found = compiled(apart(form.pattern)).match(text, at) if form.may_begin(text[at:]) else None
            if found and shared:
                # loggers tag some lines of a writer and not others; only here does the tag tell writers apart
                tag = compiled(self._tag).match(text, found.end())
                return (at, found.end(), *tag.span("tag")) if tag else (at, found.end(), 0, 0)
            if found:
                last = max((end for name, (_, end) in spans(found).items() if name in _NAMING), default=-1)
                return at, max(at, min(found.end(), last + 1)), 0, 0
        tag = compiled(self._tag).match(text, at)
        return (*tag.span("tag"), 0, 0) if tag else (0, 0, 0, 0)

    def rank(self, label: bytes) -> int | None:
        """The rank that a label names by itself; None where its lines must be read for it."""
        text = label.decode("latin-1")
        own = (compiled(apart(form.pattern)) for form, shared in self._labels if not shared and form.may_begin(text))
        found = next((one for pattern in (*own, compiled(self._tag)) if (one := pattern.match(text))), None)
        rank = named(found).get("rank") if found else None
        return None if rank is None else int(rank)

    def _behind_stamp(self, text: str) -> int:
        found = (compiled(apart(form.pattern)).match(text) for form in self._stamps if form.may_begin(text))
        return next((one.end() for one in found if one), 0)


def _is_label(form: LineFormat) -> bool:
    """Whether each line of a writer carries it. What holds a time or a level is a logger's, which tags some lines only."""
    loggers = form.groups & {"time", "level"}
    return bool(form.groups & _NAMING) and not loggers and not _NUMBERED.search(form.pattern)


def _any(patterns: Iterable[str]) -> str:
    return "|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)"
