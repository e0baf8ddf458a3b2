"""Where everything that a log tells stands on one axis: its time by one clock, or its place in the text."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import inf

from slurmdoctor.model import (
    ASSUMED_YEAR,
    Event,
    ExitReport,
    Finding,
    Line,
    Observations,
    Progress,
    Timeline,
    parse_time,
)
from slurmdoctor.timeline import by_zone, learn

_DAY = 86_400.0
_YEAR_ENDS = parse_time(f"{ASSUMED_YEAR + 1}-01-02T00:00:00") or 0.0
"""Stamps before it name no year."""
_ENOUGH, _LONG = 5, 30.0
"""Stamps, and seconds from the first to the last: by these errors without a stamp can be placed, too."""
_OTHER_CLOCK = 60.0
"""Seconds by which a stamp may stand before what is above it, before its clock is taken for another one."""


Stamped = tuple[tuple[int, int], tuple["int | None", "str | None"], float]
"""The place of a line, its rank and node, and its stamp."""


class Axis:
    """The times, or places, of one attempt's lines. A line without a stamp stands where the last stamped one above it does."""

    def __init__(self, finding: Finding, timeline: Timeline, observed: Observations) -> None:
        self._low, self._high = timeline.span
        self._above_files = [0, *accumulate(file.bytes for file in observed.files)]
        self._clocks = learn(timeline.progress, observed.rank_map, [file.name for file in observed.files])
        named = (path for path in observed.rank_map.of_path.values() if {"rank", "local_rank", "task"} & path.keys())
        self.apart = len(list(named)) > 1
        """Whether each rank has a file of its own: without a clock, places in two of them do not compare."""
        stamped = list(_stamped(timeline, observed))
        self._with_stamps = {rank for _, (rank, _), _ in stamped}
        self._own_year = _shift([*(time for _, _, time in stamped), *_told(timeline.events)])
        self._stamps: dict[int, list[tuple[int, float]]] = {}
        self._learn(stamped)
        self._learn(_carried(timeline))
        self._learn(
            (place, origin, time) for place, origin, time in _said(timeline) if _one_clock(time, self._above(*place))
        )
        self.clock = any(self._stamps.values()) and self._usable(finding, timeline, observed)
        self.begin = (
            self._low * 1.0 if not self.clock else min(time for stamps in self._stamps.values() for _, time in stamps)
        )
        """Where the first line stands that the axis can place."""
        self.dated = any(_named_year(time) for stamps in self._stamps.values() for _, time in stamps)

    def of_event(self, event: Event) -> float | None:
        """Where an event stands; None where nothing above it has a stamp."""
        if not self.clock:
            return self._place(event.hit.offset, event.order)
        origin, (source, offset) = event.origin, event.hit.place
        above = self._above(source, offset)
        told = parse_time(event.captures["at"]) if "at" in event.captures else None
        if told is not None and _one_clock(told, above):
            return told
        if origin.time is not None and not event.bound:
            return self._true(origin.time, source, origin.rank, origin.node)
        return above

    def is_stamped(self, event: Event) -> bool:
        """Whether an event's own line shows its time."""
        return "at" in event.captures or (event.origin.time is not None and not event.bound)

    def earliest(self, event: Event) -> float:
        """The last time that its own writer had shown before an event."""
        origin = event.origin
        if origin.time is None:
            return -inf
        return self._true(origin.time, event.hit.source, origin.rank, origin.node)

    def of_report(self, report: ExitReport) -> float | None:
        """Where the process that an exit report tells of ended."""
        if not self.clock:
            return self._place(report.line.offset, report.order)
        above = self._above(report.line.source, report.line.offset)
        if report.time is not None:
            time = self._true(report.time, report.line.source, min(report.ranks, default=None), report.node)
            if _one_clock(above, time) or _one_clock(time, above):
                return time
        return above

    def of_step(self, step: Progress) -> float | None:
        if not self.clock:
            return self._place(step.offset, step.order)
        time = step.shown_time
        return self._above(step.source, step.offset) if time is None else self._true(time, step.source, step.rank, None)

    def of_line(self, line: Line, order: int) -> float | None:
        if not self.clock:
            return self._place(line.offset, order)
        time = line.origin.time
        if time is None:
            return self._above(line.source, line.offset)
        return self._true(time, line.source, line.origin.rank, line.origin.node)

    def of_words(self, line: Line) -> float | None:
        """Where a line stands that nothing else was read of."""
        return self.of_line(line, self._above_files[line.source] + line.offset)

    def corrected(self, time: float, source: int, rank: int | None) -> float:
        """A stamp's time by the axis's clock."""
        return self._true(time, source, rank, None)

    def _place(self, offset: int, order: int) -> float:
        return float(offset if self.apart else order)

    def _learn(self, stamped: Iterable[Stamped]) -> None:
        for (source, offset), origin, time in stamped:
            self._stamps.setdefault(source, []).append((offset, self._true(time, source, *origin)))
        for source, stamps in self._stamps.items():
            stamps.sort()
            # what was held back comes out below what was printed later: time never goes back in a file
            latest = accumulate((time for _, time in stamps), max)
            self._stamps[source] = [(offset, time) for (offset, _), time in zip(stamps, latest, strict=True)]

    def _above(self, source: int, offset: int) -> float | None:
        stamps = self._stamps.get(source, [])
        at = bisect_right(stamps, (offset, inf))
        return stamps[at - 1][1] if at else None

    def _true(self, time: float, source: int, rank: int | None, node: str | None) -> float:
        time = time if _named_year(time) else time + self._own_year
        return time - self._clocks.by(source, rank, node)

    def _usable(self, finding: Finding, timeline: Timeline, observed: Observations) -> bool:
        """Whether the failure's lines, or those of a run that did not fail, have times that differ."""
        times = {time for stamps in self._stamps.values() for _, time in stamps}
        if finding.root is None:
            done = (mark.line.origin.time for mark in observed.signals if mark.signal.kind == "finished")
            return len({*(step.shown_time for step in timeline.progress), *done} - {None}) > 1
        events = [e for i in (finding.root, *finding.same, *finding.cascade) for e in i.events]
        told = set(_told(events))
        own = [e for e in events if e.origin.time is not None and not e.bound]
        ends = any(report.time is not None for report in timeline.reports)
        root = finding.root.main
        placed = self._above(*root.hit.place) is not None or root.origin.rank in self._with_stamps - {None}
        many = placed and len(times) >= _ENOUGH and max(times) - min(times) >= _LONG
        return bool(own or told or ends or many) and len(times | told) > 1


