"""Counts lines by writer, exactly, and keeps a bounded number of their places, however a log is cut into pieces.

Lines that satisfy the same matchers are counted together, as one `LineGroup`: of `[rank3]: NCCL timeout ... Timeout(ms)=600000`
four rules may take each line, and it is still counted once. Only at the end does each matcher get its groups.
`Walk` goes through the lines of a block that hold a word and counts those whose shape and writer are known: most of them, in Python, and
in C (`native/`) where that was compiled: the same to the last count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct, field

from slurmdoctor.matching import DIGITS, Engine, in_c
from slurmdoctor.model import (
    BURST,
    BURST_FIRST,
    BURSTS,
    COUNT,
    FIRSTS,
    MANY_WRITERS,
    RECENTS,
    STRETCH,
    Entry,
    Matcher,
    MatchGroup,
    Writer,
)
from slurmdoctor.search.shapes import marked_shape

MOST = 32_768
"""Labels that are counted separately; no job has more writers, and what prints more is no label."""

Match = tuple[int, str]
"""(number of the matcher, kind): what a line satisfies."""


class Tally:
    """Counts the lines of one source that satisfy the same matchers, as they come. `native/tally.h` is the same in C."""

    def __init__(self, keep: int, many: int = MANY_WRITERS, most: int = MOST, shift: int = STRETCH) -> None:
        self.keep = keep
        """Places to keep of each sort for a label, while the labels are few."""
        self._many = many
        self._most = most
        self._shift = shift
        self.labels: dict[bytes, Entry] = {}
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
        few = len(self.labels) <= self._many
        entry = self.labels.get(label)
        if entry is None and len(self.labels) >= self._most:
            label, few = b"", False
            entry = self.labels.get(label)
        if entry is None:
            entry = self.labels[label] = [1, self.burst, place, [place], None, None]
            if few:
                entry[BURSTS], entry[RECENTS] = [place], [place]
            return
        entry[COUNT] += 1
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


def group_by_matcher(
    groups: Iterable[tuple[int, LineGroup]],
    matchers: Sequence[Matcher],
) -> tuple[MatchGroup, ...]:
    """Give each matcher its lines, in the order of matchers and kinds. `groups` are (source, group)."""
    found: dict[Match, list[dict[Writer, list[Entry]]]] = {}
    for source, group in groups:
        writers = {(source, label): [entry] for label, entry in group.labels.items()}
        for match in group.matches:
            found.setdefault(match, []).append(writers)
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


# ── what was read from one source, or from a stretch of it ────────────────────────────────────


class Part(Struct):
    """What was read from one source, or from a stretch of it."""

    source: int
    start: int = 0
    groups: dict[tuple[Match, ...], LineGroup] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    lines: int = 0
    end: int = 0
    """Offset of the last byte read."""
    unasked: int = 0
    """Lines that were taken to mean what those before them with the same literals did."""
    cut: bool = False
    """Whether the time was over before all of it was read."""

    @property
    def searched(self) -> int:
        """Bytes read."""
        return self.end - self.start if self.offsets else 0

    def join(self, later: Part) -> None:
        """Take in the same source's next stretch. Behind text that was not read the lines have no numbers."""
        for key, group in later.groups.items():
            if key in self.groups:
                self.groups[key].join(group)
            else:
                self.groups[key] = group
        numbered = later.start <= self.end and self.counts[-1:] != [-1]
        self.offsets += later.offsets
        self.counts += [count + self.lines if numbered and count >= 0 else -1 for count in later.counts]
        self.lines += later.lines
        self.unasked += later.unasked
        self.end = max(self.end, later.end)


# ── the walk ──────────────────────────────────────────────────────────────────────────────────

BY_DIGITS = "by digits"
"""The `rest` of a shape with marks whose lines are looked at by their digits alone; `text` is -2 with it."""
Known = tuple[int, int, "Tally | None", Any]
"""(begin, end, tally, rest) of a shape: its label's place in the line, and where it is counted. With a `rest` it takes more than counting."""


class Walk:
    """Knows shapes, and where their lines are counted."""

    def __init__(self) -> None:
        self._plans: dict[bytes, Known] = {}

    def learn(self, shape: bytes, begin: int, end: int, tally: Tally | None, rest: object, text: int) -> None:
        """From now on count lines of this shape, or yield them with their `rest`. With neither, they match nothing.

        Of those with a `rest` and a `text` of 0 or more, lines are counted that were learnt under their shape, a line end,
        and their text from there on, digits and all: the compiled walk does that; this one yields them.
        """
        self._plans[shape] = begin, end, tally, rest

    def known(self, shape: bytes) -> Known | None:
        return self._plans.get(shape)

    def forget(self) -> None:
        """All shapes are new again."""
        self._plans.clear()

    def lines(self, data: bytes, size: int, base: int, search: Engine) -> Iterator[tuple[int, int, Any]]:
        """Count the lines that hold a word; those that take more are yielded: (start, stop, rest).

        `size` bytes of the data count, which begin at the log's offset `base`. `rest` is None where the shape is new; it may be
        learnt before the next one is asked for.
        """
        plan_of = self._plans.get
        back, ahead = data.rfind, data.find
        stop = -1
        for after in search.ends(data):
            if after <= stop:
                continue
            if after > size:
                return
            start = back(b"\n", 0, after - 1) + 1
            stop = ahead(b"\n", after - 1)
            if stop < 0:
                stop = len(data)
            line = data[start:stop]
            stop += 1  # a literal may end with its line's end
            shape = marked_shape(line)
            plan = None if shape is None else plan_of(shape)
            if plan is not None and plan[3] is BY_DIGITS:
                plan = plan_of(line.translate(DIGITS))
            if plan is None:
                yield start, stop - 1, None
                continue
            begin, end, tally, rest = plan
            if rest is not None:
                yield start, stop - 1, rest
            elif tally is not None:
                tally.add(line[begin:end], base + start)


def new_walk(search: Engine) -> tuple[Any, Any]:
    """(a walk, what makes a tally of so many places): compiled ones where the search is."""
    made = in_c()
    if made is not None and isinstance(search, made.Search):
        return made.Walk(), lambda keep: made.Tally(keep, MANY_WRITERS, MOST, STRETCH)
    return Walk(), Tally
