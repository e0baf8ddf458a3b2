"""Fills in an event's rank, node and time from what the log's maps and the lines above it show."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Event, ExitReport, RankMap
from slurmdoctor.ranks.lines import Lines

_SLURM = text("slurm-line")
_LOGGED_ERROR = text("logged-error")
"""A logged error right above a traceback has its time; a step above it may be an hour older."""


def place(events: Sequence[Event], maps: RankMap, lines: Lines) -> tuple[list[Event], RankMap]:
    """The events in the log's order, each with all that is known of its origin, and the map that holds for them.

    Where one local rank ends twice there is a second node: a local rank of the launcher is no rank then.
    """
    placed = [_placed(event, maps, lines) for event in events]
    if any(event.rank_basis == "lone-launcher" for event in placed) and _one_dies_twice(placed):
        maps = replace(maps, lone_launcher=False)
        placed = [_placed(event, maps, lines) for event in events]
    placed.sort(key=lambda event: event.order)
    return placed, maps


def place_report(report: ExitReport, maps: RankMap) -> ExitReport:
    """The exit report with the global ranks that it is about."""
    ranks, basis = maps.ranks_of(report)
    return replace(report, ranks=ranks, rank_basis=basis)


def _placed(event: Event, maps: RankMap, lines: Lines) -> Event:
    # a line of Slurm in the file of some task need not be about that task
    of_slurm = _SLURM.match(event.hit.text) is not None
    origin, basis = maps.resolve(event.origin, None if of_slurm else event.hit.source)
    bound = event.bound
    if origin.time is None:
        above = lines.stamped_before(lines.at(event.hit.source, event.hit.offset))
        if above is not None:
            origin = replace(origin, time=above.origin.time, dated=above.origin.dated)
            bound = _LOGGED_ERROR.search(above.raw) is None
    return replace(event, origin=origin, rank_basis=basis, bound=bound)


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