def _stamped(timeline: Timeline, observed: Observations) -> Iterator[Stamped]:
    low, high = timeline.span
    for event in timeline.events:
        if event.origin.time is not None and not event.bound:
            yield event.hit.place, (event.origin.rank, event.origin.node), event.origin.time
    for step in timeline.progress:
        if (time := step.shown_time) is not None and low <= step.order < high:
            yield (step.source, step.offset), (step.rank, None), time
    heard = [report.line for report in timeline.reports]
    heard += [mark.line for mark in observed.signals if low <= mark.order < high]
    if timeline.attempts == 1:
        heard += observed.last_words.values()
    for line in heard:
        if line.origin.time is not None:
            yield (line.source, line.offset), (line.origin.rank, line.origin.node), line.origin.time


def _carried(timeline: Timeline) -> Iterator[Stamped]:
    """Events that were printed after a stamp of their own writer's."""
    for event in timeline.events:
        if event.origin.time is not None and event.bound:
            yield event.hit.place, (event.origin.rank, event.origin.node), event.origin.time


def _said(timeline: Timeline) -> Iterator[Stamped]:
    """Slurm's lines that tell their time."""
    for event in timeline.events:
        for time in _told([event]):
            yield event.hit.place, (None, None), time


def _told(events: Iterable[Event]) -> Iterator[float]:
    """The times that Slurm's lines tell."""
    for event in events:
        if "at" in event.captures and (time := parse_time(event.captures["at"])) is not None:
            yield time


def _named_year(time: float) -> bool:
    return time >= _YEAR_ENDS


def _shift(known: Sequence[float]) -> float:
    """Seconds from stamps without a year to those with one, where a log has both: whole days."""
    bare = next((time for time in known if not _named_year(time)), None)
    named = next((time for time in known if _named_year(time)), None)
    return 0.0 if bare is None or named is None else _years(bare, named) * _DAY


def _years(bare: float, named: float) -> int:
    """Days between the two stamps' years."""
    from datetime import datetime, timedelta

    begin = datetime(1970, 1, 1)
    day, year = begin + timedelta(seconds=bare), (begin + timedelta(seconds=named)).year
    try:
        return (day.replace(year=year) - day).days
    except ValueError:  # February 29
        return (day.replace(year=year, day=28) - day).days


def _one_clock(later: float | None, earlier: float | None) -> bool:
    """Whether two times may be by one clock: the later one not before the other, nor away from it by a time zone."""
    if later is None or earlier is None:
        return True
    return later - earlier >= -_OTHER_CLOCK and not by_zone(later - earlier)
