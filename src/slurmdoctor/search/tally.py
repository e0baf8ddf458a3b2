"""Counts lines by writer, exactly, and keeps a bounded number of their places, in whatever pieces a log is read.

Lines that satisfy the same matchers are counted together, as one `LineGroup`: of `[rank3]: NCCL timeout ... Timeout(ms)=600000`
four rules may take each line, and it is still counted once. Only at the end does each matcher get its groups.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct, field

from slurmdoctor.model.matches import (
    BURST,
    BURST_FIRST,
    BURSTS,
    COUNT,
    CROWD,
    FIRSTS,
    RECENTS,
    STRETCH,
    Entry,
    Matcher,
    MatchGroup,
    Writer,
)

MOST = 32_768
"""Labels that are told apart; no job has more writers, and what prints more is no label."""

Match = tuple[int, str]
"""(number of the matcher, kind): what a line satisfies."""


class Tally:
    """Counts the lines of one source that satisfy the same matchers, as they come. `native/tally.h` is the same in C."""

    def __init__(self, keep: int, crowd: int = CROWD, most: int = MOST, shift: int = STRETCH) -> None:
        self.keep = keep
        """Places to keep of each sort for a label, while the labels are few."""
        self._crowd = crowd
        self._most = most
        self._shift = shift
        self.labels: dict[bytes, Entry] = {}
        self.crowd: dict[bytes, Entry] = {}
        """Entries of which no more places are kept: those of many labels."""
        self.first = -1
        """The stretch of the first line."""
        self.stretch = -2
        """The stretch of the last line."""
        self.burst = -1
        """The number of the last burst."""

    def add(self, label: bytes, place: int) -> None:
        """Count one line. Places come in rising order."""
        if place >> self._shift != self.stretch:
            self._enter(place >> self._shift)
        few = len(self.labels) <= self._crowd
        entry = self.labels.get(label)
        if entry is None and len(self.labels) >= self._most:
            label, few = b"", False
            entry = self.labels.get(label)
        if entry is None:
            entry = self.labels[label] = [1, self.burst, place, [place], None, None]
            if few:
                entry[BURSTS], entry[RECENTS] = [place], [place]
            else:
                self.crowd[label] = entry
            return
        entry[COUNT] += 1
        fresh = entry[BURST] != self.burst
        if fresh:
            entry[BURST] = self.burst
            entry[BURST_FIRST] = place
        if not few:
            self.crowd[label] = entry
            return
        keep = self.keep
        if fresh:
            entry[BURSTS] = [place]
        elif len(entry[BURSTS]) < keep:
            entry[BURSTS].append(place)
        if len(entry[FIRSTS]) < keep:
            entry[FIRSTS].append(place)
        recents = entry[RECENTS]
        recents.append(place)
        if len(recents) > keep:
            del recents[0]

    def _enter(self, stretch: int) -> None:
        """Note that the lines from here on stand in this stretch; behind an empty one a burst begins."""
        if stretch > self.stretch + 1:
            self.burst += 1
        if self.first < 0:
            self.first = stretch
        self.stretch = stretch

    def packed(self) -> tuple[dict[bytes, Entry], int, int, int]:
        """(entries by label, stretch of the first line, stretch of the last line, number of the last burst)."""
        return self.labels, self.first, self.stretch, self.burst


class LineGroup(Struct):
    """What lines that satisfy the same matchers add up to, in one source."""

    matches: tuple[Match, ...]
    keep: int
    labels: dict[bytes, Entry] = field(default_factory=dict)
    first: int = -1
    stretch: int = -2
    burst: int = -1

    def join(self, later: LineGroup) -> None:
        """Take in what the same source's next part added up to."""
        joined = later.first <= self.stretch + 1
        base = self.burst if joined else self.burst + 1
        keep = self.keep
        for label, theirs in later.labels.items():
            goes_on = joined and theirs[BURST] == 0
            theirs[BURST] += base
            mine = self.labels.get(label)
            if mine is None:
                self.labels[label] = theirs
                continue
            if goes_on and mine[BURST] == base:
                theirs[BURST_FIRST] = mine[BURST_FIRST]
                theirs[BURSTS] = mine[BURSTS] and theirs[BURSTS] and (mine[BURSTS] + theirs[BURSTS])[:keep]
            theirs[COUNT] += mine[COUNT]
            theirs[FIRSTS] = (mine[FIRSTS] + theirs[FIRSTS])[:keep]
            theirs[RECENTS] = mine[RECENTS] and theirs[RECENTS] and (mine[RECENTS] + theirs[RECENTS])[-keep:]
            mine[:] = theirs
        self.burst = base + later.burst
        self.stretch = later.stretch

    def packed(self) -> tuple[Any, ...]:
        """Plain values, for marshal."""
        return self.matches, self.keep, self.labels, self.first, self.stretch, self.burst


def group_by_matcher(
    groups: Iterable[tuple[int, LineGroup]],
    once: Iterable[tuple[int, Match, tuple[bytes, int]]],
    matchers: Sequence[Matcher],
) -> tuple[MatchGroup, ...]:
    """Give each matcher its lines, in the order of matchers and kinds.

    `groups` are (source, group); `once` are (source, match, (label, place)) of what counts once in a source.
    """
    found: dict[Match, list[dict[Writer, list[Entry]]]] = {}
    for source, group in groups:
        writers = {(source, label): [entry] for label, entry in group.labels.items()}
        for match in group.matches:
            found.setdefault(match, []).append(writers)
    for source, match, (label, place) in once:
        found.setdefault(match, []).append({(source, label): [[1, 0, place, [place], [place], [place]]]})
    return tuple(
        MatchGroup(matchers[number], kind, _merged(parts), in_order=len(parts) == 1)
        for (number, kind), parts in sorted(found.items(), key=itemgetter(0))
    )


def _merged(parts: Sequence[dict[Writer, list[Entry]]]) -> dict[Writer, list[Entry]]:
    if len(parts) == 1:
        return parts[0]
    writers: dict[Writer, list[Entry]] = {}
    for part in parts:
        for writer, entries in part.items():
            writers[writer] = writers[writer] + entries if writer in writers else entries
    return writers
