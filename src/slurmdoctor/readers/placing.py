"""Fills in an event's rank, node and time from what the log's maps and the lines above it show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurmdoctor.model import Event, ExitReport, Origin
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.maps import RankMaps
from slurmdoctor.search.compiled import lazy

_LOGGED_ERROR = lazy(r"\b(?:ERROR|CRITICAL|FATAL)\b|\[E\d{3,4} ")
"""A logged error right above a traceback has its time; a step above it may be an hour older."""


def place(events: Sequence[Event], maps: RankMaps, lines: Lines) -> list[Event]:
    """The events in the log's order, each with all that is known of its origin."""
    placed = [_placed(event, maps, lines) for event in events]
    if maps.assumed and _one_dies_twice(placed):
        maps.lone = False
        maps.assumed.clear()
        placed = [_placed(event, maps, lines) for event in events]
    placed.sort(key=lambda event: event.order)
    return placed


def ranks_of(report: ExitReport, maps: RankMaps) -> tuple[int, ...]:
    """The global ranks that an exit report is about; none where they cannot be read."""
    if report.rank is not None:
        return (report.rank,)
    if report.tasks and maps.tasks_are_ranks:
        return report.tasks
    if report.local_rank is not None:
        placed = maps.place(Origin(local_rank=report.local_rank, node=report.node, pid=report.pid), -1)
        return (placed.rank,) if placed.rank is not None else ()
    return ()


def _placed(event: Event, maps: RankMaps, lines: Lines) -> Event:
    # a line of Slurm in the file of some task need not be about that task
    of_slurm = event.hit.text.lstrip(" *").startswith(("slurmstepd", "srun:"))
    origin = maps.place(event.origin, -1 if of_slurm else event.hit.source)
    bound = event.bound
    if origin.time is None:
        above = lines.stamped_before(lines.at(event.hit.source, event.hit.offset))
        if above is not None:
            origin = replace(origin, time=above.origin.time, dated=above.origin.dated)
            bound = _LOGGED_ERROR.search(above.raw) is None
    return event if origin == event.origin else replace(event, origin=origin, bound=bound)


def _one_dies_twice(events: Sequence[Event]) -> bool:
    """Whether two tracebacks at two times end one local rank. A process ends once: there is a second node."""
    first: dict[tuple[int, int], Event] = {}
    for event in sorted(events, key=lambda e: e.order):
        local = event.origin.local_rank
        if local is None or not event.group:
            continue
        other = first.setdefault((event.hit.source, local), event)
        if other.group == event.group or "cascade" not in (other.role, event.role):
            continue
        one, two = other.origin.time, event.origin.time
        if one is None or two is None or abs(one - two) > 1.0:
            return True
    return False
