"""Who said a line, and when: peels labels and time stamps off the head of a line.

The formats are data (`rules/formats.yaml`). Labels that ordinary text can look like (`6: `, `host: `) are believed only
in sources where most lines carry them: a source locks on to its formats by a sample of its lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

from slurmdoctor.input.sources import Source
from slurmdoctor.model import ASSUMED_YEAR, Knowledge, LineFormat, Origin, SourceFormat
from slurmdoctor.records import dataclass
from slurmdoctor.search.compiled import compiled, lazy
from slurmdoctor.search.labels import STAMP
from slurmdoctor.search.shapes import DIGITS, digits_matter, shape_of

ANSI = lazy(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
"""Terminal escape sequences: CSI, OSC, two-character ones (ECMA-48)."""
_LOST_ESCAPE = lazy(r"\[(?:\d{1,2}(?:;\d{1,3})*)m")
"""A colour sequence whose ESC byte was lost on the way (pastes, NUL stripping)."""
_UNLABELLED = lazy(
    r"\s*$|srun: |slurmstepd|\s*(?:\^|~)+\s*$|={10,}|-{10,}|```|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.,:+Z-]*\s*$"
)
_TIME_FORMATS = frozenset({"iso-time", "syslog", "clock"})
_NUMBERS = frozenset({"local_rank", "pid", "node_rank"})
_OF_A_STAMP = frozenset({"level"})
"""Words that a collector writes beside its time."""
_STAMP = lazy(rf"^(?:{STAMP.decode()})")
SAMPLE = 96 * 1024
"""Bytes at a log's head, and as many spread over it, from which its labels are learnt."""
_MAX_LABELS = 8
_MOST_BEGINNINGS = 20_000
_MOST_HEADS = 4_000
_LONG = 1024
"""Characters of a line that is worth remembering."""


_NO_TRAITS = SourceFormat()


@dataclass(slots=True)
class _Head:
    """What the labels at a text's head hold, and where it stands in the text."""

    end: int = 0
    """Where the text behind the labels begins."""
    ranks: list[tuple[int, int]] = field(default_factory=list)
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict)
    words: dict[str, tuple[int, int]] = field(default_factory=dict)
    times: list[tuple[int, int, bool]] = field(default_factory=list)
    """With whether it is one: 25:00:00 is not."""

    def take(self, form: str, name: str, start: int, end: int, text: str, traits: SourceFormat) -> None:
        """Note one group of a label. Of several the first counts, of ranks and times all are kept."""
        value = text[start:end]
        if name == "rank" and form == "srun-label" and traits.label_is_node:
            self.numbers.setdefault("node_rank", (start, end))
        elif name == "rank":
            if int(value) >= 0:
                self.ranks.append((start, end))
        elif name in _NUMBERS:
            self.numbers.setdefault(name, (start, end))
        elif name == "time":
            self.times.append((start, end, parse_time(value, traits.year) is not None))
        else:
            self.words.setdefault(name, (start, end))

    def first_on_its_line(self, traits: SourceFormat) -> bool:
        """Whether an ambiguous label is believed behind these: at a line's start, or right behind a collector's stamp."""
        if self.ranks:
            return False
        timed = any(is_one for _, _, is_one in self.times)
        if not self.numbers and not self.words and not timed:
            return True
        return traits.stamped and not self.numbers and not self.words.keys() - _OF_A_STAMP


class _Known:
    """What was learnt of texts that begin alike."""

    def __init__(self, formats: Sequence[LineFormat]) -> None:
        self.formats = formats
        self.beginnings: dict[str, tuple[LineFormat, ...]] = {}
        self.heads: dict[tuple[bytes, tuple[frozenset[str], bool, bool] | None], _Head] = {}
        """The labels of all lines that differ in their digits only."""
        self.shapely = not any(digits_matter(form.pattern) for form in formats)

    def able(self, head: str) -> tuple[LineFormat, ...]:
        """The formats that a text with these first characters can have: a few of many, and each line asks several times."""
        able = self.beginnings.get(head)
        if able is None:
            able = tuple(f for f in self.formats if len(head) < 4 or compiled(f.pattern).match(head, partial=True))
            if len(self.beginnings) < _MOST_BEGINNINGS:
                self.beginnings[head] = able
        return able


