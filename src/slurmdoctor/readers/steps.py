"""Reads the lines of training steps, `iteration 100/2000 | loss 3.1`, where it is asked to: signals of kind `progress` say how they look."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import Engine, Portable, engine_for
from slurmdoctor.model import GPU_MEMORY, Event, MemoryReading, Progress, Reason, Signal, SignalHit, gib, number, reason
from slurmdoctor.ranks import Excerpts
from slurmdoctor.readers.attribution import Clock
from slurmdoctor.search import DIGITS, Shaped, WriterKey, digits_matter

_LONGEST = 4096
"""Bytes of a line beyond which it is no step's."""
_FEW_BYTES = 256 * 1024
_PATIENCE = 2000
"""Lines after which no other writer is expected, or twice as many as there are writers."""
_PIECE = 16 * 1024
"""Bytes that are searched for a single step; then four times as many, and so on."""
_BYTES = 1024
"""Bytes whose search costs as much as to look at one line,"""
LOOK, READ, LEARN = 1, 4, 24
"""and what it costs to read one whole, and to learn whether lines of a new shape are steps: some 2 µs each."""


class _Seen(Struct):
    """A line that was looked at."""

    last: int
    """The last hit in it; the first one is its key."""
    begin: int
    line: bytes
    form: Shaped | None
    """The pattern that takes it, if it is a step's."""
    taken: bool = False


class StepLines:
    """Tells steps; lines that differ in digits only are recognised by the first of them."""

    def __init__(self, lines: Excerpts, signals: Sequence[Signal], clock: Clock) -> None:
        self.lines = lines
        self._clock = clock
        self._shaped = [
            (Shaped(signal.regex, signal.of_site), [x.encode() for x in signal.literals]) for signal in signals
        ]
        self._shapely = not any(digits_matter(s.regex) for s in signals)
        self._known: dict[tuple[WriterKey, bytes], Shaped | None] = {}
        words = list(dict.fromkeys(x for _, literals in self._shaped for x in literals))
        few = sum(source.length for source in lines.sources) <= _FEW_BYTES
        # for a few bytes a native engine takes longer to start than to search
        self._search: Engine = Portable(words) if few else engine_for(words)[0]
        self.work = 0
        """What may still be spent, in `LOOK`s."""

    def stretch(self, source: int, start: int, end: int) -> Stretch:
        data = self.lines.text(source, start, end - start)
        to_end = end >= self.lines.sources[source].length
        return Stretch(self, source, start, data, self._search.ends(data), to_end)

    def first(self, source: int, start: int, end: int) -> Progress | None:
        """The first step whose line begins here or later, but before the end."""
        size = _PIECE
        while start < end and self.work > 0:
            stop = min(start + size, end)
            self.work -= size // _BYTES
            # from the line end before to the last line's own
            stretch = self.stretch(source, start - 1, stop + _LONGEST)
            stretch.take(0, 1, 1, size)
            for step in stretch.steps():
                return step if step.offset < end else None
            start, size = stop, size * 4
        return None

    def form(self, source: int, offset: int, line: bytes) -> Shaped | None:
        """The pattern that takes this line; None where none does, or where that may not be learnt any more."""
        self.work -= LOOK
        key = self.lines.writer_key(source), self._shape(line)
        if key not in self._known:
            if self.work <= 0:
                return None
            self.work -= LEARN
            shown = self.lines.line(source, offset, line).text
            able = (shaped for shaped, literals in self._shaped if any(x in line for x in literals))
            self._known[key] = next((one for one in able if self._groups(one, shown) is not None), None)
        return self._known[key]

    def read(self, source: int, offset: int, line: bytes, form: Shaped) -> Progress | None:
        """The step that this line tells."""
        one = self.lines.line(source, offset, line)
        found = self._groups(form, one.text)
        if found is None:
            return None
        self.work -= READ
        step, steps, time = found.get("step"), found.get("steps"), one.origin.time
        clock = self._clock.at(source, offset) if time is None else None
        return Progress(
            source, offset, one.order, one.origin.rank, one.label, int(step) if step else None, int(steps) if steps else None,
            time, clock, part="epoch" in found or "percent" in found,
        )  # fmt: skip

    def _groups(self, shaped: Shaped, shown: str) -> Mapping[str, str] | None:
        return shaped.groups(shown, self._shape(shown.encode("utf-8", "surrogatepass")))

    def _shape(self, line: bytes) -> bytes:
        return line.translate(DIGITS) if self._shapely else line


