"""Counts who said what, and where: bounded for each writer, exact in number, the same in whatever pieces a log is read.

Lines that satisfy the same watches are counted together, as one `Group`; only at the end are groups dealt out to their watches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from heapq import nsmallest
from itertools import islice
from operator import itemgetter
from typing import Any

from slurmdoctor.records import dataclass

STRETCH = 18
"""Binary digits of a stretch's length. After a stretch of 256 KiB in which nobody said it, the same words are a new burst."""
CROWD = 64
"""Where more labels than this say the same, of each only its first place and the first of its last burst are kept."""
MOST = 32_768
"""Labels that are told apart; no job has more writers, and what prints more is no label."""

Pair = tuple[int, str]
"""(watch, kind): what a line satisfied. Kinds set apart what one watch sees: an exception's class and first words."""
Entry = list[Any]
"""[count, burst's number, burst's first place, first places, burst's places, last places]; see `Group.add`."""
COUNT, BURST, BURST_FIRST, FIRSTS, BURSTS, RECENTS = range(6)


class Tally:
    """Counts the lines of one source that satisfy the same watches, as they come. `native/tally.h` says the same in C."""

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
        stretch = place >> self._shift
        if stretch != self.stretch:
            if stretch > self.stretch + 1:
                self.burst += 1
            if self.first < 0:
                self.first = stretch
            self.stretch = stretch
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

    def packed(self) -> tuple[dict[bytes, Entry], int, int, int]:
        """(entries by label, stretch of the first line, stretch of the last line, number of the last burst)."""
        return self.labels, self.first, self.stretch, self.burst


@dataclass(slots=True)
class Group:
    """What lines that satisfy the same pairs add up to, in one source."""

    pairs: tuple[Pair, ...]
    keep: int
    labels: dict[bytes, Entry] = field(default_factory=dict)
    first: int = -1
    stretch: int = -2
    burst: int = -1

    def join(self, later: Group) -> None:
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
        return self.pairs, self.keep, self.labels, self.first, self.stretch, self.burst


Writer = tuple[int, bytes]
"""(source, label)."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one writer's lines said to one watch."""

    source: int
    label: bytes
    count: int
    """The number of this writer's lines that the watch takes."""
    places: tuple[int, ...]
    """Some of these lines: the first ones, the first ones of the last burst, and the last ones."""


@dataclass(frozen=True, slots=True)
class Said:
    """All that satisfied one watch in one way."""

    watch: int
    kind: str
    keep: int
    writers: dict[Writer, list[Entry]]
    """A writer has several entries where its lines satisfied different other watches besides."""
    in_order: bool = False
    """Whether the writers stand in the order in which they first said it, as those of one group do."""

    @property
    def count(self) -> int:
        return sum(map(self.count_of, self.writers))

    @property
    def crowded(self) -> bool:
        return len(self.writers) > CROWD

    def first_of(self, writer: Writer) -> int:
        """Where this writer said it first."""
        entries = self.writers[writer]
        return int(entries[0][FIRSTS][0] if len(entries) == 1 else min(entry[FIRSTS][0] for entry in entries))

    def again_of(self, writer: Writer) -> int:
        """Where this writer began to say it in the last burst in which it did."""
        entries = self.writers[writer]
        return int(entries[0][BURST_FIRST] if len(entries) == 1 else max(entry[BURST_FIRST] for entry in entries))

    def count_of(self, writer: Writer) -> int:
        return sum(entry[COUNT] for entry in self.writers[writer])

    def by_first(self, most: int | None = None) -> list[Writer]:
        """The writers in the order in which they first said it, or the first few of them."""
        if self.in_order:
            return list(islice(self.writers, most))
        order = [
            (source, es[0][FIRSTS][0] if len(es) == 1 else self.first_of((source, label)), label)
            for (source, label), es in self.writers.items()
        ]
        chosen = sorted(order) if most is None else nsmallest(most, order)
        return [(source, label) for source, _, label in chosen]

    def by_last_burst(self, most: int) -> list[Writer]:
        """The first few writers of the latest burst."""
        latest = [
            (source, -es[0][BURST], es[0][BURST_FIRST], label)
            if len(es) == 1
            else (source, -max(e[BURST] for e in es), self.again_of((source, label)), label)
            for (source, label), es in self.writers.items()
        ]
        return [(source, label) for source, _, _, label in nsmallest(most, latest)]

    def sighting(self, writer: Writer) -> Sighting:
        entries = self.writers[writer]
        return Sighting(*writer, self.count_of(writer), self._places(entries))

    def _places(self, entries: list[Entry]) -> tuple[int, ...]:
        keep = self.keep
        firsts = sorted(place for e in entries for place in e[FIRSTS])[:keep]
        if keep == 1:
            return (firsts[0],)
        if self.crowded:
            again = max(e[BURST_FIRST] for e in entries)
            near = (again >> STRETCH) <= (firsts[0] >> STRETCH) + 1  # the same again, in other words
            return (firsts[0],) if near else (firsts[0], again)
        bursts = [place for e in entries for place in e[BURSTS][:keep]]
        recents = sorted(place for e in entries for place in e[RECENTS])[-keep:]
        return tuple(sorted({*firsts, *bursts, *recents}))


def deal(
    groups: Iterable[tuple[int, Group]], once: Iterable[tuple[int, Pair, tuple[bytes, int]]], keep: Sequence[int]
) -> list[Said]:
    """Deal (source, group)s out to their watches, in the order of watch and kind. `keep` is each watch's own.

    `once` are (source, pair, (label, place)) of what counts once in a source.
    """
    found: dict[Pair, list[dict[Writer, list[Entry]]]] = {}
    for source, group in groups:
        writers = {(source, label): [entry] for label, entry in group.labels.items()}
        for pair in group.pairs:
            found.setdefault(pair, []).append(writers)
    for source, pair, (label, place) in once:
        found.setdefault(pair, []).append({(source, label): [[1, 0, place, [place], [place], [place]]]})
    result = []
    for (watch, kind), parts in sorted(found.items(), key=itemgetter(0)):
        writers = parts[0]
        if len(parts) > 1:
            writers = {}
            for part in parts:
                for writer, entries in part.items():
                    writers[writer] = writers[writer] + entries if writer in writers else entries
        result.append(Said(watch, kind, keep[watch], writers, len(parts) == 1))
    return result
