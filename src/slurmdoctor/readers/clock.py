"""Reads lines that hold a time and nothing else, as `while sleep 120; do date; done` prints them: the clock of a log without stamps."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from slurmdoctor.model import Event
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.timestamps import parse_time
from slurmdoctor.search.compiled import lazy

_BARE = (
    rb"(?m)^(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
    rb"|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[AP]M )?[A-Z]{2,5} \d{4}"
    rb"|[A-Z][a-z]{2} \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:[AP]M )?[A-Z]{2,5})[ \r]*$"
)
_WORDS = lazy(r"(\w{3}) (?:(\w{3}) +(\d+)|(\d+) (\w{3}) (\d{4})) (\d\d:\d\d:\d\d) (?:([AP])M )?[A-Z]+(?: (\d{4}))?")
_ENDS = 256 * 1024
"""A log with a clock shows it near its beginning or its end."""
_MOST = 32 * 1024 * 1024


class Clock:
    """The bare stamps of each source, read when first asked for."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._known: dict[int, list[tuple[int, float]]] = {}

    def at(self, source: int, offset: int) -> float | None:
        """The last time that the clock showed before this place."""
        stamps = self._stamps(source)
        after = bisect_right(stamps, (offset, float("inf")))
        return stamps[after - 1][1] if after else None

    def _stamps(self, source: int) -> list[tuple[int, float]]:
        if source not in self._known:
            self._known[source] = self._read(source)
        return self._known[source]

    def _read(self, source: int) -> list[tuple[int, float]]:
        length = self._lines.sources[source].length
        ends = self._lines.text(source, 0, _ENDS) + b"\n" + self._lines.text(source, max(0, length - _ENDS), _ENDS)
        if length > _MOST or len(re.findall(_BARE, ends)) < 2:
            return []
        data = self._lines.text(source, 0, length)
        found = ((m.start(), _time(m[0].decode("ascii", "replace").strip())) for m in re.finditer(_BARE, data))
        return [(offset, time) for offset, time in found if time is not None]


def date(events: Sequence[Event], clock: Clock) -> list[Event]:
    """The events in order; one without a stamp of its own gets the clock's, but none before what stands above it."""
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


def _time(text: str) -> float | None:
    if words := _WORDS.fullmatch(text):
        month, day = (words[2], words[3]) if words[2] else (words[5], words[4])
        seen = parse_time(f"{month} {int(day):2d} {words[7]} {words[6] or words[9]}")
        if seen is None:
            return None
        hour = int(words[7][:2])
        shift = 12 if words[8] == "P" and hour < 12 else -12 if words[8] == "A" and hour == 12 else 0
        return seen[0] + shift * 3600
    seen = parse_time(text)
    return seen[0] if seen else None