class Stretch:
    """A stretch of a log, its hits (where a word of a step's line ends), and the lines looked at so far."""

    def __init__(
        self, reader: StepLines, source: int, start: int, data: bytes, hits: Sequence[int], to_end: bool
    ) -> None:
        self.hits = hits
        self._reader = reader
        self._source = source
        self._start = start
        self._data = data
        self._to_end = to_end
        self._seen: dict[int, _Seen] = {}

    def after(self, offset: int) -> int:
        """The first hit behind this place in the log."""
        return bisect_right(self.hits, offset - self._start)

    def take(self, at: int, by: int, most: int, far: int) -> int:
        """Take the steps from this hit on, down (1) or up (-1) the text: so many, out of so many lines. Where it stopped."""
        for seen, beyond in self._looked_at(at, by, far):
            at = beyond
            seen.taken |= seen.form is not None
            most -= seen.form is not None
            if most == 0:
                break
        return at

    def take_last_of_writers(self, at: int, far: int) -> None:
        """From this hit upwards, take the last step of each writer of whom none is taken yet; until no new one is met any more."""
        label, since = self._reader.lines.label, 0
        writers = {label(self._source, seen.line) for seen in self._seen.values() if seen.taken}
        for seen, _ in self._looked_at(at, -1, far if any(writers) else 0):
            since += 1
            if seen.form and (writer := label(self._source, seen.line)) not in writers:
                writers.add(writer)
                seen.taken, since = True, 0
            elif since > max(_PATIENCE, 2 * len(writers)):
                return

    def steps(self) -> list[Progress]:
        """What was taken, in order, with whether steps before it may have been left out."""
        found: list[Progress] = []
        left_out, next_hit = self._start > 0, 0
        for first, seen in sorted(self._seen.items()):
            left_out = left_out or first != next_hit
            next_hit = seen.last + 1
            step = None
            if seen.taken and seen.form:
                step = self._reader.read(self._source, self._start + seen.begin, seen.line, seen.form)
            if step is not None:
                found.append(replace(step, skipped=left_out))
            left_out = (left_out or seen.form is not None) and step is None
        return found

    def _looked_at(self, at: int, by: int, far: int) -> Iterator[tuple[_Seen, int]]:
        """The lines with a hit, or their pieces between carriage returns, each with the hit of the next one."""
        data, hits = self._data, self.hits
        while 0 <= at < len(hits) and far > 0 and self._reader.work > 0:
            after = hits[at]
            low, high = max(0, after - _LONGEST), min(len(data), after + _LONGEST)
            begin = data.rfind(b"\n", low, after) + 1
            begin = max(begin, data.rfind(b"\r", max(begin, low), after) + 1)
            stop = data.find(b"\n", after, high)
            back = data.find(b"\r", after, stop if stop >= 0 else high)
            stop = back if back >= 0 else stop
            # at the edges of a stretch lines are cut
            whole = (begin > 0 or self._start + low == 0) and (stop >= 0 or (high == len(data) and self._to_end))
            begin, stop = max(begin, low), stop if stop >= 0 else high
            first, last = min(at, bisect_right(hits, begin)), bisect_right(hits, stop) - 1
            if first not in self._seen:
                line = data[begin:stop] if whole and stop - begin <= _LONGEST else b""
                form = self._reader.form(self._source, self._start + begin, line)
                self._seen[first] = _Seen(max(at, last), begin, line, form)
            at = max(at, last) + 1 if by > 0 else first - 1
            far -= 1
            yield self._seen[first], at


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same without overlaps, in order."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


_SHORT = 100.0
"""Seconds of a pause that decides nothing (`timeline/standstill.py`)."""
Gap = tuple[float, int, Progress, Progress, int, int]
"""(seconds, negative, and order of) two steps, and the bytes between them where others may stand."""


