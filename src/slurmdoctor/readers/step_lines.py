"""Reads the lines of training steps, `iteration 100/2000 | loss 3.1`, where it is told to: signals of kind `progress` say how they look."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.matching import Engine, Portable, captures, engine_for, lazy
from slurmdoctor.model import Progress, Signal
from slurmdoctor.ranks import Lines
from slurmdoctor.search import DIGITS, Shaped, Span, WriterKey, digits_matter, shape_of

_LONGEST = 4096
"""Bytes of a line beyond which it is no step's."""
_FEW_BYTES = 256 * 1024
_PATIENCE = 2000
"""Lines after which no other writer is expected, or twice as many as there are writers."""
_PIECE = 16 * 1024
"""Bytes that are searched for a single step; then four times as many, and so on."""
_BYTES = 1024
"""Bytes whose search costs as much as to look at one line,"""
LOOK, READ, LEARN = 1, 4, 24
"""and what it costs to read one whole, and to learn whether lines of a new shape are steps: some 2 µs each."""


_SIGNS = lazy(r"^[^A-Za-z]+|[^A-Za-z]+$")


class Form(Struct, frozen=True):
    """How lines of one shape tell a step."""

    groups: Shaped
    label: Span


class StepLines:
    """Tells steps; lines that differ in digits only are recognised by the first of them."""

    def __init__(self, lines: Lines, signals: Sequence[Signal]) -> None:
        self._lines = lines
        self._shaped = [(Shaped(signal.regex), _words(signal)) for signal in signals]
        self._literals = list(dict.fromkeys(x.encode() for s in signals for x in s.literals))
        self._shapely = not any(digits_matter(s.regex) for s in signals)
        self._known: dict[WriterKey, dict[bytes, Form | None]] = {}
        self._searches: dict[bool, Engine] = {}
        self.work = 0
        """What may still be spent, in `LOOK`s."""

    def stretch(self, source: int, start: int, end: int) -> Stretch:
        data = self._lines.text(source, start, end - start)
        to_end = end >= self._lines.sources[source].length
        return Stretch(self, source, start, data, self._search(len(data)).ends(data), to_end)

    def first(self, source: int, start: int, end: int) -> Progress | None:
        """The first step whose line begins here or later, but before the end."""
        size = _PIECE
        while start < end and self.work > 0:
            stop = min(start + size, end)
            stretch = self.stretch(
                source, start - 1, stop + _LONGEST
            )  # from the line end before to the last line's own
            self.work -= size // _BYTES
            stretch.take(0, 1, 1, size)
            for step in stretch.steps():
                return step if step.offset < end else None
            start, size = stop, size * 4
        return None

    def form(self, source: int, line: bytes) -> Form | None:
        """How this line tells a step; None where it does not, or where that may not be learnt any more."""
        self.work -= LOOK
        shape = line.translate(DIGITS) if self._shapely else line
        known = self._known.setdefault(self._lines.writer_key(source), {})
        if shape not in known:
            if self.work <= 0:
                return None
            self.work -= LEARN
            known[shape] = self._learn(source, line)
        return known[shape]

    def read(self, source: int, offset: int, line: bytes, form: Form) -> Progress | None:
        """The step that this line tells."""
        origin, text = self._lines.peeled(source, line)
        found = self._groups(form.groups, text)
        if found is None:
            return None
        step, steps = found.get("step"), found.get("steps")
        return Progress(
            source, offset, self._lines.order(source, offset), origin.rank, label_of(line, form),
            int(step) if step else None, int(steps) if steps else None, origin.time, part="epoch" in found or "percent" in found,
        )  # fmt: skip

    def _learn(self, source: int, line: bytes) -> Form | None:
        _, text = self._lines.peeled(source, line)
        low = line.lower()
        able = (shaped for shaped, words in self._shaped if any(word in low for word in words))
        groups = next((shaped for shaped in able if self._groups(shaped, text) is not None), None)
        return Form(groups, self._lines.writer_key(source).span(line)) if groups else None

    def _groups(self, shaped: Shaped, text: str) -> Mapping[str, str] | None:
        return shaped.groups(text, shape_of(text)) if self._shapely else captures(shaped.pattern, text)

    def _search(self, size: int) -> Engine:
        # for a few bytes a native engine takes longer to start than to search
        many = size > _FEW_BYTES or True in self._searches
        if many not in self._searches:
            self._searches[many] = engine_for(self._literals)[0] if many else Portable(self._literals)
        return self._searches[many]


