"""Fills in an event's rank, node and time from what the log's maps and the lines above it show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.model import LAST_STAMP, Event, ExitReport, RankMap, format_time
from slurmdoctor.ranks import Lines

_SLURM = text("slurm-line")
_FEW_ABOVE = 24
"""Lines above one of Slurm's in which a stamp is looked for."""
_LINE_END = 2
"""Bytes."""
_LOGGED_ERROR = text("logged-error")
"""A logged error right above a traceback has its time; a step above it may be an hour older."""


def place(
    events: Sequence[Event], maps: RankMap, lines: Lines, by_message: Mapping[tuple[int, int], int]
) -> tuple[list[Event], RankMap]:
    """The events in the log's order, each with all that is known of its origin, and the map that holds for them.

    `by_message` has the ranks of lines, (source, offset), that only the watchdog's `[Rank N]` tells. Where one local rank
    ends twice there is a second node: a local rank of the launcher is no rank then.
    """
    in_order = sorted(events, key=lambda event: event.order)
    timed = [_timed(event, lines) for event in lines.meter.each("stamps", in_order)]
    placed = [_placed(event, maps, by_message) for event in timed]
    if any(event.rank_basis == "lone-launcher" for event in placed) and _one_dies_twice(placed):
        maps = replace(maps, lone_launcher=False)
        placed = [_placed(event, maps, by_message) for event in timed]
    return (_of_one_message(placed) if by_message else placed), maps


def _of_one_message(events: Sequence[Event]) -> list[Event]:
    """The events, each without a rank with that of the line right below it: `terminate called` above `what()`."""
    found = list(events)
    for at, (event, below) in enumerate(pairwise(events)):
        adjoins = 0 < below.hit.offset - event.hit.offset - len(event.hit.raw.encode()) <= _LINE_END
        adjoins = adjoins and event.hit.source == below.hit.source
        if event.origin.rank is None and below.rank_basis == "group-rank" and adjoins:
            origin = replace(event.origin, rank=below.origin.rank, node=event.origin.node or below.origin.node)
            found[at] = replace(event, origin=origin, rank_basis=below.rank_basis)
    return found


def place_report(report: ExitReport, maps: RankMap) -> ExitReport:
    """The exit report with the global ranks that it is about."""
    ranks, basis = maps.ranks_of(report)
    return replace(report, ranks=ranks, rank_basis=basis)


def _timed(event: Event, lines: Lines) -> Event:
    """The event with the time of the last stamp above it where its line has none."""
    above = lines.stamped_before(event.hit, event.label) if event.origin.time is None else None
    if above is None:
        return _with_the_last_stamp(event, lines) if "at" in event.captures and event.origin.time is None else event
    origin = replace(event.origin, time=above.origin.time, dated=above.origin.dated)
    return replace(event, origin=origin, bound=_LOGGED_ERROR.search(above.raw) is None)


def _with_the_last_stamp(event: Event, lines: Lines) -> Event:
    """Slurm's line, which tells its own time, with that of the last stamped line above it, whoever wrote that."""
    before = lines.before(lines.at(event.hit.source, event.hit.offset), _FEW_ABOVE, same_writer=False)
    last = next((line.origin for line in before if line.origin.time is not None), None)
    shown = format_time(last.time) if last is not None and last.dated else None
    return event if shown is None else replace(event, captures={**event.captures, LAST_STAMP: shown})


def _placed(event: Event, maps: RankMap, by_message: Mapping[tuple[int, int], int]) -> Event:
    """The event with its rank and node."""
    # a line of Slurm in the file of some task need not be about that task
    of_slurm = _SLURM.match(event.hit.text) is not None
    origin, basis = maps.resolve(event.origin, None if of_slurm else event.hit.source)
    if origin.rank is None and event.hit.place in by_message:
        origin, basis = maps.resolve(replace(origin, rank=by_message[event.hit.place]))[0], "group-rank"
    return replace(event, origin=origin, rank_basis=basis)


def _one_dies_twice(events: Sequence[Event]) -> bool:
    """Whether two tracebacks at two times end one local rank. A process ends once: there is a second node."""
    first: dict[tuple[int, int], Event] = {}
    for event in events:
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