def with_pauses(progress: Sequence[Progress], reader: StepLines, lines: Excerpts) -> list[Progress]:
    """The steps, and those around long pauses among the ones that were skipped. The longest time is halved again and again."""
    gaps = [gap for a, b in pairwise(progress) if b.skipped and a.source == b.source for gap in _gap(a, b)]
    gaps.sort()
    found: list[Progress] = []
    followed: set[int] = set()
    while gaps and reader.work > 0 and not lines.out_of_time():
        *_, a, b, low, high = gaps.pop(0)
        if low >= high:
            followed.add(b.order)
            continue
        middle = (low + high) // 2
        step = reader.first(a.source, middle, high)
        if step is not None:
            found.append(step)
        parts = _gap(a, b, low, middle) if step is None else (*_gap(a, step, low, middle), *_gap(step, b))
        for gap in parts:
            insort(gaps, gap)
    whole = sorted((*progress, *found), key=lambda step: step.order)
    return [replace(step, skipped=False) if step.order in followed else step for step in whole]


def _gap(a: Progress, b: Progress, low: int | None = None, high: int | None = None) -> list[Gap]:
    """The time from one step to the next, where it is known and long."""
    start, end = a.shown_time, b.shown_time
    if start is None or end is None or end - start < _SHORT:
        return []
    low, high = a.offset + 1 if low is None else low, b.offset if high is None else high
    return [(start - end, a.order, a, b, low, high)]


SMALL = 8 * 1024 * 1024
"""A job whose logs are smaller than this is searched for steps from end to end."""
_LOOK_AHEAD = 1024 * 1024
"""In a larger job steps are looked for so far after an event and at each log's end,"""
_HEAD = 64 * 1024
"""and so far at its beginning,"""
_MOST_BYTES = 32 * 1024 * 1024
"""but in no more than so many bytes in all."""
WORK = 48_000
"""Lines that are looked at, in all; to read one costs more (`step_lines`). Each log gets its share,"""
_LEAST_WORK = 64
"""and so much at least."""
_WORK_ON_PAUSES = 8_000
"""The same for the search for long pauses among the steps that were not read."""
_COSTLY = 30
"""What the reading of a step costs at most."""
_LAST, _FIRST = 1000, 32
"""Steps that are read at a log's end, and at its beginning,"""
_BEFORE, _AFTER = 2, 4
"""and before and after what broke."""
_FAR, _NEAR = 10_000, 100
"""Lines that may be looked at for those at the end, and for the others."""
_MARKS = 32
"""Of the places at which something broke the first and the last ones."""

Places = dict[int, list[int]]
"""Source -> offsets in it."""


