"""Finds the lines worth reading: a native search for all literals at once, then the confirming regexes on new shapes only.

Lines that differ in their digits only are confirmed once (`shapes`): the counts are those that a regex on every line would
give, at a fraction of the cost. What is kept of each writer's words is bounded (`tally`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import field

from slurmdoctor.input.sources import BLOCK, Block, Source
from slurmdoctor.records import dataclass
from slurmdoctor.search import many, walk
from slurmdoctor.search.engine import Engine, engine_for, engine_of, engine_of_some
from slurmdoctor.search.labels import Labeller, Span
from slurmdoctor.search.shapes import DIGITS
from slurmdoctor.search.tally import Group, Pair, Said, Tally, deal

LONG_LINE = 16 * 1024
"""In a line longer than this only the text around the literal is looked at."""
WINDOW = 4 * 1024
_MOST_SHAPES = 16 * 1024 * 1024
"""Bytes of shapes to remember; then they are learnt anew."""
_REVIEW = 128
_FIRST_REVIEW = 4
"""After so many blocks, and then again and again, the search is reviewed for literals that need not be found any longer."""
_WASTED = 50
"""So many needless hits in one block are worth a new search."""
_WORTH_A_SEARCH = 512
"""Bytes of a line in which an engine finds some dozen literals sooner than one after the other is looked for."""
_MOST_TEXTS = 64
"""Texts of a shape to remember whose digits matter."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Something to look for: a rule, a signal, or an anchor of a structural reader."""

    id: str
    literals: tuple[bytes, ...]
    keep: int
    """How many places to keep of each sort (first, burst, last) for a label; 1 keeps the first place alone."""
    digits: bool = True
    """Whether two lines that differ in digits only may differ in what they say to it."""
    once: bool = False
    """Only the first line of a source that says it counts: it need not be looked for any longer."""


Place = tuple[bytes, int]
"""(label, offset)."""
Peel = Callable[[int, bytes], str]
"""(source, line) -> the line without its labels."""
Confirm = Callable[[int, bytes, str], "str | None"]
"""(watch, line, peeled line) -> None where it does not say what the watch looks for, else its kind: mostly empty."""

May = Callable[[int, str], bool]
"""(watch, peeled line) -> whether a line that differs from this one in digits only might say what it looks for."""


@dataclass(slots=True)
class Scan:
    """All that was said in a job's logs, with what was read to find it."""

    said: list[Said] = field(default_factory=list)
    line_index: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """For each source: block offsets, and the number of lines before each."""
    wanted: Callable[[bytes], Sequence[int]] = field(default=lambda line: ())
    """A line -> the watches one of whose literals stands in it."""

    def lines_before(self, source: int, offset: int) -> tuple[int, int]:
        """The nearest indexed offset at or before this one, and the number of lines before that."""
        offsets, lines = self.line_index[source]
        at = max(0, bisect_right(offsets, offset) - 1)
        return (offsets[at], lines[at]) if offsets else (0, 0)


@dataclass(slots=True)
class Part:
    """What was read from one source, or from a stretch of it."""

    source: int
    start: int = 0
    groups: dict[tuple[Pair, ...], Group] = field(default_factory=dict)
    once: dict[Pair, Place] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    lines: int = 0
    end: int = 0
    """Offset of the last byte read."""

    def join(self, later: Part) -> None:
        """Take in the same source's next stretch."""
        for key, group in later.groups.items():
            if key in self.groups:
                self.groups[key].join(group)
            else:
                self.groups[key] = group
        self.once = {**later.once, **self.once}
        self.offsets += later.offsets
        self.counts += [count + self.lines for count in later.counts]
        self.lines += later.lines
        self.end = max(self.end, later.end)


