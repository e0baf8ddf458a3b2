"""Strips labels and time stamps off the head of a line, and reads its rank, node, process and time from them.

`[rank3]: [E1121 09:24:45.0 a.cpp:1] boom` is `boom` of rank 3 at 09:24:45. The labels are data (`rules/formats.yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.input import Source
from slurmdoctor.knowledge import text
from slurmdoctor.matching import apart, bounded, compiled, lazy, named, spans, unnamed
from slurmdoctor.model import ASSUMED_YEAR, Knowledge, LineFormat, Origin, SourceFormat, is_rank, number, zone_of
from slurmdoctor.search import DIGITS, WriterKey, digit_sensitive, digits_matter, shape_of, tag_pattern

if TYPE_CHECKING:
    import regex

_ANSI = lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal escape sequences: CSI, OSC, two-character ones (ECMA-48)."""
_LOST_ESCAPE = lazy(r"\[(?:\d{1,2}(?:;\d{1,3})*)m")
"""A color sequence whose ESC byte was lost on the way (pastes, NUL stripping)."""
_NUMBERS = frozenset({"local_rank", "pid", "node_rank"})
_OF_A_COLLECTOR = frozenset({"time", "level"})
"""Groups of what a collector prints before a line."""
_MOST_LABELS = 8
_MOST_BEGINNINGS = 2_000
_MOST_HEADS = 4_000
_MOST_SPELLINGS = 64
"""Ways to read labels that are remembered."""
_LONG = 1024
"""Characters of a line that is worth remembering."""
_UNKNOWN = SourceFormat()
_Spelling = tuple[frozenset[str], bool, bool]
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
    """What the labels at a text's head hold, and where it is in the text."""

    end: int = 0
    """Where the text behind the labels begins."""
    groups: list[tuple[str, int, int, bool]] = field(default_factory=list)
    """(name, start, end) of each group, and whether it is what it is named: 25:00:00 is no time."""

    def take(self, matched: _Matched, text: str, source: SourceFormat) -> None:
        """Note the groups of the next label."""
        form, groups, length = matched
        for name, (start, end) in groups.items():
            begin, end = self.end + start, self.end + end
            value = text[begin:end]
            if form.numbers and source.label_is_node:
                name = "node_rank"
            valid = parse_time(value, source.year, source.zone) is not None if name == "time" else True
            if name != "writer" and (name != "rank" or is_rank(value)):
                self.groups.append((name, begin, end, valid))
        self.end += length

    def first_on_its_line(self, source: SourceFormat) -> bool:
        """Whether an ambiguous label is believed behind these: at a line's start, or right behind a collector's stamp."""
        names = {name for name, _, _, valid in self.groups if valid}
        return not names or (source.stamped and names <= _OF_A_COLLECTOR)


class LabelReader:
    """The labels of one set of formats; it remembers how lines that differ in their digits only are read."""

    def __init__(self, formats: Sequence[LineFormat], sensitive: Collection[str] | None = None) -> None:
        """`sensitive` are the patterns to which digits matter, where they are known."""
        self.formats = formats
        matters = digits_matter if sensitive is None else sensitive.__contains__
        self.remembers = not any(matters(form.pattern) for form in formats)
        """Whether lines that differ in their digits only have the same labels: no format asks for a certain digit."""
        self._able: dict[tuple[str, frozenset[str] | None], tuple[LineFormat, ...]] = {}
        self._heads: dict[tuple[bytes, Any] | None, _Head] = {}
        self._keys: dict[_Spelling, WriterKey] = {}

    def strip_labels(self, line: str, source: SourceFormat | None = None) -> tuple[Origin, str]:
        """Split a line into its origin and its text.

        Without a `source` every format is believed, which is right for a rule's examples only.
        """
        text = clean(line)
        believed = source or _UNKNOWN
        shape = None
        if self.remembers and len(text) <= _LONG:
            shape = shape_of(text), None if source is None else _spelling(source)
        head = self._heads.get(shape)
        values = None if head is None else _values(text, head, believed)
        if head is None or values is None:
            head = self._head(text, source)
            values = _values(text, head, believed)
            if len(self._heads) >= _MOST_HEADS:
                self._heads.clear()
            if shape is not None:
                self._heads[shape] = head
        assert values is not None  # a head holds for the text that it was read from
        found, ranks = values
        text = text[head.end :]
        if text.startswith("slurmstepd"):
            ranks = []  # its label is the task that printed the line, not the one that the line is about
        return _origin(found, ranks, source), text

    def writer_key(self, source: SourceFormat) -> WriterKey:
        """Finds the labels that tell the writers of a source apart."""
        spelling = _spelling(source)
        if spelling not in self._keys:
            if len(self._keys) >= _MOST_SPELLINGS:
                self._keys.clear()
            self._keys[spelling] = WriterKey(self.formats, source)
        return self._keys[spelling]

    def _head(self, text: str, source: SourceFormat | None) -> _Head:
        """The labels at the head of a text, and where they are."""
        head = _Head()
        after_time = False
        for _ in range(_MOST_LABELS):
            matched = self._next_label(text[head.end :], head, source, after_time)
            if matched is None:
                break
            head.take(matched, text, source or _UNKNOWN)
            after_time = after_time or matched[0].stamp
            if not matched[2]:
                break
        return head

    def _next_label(self, rest: str, head: _Head, source: SourceFormat | None, after_time: bool) -> _Matched | None:
        """The format that the rest of a text begins with, where its groups stand in it, and its length."""
        for form in self.able(rest, None if source is None else source.locked):
            if form.after_time and not after_time:
                continue
            if form.lock and "writer" not in form.groups and not head.first_on_its_line(source or _UNKNOWN):
                continue
            if matched := _match(form, rest):
                return form, spans(matched), matched.end()
        return None

    def able(self, text: str, locked: frozenset[str] | None = None) -> tuple[LineFormat, ...]:
        """The formats that a text with this first character can have: a few of many, and each line asks several times.

        Of those that are ambiguous only the `locked` ones, where they are known.
        """
        key = text[:1], locked
        able = self._able.get(key)
        if able is None:
            if len(self._able) >= _MOST_BEGINNINGS:
                self._able.clear()
            believed = (form for form in self.formats if locked is None or not form.lock or form.id in locked)
            able = self._able[key] = tuple(form for form in believed if form.may_begin(text))
        return able


