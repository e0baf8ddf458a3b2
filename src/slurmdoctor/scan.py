"""Finds the lines worth reading: a native search for all literals at once, then the confirming regex on those lines only.

What a (watch, label) pair has said once is counted, not read again; of each pair a bounded number of places is kept:
the first ones, the first ones of its last burst, and the last ones.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from slurmdoctor.sources import Source

try:
    import hyperscan
except ImportError:  # no wheel for this platform: the standard library's search is slower, and exact all the same
    hyperscan = None

BURST_GAP = 256 * 1024
"""Bytes of silence after which the same words of the same rank are a new burst."""
LONG_LINE = 16 * 1024
"""In a line longer than this only the text around the literal is looked at."""
WINDOW = 4 * 1024


@dataclass(frozen=True, slots=True)
class Watch:
    """Something to look for: a rule, a signal, or an anchor of a structural reader."""

    id: str
    literals: tuple[bytes, ...]
    keep: int
    """How many places to keep of each kind (first, burst, last) for a label; 1 keeps the first place alone."""


@dataclass(slots=True)
class Sighting:
    """Where one label's lines satisfied one watch."""

    count: int = 0
    first: list[int] = field(default_factory=list)
    burst: list[int] = field(default_factory=list)
    recent: deque[int] = field(default_factory=deque)
    last: int = -1

    def places(self) -> list[int]:
        return sorted({*self.first, *self.burst, *self.recent})


@dataclass(slots=True)
class Scan:
    """All sightings of a job, with what was read to find them."""

    sightings: dict[tuple[int, int, bytes], Sighting] = field(default_factory=dict)
    """Keyed by (watch, source, label)."""
    line_index: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """For each source: block offsets, and the number of lines before each."""

    def lines_before(self, source: int, offset: int) -> tuple[int, int]:
        """The nearest indexed offset at or before this one, and the number of lines before that."""
        offsets, lines = self.line_index[source]
        at = max(0, bisect_right(offsets, offset) - 1)
        return (offsets[at], lines[at]) if offsets else (0, 0)


Confirm = Callable[[int, int, bytes], bool]
"""(watch, source, line) -> whether the line really says what the watch looks for."""

Labeller = Callable[[bytes], bytes]
"""The head of a line -> the words that tell its writer apart from others; empty where there are none."""

_RANK_TAG = rb"[^\n]{0,48}?\[(?:rank|RANK|Rank|default|trainer|worker)[ =:]{0,2}\d+(?:\|\d+)?\]"
_ALWAYS = (_RANK_TAG, rb"\[\d+,\d+\]<", rb"\([\w.:-]{1,40}[ ,][^)\n]{3,80}\)", rb"[\w.-]{2,40}:\d+:\d+ \[")
_IF_LOCKED = {"srun-label": rb"[ ]{0,4}\d{1,5}: ", "bracket-rank": rb"\[\d{1,5}\][: ]", "pdsh": rb"[A-Za-z][\w.-]{1,40}: "}
_TAG = re.compile(rb"\[[^\[\]]*\]$")


@lru_cache(maxsize=64)
def labeller(locked: frozenset[str], several: bool = False) -> Labeller:
    """The labeller for a source that carries these ambiguous formats; `several` ranks may share an outer label."""
    outer = [pattern for name, pattern in _IF_LOCKED.items() if name in locked]
    find = re.compile(b"|".join(b"(?:%s)" % p for p in (*_ALWAYS, *outer))).match
    find_outer = re.compile(b"|".join(outer)).match if outer else None

    def label_of(head: bytes) -> bytes:
        found = find(head)
        if found is None:
            return b""
        tag = _TAG.search(found[0])
        if tag is None:
            return found[0]
        first = find_outer(head) if find_outer else None
        if first is None:
            return tag[0]
        # loggers tag some lines of a writer and not others; only where several ranks share the outer label does the tag tell them apart
        return first[0] + tag[0] if several else first[0]

    return label_of