def _words(signal: Signal) -> list[bytes]:
    """Its literals in small letters, without the signs at their ends: a line that it takes holds one, however it is spelt."""
    return [_SIGNS.sub("", literal).lower().encode() for literal in signal.literals]


def label_of(line: bytes, form: Form) -> bytes:
    """The words that tell this line's writer apart."""
    start, end, start2, end2 = form.label
    return line[start:end] + line[start2:end2]


class Stretch:
    """A stretch of a log, its hits (where a word of a step's line ends), and the steps taken from it so far."""

    def __init__(
        self, reader: StepLines, source: int, start: int, data: bytes, hits: Sequence[int], to_end: bool
    ) -> None:
        self.hits = hits
        self._reader = reader
        self._source = source
        self._start = start
        self._data = data
        self._to_end = to_end
        self._taken: dict[int, tuple[int, bytes, Form]] = {}
        """Of each step, by its place in the data: the hit, the line, and how it tells the step."""
        self._spans: list[tuple[int, int]] = []
        """Hits between which no step is left out."""

    def after(self, offset: int) -> int:
        """The first hit behind this place in the log."""
        return bisect_right(self.hits, offset - self._start)

    def take(self, at: int, by: int, most: int, far: int) -> int:
        """Take the steps from this hit on, down (1) or up (-1) the text: so many, out of so many lines. Where it stopped."""
        first = at
        for begin, line, here, beyond in self._lines(at, by, far):
            if most == 0:
                break
            at = beyond
            if form := self._reader.form(self._source, line):
                self._take(begin, here, line, form)
                most -= 1
        if first != at:
            self._spans.append((first, at) if by > 0 else (at + 1, first + 1))
        return at

    def take_last_of_writers(self, at: int, far: int) -> None:
        """From this hit upwards, take the last step of each writer of whom none is taken yet; until no new one is met any more."""
        seen = {label_of(line, form) for _, line, form in self._taken.values()}
        since = 0
        for begin, line, here, _ in self._lines(at, -1, far if any(seen) else 0):
            since += 1
            form = self._reader.form(self._source, line)
            if form and (label := label_of(line, form)) not in seen:
                seen.add(label)
                self._take(begin, here, line, form)
                self._spans.append((here, here + 1))
                since = 0
            elif since > max(_PATIENCE, 2 * len(seen)):
                return

    def _take(self, begin: int, hit: int, line: bytes, form: Form) -> None:
        if begin not in self._taken:
            self._taken[begin] = hit, line, form
            self._reader.work -= READ

    def steps(self) -> list[Progress]:
        """What was taken, in order, with whether steps before it may have been left out."""
        spans = joined(self._spans)
        found: list[Progress] = []
        before = 0 if self._start == 0 and spans and spans[0][0] <= 0 else -1
        for begin, (hit, line, form) in sorted(self._taken.items()):
            span = bisect_right(spans, (hit, len(self.hits))) - 1
            if step := self._reader.read(self._source, self._start + begin, line, form):
                found.append(step if span == before else replace(step, skipped=True))
                before = span
        return found

    def _lines(self, at: int, by: int, far: int) -> Iterator[tuple[int, bytes, int, int]]:
        """(begin, line, hit, next line's hit) of the lines with a hit, or of their pieces between carriage returns."""
        data, hits = self._data, self.hits
        while 0 <= at < len(hits) and far > 0 and self._reader.work > 0:
            here, after = at, hits[at]
            low, high = max(0, after - _LONGEST), min(len(data), after + _LONGEST)
            begin = data.rfind(b"\n", low, after) + 1
            begin = max(begin, data.rfind(b"\r", max(begin, low), after) + 1)
            stop = data.find(b"\n", after, high)
            back = data.find(b"\r", after, stop if stop >= 0 else high)
            stop = back if back >= 0 else stop
            # at the edges of a stretch lines are cut
            whole = (begin > 0 or self._start + low == 0) and (stop >= 0 or (high == len(data) and self._to_end))
            begin, stop = max(begin, low), stop if stop >= 0 else high
            at = bisect_right(hits, stop) if by > 0 else min(here, bisect_right(hits, begin)) - 1
            far -= 1
            yield begin, data[begin:stop] if whole and stop - begin <= _LONGEST else b"", here, at


def joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same without overlaps, in order."""
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result