def scan(
    sources: Sequence[Source],
    watches: Sequence[Watch],
    peel: Peel,
    confirm: Confirm,
    labellers: Sequence[Labeller],
    block_size: int | None = None,
    engine: str | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    may: May | None = None,
) -> Scan:
    """Read every source front to back once, in so many processes where there is enough to read.

    `progress` is told how many bytes were read, again and again; what other processes read is estimated.
    """
    literals = Literals(watches, engine)
    processes = many.processes(sources, jobs)

    def read(number: int, start: int, stop: int | None) -> Part:
        reader = Reader(literals, watches, peel, confirm, labellers[number], number, may)
        blocks = sources[number].blocks(block_size or BLOCK, start, stop)
        return reader.read(blocks if progress is None else _told(blocks, progress, processes), start)

    parts: dict[int, Part] = {}
    for part in many.parts(sources, read, jobs):
        if part.source in parts:
            parts[part.source].join(part)
        else:
            parts[part.source] = part
    result = Scan(wanted=literals.wanted)
    for number, source in enumerate(sources):
        part = parts[number]
        source.lines = part.lines
        source.length = max(source.length, part.end)
        result.line_index.append((part.offsets, part.counts))
    groups = [(part.source, group) for part in parts.values() for group in part.groups.values()]
    once = [(part.source, pair, place) for part in parts.values() for pair, place in part.once.items()]
    result.said = deal(groups, once, [watch.keep for watch in watches])
    return result


def _told(blocks: Iterable[Block], progress: Callable[[int], None], processes: int) -> Iterator[Block]:
    for block in blocks:
        yield block
        progress(block.size * processes)


class Literals:
    """The literals of all watches, who wants each of them, and the search for them."""

    def __init__(self, watches: Sequence[Watch], engine: str | None = None) -> None:
        self._users: dict[bytes, list[int]] = {}
        for number, watch in enumerate(watches):
            for literal in watch.literals:
                self._users.setdefault(literal, []).append(number)
        self._once = {number for number, watch in enumerate(watches) if watch.once}
        self._name = engine
        # which of these a line holds is not to be told from its shape
        self._unshapely = sorted({x.translate(DIGITS) for x in self._users if x.translate(DIGITS) != x or b"0" in x})
        self._search_unshapely: list[Engine] = []
        self._literals = list(self._users)
        self.engine, self._words, self._meant = engine_for(self._literals, engine)

    def wanted(self, line: bytes) -> list[int]:
        """The watches one of whose literals stands in the line."""
        found: set[int] = set()
        for word in set(self.engine.which(line)):
            for number in self._meant[word]:
                literal = self._literals[number]
                if literal in line:
                    found.update(self._users[literal])
        return sorted(found)

    def hidden(self, shape: bytes) -> bool:
        """Whether it takes more than a line's shape to tell which literals stand in it."""
        if len(shape) < _WORTH_A_SEARCH:
            return any(literal in shape for literal in self._unshapely)
        if not self._search_unshapely:
            self._search_unshapely.append(engine_of(self._unshapely, self._name))
        return bool(self._search_unshapely[0].which(shape))

    def without_idle(self, said: set[int], block: bytes) -> Literals | None:
        """The same without the literals that only such watches want that look for one line, and have it.

        None where too few stand in this block to be worth a new search.
        """
        found = Counter(self.engine.which(block))
        if found.total() < _WASTED:
            return None
        done = said & self._once

        def idle(word: int) -> bool:
            return all(done.issuperset(self._users[self._literals[number]]) for number in self._meant[word])

        if sum(count for word, count in found.items() if idle(word)) < _WASTED:
            return None
        rest = copy(self)
        kept = [word for word in range(len(self._words)) if not idle(word)]
        rest.engine = engine_of_some(self.engine, self._words, kept, self._name)
        rest._words, rest._meant = [self._words[w] for w in kept], [self._meant[w] for w in kept]
        return rest


@dataclass(slots=True)
class Rest:
    """What lines of one shape say, where it takes more than to count them."""

    tally: Tally | None
    """Where they are counted for what their shape tells; None where that is nothing."""
    said: Sequence[Pair]
    """What their shape tells."""
    label: Span
    text: int
    """Where the text behind all labels begins; -1 where that is not to be told from the shape."""
    exact: dict[bytes, Tally | None] | None = None
    """Where digits matter: the same for each text."""
    touchy: Sequence[int] | None = None
    """The watches to which the digits matter, where the shape tells them."""


