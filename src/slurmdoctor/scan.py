"""Finds the lines worth reading: a native search for all literals at once, then the confirming regexes on new shapes only.

Lines that differ in their digits only are confirmed once (`shapes`): the counts are those that a regex on every line would
give, at a fraction of the cost. What is kept of each writer's words is bounded (`tally`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

from slurmdoctor.engine import Hits, Search, search_for
from slurmdoctor.labels import Labeller
from slurmdoctor.shapes import DIGITS
from slurmdoctor.sources import Block, Source
from slurmdoctor.tally import BURST, BURST_FIRST, BURST_GAP, COUNT, CROWD, LAST, Group, Pair, Said, deal

LONG_LINE = 16 * 1024
"""In a line longer than this only the text around the literal is looked at."""
WINDOW = 4 * 1024
_MOST_SHAPES = 16 * 1024 * 1024
"""Bytes of shapes to remember; then they are learnt anew."""
_REVIEW = 32
"""After so many blocks the search is reviewed for literals that need not be found any longer."""
_WASTED = 50
"""So many needless hits in one block are worth a new search."""
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


Peel = Callable[[int, bytes], str]
"""(source, line) -> the line without its labels."""
Confirm = Callable[[int, bytes, str], "str | None"]
"""(watch, line, peeled line) -> None where it does not say what the watch looks for, else its kind: mostly empty."""


@dataclass(slots=True)
class Scan:
    """All that was said in a job's logs, with what was read to find it."""

    said: list[Said] = field(default_factory=list)
    line_index: list[tuple[list[int], list[int]]] = field(default_factory=list)
    """For each source: block offsets, and the number of lines before each."""

    def lines_before(self, source: int, offset: int) -> tuple[int, int]:
        """The nearest indexed offset at or before this one, and the number of lines before that."""
        offsets, lines = self.line_index[source]
        at = max(0, bisect_right(offsets, offset) - 1)
        return (offsets[at], lines[at]) if offsets else (0, 0)


def scan(
    sources: Sequence[Source],
    watches: Sequence[Watch],
    peel: Peel,
    confirm: Confirm,
    labellers: Sequence[Labeller],
    block_size: int | None = None,
    engine: str | None = None,
) -> Scan:
    """Read every source front to back once."""
    literals = Literals(watches, engine)
    result = Scan()
    groups: list[tuple[int, Group]] = []
    for number, source in enumerate(sources):
        reader = Reader(literals, watches, peel, confirm, labellers[number], number)
        reader.read(source.blocks(block_size) if block_size else source.blocks())
        source.lines = reader.lines
        result.line_index.append((reader.offsets, reader.counts))
        groups += [(number, group) for group in reader.groups.values()]
    result.said = deal(groups, [watch.keep for watch in watches])
    return result


class Literals:
    """The literals of all watches, who wants each of them, and the search for them."""

    def __init__(self, watches: Sequence[Watch], engine: str | None = None) -> None:
        users: dict[bytes, list[int]] = {}
        for number, watch in enumerate(watches):
            for literal in watch.literals:
                users.setdefault(literal, []).append(number)
        # what contains another literal is found with it, and need not be searched for
        every = b"\0".join(users)
        short = [literal for literal in users if every.count(literal) > 1]
        self._engine = engine
        self._inner: dict[bytes, list[bytes]] = {}
        searched = []
        for literal in users:
            inner = [other for other in short if len(other) < len(literal) and other in literal]
            if inner:
                self._inner.setdefault(min(inner, key=len), []).append(literal)
            else:
                searched.append(literal)
        self._users = users
        self._once = {number for number, watch in enumerate(watches) if watch.once}
        self._search_for(searched)
        # which of these a line holds is not to be told from its shape
        self.unshapely = {x.translate(DIGITS) for x in users if any(digit in x for digit in b"0123456789")}

    def _search_for(self, literals: Sequence[bytes]) -> None:
        self._searched = literals
        self.search: Search = search_for(literals, self._engine)

    def wanted(self, hits: Iterable[int], line: bytes) -> list[int]:
        """The watches one of whose literals stands in the line, in which the search hit upon these."""
        found: set[int] = set()
        for hit in hits:
            literal = self._searched[hit]
            found.update(self._users[literal])
            for outer in self._inner.get(literal, ()):
                if outer in line:
                    found.update(self._users[outer])
        return sorted(found)

    def idle(self, said: set[int]) -> set[int]:
        """The numbers of the literals that only such watches want that look for one line, and have it."""
        done = said & self._once
        return {
            number
            for number, literal in enumerate(self._searched)
            if done.issuperset(self._users[literal]) and all(done.issuperset(self._users[x]) for x in self._inner.get(literal, ()))
        }

    def without(self, idle: set[int]) -> Literals:
        """The same without some of the literals."""
        rest = copy(self)
        rest._search_for([literal for number, literal in enumerate(self._searched) if number not in idle])
        return rest