def find_steps(
    events: Sequence[Event],
    marks: Iterable[tuple[int, int]],
    lines: Excerpts,
    signals: Sequence[Signal],
    clock: Clock,
) -> tuple[list[Progress], tuple[Reason, ...]]:
    """The steps at each log's end and beginning, and around the events and the marks, (source, offset); of few steps all.

    With a note on logs whose last steps were not all read.
    """
    reader = StepLines(lines, [s for s in signals if s.kind == "progress"], clock)
    begun = _by_source((e.hit.source, e.hit.offset) for e in events if e.role in ("root", "either", "confirmation"))
    broke = _by_source([*((source, at) for source, places in begun.items() for at in places), *marks])
    spans = _spans(lines, begun)
    found: list[Progress] = []
    unread = 0
    left = WORK
    logs = sorted(spans, key=lambda log: lines.sources[log].length)
    for at, log in enumerate(logs):  # what short logs leave of their share is for long ones
        share = reader.work = max(_LEAST_WORK, left // (len(logs) - at))
        if lines.out_of_time():
            break
        steps, complete = _steps(reader, log, spans[log], broke.get(log, ()))
        found += steps
        unread += not complete
        left = max(0, left - share + reader.work)
    found.sort(key=lambda step: step.order)
    reader.work = _WORK_ON_PAUSES
    notes = (reason("steps-unread", logs=unread),) if unread else ()
    return with_pauses(found, reader, lines), notes


def _steps(
    reader: StepLines, source: int, spans: Sequence[tuple[int, int]], broke: Sequence[int]
) -> tuple[list[Progress], bool]:
    """The steps of one log that matter, and whether its last ones were all read."""
    *others, end = spans
    stretch = reader.stretch(source, *end)
    share = max(_AFTER, reader.work // _COSTLY)
    last = stretch.take(len(stretch.hits) - 1, -1, min(_LAST, share), _FAR)
    complete = reader.work > 0
    _take_around(stretch, broke, share)
    found: list[Progress] = []
    for start, stop in reversed(others):
        near = reader.stretch(source, start, stop)
        _take_around(near, [offset for offset in broke if start <= offset <= stop], share)
        found += near.steps()
    stretch.take_last_of_writers(last, _FAR)
    return found + stretch.steps(), complete


def _take_around(stretch: Stretch, broke: Sequence[int], share: int) -> None:
    """Take the steps at a stretch's beginning and around what broke."""
    around = sorted({stretch.after(offset) for offset in broke})
    for hit in {*around[:_MARKS], *around[-_MARKS:]}:
        stretch.take(hit, 1, _AFTER, _NEAR)
        stretch.take(hit - 1, -1, _BEFORE, _NEAR)
    stretch.take(0, 1, min(_FIRST, share), _NEAR)


def _by_source(places: Iterable[tuple[int, int]]) -> Places:
    found: dict[int, set[int]] = {}
    for source, offset in places:
        found.setdefault(source, set()).add(offset)
    return {source: sorted(offsets) for source, offsets in found.items()}


def _spans(lines: Excerpts, begun: Places) -> dict[int, list[tuple[int, int]]]:
    """Where steps are looked for in each source."""
    lengths = [source.length for source in lines.sources]
    if sum(lengths) <= SMALL:
        return {log: [(0, length)] for log, length in enumerate(lengths)}
    few = {log: [*places[:12], *places[-12:]] for log, places in begun.items()}
    reach = min(_LOOK_AHEAD, _MOST_BYTES // (len(lengths) + sum(map(len, few.values()))))
    found: dict[int, list[tuple[int, int]]] = {}
    for log, length in enumerate(lengths):
        around = [(max(0, at - reach // 4), min(at + reach, length)) for at in few.get(log, ())]
        found[log] = joined([(0, min(_HEAD, reach, length)), *around, (max(0, length - reach), length)])
    return found


_STEP = text("memory")
_PLACE = text("memory-place")
_MOST = 64
"""Steps at the log's end that are read for it."""


def find_memory(steps: Sequence[Progress], signals: Sequence[SignalHit], lines: Excerpts) -> tuple[MemoryReading, ...]:
    """Each rank's last step that shows it, and all reports."""
    shown: dict[Any, list[MemoryReading]] = {}
    for step in steps[-_MOST:]:
        line = lines.at(step.source, step.offset).text
        if found := _STEP.search(line):
            place = _PLACE.search(line) if step.rank is None else None
            gpu = (number(place["node"]), number(place["gpu"])) if place else None
            reading = replace(_reading(step.rank, step.step, step.order, found.groupdict()), gpu=gpu)
            shown.setdefault(gpu or step.rank, []).append(reading)
    read = (replace(last, before=first.used) for first, last in ((one[0], one[-1]) for one in shown.values()))
    return tuple(sorted([*read, *_reports(signals)], key=lambda reading: reading.order))


def _reports(signals: Sequence[SignalHit]) -> Iterator[MemoryReading]:
    for hit in signals:
        if hit.signal.name == GPU_MEMORY:
            found = hit.captures
            rank = number(found["memory_rank"]) if found.get("memory_rank") else hit.line.origin.rank
            step = number(found["memory_step"]) if found.get("memory_step") else None
            yield _reading(rank, step, hit.order, found)


def _reading(rank: int | None, step: int | None, order: int, found: Mapping[str, str | None]) -> MemoryReading:
    """A reading of these groups; a size without a unit has that of the total, or the one that ends its group's name."""
    total_unit = (found.get("total") or "").lstrip("0123456789. ")
    sizes: dict[str, float | None] = {}
    for key, value in found.items():
        name, _, unit = key.partition("_")
        if value and name in ("used", "total", "peak"):
            sizes[name] = gib(value if value[-1].isalpha() else value + (unit[:1].upper() or total_unit))
    share = found.get("share")
    used = sizes.get("used")
    if share and used and "total" not in sizes and float(share) > 0:
        sizes["total"] = used / float(share) * 100
    return MemoryReading(
        rank, step, found.get("memory") or "", order, sizes.get("used"), sizes.get("total"), sizes.get("peak")
    )
