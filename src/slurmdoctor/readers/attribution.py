"""Fills in who an event is about and when it came, from what the log's maps, its clock and the lines above the event show.

A clock is a log's lines that hold a time and nothing else, as `while sleep 120; do date; done` prints them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import named
from slurmdoctor.model import Event, Origin, RankMap, Writer, bus_of, is_rank, number
from slurmdoctor.ranks import Excerpts, Place, parse_time
from slurmdoctor.readers.targets import Repeats
from slurmdoctor.search import MOST

_BARE = text("bare-time")
_ENDS = 256 * 1024
"""A log with a clock shows it near its beginning or its end."""
_MOST = 32 * 1024 * 1024
"""Bytes of a log that is read for its clock, and"""
_MOST_IN_ALL = 64 * 1024 * 1024
"""of all such logs."""


class Clock:
    """The bare stamps of each source, read when first asked for."""

    def __init__(self, lines: Excerpts) -> None:
        self._lines = lines
        self._stamps = cache(self._read)
        self._left = _MOST_IN_ALL

    def at(self, source: int, offset: int) -> float | None:
        """The last time that the clock showed before this place."""
        stamps = self._stamps(source)
        after = bisect_right(stamps, (offset, float("inf")))
        return stamps[after - 1][1] if after else None

    def _read(self, source: int) -> list[tuple[int, float]]:
        length = self._lines.sources[source].length
        ends = (self._lines.text(source, 0, _ENDS), self._lines.text(source, max(0, length - _ENDS), _ENDS))
        near_ends = b"\n".join(ends).decode("latin-1").split("\n")
        if length > min(_MOST, self._left) or sum(map(bool, map(_BARE.match, near_ends))) < 2:
            return []
        self._left -= length
        data = b"\n" + self._lines.text(source, 0, length)
        found = (
            (m.start(), parse_time(m[0].decode("ascii", "replace").strip(), zone=self._lines.zone))
            for m in _bare_lines().finditer(data)
        )
        return [(offset, time[0]) for offset, time in found if time is not None]


def date(events: Sequence[Event], clock: Clock) -> list[Event]:
    """The events in order; one without a stamp of its own gets the clock's, but none before that of the line above it."""
    latest: dict[int, float] = {}
    dated = []
    for event in events:
        source, origin = event.hit.source, event.origin
        if origin.time is None and (shown := clock.at(source, event.hit.offset)) is not None:
            placed = replace(origin, time=max(shown, latest.get(source, shown)), dated=True)
            event = replace(event, origin=placed, bound=True)
        if event.origin.time is not None:
            latest[source] = max(event.origin.time, latest.get(source, event.origin.time))
        dated.append(event)
    return dated


@cache
def _bare_lines() -> re.Pattern[bytes]:
    """The pattern of a bare time and the line end before it: with that it is sought nine times as fast in a whole text."""
    return re.compile(rb"\n(?:" + _BARE.pattern.encode() + rb")", re.MULTILINE)


_SLURM = text("slurm-line")


class RepeatedRanks:
    """The ranks that printed what a rule or a reader took, and get no event of their own; each writer is looked up once."""

    def __init__(self, repeats: Mapping[Place, list[Repeats]], maps: RankMap, lines: Excerpts) -> None:
        self._repeats = repeats
        self._maps = maps
        self._lines = lines
        self._ranks: dict[Writer, int | None] = {}

    def add(self, event: Event, rule: str | None) -> Event:
        """The event with the ranks and the number of lines of the repeats that it represents: that of its rule, or of no rule."""
        repeats = next((one for one in self._repeats.get(event.hit.place, ()) if one.rule == rule), None)
        if repeats is None:
            return event
        # the label of a line of slurmstepd is not the rank that the line is about
        of_slurm = _SLURM.match(event.hit.text) is not None
        rest = [writer for writer in repeats.group.writers if writer not in repeats.kept]
        for writer in rest:
            if writer not in self._ranks and len(self._ranks) < MOST:
                origin = None if of_slurm else self._lines.writer(*writer)
                origin = origin or self._lines.at(writer[0], repeats.group.first_of(writer)).origin
                self._ranks[writer] = self._maps.resolve(origin, writer[0])[0].rank
        others = frozenset(rank for writer in rest if (rank := self._ranks.get(writer)) is not None)
        more = sum(repeats.group.count_of(writer) for writer in rest)
        return replace(event, others=others, count=event.count + more)


_OWN_NUMBER = text("own-number")
_LINE_END = 2
"""Bytes."""
_LOGGED_ERROR = text("logged-error")
"""A logged error right above a traceback has its time; a step above it may be an hour older."""


def place_events(
    events: Sequence[Event], maps: RankMap, lines: Excerpts, by_message: Mapping[tuple[int, int], int]
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


def _timed(event: Event, lines: Excerpts) -> Event:
    """The event with the time of the last stamp above it where its line has none."""
    above = lines.stamped_before(event.hit, event.label) if event.origin.time is None else None
    if above is None:
        return event
    origin = replace(event.origin, time=above.origin.time, dated=above.origin.dated)
    return replace(event, origin=origin, bound=_LOGGED_ERROR.search(above.raw) is None)


def _placed(event: Event, maps: RankMap, by_message: Mapping[tuple[int, int], int]) -> Event:
    """The event with its rank and node."""
    # a line of Slurm in the file of some task need not be about that task
    of_slurm = _SLURM.match(event.hit.text) is not None
    origin, basis = maps.resolve(event.origin, None if of_slurm else event.hit.source)
    if origin.rank is None and "bus" in event.captures:
        rank = maps.of_gpu(origin.node, bus_of(event.captures["bus"]))
        origin, basis = (origin, basis) if rank is None else (maps.resolve(replace(origin, rank=rank))[0], "bus")
    if origin.rank is None and event.hit.place in by_message:
        origin, basis = maps.resolve(replace(origin, rank=by_message[event.hit.place]))[0], "group-rank"
    if origin.rank is None and event.role in ("root", "either"):
        origin = _by_prose(origin, event.hit.text, maps)
        basis = None if origin.rank is None else "as-written"
    return replace(event, origin=origin, rank_basis=basis)


def _by_prose(origin: Origin, text: str, maps: RankMap) -> Origin:
    """The origin by what its line tells of itself in prose; where the word could mean a process id, only by a number that the job has."""
    found = _OWN_NUMBER.search(text)
    name, words = next(iter(named(found).items())) if found else ("", "")
    if name == "worker":
        return replace(origin, worker=origin.worker or words.lower().replace("#", ""))
    if not is_rank(words):
        return origin
    rank = number(words)
    known = name == "rank" or rank in maps.node_of or rank < (maps.world_size or 0)
    return maps.resolve(replace(origin, rank=rank))[0] if known else origin


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
