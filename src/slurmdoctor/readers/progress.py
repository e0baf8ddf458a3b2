"""Chooses the training steps that later stages ask about: each log's last ones, each writer's last one, those around what broke."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slurmdoctor.model import Event, Progress, Reason, Signal, reason
from slurmdoctor.ranks import Lines
from slurmdoctor.readers import pauses
from slurmdoctor.readers.clock import Clock
from slurmdoctor.readers.step_lines import StepLines, Stretch, joined

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


def find(
    events: Sequence[Event],
    marks: Iterable[tuple[int, int]],
    lines: Lines,
    signals: Sequence[Signal],
    clock: Clock,
) -> tuple[list[Progress], tuple[Reason, ...]]:
    """The steps at each log's end and beginning, and around the events and the marks, (source, offset); of few steps all.

    With what is to be said of logs whose last steps were not all read.
    """
    reader = StepLines(lines, [s for s in signals if s.kind == "progress"])
    begun = _by_source((e.hit.source, e.hit.offset) for e in events if e.role in ("root", "either", "confirmation"))
    broke = _by_source([*((source, at) for source, places in begun.items() for at in places), *marks])
    spans = _spans(lines, begun)
    found: list[Progress] = []
    unread = 0
    left = WORK
    logs = sorted(spans, key=lambda number: lines.sources[number].length)
    for at, number in enumerate(logs):  # what short logs leave of their share is for long ones
        share = reader.work = max(_LEAST_WORK, left // (len(logs) - at))
        if lines.out_of_time():
            break
        steps, complete = _steps(reader, number, spans[number], broke.get(number, ()))
        found += steps
        unread += not complete
        left = max(0, left - share + reader.work)
    found = [_clocked(step, clock) for step in sorted(found, key=lambda step: step.order)]
    notes = (reason("steps-unread", logs=unread),) if unread else ()
    return _with_pauses(found, reader, lines, clock), notes


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


def _with_pauses(found: Sequence[Progress], reader: StepLines, lines: Lines, clock: Clock) -> list[Progress]:
    """The steps, and those around the longest pauses."""
    reader.work = _WORK_ON_PAUSES

    def first_step(source: int, start: int, end: int) -> Progress | None:
        step = reader.first(source, start, end)
        return None if step is None else _clocked(step, clock)

    return pauses.search(found, first_step, lambda: reader.work > 0 and not lines.out_of_time())


def _take_around(stretch: Stretch, broke: Sequence[int], share: int) -> None:
    """Take the steps at a stretch's beginning and around what broke."""
    around = sorted({stretch.after(offset) for offset in broke})
    for hit in {*around[:_MARKS], *around[-_MARKS:]}:
        stretch.take(hit, 1, _AFTER, _NEAR)
        stretch.take(hit - 1, -1, _BEFORE, _NEAR)
    stretch.take(0, 1, min(_FIRST, share), _NEAR)


def _clocked(step: Progress, clock: Clock) -> Progress:
    time = clock.at(step.source, step.offset) if step.time is None else None
    return step if time is None else replace(step, clock_time=time)


def _by_source(places: Iterable[tuple[int, int]]) -> Places:
    found: dict[int, set[int]] = {}
    for source, offset in places:
        found.setdefault(source, set()).add(offset)
    return {source: sorted(offsets) for source, offsets in found.items()}


def _spans(lines: Lines, begun: Places) -> dict[int, list[tuple[int, int]]]:
    """Where steps are looked for in each source."""
    lengths = [source.length for source in lines.sources]
    if sum(lengths) <= SMALL:
        return {number: [(0, length)] for number, length in enumerate(lengths)}
    few = {number: [*places[:12], *places[-12:]] for number, places in begun.items()}
    reach = min(_LOOK_AHEAD, _MOST_BYTES // (len(lengths) + sum(map(len, few.values()))))
    found: dict[int, list[tuple[int, int]]] = {}
    for number, length in enumerate(lengths):
        around = [(max(0, at - reach // 4), min(at + reach, length)) for at in few.get(number, ())]
        found[number] = joined([(0, min(_HEAD, reach, length)), *around, (max(0, length - reach), length)])
    return found
