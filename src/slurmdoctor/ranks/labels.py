"""Strips labels and time stamps off the head of a line, and reads its rank, node, process and time from them.

`[rank3]: [E1121 09:24:45.0 a.cpp:1] boom` is `boom` of rank 3 at 09:24:45. The labels are data (`rules/formats.yaml`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from slurmdoctor.matching import bounded, compiled, lazy
from slurmdoctor.model import Knowledge, LineFormat, Origin, SourceFormat, is_rank, number
from slurmdoctor.ranks.timestamps import parse_time
from slurmdoctor.search import WriterKey, digits_matter, shape_of

_ANSI = lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal escape sequences: CSI, OSC, two-character ones (ECMA-48)."""
_LOST_ESCAPE = lazy(r"\[(?:\d{1,2}(?:;\d{1,3})*)m")
"""A color sequence whose ESC byte was lost on the way (pastes, NUL stripping)."""
_NUMBERS = frozenset({"local_rank", "pid", "node_rank"})
_BESIDE_A_STAMP = frozenset({"level"})
"""Groups of what a collector prints beside its time."""
_MOST_LABELS = 8
_DIGITS = str.maketrans("123456789", "000000000")
_MOST_BEGINNINGS = 20_000
_WORTH_MORE = 4_000
"""Beginnings after which it is worth the time to find out what more of them rules out: a paste has fewer."""
_MOST_HEADS = 4_000
_MOST_SPELLINGS = 64
"""Ways to read labels that are remembered; one that learnt labels of its own has one of its own."""
_LONG = 1024
"""Characters of a line that is worth remembering."""
_UNKNOWN = SourceFormat()
_Spelling = tuple[frozenset[str], bool, bool, tuple[tuple[str, str], ...]]
_Matched = tuple[LineFormat, Mapping[str, tuple[int, int]], int]
"""A format that a text begins with, where its groups stand in the text, and its length."""


def clean(line: str) -> str:
    """The line without color, NUL bytes and line end."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "\x00" in line:
        line = line.replace("\x00", "")
    if "m" in line and _LOST_ESCAPE.match(line):
        line = _LOST_ESCAPE.sub("", line)
    return line.rstrip("\r\n")


class _Head(Struct):
    """What the labels at a text's head hold, and where it stands in the text."""

    end: int = 0
    """Where the text behind the labels begins."""
    ranks: list[tuple[int, int]] = field(default_factory=list)
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict)
    words: dict[str, tuple[int, int]] = field(default_factory=dict)
    times: list[tuple[int, int, bool]] = field(default_factory=list)
    """With whether each is a time: 25:00:00 is none."""

    def take(self, form: LineFormat, name: str, start: int, end: int, text: str, source: SourceFormat) -> None:
        """Note one group of a label. Of several the first counts, of ranks and times all are kept."""
        value = text[start:end]
        if name == "rank" and form.launcher and source.label_is_node:
            self.numbers.setdefault("node_rank", (start, end))
        elif name == "rank":
            if is_rank(value):
                self.ranks.append((start, end))
        elif name in _NUMBERS:
            self.numbers.setdefault(name, (start, end))
        elif name == "time":
            self.times.append((start, end, parse_time(value, source.year, source.zone) is not None))
        elif name != "writer":
            self.words.setdefault(name, (start, end))

    def first_on_its_line(self, source: SourceFormat) -> bool:
        """Whether an ambiguous label is believed behind these: at a line's start, or right behind a collector's stamp."""
        if self.ranks:
            return False
        timed = any(is_one for _, _, is_one in self.times)
        if not self.numbers and not self.words and not timed:
            return True
        return source.stamped and not self.numbers and not self.words.keys() - _BESIDE_A_STAMP