def labels_of(knowledge: Knowledge) -> LabelReader:
    """The labels that rule files name."""
    return LabelReader(knowledge.formats, digit_sensitive(knowledge))


def _spelling(source: SourceFormat) -> _Spelling:
    """What decides how a source's labels are read."""
    return source.locked, source.stamped, source.label_is_node


def _values(text: str, head: _Head, source: SourceFormat) -> tuple[dict[str, Any], list[int]] | None:
    """(values of the groups, ranks) of a text by the head of one that differs in its digits only. Of several the first counts.

    None where a stamp is a time in one of the two texts only.
    """
    found: dict[str, Any] = {}
    ranks: list[int] = []
    for name, start, end, valid in head.groups:
        value = text[start:end]
        if name == "rank":
            ranks.append(number(value))
        elif name != "time":
            found.setdefault(name, number(value) if name in _NUMBERS else value)
        else:
            stamp = parse_time(value, source.year, source.zone)
            if (stamp is not None) != valid:
                return None
            if stamp is not None:
                # the program's own clock is nearer to the event than a collector's stamp before it
                found["time"], found["dated"] = stamp
    return found, ranks


def _origin(found: Mapping[str, Any], ranks: Sequence[int], source: SourceFormat | None) -> Origin:
    rank = ranks[-1] if ranks else None
    local = found.get("local_rank")
    if source is not None and source.outer_rank_is_local and ranks:
        local = ranks[0]
        rank = ranks[-1] if len(ranks) > 1 else None
    if source is not None and rank is None and local is not None and "node_rank" in found:
        rank = found["node_rank"] * source.per_node + local if source.per_node else None
        local = None if found["node_rank"] and rank is None else local
    worker = found.get("worker", f"node {found['node_rank']}" if "node_rank" in found else None)
    if worker is not None and rank is None and source is not None:
        rank = _rank_of_place(worker, dict(source.sizes))
    return Origin(
        rank=rank,
        local_rank=local,
        node=found.get("node"),
        time=found.get("time"),
        dated=found.get("dated", False),
        pid=found.get("pid"),
        worker=worker and re.sub(r"[ _#-]+|(?<=[a-z])(?=\d)", " ", worker if worker.isupper() else worker.lower()),
    )


def _rank_of_place(worker: str, sizes: Mapping[str, int]) -> int | None:
    """The rank of a worker that is named by its place in each kind of parallelism: tensors count fastest, copies have ranks of their own."""
    if "TP" not in sizes or "DP" in sizes:
        return None
    place = {name: number(count) for name, count in _AXIS.findall(worker)}
    return place.get("PP", 0) * sizes["TP"] + place["TP"] if "TP" in place else None