_KNOWN: dict[int, _Known] = {}


def _known(formats: Sequence[LineFormat]) -> _Known:
    known = _KNOWN.get(id(formats))
    if known is None or known.formats is not formats:
        known = _KNOWN[id(formats)] = _Known(formats)
    return known


def clean(line: str) -> str:
    """The line without colour, NUL bytes and line end."""
    if "\x1b" in line:
        line = ANSI.sub("", line)
    if "\x00" in line:
        line = line.replace("\x00", "")
    if "m" in line and _LOST_ESCAPE.match(line):
        line = _LOST_ESCAPE.sub("", line)
    return line.rstrip("\r\n")


def peel(line: str, formats: Sequence[LineFormat], traits: SourceFormat | None = None) -> tuple[Origin, str]:
    """Split a line into its origin and its text.

    Without `traits` every format is believed, which is right for a rule's examples only.
    """
    text = clean(line)
    known = _known(formats)
    believed = traits or _NO_TRAITS
    shape = None
    if known.shapely and len(text) <= _LONG:
        shape = shape_of(text), None if traits is None else (traits.locked, traits.stamped, traits.label_is_node)
    head = None if shape is None else known.heads.get(shape)
    told = None if head is None else _told(text, head, believed)
    if head is None or told is None:
        head = _labels(text, known, traits)
        told = _told(text, head, believed)
        if shape is not None:
            if len(known.heads) >= _MOST_HEADS:
                known.heads.clear()
            known.heads[shape] = head
    assert told is not None  # a head holds for the text that it was read from
    found, ranks = told
    text = text[head.end :]
    if text.startswith("slurmstepd"):
        ranks = []  # its label is the task that printed the line, not the one it speaks of
    return _origin(found, ranks, traits), text


def _labels(text: str, known: _Known, traits: SourceFormat | None) -> _Head:
    """What stands at the head of a text, and where."""
    believed = traits or _NO_TRAITS
    head = _Head()
    after_time = False
    for _ in range(_MAX_LABELS):
        rest = text[head.end :]
        for form in known.able(rest[:4]):
            if form.lock and traits is not None and form.id not in traits.locked:
                continue
            if form.id == "level-word" and not after_time:
                continue
            if form.lock and form.id != "container" and not head.first_on_its_line(believed):
                continue
            matched = compiled(form.pattern).match(rest)
            if matched is None:
                continue
            for name, value in matched.groupdict().items():
                if value is not None:
                    head.take(
                        form.id, name, head.end + matched.start(name), head.end + matched.end(name), text, believed
                    )
            head.end += matched.end()
            if matched.end() == 0:
                return head
            after_time = after_time or form.id in _TIME_FORMATS
            break
        else:
            break
    return head


def _told(text: str, head: _Head, traits: SourceFormat) -> tuple[dict[str, Any], list[int]] | None:
    """(what the labels of a text hold, its ranks), where a head that differs in digits only tells; None where it does not."""
    found: dict[str, Any] = {name: int(text[start:end]) for name, (start, end) in head.numbers.items()}
    for name, (start, end) in head.words.items():
        found[name] = text[start:end]
    for start, end, is_one in head.times:
        stamp = parse_time(text[start:end], traits.year)
        if (stamp is not None) != is_one:
            return None
        if stamp is not None:
            # the program's own clock is nearer to the event than a collector's stamp before it
            found["time"], found["dated"] = stamp
    return found, [int(text[start:end]) for start, end in head.ranks]