@dataclass(slots=True)
class Plan:
    """What all lines of one shape say, and where their labels stand."""

    label: tuple[int, int, int, int]
    group: Group | None
    """None where they say nothing."""
    text: int
    """Where the text behind all labels begins; -1 where that is not to be told from the shape."""
    exact: dict[bytes, Group | None] | None
    """Where digits matter: the same for each text."""


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
    ) -> None:
        self._literals = literals
        self._watches = watches
        self._peel = peel
        self._shapely = not all(watch.digits for watch in watches)
        self._confirm = confirm
        self._label = label
        self._source = source
        self._plans: dict[bytes, Plan] = {}
        self._remembered = 0
        self._done = 0
        self._hits: Hits = ()
        self.groups: dict[tuple[Pair, ...], Group] = {}
        self.offsets: list[int] = []
        self.counts: list[int] = []
        self.lines = 0

    def read(self, blocks: Iterable[Block]) -> None:
        """Take in all that the blocks say."""
        data = b"\n"
        for block in blocks:
            data = block.data
            self.offsets.append(block.offset)
            self.counts.append(self.lines)
            self._take(block)
            self.lines += data.count(b"\n")
            if len(self.offsets) % _REVIEW == 0:
                self._spare(self._hits)
        if not data.endswith(b"\n"):
            self.lines += 1

    def _take(self, block: Block) -> None:
        hits = self._literals.search(block.data)
        self._hits = hits
        if not hits:
            return
        if block.open_start or block.open_end:
            self._take_pieces(block, hits, 0, len(block.data) + 1)
            return
        data, base = block.data, block.offset
        plans = self._plans
        back, ahead = data.rfind, data.find
        stop = -1
        for number, (end, _) in enumerate(hits):
            if end <= stop:
                continue
            start = back(b"\n", 0, end - 1) + 1
            stop = ahead(b"\n", end - 1)
            if stop < 0:
                stop = len(data)
            line = data[start:stop]
            stop += 1  # a literal may end with its line's end
            shape = line.translate(DIGITS)
            plan = plans.get(shape)
            if plan is None:
                if b"\r" in line or stop - start > LONG_LINE:
                    self._take_pieces(block, hits, number, stop)
                    continue
                plan = self._new_plan(line, shape, hits, number, stop)
            group = plan.group
            a, b, c, d = plan.label
            if plan.exact is not None:
                group = self._by_text(plan, line, hits, number, stop)
            if group is None:
                continue
            label = line[a:b] if not d else line[a:b] + line[c:d]
            place = base + start
            entry = group.labels.get(label)
            if entry is None or len(group.labels) <= CROWD or place - group.last > BURST_GAP:
                group.add(label, place)
                continue
            # the same as group.add in a crowd, without the call
            group.last = entry[LAST] = place
            entry[COUNT] += 1
            if entry[BURST] != group.burst:
                entry[BURST] = group.burst
                entry[BURST_FIRST] = place

    def _take_pieces(self, block: Block, hits: Hits, number: int, stop: int) -> None:
        """Take in the hits up to `stop` where lines are long, cut by the block's edge, or hold carriage returns."""
        data, base = block.data, block.offset
        # what stands too near to an open end is seen whole in the next block, which begins a stretch before it
        limit = len(data) - LONG_LINE if block.open_end else stop
        until = self._done - base if block.open_start else -1
        for at in range(number, len(hits)):
            end = hits[at][0]
            if end > stop:
                break
            if end <= until:
                continue
            start, cut, whole = piece(block, end - 1)
            if end > limit and not (whole and cut < len(data)):
                continue
            until = cut + 1 if whole else cut
            line = data[start:cut]
            if not whole:
                group, label = self._group(self._confirmed(self._wanted(hits, at, until, line), line, self._peel(self._source, line))), b""
            else:
                shape = line.translate(DIGITS)
                plan = self._plans.get(shape) or self._new_plan(line, shape, hits, at, until)
                group = plan.group if plan.exact is None else self._by_text(plan, line, hits, at, until)
                a, b, c, d = plan.label
                label = line[a:b] + line[c:d]
            if group is not None:
                group.add(label, base + start)
        if block.open_end:
            self._done = base + max(limit, until)

    def _new_plan(self, line: bytes, shape: bytes, hits: Hits, number: int, stop: int) -> Plan:
        """Confirm the first line of a shape."""
        wanted = self._wanted(hits, number, stop, line)
        touchy = [w for w in wanted if self._watches[w].digits]
        text = self._peel(self._source, line)
        pairs = self._confirmed([w for w in wanted if not self._watches[w].digits], line, text)
        tail = text.encode()
        begin = len(line) - len(tail) if self._shapely and line.endswith(tail) else -1
        exact: dict[bytes, Group | None] | None = None
        if touchy or any(literal in shape for literal in self._literals.unshapely):
            exact = {}
        plan = Plan(self._label.span(line), self._group(pairs), begin, exact)
        self._remembered += len(shape)
        if self._remembered > _MOST_SHAPES:
            self._plans.clear()
            self._remembered = len(shape)
        self._plans[shape] = plan
        return plan

    def _by_text(self, plan: Plan, line: bytes, hits: Hits, number: int, stop: int) -> Group | None:
        """What a line says in which digits matter."""
        exact = plan.exact
        assert exact is not None
        tail = line[plan.text :] if plan.text >= 0 else line
        if tail in exact:
            return exact[tail]
        touchy = [w for w in self._wanted(hits, number, stop, line) if self._watches[w].digits]
        text = tail.decode("utf-8", "replace") if plan.text >= 0 else self._peel(self._source, line)
        pairs = self._confirmed(touchy, line, text)
        group = self._group(sorted({*pairs, *(plan.group.pairs if plan.group else ())}))
        if len(exact) < _MOST_TEXTS:
            exact[tail] = group
        return group

    def _wanted(self, hits: Hits, number: int, stop: int, line: bytes) -> list[int]:
        """The watches whose literals stand in the line of this hit."""
        here: list[int] = []
        for at in range(number, len(hits)):
            end, literal = hits[at]
            if end > stop:
                break
            here.append(literal)
        return self._literals.wanted(here, line)

    def _spare(self, hits: Hits) -> None:
        """Stop looking for what was found and stands in every other line: version lines, paths in stack traces."""
        said = {watch for pairs in self.groups for watch, _ in pairs}
        idle = self._literals.idle(said)
        if sum(literal in idle for _, literal in hits) > _WASTED:
            self._literals = self._literals.without(idle)
            self._plans.clear()

    def _confirmed(self, watches: Iterable[int], line: bytes, text: str) -> list[Pair]:
        return [(w, kind) for w in watches if (kind := self._confirm(w, line, text)) is not None]

    def _group(self, pairs: Sequence[Pair]) -> Group | None:
        if not pairs:
            return None
        key = tuple(pairs)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(key, max(self._watches[w].keep for w, _ in key))
        return group


def piece(block: Block, at: int) -> tuple[int, int, bool]:
    """(start, end, whole) of the line that holds this byte, or of its piece between carriage returns.

    In a long line it is the surroundings of the byte, and `whole` is false.
    """
    data = block.data
    start = data.rfind(b"\n", 0, at) + 1
    start = max(start, data.rfind(b"\r", start, at) + 1)
    end = data.find(b"\n", at)
    cut = end < 0
    end = len(data) if cut else end
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