def scan(
    sources: Sequence[Source],
    watches: Sequence[Watch],
    confirm: Confirm,
    labellers: Sequence[Labeller],
    block_size: int | None = None,
) -> Scan:
    """Read every source front to back once."""
    search = _Search(watches)
    result = Scan()
    for number, source in enumerate(sources):
        offsets: list[int] = []
        counts: list[int] = []
        for offset, block in source.blocks(block_size) if block_size else source.blocks():
            offsets.append(offset)
            counts.append(source.lines)
            _take(search, result, watches, confirm, labellers[number], number, offset, block)
            source.lines += block.count(b"\n")
        if offsets and not block.endswith(b"\n"):
            source.lines += 1
        result.line_index.append((offsets, counts))
    return result


def _take(
    search: _Search,
    result: Scan,
    watches: Sequence[Watch],
    confirm: Confirm,
    label_of: Labeller,
    source: int,
    base: int,
    block: bytes,
) -> None:
    sightings = result.sightings
    for start, line, admitted in _lines(search.hits(block), block, search.watches_of):
        label = label_of(line[:160])
        offset = base + start
        for watch in admitted:
            key = (watch, source, label)
            seen = sightings.get(key)
            if seen is None:
                if confirm(watch, source, line):
                    seen = sightings[key] = Sighting(1, [offset], [offset], deque(maxlen=watches[watch].keep), offset)
                continue
            seen.count += 1
            keep = watches[watch].keep
            if keep > 1:
                if offset - seen.last > BURST_GAP:
                    seen.burst = []
                if len(seen.first) < keep:
                    seen.first.append(offset)
                if len(seen.burst) < keep:
                    seen.burst.append(offset)
                seen.recent.append(offset)
            seen.last = offset


def _lines(
    hits: Iterable[tuple[int, int]], block: bytes, watches_of: Sequence[tuple[int, ...]]
) -> Iterator[tuple[int, bytes, tuple[int, ...]]]:
    """Group literal hits (end, literal) by line: yields (start, line, watches)."""
    start = end = -1
    literals: set[int] = set()
    for at, literal in hits:
        if at > end:
            if literals:
                yield _line(block, start, end, literals, watches_of)
            literals = set()
            start, end = bounds(block, at - 1)
        literals.add(literal)
    if literals:
        yield _line(block, start, end, literals, watches_of)


def bounds(block: bytes, at: int) -> tuple[int, int]:
    """The line, or the piece between carriage returns, that holds this byte."""
    start = block.rfind(b"\n", 0, at) + 1
    end = block.find(b"\n", at)
    end = len(block) if end < 0 else end
    start = max(start, block.rfind(b"\r", start, at) + 1)
    back = block.find(b"\r", at, end)
    if back >= 0:
        end = back
    if end - start > LONG_LINE:
        start, end = max(start, at - WINDOW), min(end, at + WINDOW)
    return start, end


def _line(
    block: bytes, start: int, end: int, literals: set[int], watches_of: Sequence[tuple[int, ...]]
) -> tuple[int, bytes, tuple[int, ...]]:
    line = block[start:end]
    if len(literals) == 1:
        admitted = watches_of[next(iter(literals))]
    else:
        admitted = tuple(sorted({w for literal in literals for w in watches_of[literal]}))
    return start, line, admitted


class _Search:
    """All literals of all watches, found natively in one pass."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        users: dict[bytes, list[int]] = {}
        for number, watch in enumerate(watches):
            for literal in watch.literals:
                users.setdefault(literal, []).append(number)
        self.literals = list(users)
        self.watches_of = [tuple(numbers) for numbers in users.values()]
        if hyperscan is not None and self.literals:
            self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            self._database.compile(
                expressions=self.literals,
                ids=list(range(len(self.literals))),
                elements=len(self.literals),
                literal=True,
            )
            self.hits = self._native
        else:
            # longest first, so that the alternation stops at every line that any literal admits
            self._pattern = re.compile(b"|".join(re.escape(x) for x in sorted(self.literals, key=len, reverse=True)))
            self.hits = self._portable

    def hits(self, block: bytes) -> Iterable[tuple[int, int]]:
        raise NotImplementedError

    def _native(self, block: bytes) -> Iterable[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        add = found.append

        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add((end, literal))

        self._database.scan(block, match_event_handler=on_match)
        return found

    def _portable(self, block: bytes) -> Iterable[tuple[int, int]]:
        at = 0
        while found := self._pattern.search(block, at):
            start, end = bounds(block, found.end() - 1)
            line = block[start:end]
            for number, literal in enumerate(self.literals):
                if literal in line:
                    yield found.end(), number
            at = max(end, found.end())
