"""Counts who said what, and where: bounded for each writer, exact in number, the same in whatever pieces a log is read.

Lines that satisfy the same watches are counted together, as one `Group`; only at the end are groups dealt out to their watches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from operator import itemgetter
from typing import Any

BURST_GAP = 256 * 1024
"""Bytes in which nobody said it, after which the same words are a new burst: another attempt, perhaps."""
CROWD = 64
"""Where more labels than this say the same, of each only the first place, the first of its last burst and the last are kept."""

Pair = tuple[int, str]
"""(watch, kind): what a line satisfied. Kinds set apart what one watch sees: an exception's class and first words."""
Entry = list[Any]
"""[count, last, burst's number, burst's first place, first places, burst's places, last places]; see `Group.add`."""
COUNT, LAST, BURST, BURST_FIRST, FIRSTS, BURSTS, RECENTS = range(7)


@dataclass(slots=True)
class Group:
    """What lines that satisfy the same pairs add up to, in one source."""

    pairs: tuple[Pair, ...]
    keep: int
    """Places to keep of each sort for a label, while the labels are few."""
    labels: dict[bytes, Entry] = field(default_factory=dict)
    start: int = -1
    """The first place at all."""
    last: int = -BURST_GAP - 1
    burst: int = -1
    """The number of the last burst."""

    def add(self, label: bytes, place: int) -> None:
        """Count one line. Places come in rising order."""
        if place - self.last > BURST_GAP:
            self.burst += 1
            if self.start < 0:
                self.start = place
        self.last = place
        few = len(self.labels) <= CROWD
        entry = self.labels.get(label)
        if entry is None:
            self.labels[label] = [1, place, self.burst, place, [place], [place] if few else None, [place] if few else None]
            return
        entry[COUNT] += 1
        entry[LAST] = place
        fresh = entry[BURST] != self.burst
        if fresh:
            entry[BURST] = self.burst
            entry[BURST_FIRST] = place
        if not few:
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

    def join(self, later: Group) -> None:
        """Take in what the same source's next part added up to."""
        joined = later.start - self.last <= BURST_GAP
        base = self.burst if joined else self.burst + 1
        keep = self.keep
        for label, theirs in later.labels.items():
            goes_on = joined and theirs[BURST] == 0
            theirs[BURST] += base
            mine = self.labels.get(label)
            self.labels[label] = theirs
            if mine is None:
                continue
            if goes_on and mine[BURST] == base:
                theirs[BURST_FIRST] = mine[BURST_FIRST]
                theirs[BURSTS] = mine[BURSTS] and theirs[BURSTS] and (mine[BURSTS] + theirs[BURSTS])[:keep]
            theirs[COUNT] += mine[COUNT]
            theirs[FIRSTS] = (mine[FIRSTS] + theirs[FIRSTS])[:keep]
            theirs[RECENTS] = mine[RECENTS] and theirs[RECENTS] and (mine[RECENTS] + theirs[RECENTS])[-keep:]
        self.burst = base + later.burst
        self.last = later.last

    def packed(self) -> tuple[Any, ...]:
        """Plain values, for marshal."""
        return self.pairs, self.keep, self.labels, self.start, self.last, self.burst


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

    @property
    def count(self) -> int:
        return sum(map(self.count_of, self.writers))

    @property
    def crowded(self) -> bool:
        return len(self.writers) > CROWD

    def first_of(self, writer: Writer) -> int:
        """Where this writer said it first."""
        return min(entry[FIRSTS][0] for entry in self.writers[writer])

    def again_of(self, writer: Writer) -> int:
        """Where this writer began to say it in the last burst in which it did."""
        return max(entry[BURST_FIRST] for entry in self.writers[writer])

    def count_of(self, writer: Writer) -> int:
        return sum(entry[COUNT] for entry in self.writers[writer])

    def by_first(self, most: int | None = None) -> list[Writer]:
        """The writers in the order in which they first said it, or the first few of them."""
        order = [(source, self.first_of((source, label)), label) for source, label in self.writers]
        chosen = sorted(order) if most is None else nsmallest(most, order)
        return [(source, label) for source, _, label in chosen]

    def by_last_burst(self, most: int) -> list[Writer]:
        """The first few writers of the latest burst."""
        latest = [(source, -max(e[BURST] for e in entries), self.again_of((source, label)), label)
                  for (source, label), entries in self.writers.items()]  # fmt: skip
        return [(source, label) for source, _, _, label in nsmallest(most, latest)]

    def sighting(self, writer: Writer) -> Sighting:
        entries = self.writers[writer]
        return Sighting(*writer, self.count_of(writer), self._places(entries))

    def starts(self, writer: Writer) -> Sighting:
        """The same with two places at most: its first one, and the first one of the last burst."""
        return Sighting(*writer, self.count_of(writer), tuple(sorted({self.first_of(writer), self.again_of(writer)})))

    def _places(self, entries: list[Entry]) -> tuple[int, ...]:
        keep = self.keep
        firsts = sorted(place for e in entries for place in e[FIRSTS])[:keep]
        if keep == 1:
            return (firsts[0],)
        if self.crowded:
            return tuple(sorted({firsts[0], max(e[BURST_FIRST] for e in entries), max(e[LAST] for e in entries)}))
        bursts = [place for e in entries for place in e[BURSTS][:keep]]
        recents = sorted(place for e in entries for place in e[RECENTS])[-keep:]
        return tuple(sorted({*firsts, *bursts, *recents}))


def deal(groups: Iterable[tuple[int, Group]], keep: Sequence[int]) -> list[Said]:
    """Deal (source, group)s out to their watches, in the order of watch and kind. `keep` is each watch's own."""
    found: dict[Pair, dict[Writer, list[Entry]]] = {}
    for source, group in groups:
        for pair in group.pairs:
            writers = found.setdefault(pair, {})
            for label, entry in group.labels.items():
                writers.setdefault((source, label), []).append(entry)
    return [Said(watch, kind, keep[watch], writers) for (watch, kind), writers in sorted(found.items(), key=itemgetter(0))]
