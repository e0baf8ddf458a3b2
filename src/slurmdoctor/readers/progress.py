"""Finds the lines of training steps: `iteration 100/2000 | loss 3.1`. Signals of kind `progress` say how they look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from slurmdoctor.model import Event, Progress, Signal
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.readers.clock import Clock
from slurmdoctor.search.compiled import captures
from slurmdoctor.search.engine import engine_for
from slurmdoctor.search.extension import Engine
from slurmdoctor.search.shapes import DIGITS, digits_matter

SMALL = 8 * 1024 * 1024
"""A job whose logs are smaller than this is searched for steps from end to end."""
LOOK_AHEAD = 1024 * 1024
"""In a larger job steps are looked for so far after an event, and at each log's end."""
_LAST = 64
"""Of the steps in a stretch of a larger job the last ones are kept, and each writer's last one."""
_LONGEST = 4096
_FEW_BYTES = 256 * 1024


def find(events: Sequence[Event], lines: Lines, signals: Sequence[Signal], clock: Clock) -> list[Progress]:
    """Steps made: everywhere in a small job, else around the events and at each log's end."""
    finder = _Finder(lines, [s for s in signals if s.kind == "progress"])
    total = sum(source.length for source in lines.sources)
    found: list[Progress] = []
    for number, source in enumerate(lines.sources):
        if lines.out_of_time():
            break
        if total <= SMALL:
            found += finder.steps(number, 0, source.length)
            continue
        starts = sorted({e.hit.offset for e in _beginners(events, number)})
        around = [(s - LOOK_AHEAD // 4, s + LOOK_AHEAD) for s in starts]
        for start, end in _joined([*around, (source.length - LOOK_AHEAD, source.length)]):
            if lines.out_of_time():
                break
            found += finder.steps(number, max(0, start), min(end, source.length), _LAST)
    found.sort(key=lambda p: p.order)
    return [step if step.time is not None else _clocked(step, clock) for step in found]


def _clocked(step: Progress, clock: Clock) -> Progress:
    time = clock.at(step.source, step.offset)
    return step if time is None else replace(step, clock_time=time)


def _beginners(events: Sequence[Event], source: int) -> list[Event]:
    """The few events that could be a root: the places where it matters what came after."""
    chosen = [e for e in events if e.hit.source == source and e.role in ("root", "either", "confirmation")]
    return chosen[:12] + chosen[-12:]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


class _Finder:
    """Reads stretches of a log for steps; lines that differ in digits only are recognised by the first of them."""

    def __init__(self, lines: Lines, patterns: Sequence[Signal]) -> None:
        self._lines = lines
        self._patterns = patterns
        self._literals = list(dict.fromkeys(x.encode() for s in patterns for x in s.literals))
        self._shapely = not any(digits_matter(s.regex) for s in patterns)
        self._known: dict[bytes, bool] = {}
        self._searches: dict[bool, Engine] = {}

    def steps(self, source: int, start: int, end: int, last: int | None = None) -> list[Progress]:
        """The steps in this stretch; of many only the `last` ones, and each writer's last one."""
        places = self._candidates(source, start, end)
        if last is None:
            chosen: Iterable[tuple[int, bytes]] = places
        else:
            every = list(places)
            of_writer = {self._lines.label(source, line): (at, line) for at, line in every}
            chosen = sorted({*every[-last:], *of_writer.values()})
        return [step for at, line in chosen if (step := self._read(source, at, line))]

    def _candidates(self, source: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """(offset, line) of what looks like a step."""
        data = self._lines.text(source, start, end - start)
        stop = -1
        for after in self._finder(len(data)).ends(data):
            if after <= stop:
                continue
            begin = data.rfind(b"\n", 0, after) + 1
            begin = max(begin, data.rfind(b"\r", begin, after) + 1)
            stop = data.find(b"\n", after)
            stop = len(data) if stop < 0 else stop
            back = data.find(b"\r", after, stop)
            stop = back if back >= 0 else stop
            line = data[begin:stop]
            if len(line) > _LONGEST:
                continue
            if self._shapely:
                shape = line.translate(DIGITS)
                known = self._known.get(shape)
                if known is None:
                    known = self._known[shape] = self._read(source, start + begin, line) is not None
                if not known:
                    continue
            yield start + begin, line

    def _finder(self, size: int) -> Engine:
        many = size > _FEW_BYTES  # for a few bytes a native engine takes longer to start than to search
        if many not in self._searches:
            self._searches[many] = engine_for(self._literals, None if many else "python")[0]
        return self._searches[many]

    def _read(self, source: int, offset: int, line: bytes) -> Progress | None:
        origin, text = self._lines.peeled(source, line)
        for signal in self._patterns:
            if (found := captures(signal.regex, text)) is not None:
                step, steps = found.get("step"), found.get("steps")
                return Progress(
                    source, offset, self._lines.order(source, offset), origin.rank, self._lines.label(source, line),
                    int(step) if step else None, int(steps) if steps else None, origin.time,
                )  # fmt: skip
        return None