class LabelReader:
    """The labels of one set of formats; it remembers how lines that differ in their digits only are read."""

    def __init__(self, formats: Sequence[LineFormat]) -> None:
        self.formats = formats
        self._beginnings: dict[str, tuple[LineFormat, ...]] = {}
        self._heads: dict[tuple[bytes, Any], _Head] = {}
        self._keys: dict[_Spelling, WriterKey] = {}
        self._asked = 0

    def strip_labels(self, line: str, source: SourceFormat | None = None) -> tuple[Origin, str]:
        """Split a line into its origin and its text.

        Without a `source` every format is believed, which is right for a rule's examples only.
        """
        text = clean(line)
        believed = source or _UNKNOWN
        shape = None
        if self.remembers and len(text) <= _LONG:
            shape = shape_of(text), None if source is None else _spelling(source)
        head = None if shape is None else self._heads.get(shape)
        values = None if head is None else _values(text, head, believed)
        if head is None or values is None:
            head = self._head(text, source)
            values = _values(text, head, believed)
            if shape is not None:
                if len(self._heads) >= _MOST_HEADS:
                    self._heads.clear()
                self._heads[shape] = head
        assert values is not None  # a head holds for the text that it was read from
        found, ranks = values
        text = text[head.end :]
        if text.startswith("slurmstepd"):
            ranks = []  # its label is the task that printed the line, not the one that the line is about
        return _origin(found, ranks, source), text

    def label_end(self, text: str, source: SourceFormat) -> int:
        """Where the labels end at the head of a text without color."""
        return self._head(text, source).end

    def writer_key(self, source: SourceFormat) -> WriterKey:
        """Finds the labels that tell the writers of a source apart."""
        spelling = _spelling(source)
        if spelling not in self._keys:
            if len(self._keys) >= _MOST_SPELLINGS:
                self._keys.clear()
            self._keys[spelling] = WriterKey([*self.formats, *source.learnt], source)
        return self._keys[spelling]

    @cached_property
    def remembers(self) -> bool:
        """Whether lines that differ in their digits only have the same labels: no format asks for a certain digit."""
        return not any(digits_matter(form.pattern) for form in self.formats)

    def _head(self, text: str, source: SourceFormat | None) -> _Head:
        """What stands at the head of a text, and where."""
        head = _Head()
        after_time = False
        for _ in range(_MOST_LABELS):
            matched = self._next_label(text[head.end :], head, source, after_time)
            if matched is None:
                break
            after_time = self._take(head, matched, text, source) or after_time
            if not matched[2]:
                break
        return head

    @staticmethod
    def _take(head: _Head, matched: _Matched, text: str, source: SourceFormat | None) -> bool:
        """Add a label to the head; whether it is a collector's stamp."""
        form, groups, length = matched
        for name, (start, end) in groups.items():
            head.take(form, name, head.end + start, head.end + end, text, source or _UNKNOWN)
        head.end += length
        return form.stamp

    def _next_label(self, rest: str, head: _Head, source: SourceFormat | None, after_time: bool) -> _Matched | None:
        """The format that the rest of a text begins with, where its groups stand in it, and its length."""
        learnt = source.learnt if source is not None and not head.ranks else ()
        for form in (*self.able(rest[:4]), *learnt):
            if form.lock and source is not None and form.id not in source.locked:
                continue
            if form.after_time and not after_time:
                continue
            if form.lock and "writer" not in form.groups and not head.first_on_its_line(source or _UNKNOWN):
                continue
            if matched := compiled(form.pattern).match(rest):
                values = matched.groupdict()
                return form, {name: matched.span(name) for name in values if values[name] is not None}, matched.end()
        return None

    def able(self, beginning: str) -> tuple[LineFormat, ...]:
        """The formats that a text with these first characters can have: a few of many, and each line asks several times."""
        if self.remembers:
            beginning = beginning.translate(_DIGITS)
        able = self._beginnings.get(beginning)
        if able is None:
            # of lines that begin with words each has a beginning of its own: what its first letter rules out is not tried
            size = len(beginning)
            forms = self.able(beginning[: size // 2]) if size > 1 else self.formats
            if size != 1 and self._asked < _WORTH_MORE:
                self._asked += 1
                return tuple(forms)
            if size == 1:
                able = tuple(form for form in forms if form.may_begin(beginning))
            else:
                able = tuple(
                    form for form in forms if size == 3 or bounded(form.pattern).match(beginning, partial=True)
                )
            if len(self._beginnings) < _MOST_BEGINNINGS:
                self._beginnings[beginning] = able
        return able


def labels_of(knowledge: Knowledge) -> LabelReader:
    """The labels that rule files name."""
    return LabelReader(knowledge.formats)


def _spelling(source: SourceFormat) -> _Spelling:
    """What decides how a source's labels are read."""
    learnt = tuple((form.pattern, form.writer) for form in source.learnt)
    return source.locked, source.stamped, source.label_is_node, learnt


def _values(text: str, head: _Head, source: SourceFormat) -> tuple[dict[str, Any], list[int]] | None:
    """(values of the groups, ranks) of a text by the head of one that differs in its digits only.

    None where a stamp is a time in one of the two texts only.
    """
    found: dict[str, Any] = {name: number(text[start:end]) for name, (start, end) in head.numbers.items()}
    for name, (start, end) in head.words.items():
        found[name] = text[start:end]
    for start, end, is_one in head.times:
        stamp = parse_time(text[start:end], source.year, source.zone)
        if (stamp is not None) != is_one:
            return None
        if stamp is not None:
            # the program's own clock is nearer to the event than a collector's stamp before it
            found["time"], found["dated"] = stamp
    return found, [number(text[start:end]) for start, end in head.ranks]


def _origin(found: Mapping[str, Any], ranks: Sequence[int], source: SourceFormat | None) -> Origin:
    rank = ranks[-1] if ranks else None
    local = found.get("local_rank")
    if source is not None and source.outer_rank_is_local and ranks:
        local = ranks[0]
        rank = ranks[-1] if len(ranks) > 1 else None
    if source is not None and source.per_node and rank is None and local is not None and "node_rank" in found:
        rank = found["node_rank"] * source.per_node + local
    return Origin(
        rank=rank,
        local_rank=local,
        node=found.get("node"),
        time=found.get("time"),
        dated=found.get("dated", False),
        pid=found.get("pid"),
    )