class Reader:
    """Reads one source, or a part of it."""

    def __init__(
        self,
        literals: Literals,
        watches: Sequence[Watch],
        peel: Peel,
        confirm: Confirm,
        label: Labeller,
        source: int,
        may: May | None = None,
    ) -> None:
        self._literals = literals
        self._watches = watches
        self._peel = peel
        self._confirm = confirm
        self._may = may
        self._shapely = not all(watch.digits for watch in watches)
        self._label = label
        self._source = source
        self._walk, self._new_tally = walk.new(literals.engine)
        self._remembered = 0
        self._done = 0
        self._tallies: dict[tuple[Pair, ...], Tally] = {}
        self.once: dict[Pair, Place] = {}

    def read(self, blocks: Iterable[Block], start: int = 0) -> Part:
        """Take in all that the blocks say."""
        part = Part(self._source, start, {}, self.once)
        block = Block(start, b"\n", 1, 1)
        for block in blocks:
            part.offsets.append(block.offset)
            part.counts.append(part.lines)
            part.lines += block.lines
            if block.open_start or block.open_end:
                self._take_pieces(block, self._literals.engine.ends(block.data[: block.size]))
            else:
                self._take(block)
            part.end = block.offset + block.size
            if len(part.offsets) % _REVIEW == _FIRST_REVIEW:
                self._spare(block)
        part.lines += not block.data.endswith(b"\n")
        part.groups = {pairs: Group(pairs, self._keep(pairs), *t.packed()) for pairs, t in self._tallies.items()}
        return part

    def _take(self, block: Block) -> None:
        """Take in a block of whole lines."""
        data, base, search = block.data, block.offset, self._literals.engine
        for start, stop, rest in self._walk.lines(data, block.size, base, search):
            line = data[start:stop]
            if rest is not None:
                self._add(rest, line, base + start)
            elif b"\r" in line or len(line) > LONG_LINE:
                # a literal may end with its line's end
                self._take_pieces(block, [start + end for end in search.ends(data[start : stop + 1])])
            else:
                self._take_new(line, base + start)

    def _take_pieces(self, block: Block, ends: Sequence[int]) -> None:
        """Take in lines that are long, cut by the block's edge, or hold carriage returns."""
        data, base = block.data, block.offset
        # what stands too near to an open end is seen whole in the next block, which begins a stretch before it
        limit = len(data) - LONG_LINE if block.open_end else len(data) + 1
        until = self._done - base if block.open_start else -1
        for after in ends:
            if after <= until:
                continue
            start, end, whole = piece(block, after - 1)
            if after > limit and not (whole and end < len(data)):
                continue
            until = end + 1 if whole else end
            line, place = data[start:end], base + start
            if not whole:
                wanted = self._literals.wanted(line)
                tally = self._tally(self._confirmed(wanted, line, self._peel(self._source, line)), b"", place)
                if tally is not None:
                    tally.add(b"", place)
                continue
            known = self._walk.known(line.translate(DIGITS))
            if known is None:
                self._take_new(line, place)
                continue
            label_start, label_end, tally, rest = known
            if rest is not None:
                self._add(rest, line, place)
            elif tally is not None:
                tally.add(line[label_start:label_end], place)
        if block.open_end:
            self._done = base + max(limit, until)

    def _take_new(self, line: bytes, place: int) -> None:
        """Confirm the first line of a shape, count it, and remember what all lines of the shape say."""
        shape = line.translate(DIGITS)
        wanted = self._literals.wanted(line + b"\n")
        touchy = [w for w in wanted if self._watches[w].digits]
        text = self._peel(self._source, line)
        if self._may is not None:
            touchy = [w for w in touchy if self._may(w, text)]
        start, end, start2, end2 = span = self._label.span(line)
        label = line[start:end] + line[start2:end2]
        said = self._confirmed([w for w in wanted if not self._watches[w].digits], line, text)
        tally = self._tally(said, label, place)
        unclear = self._literals.hidden(shape)
        rest = None
        if touchy or unclear:
            tail = text.encode()
            begin = len(line) - len(tail) if self._shapely and line.endswith(tail) else -1
            rest = Rest(tally, said, span, begin, {}, None if unclear else touchy)
            self._add(rest, line, place)
        elif tally is not None:
            rest = Rest(tally, said, span, -1) if end2 else None
            tally.add(label, place)
        self._remember(shape)
        self._walk.learn(shape, start, end, tally, rest, rest.text if rest else -1)

    def _add(self, rest: Rest, line: bytes, place: int) -> None:
        """Count a line for which it takes more than its shape."""
        tally = rest.tally
        if rest.exact is not None:
            tally = self._by_text(rest, line, place)
        if tally is not None:
            start, end, start2, end2 = rest.label
            tally.add(line[start:end] + line[start2:end2], place)

    def _by_text(self, rest: Rest, line: bytes, place: int) -> Tally | None:
        """Where a line is counted in which digits matter."""
        exact = rest.exact
        assert exact is not None
        tail = line[rest.text :] if rest.text >= 0 else line
        if tail in exact:
            return exact[tail]
        touchy = rest.touchy
        if touchy is None:
            touchy = [w for w in self._literals.wanted(line + b"\n") if self._watches[w].digits]
        text = tail.decode("utf-8", "replace") if rest.text >= 0 else self._peel(self._source, line)
        pairs = self._confirmed(touchy, line, text)
        start, end, start2, end2 = rest.label
        label = line[start:end] + line[start2:end2]
        tally = self._tally(sorted({*pairs, *rest.said}), label, place)
        if len(exact) < _MOST_TEXTS:
            exact[tail] = tally
            if rest.text >= 0 and end2 == 0:
                self._walk.learn(line.translate(DIGITS) + b"\n" + tail, start, end, tally, None, -1)
        return tally

    def _remember(self, shape: bytes) -> None:
        self._remembered += len(shape)
        if self._remembered > _MOST_SHAPES:
            self._walk.forget()
            self._remembered = len(shape)

    def _spare(self, block: Block) -> None:
        """Stop looking for what was found and stands in every other line: version lines, paths in stack traces."""
        rest = self._literals.without_idle({watch for watch, _ in self.once}, block.data)
        if rest is not None:
            self._literals = rest
            self._walk.forget()

    def _confirmed(self, watches: Iterable[int], line: bytes, text: str) -> list[Pair]:
        return [(w, kind) for w in watches if (kind := self._confirm(w, line, text)) is not None]

    def _tally(self, pairs: Sequence[Pair], label: bytes, place: int) -> Tally | None:
        """Where those are counted that satisfy the same; what counts once is noted, and makes no difference."""
        for pair in pairs:
            if self._watches[pair[0]].once:
                self.once.setdefault(pair, (label, place))
        key = tuple(pair for pair in pairs if not self._watches[pair[0]].once)
        if not key:
            return None
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = self._new_tally(self._keep(key))
        return tally

    def _keep(self, pairs: Iterable[Pair]) -> int:
        return max(self._watches[w].keep for w, _ in pairs)


def piece(block: Block, at: int) -> tuple[int, int, bool]:
    """(start, end, whole) of the line that holds this byte, or of its piece between carriage returns.

    In a long line it is the surroundings of the byte, and `whole` is false.
    """
    data = block.data
    # what is farther away is farther than a line is looked at
    low, high = max(0, at - LONG_LINE - 1), min(len(data), at + LONG_LINE + 1)
    start = max(low, data.rfind(b"\n", low, at) + 1)
    start = max(start, data.rfind(b"\r", start, at) + 1)
    end = data.find(b"\n", at, high)
    cut = end < 0
    end = high if cut else end
    back = data.find(b"\r", at, end)
    if back >= 0:
        cut, end = False, back
    cut = cut and block.open_end
    if end - start > LONG_LINE or cut or (start == 0 and block.open_start):
        # a file cut to nothing while it was written to begins with a hole of NUL bytes
        start = max(start, data.rfind(b"\0", start, at) + 1)
        if end - start > LONG_LINE or cut or (start == 0 and block.open_start):
            return max(start, at - WINDOW), min(end, at + WINDOW), False
    return start, end, True