def _origin(found: Mapping[str, Any], ranks: Sequence[int], traits: SourceFormat | None) -> Origin:
    rank = ranks[-1] if ranks else None
    local = found.get("local_rank")
    if traits is not None and traits.outer_rank_is_local and ranks:
        local = ranks[0]
        rank = ranks[-1] if len(ranks) > 1 else None
    return Origin(
        rank=rank,
        local_rank=local,
        node=found.get("node"),
        time=found.get("time"),
        dated=found.get("dated", False),
        pid=found.get("pid"),
    )


def learn(lines: Iterable[str], formats: Sequence[LineFormat]) -> SourceFormat:
    """What a sample of a source's lines tells of its labels."""
    sample = [text for line in lines if (text := clean(line)) and not _UNLABELLED.match(text)]
    year = next((y for line in sample if (y := _year(line))), ASSUMED_YEAR)
    stamped = sum(_STAMP.match(line) is not None for line in sample) >= max(3, 0.9 * len(sample))
    if stamped:
        sample = [rest for line in sample if (rest := _STAMP.sub("", line, count=1)) and not _UNLABELLED.match(rest)]
    locked = set()
    for form in formats:
        if not form.lock or not sample:
            continue
        matched = [m for line in sample if (m := compiled(form.pattern).match(line))]
        if len(matched) >= max(2, form.lock * len(sample)) or (len(sample) <= 2 and len(matched) == len(sample)):
            locked.add(form.id)
    if "srun-label" in locked and "viewer-number" in locked:
        locked.discard("viewer-number")
    if "pdsh" in locked and not _few_hosts(sample, formats):
        locked.discard("pdsh")
    return SourceFormat(frozenset(locked), _outer_is_local(sample), _label_is_node(sample, locked), year, stamped)


def learn_formats(sources: Sequence[Source], knowledge: Knowledge) -> list[SourceFormat]:
    """What each source's lines have in common; the year may come from any of them."""
    formats = [learn(source.sample(SAMPLE), knowledge.formats) for source in sources]
    return [merge(one, formats) for one in formats]


def merge(traits: SourceFormat, job: Iterable[SourceFormat]) -> SourceFormat:
    """A source's traits, with what only the other sources of the job tell (the year)."""
    years = [t.year for t in (traits, *job) if t.year != ASSUMED_YEAR]
    return replace(traits, year=years[0]) if years else traits


_DOUBLE_RANK = lazy(r"\[rank(\d+)\]:\[rank(\d+)\]:")
_INNER_RANK = lazy(r"[ ]*(\d{1,5}):[ ](?:\S+ ){0,4}?\[(?:rank(?P<rank>\d+)|default(?P<local>\d+))\]")
_AGENT = lazy(r"[ ]*\d{1,5}: .*(?:torch/distributed/(?:elastic|run)|torch\.distributed\.(?:elastic|run))")
_YEAR = lazy(r"(?<!\d)(20[12]\d)[-/][01]\d[-/][0-3]\d[T _]\d\d:\d\d")


def _outer_is_local(sample: Sequence[str]) -> bool:
    return any(m[1] != m[2] for line in sample if (m := _DOUBLE_RANK.search(line)))


def _label_is_node(sample: Sequence[str], locked: set[str]) -> bool:
    if "srun-label" not in locked:
        return False
    differs = agrees = 0
    for line in sample:
        inner = _INNER_RANK.match(line)
        if inner and inner["rank"] is not None:
            agrees, differs = agrees + (inner[1] == inner["rank"]), differs + (inner[1] != inner["rank"])
        elif inner:
            return True
    if differs or agrees:
        return differs > agrees
    return any(_AGENT.match(line) for line in sample)


