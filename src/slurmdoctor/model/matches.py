"""What the search looks for, and what it found: lines of one meaning, counted for each writer."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Any

from msgspec import Struct

from slurmdoctor.model.finding import Reason
from slurmdoctor.model.knowledge import ExitFormat, Rule, Signal

Target = Rule | Signal | ExitFormat | str
"""What a matcher works for: a rule, a signal, an exit report, or a structural reader, by its name (`traceback`)."""

Writer = tuple[int, bytes]
"""(source, label): who printed a line, as far as the head of the line shows it: `(0, b"[rank3]:")`."""

Entry = list[Any]
"""The count and some places of one writer's lines:
[count, number of the last burst, its first place, first places, places of the last burst, last places]."""
COUNT, BURST, BURST_FIRST, FIRSTS, BURSTS, RECENTS = range(6)
STRETCH = 18
"""Binary digits of a stretch's length. After 256 KiB of the log without such a line, the next one begins a new burst."""
CROWD = 64
"""Where more writers than this print the same, of each only its first place and the first of its last burst are kept."""


class Matcher(Struct, frozen=True):
    """Something to look for in every line."""

    target: Target
    id: str
    literals: tuple[bytes, ...]
    """A line that holds none of these is not looked at."""
    keep: int
    """How many places to keep of each sort (first, burst, last) for a writer; 1 keeps the first place alone."""
    digit_sensitive: bool = True
    """Whether it may take one line and refuse another that differs in its digits only: `exit code 137`."""
    once: bool = False
    """Only the first such line of a source counts: it need not be looked for any longer."""


class MatchSample(Struct, frozen=True):
    """Some of one writer's lines that a matcher takes."""

    source: int
    label: bytes
    count: int
    """The number of all of them."""
    places: tuple[int, ...]
    """Offsets of the first lines, of the first ones of the last burst, and of the last lines."""


class MatchGroup(Struct, frozen=True):
    """All lines that one matcher takes for one reason, by writer."""

    matcher: Matcher
    kind: str
    """Tells apart what one matcher takes: an exception's class and first words. Empty for most."""
    writers: dict[Writer, list[Entry]]
    """A writer has several entries where some of its lines satisfy other matchers besides."""
    in_order: bool = False
    """Whether the writers stand in the order of their first lines."""

    @property
    def count(self) -> int:
        return sum(map(self.count_of, self.writers))

    @property
    def crowded(self) -> bool:
        return len(self.writers) > CROWD

    def first_of(self, writer: Writer) -> int:
        """The place of this writer's first line."""
        entries = self.writers[writer]
        return int(entries[0][FIRSTS][0] if len(entries) == 1 else min(entry[FIRSTS][0] for entry in entries))

    def again_of(self, writer: Writer) -> int:
        """The place of the first line of this writer's last burst."""
        entries = self.writers[writer]
        return int(entries[0][BURST_FIRST] if len(entries) == 1 else max(entry[BURST_FIRST] for entry in entries))

    def count_of(self, writer: Writer) -> int:
        return sum(entry[COUNT] for entry in self.writers[writer])

    def by_first(self, most: int | None = None) -> list[Writer]:
        """The writers in the order of their first lines, or the first few of them."""
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

    def sample(self, writer: Writer) -> MatchSample:
        return MatchSample(*writer, self.count_of(writer), self._places(self.writers[writer]))

    def _places(self, entries: list[Entry]) -> tuple[int, ...]:
        keep = self.matcher.keep
        firsts = sorted(place for e in entries for place in e[FIRSTS])[:keep]
        if keep == 1:
            return (firsts[0],)
        if self.crowded:
            again = max(e[BURST_FIRST] for e in entries)
            near = (again >> STRETCH) <= (firsts[0] >> STRETCH) + 1  # one burst, in other words
            return (firsts[0],) if near else (firsts[0], again)
        bursts = [place for e in entries for place in e[BURSTS][:keep]]
        recents = sorted(place for e in entries for place in e[RECENTS])[-keep:]
        return tuple(sorted({*firsts, *bursts, *recents}))


class SearchResult(Struct, frozen=True):
    """All matches in a job's logs."""

    groups: tuple[MatchGroup, ...]
    line_index: tuple[tuple[list[int], list[int]], ...]
    """For each source: offsets of blocks, and the number of lines before each; -1 behind text that was not read."""
    matchers_for: Callable[[bytes], Sequence[Matcher]]
    """A line -> the matchers one of whose literals stands in it."""
    notes: tuple[Reason, ...] = ()
    """The limits that the search met: what it did not read, or did not confirm."""
    complete: bool = True
    """Whether all bytes were read."""

    def lines_before(self, source: int, offset: int) -> tuple[int, int]:
        """The nearest indexed offset at or before this one, and the number of lines before that.

        The number is -1 where some text before it was not read.
        """
        offsets, lines = self.line_index[source]
        at = max(0, bisect_right(offsets, offset) - 1)
        return (offsets[at], lines[at]) if offsets else (0, 0)