_PLACE = text("parallel-place")
_AXIS = lazy(r"([A-Z]{2})(\d{1,4})")
_BEHIND = text("label-behind")
_PER_NODE = text("ranks-per-node")
_LAUNCHER = text("torchrun-module")
_SAMPLE = 96 * 1024
"""Bytes at a log's head, and as many spread over it, from which its labels are learnt;"""
_ALL_SAMPLES = 8 * 1024 * 1024
"""of all logs' heads no more than this, yet"""
_LEAST_SAMPLE = 4 * 1024
"""of each one so much, and then"""
_LINES = 40
"""so many lines, from all over the sample."""
_UNLABELLED = text("unlabelled-line")
_YEAR = lazy(r"(20[12]\d)(?<!\d.{4})[-/][01]\d[-/][0-3]\d[T _]\d\d:\d\d")
_ZONE = lazy(
    r"20[12]\d(?<!\d.{4})[-/][01]\d[-/][0-3]\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(Z|[+-](?:0\d|1[0-4]):?[0-5]\d)(?!\d)"
)
_STAMPED = 0.9
"""Share of the lines that carry a stamp where a collector prints it."""


def learn_formats(sources: Sequence[Source], labels: LabelReader, year: int | None = None) -> list[SourceFormat]:
    """What each source's lines have in common; one zone holds for all. The year may come from any of them, else it is the job's."""
    size = max(_LEAST_SAMPLE, min(_SAMPLE, _ALL_SAMPLES // max(1, len(sources))))
    most = None if size == _SAMPLE else _LINES * size // _LEAST_SAMPLE
    formats = [learn(source.sample(size, most), labels) for source in sources]
    zone = max((form.zone for form in formats if form.zone is not None), key=abs, default=None)
    formats = formats if zone is None else [replace(form, zone=zone) for form in formats]
    years = [form.year for form in formats if form.year != ASSUMED_YEAR] or ([year] if year else [])
    return [form if form.year in years else replace(form, year=years[0]) for form in formats] if years else formats


def learn(lines: Iterable[str], labels: LabelReader) -> SourceFormat:
    """What the lines of a sample have in common."""
    lines = [cleaned for line in lines if (cleaned := clean(line))]
    whole, sample = "\n".join(lines), [line for line in lines if not _UNLABELLED.match(line)]
    year = _YEAR.search(whole)
    stamps = [form for form in labels.formats if form.stamp]
    behind = [_behind(stamps, line) for line in sample]
    stamped = sum(rest is not None for rest in behind) >= max(3, _STAMPED * len(sample))
    if stamped:
        sample = [rest for rest in behind if rest and not _UNLABELLED.match(rest)]
    locked = _used(sample, labels)
    return SourceFormat(
        locked=frozenset(form.id for form in locked),
        outer_rank_is_local=any(_differs_in_twos(form, sample) for form in labels.formats if form.tags_rank),
        label_is_node=any(_counts_launchers(form, sample, labels.formats) for form in locked if form.numbers),
        year=int(year[1]) if year else ASSUMED_YEAR,
        zone=_zone(whole),
        stamped=stamped,
        per_node=_ranks_per_node(sample),
        sizes=_sizes(whole),
    )


def _sizes(sample: str) -> tuple[tuple[str, int], ...]:
    """How many parts each kind of parallelism has, by the places that labels name; none where some places are not seen."""
    places = {
        tuple(one for one in _AXIS.findall(found["worker"]) if one[0] != "EP") for found in _PLACE.finditer(sample)
    }
    most: dict[str, int] = {}
    for name, count in chain.from_iterable(places):
        most[name] = max(most.get(name, 1), number(count) + 1)
    return tuple(most.items()) if most.keys() <= {"TP"} or len(places) == prod(most.values()) else ()


def _ranks_per_node(sample: Iterable[str]) -> int | None:
    """How many ranks a node has, where the log tells one number."""
    some = (line for line in sample if "node" in line)
    counts = {int(value) for line in some for found in _PER_NODE.finditer(line) for value in found.groups() if value}
    return counts.pop() if len(counts) == 1 else None


def _zone(sample: str) -> int | None:
    """The zone that stamps name: any but UTC; UTC where most name it, since beside a local clock it is only some library's."""
    named = _ZONE.findall(sample)
    farthest = max(map(zone_of, set(named)), key=abs, default=None)
    return farthest if farthest or 2 * len(named) >= len(_YEAR.findall(sample)) else None


def _match(form: LineFormat, text: str) -> regex.Match[str] | None:
    return compiled(apart(form.pattern)).match(text) if form.may_be_in(text) else None


def _behind(stamps: Sequence[LineFormat], line: str) -> str | None:
    """The text after a collector's stamp; None where there is none."""
    found = (_match(form, line) for form in stamps if form.may_begin(line))
    return next((line[one.end() :] for one in found if one), None)


def _used(sample: Sequence[str], labels: LabelReader) -> list[LineFormat]:
    """The ambiguous labels that enough lines carry."""
    able: dict[str, list[str]] = {}
    for line in sample:
        for form in labels.able(line):
            if form.lock:
                able.setdefault(form.id, []).append(line)
    return [form for form in labels.formats if _is_used(form, able.get(form.id, ()), len(sample))]


def _is_used(form: LineFormat, lines: Sequence[str], total: int) -> bool:
    """Whether enough lines of a sample carry a label; `lines` are those that can."""
    matched = [found for line in lines if (found := _match(form, line))]
    few = total <= 2 and len(matched) == total
    if not matched or (len(matched) < max(2, form.lock * total) and not few):
        proofs = [proof for found in matched if (proof := _BEHIND.match(found.string, found.end()))]
        return len(proofs) > 1 and any(proof["head"] is None for proof in proofs)
    if form.regular:
        numbers = [number(named(found)["rank"]) for found in matched]
        return 2 * len(set(numbers)) <= len(numbers) and any(later < one for one, later in pairwise(numbers))
    if form.groups != {"node"}:
        return True
    # `error: ` at the head of many lines is no host: hosts are few, and have numbers
    hosts = {found["node"] for found in matched}
    return len(hosts) <= max(2, total // 3) and all(any(c.isdigit() for c in host) for host in hosts)


def _differs_in_twos(form: LineFormat, sample: Sequence[str]) -> bool:
    """Whether a label occurs twice on a line, with two ranks: `[rank4]:[rank12]:`."""
    once = form.writer or form.pattern
    twice = f"(?:{once}):?(?:{once})"
    if not compiled(unnamed(twice)).search(
        "\n".join(sample)
    ):  # true of nearly all logs, of which there may be thousands
        return False
    return any(len(set(found.captures("rank"))) > 1 for line in sample if (found := bounded(twice).search(line)))


def _counts_launchers(form: LineFormat, sample: Sequence[str], formats: Sequence[LineFormat]) -> bool:
    """Whether a label's number is no rank: the tags behind it name other ranks, or a launcher of several ranks prints."""
    label, tag = compiled(apart(form.pattern)), compiled(tag_pattern(formats))
    differs = agrees = 0
    for line in sample:
        if not (outer := label.match(line)) or not (inner := tag.match(line, outer.end())):
            continue
        groups = named(inner)
        if "rank" in groups:
            same = int(named(outer)["rank"]) == int(groups["rank"])
            agrees, differs = agrees + same, differs + (not same)
        elif "local_rank" in groups:
            return True
    if differs or agrees:
        return differs > agrees
    return any(label.match(line) and _LAUNCHER.search(line) for line in sample)


_STAMP = lazy(
    apart(
        r"(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]"
        r"|(?P<month>\d{1,2})-?(?P<day>\d\d) "
        r"|(?:[A-Z][a-z]{2} )?(?:(?P<name>[A-Z][a-z]{2}) +(?P<day>\d{1,2})|(?P<day>\d{1,2}) (?P<name>[A-Z][a-z]{2}) (?P<year>\d{4})) )?"
        r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?"
        r"(?P<zone>Z|[+-]\d\d:?\d\d)?(?: (?P<half>[AP])M)?(?: [A-Z]{2,5})?(?: (?P<year>\d{4}))?"
    )
)
"""ISO 8601 with its variants, glog's `MMDD HH:MM:SS.f` (the month's zero may be missing, as PyTorch prints it), syslog's, dmesg's and date's, and
a bare clock."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=4096)
def parse_time(stamp: str, year: int = ASSUMED_YEAR, zone: int | None = None) -> tuple[float, bool] | None:
    """Seconds since the epoch, and whether the stamp held a date with a year. None where the stamp is no time.

    They are counted as the clocks of the log's `zone` (UTC where it has none) show them: a stamp that names no zone is of that one.
    A bare clock is placed on 1 January.
    """
    match = _STAMP.fullmatch(stamp)
    if match is None:
        return None
    found = named(match)
    name = found.get("name", _MONTHS[0])
    if name not in _MONTHS:
        return None
    month = int(found.get("month", _MONTHS.index(name) + 1))
    in_year = int(found.get("year", year)) if "day" in found else ASSUMED_YEAR
    hour = int(found["hour"])
    if "half" in found:
        hour = hour % 12 + 12 * (found["half"] == "P")
    seconds = _whole_seconds(in_year, month, int(found.get("day", 1)), hour, int(found["minute"]), int(found["second"]))
    if seconds is None:
        return None
    if "zone" in found:
        seconds += (zone or 0) - zone_of(found["zone"])
    return seconds + float(f"0.{found.get('fraction', 0)}"), in_year != ASSUMED_YEAR


def may_be_stamped(line: bytes) -> bool:
    """Whether a line can hold a time stamp: each one that `parse_time` reads holds a clock with seconds."""
    return b"00:00:00" in line.translate(DIGITS, b"\0") or b"\x1b" in line


@lru_cache(maxsize=4096)
def _whole_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc)
    except ValueError:
        return None
    return (moment - _EPOCH).total_seconds()