def _few_hosts(sample: Sequence[str], formats: Sequence[LineFormat]) -> bool:
    pattern = next(compiled(f.pattern) for f in formats if f.id == "pdsh")
    hosts = {m["node"] for line in sample if (m := pattern.match(line))}
    return len(hosts) <= max(2, len(sample) // 3) and all(any(c.isdigit() for c in h) for h in hosts)


def _year(line: str) -> int | None:
    found = _YEAR.search(line)
    return int(found[1]) if found else None


# ── time stamps ──────────────────────────────────────────────────────────────────────────────

_ISO = lazy(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?")
_GLOG = lazy(r"(\d{1,2})-?(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_SYSLOG = lazy(r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?: (\d{4}))?")
_CLOCK = lazy(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=4096)
def parse_time(stamp: str, year: int = ASSUMED_YEAR) -> tuple[float, bool] | None:
    """Seconds since the epoch, and whether the stamp held a date with a year. None where it is no time.

    Knows ISO 8601 with its variants, glog's `MMDD HH:MM:SS.f` (the month's zero may be missing, as PyTorch prints it),
    syslog's and dmesg's, and a bare clock, which is placed on 1 January.
    """
    if m := _ISO.fullmatch(stamp):
        seconds = _seconds(int(m[1]), int(m[2]), int(m[3]), int(m[4]), int(m[5]), int(m[6]), m[7])
        if seconds is not None and m[8] and m[8] != "Z":
            sign = -1 if m[8][0] == "-" else 1
            hours, minutes = int(m[8][1:3]), int(m[8][-2:])
            seconds -= sign * timedelta(hours=hours, minutes=minutes).total_seconds()
        return None if seconds is None else (seconds, True)
    if m := _GLOG.fullmatch(stamp):
        seconds = _seconds(year, int(m[1]), int(m[2]), int(m[3]), int(m[4]), int(m[5]), m[6])
        return None if seconds is None else (seconds, year != ASSUMED_YEAR)
    if (m := _SYSLOG.fullmatch(stamp)) and m[1] in _MONTHS:
        named = int(m[7]) if m[7] else year
        seconds = _seconds(named, _MONTHS.index(m[1]) + 1, int(m[2]), int(m[3]), int(m[4]), int(m[5]), m[6])
        return None if seconds is None else (seconds, named != ASSUMED_YEAR)
    if m := _CLOCK.fullmatch(stamp):
        seconds = _seconds(ASSUMED_YEAR, 1, 1, int(m[1]), int(m[2]), int(m[3]), m[4])
        return None if seconds is None else (seconds, False)
    return None


def may_be_stamped(line: bytes) -> bool:
    """Whether it is worth looking for a time in it: every stamp that `parse_time` knows holds a clock with seconds."""
    return b"00:00:00" in line.translate(DIGITS, b"\0") or b"\x1b" in line


def _seconds(
    year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: str | None
) -> float | None:
    whole = _whole_seconds(year, month, day, hour, minute, second)
    return None if whole is None else whole + (float(f"0.{fraction}") if fraction else 0.0)


@lru_cache(maxsize=4096)
def _whole_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    except ValueError:
        return None
    return (moment - _EPOCH).total_seconds()


def format_time(time: float | None, dated: bool = True) -> str | None:
    """ISO 8601 to the second; without a year as `--11-21T09:24:45`; a bare clock as `09:24:45`."""
    if time is None:
        return None
    moment = _EPOCH + timedelta(seconds=time)
    if dated:
        return moment.strftime("%Y-%m-%dT%H:%M:%S")
    if (moment.month, moment.day) == (1, 1):
        return moment.strftime("%H:%M:%S")
    return moment.strftime("--%m-%dT%H:%M:%S")


# ── file names ───────────────────────────────────────────────────────────────────────────────


def of_path(path: str, patterns: Sequence[LineFormat]) -> Mapping[str, str]:
    """What a file's path says of the process that wrote it: rank, local_rank, task, node, attempt."""
    for form in patterns:
        found = compiled(form.pattern).search(path)
        if found is not None:
            return {name: value for name, value in found.groupdict().items() if value is not None}
    return {}
