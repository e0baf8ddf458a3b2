"""Reads one source's blocks: confirms the first line of each shape, counts all others, and learns what lines of a shape mean.

What the lines of a shape (`shapes`) mean is found in one of three ways:

- nothing depends on digits: lines are counted by the walk, and never come here again;
- `ShapePlan` without `exact`: the same, but the label is in two pieces, which the walk does not put together;
- `ShapePlan` with `exact`: some matcher is digit-sensitive (`exit code 137`), so each different text behind the labels is confirmed.

Words make shapes as digits do: `KeyError: 'w81f'`, `request to https://… failed`. A log may hold a million of those, and to confirm one takes
some 50 µs. So where hundreds of lines in a row of one shape came to the same, the next do too: `Outcomes`.

Limits: a line that means something else than the hundreds of its shape before it is counted as they are. One that was confirmed
differently in between begins the count anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from slurmdoctor.input import Block
from slurmdoctor.model import Matcher
from slurmdoctor.search import tally
from slurmdoctor.search.literals import Literals
from slurmdoctor.search.shapes import BYTE, DIGITS, marked_shape, with_other_words
from slurmdoctor.search.tally import BY_DIGITS, LineGroup, Match, Part, Tally
from slurmdoctor.search.writer_key import Span, WriterKey

# ── long lines ────────────────────────────────────────────────────────────────────────────────

LONG_LINE = 16 * 1024
"""In a line longer than this only the text around the literal is looked at."""
_AROUND = 4 * 1024
"""Bytes before and behind the literal, then."""


def seen_whole(block: Block) -> int:
    """What is too near to an open end is seen whole in the next block, which begins a stretch before it."""
    return len(block.data) - LONG_LINE if block.open_end else len(block.data) + 1


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
            return max(start, at - _AROUND), min(end, at + _AROUND), False
    return start, end, True


# ── lines that are alike ──────────────────────────────────────────────────────────────────────

TAKEN = 500
"""So many lines in a row that the same matchers took, and the next are not asked."""
REFUSED = 8 * TAKEN
"""The same for lines that no matcher took: what the next one says would be lost, not just counted with others."""

Likeness = tuple[tuple[int, ...], bytes]
"""The matchers whose literals stand in a line, and how its first words end."""
_ENDS = bytes(48 if 48 <= n < 58 else 97 if 65 <= n < 91 or 97 <= n < 123 or n > 127 else n for n in range(256))
_HEAD = 160


def likeness(wanted: Sequence[int], line: bytes, text: int) -> Likeness:
    """What lines have in common that mostly mean the same. `text` is where the label ends."""
    words = line[text : text + _HEAD].split(None, 2)[:2]
    return tuple(wanted), b"".join([word[-1:] for word in words]).translate(_ENDS)


class Outcome(Struct):
    """What the last lines with certain literals came to."""

    matchers: tuple[int, ...] = ()
    """Those that took each of them."""
    tally: Tally | None = None
    """Where the last one was counted."""
    lines: int = 0


class Outcomes:
    """The outcomes of one source."""

    def __init__(self) -> None:
        self._by_likeness: dict[Likeness, Outcome] = {}
        self._taken_by: dict[Tally, tuple[int, ...]] = {}
        self.unasked = 0
        """Lines that were counted as those before them."""

    def settled(self, likeness: Likeness, near_end: bool) -> Outcome | None:
        """What a line comes to without being asked; None where it is to be asked. Near a log's end none is thrown away."""
        outcome = self._by_likeness.get(likeness)
        if outcome is None or outcome.lines < TAKEN:
            return None
        if outcome.tally is None and (near_end or outcome.lines < REFUSED):
            return None
        self.unasked += 1
        return outcome

    def learn(self, likeness: Likeness, tally: Tally | None) -> None:
        """Note where a line was counted."""
        matchers = () if tally is None else self._taken_by[tally]
        outcome = self._by_likeness.setdefault(likeness, Outcome(matchers))
        if outcome.matchers != matchers:
            outcome.matchers, outcome.lines = matchers, 0
        outcome.tally = tally
        outcome.lines += 1

    def belongs(self, tally: Tally, matchers: Sequence[int]) -> None:
        """Note which matchers take the lines of a tally."""
        self._taken_by[tally] = tuple(matchers)


# ── the reader ────────────────────────────────────────────────────────────────────────────────

_MOST_SHAPES = 16 * 1024 * 1024
"""Bytes of shapes to remember; then they are learnt anew."""
_NEAR_END = 256 * 1024
"""Bytes at a log's end in which every line of a new shape is asked what it means, if it may mean nothing."""
_LEARN_EACH = 8
"""Of the lines whose meaning is not asked for each eighth one's shape is learnt: one that comes again and again soon is."""
_FEW_ASKED = 100
"""Lines that are read by their digits first: a paste has hardly more, and hexadecimal words take two patterns that `re` must compile."""
_MOST_IN_VAIN = 300
"""Then it is not tried any more: to find out takes three times as long as to read a line by its digits."""
_MOST_TEXTS = 64
"""Texts of a shape to remember where digits matter."""

StripLabels = Callable[[int, bytes], str]
"""(source, line) -> the line without its labels."""
ConfirmLine = Callable[[Matcher, bytes, str], "str | None"]
"""(matcher, line, line without labels) -> None where the matcher does not take it, else its kind: mostly empty."""
CouldMatch = Callable[[Matcher, str], bool]
"""(matcher, line without labels) -> whether it might take a line that differs from this one in digits only."""


class ShapePlan(Struct):
    """How lines of one shape are counted, where it takes more than the walk."""

    tally: Tally | None
    """Where they are counted for what follows from their shape; None where that is nothing."""
    matches: Sequence[Match]
    """What follows from their shape."""
    label: Span
    text: int
    """Where the text behind all labels begins; -1 where that does not follow from the shape."""
    exact: dict[bytes, Tally | None] | None = None
    """Where digits matter: the tally of each text."""
    digit_sensitive: Sequence[int] | None = None
    """The matchers to which the digits matter, where the shape shows them."""


class Reader:
    """Reads one source, or a part of it."""

    def __init__(
        self,
        literals: Literals,
        matchers: Sequence[Matcher],
        strip_labels: StripLabels,
        confirm_line: ConfirmLine,
        could_match: CouldMatch,
        writer_key: WriterKey,
        source: int,
    ) -> None:
        self._literals = literals
        self._matchers = matchers
        self._strip_labels = strip_labels
        self._confirm_line = confirm_line
        self._could_match = could_match
        self._late: Callable[[], bool] = bool
        self._stopped: int | None = None
        """Where reading ended within a line, as the time was over."""
        self._some_take_any_digits = not all(matcher.digit_sensitive for matcher in matchers)
        self._writer_key = writer_key
        self._source = source
        self._walk, self._new_tally = tally.new_walk(literals.engine)
        self._remembered = 0
        self._asked = 0
        """Lines whose meaning was asked."""
        self._in_vain = 0
        """Shapes with marks of which nothing could be learnt, less those of which something was."""
        self._done = 0
        self._tallies: dict[tuple[Match, ...], Tally] = {}
        self._outcomes = Outcomes()
        self._end: int | None = None

    def read(
        self, blocks: Iterable[Block], start: int = 0, size: int | None = None, late: Callable[[], bool] = bool
    ) -> Part:
        """Count the matches of all blocks, until it is late. `size` is the whole source's, where that is known."""
        self._late = late
        self._end = None if size is None else size - _NEAR_END
        part = Part(self._source, start)
        block = Block(start, b"\n", 1, 1)
        for block in blocks:
            part.offsets.append(block.offset)
            part.counts.append(part.lines)
            part.lines += block.lines
            if block.open_start or block.open_end:
                self._read_open(block)
            else:
                self._read_lines(block)
            part.end = block.offset + block.size
            if self._stopped is not None:
                part.end = min(part.end, self._stopped)
                break
        part.lines += not block.data[: block.size].endswith(b"\n")
        part.unasked = self._outcomes.unasked
        part.groups = {key: LineGroup(key, self._keep(key), *t.packed()) for key, t in self._tallies.items()}
        return part

    def _read_lines(self, block: Block) -> None:
        """Read a block of whole lines."""
        data, base, search = block.data, block.offset, self._literals.engine
        for start, stop, plan in self._walk.lines(data, block.size, base, search):
            line = data[start:stop]
            if plan is not None:
                self._count(plan, line, base + start)
            elif b"\r" in line:
                rest = data[start:].replace(b"\r", b"\n")
                self._read_lines(Block(base + start, rest, block.size - start, 0))
                return
            elif len(line) > LONG_LINE:
                # a literal may end with its line's end
                self._read_pieces(block, [start + end for end in search.ends(data[start : stop + 1])], -1)
            else:
                self._learn(line, base + start)

    def _read_open(self, block: Block) -> None:
        """Read a block that begins or ends inside of a line. Text between carriage returns is whole."""
        data, base, search = block.data, block.offset, self._literals.engine
        until = self._done - base if block.open_start else -1
        whole = min(seen_whole(block), block.size)
        first = data.find(b"\r", max(until, 0), whole) + 1 or block.size
        last = max(first, data.rfind(b"\r", first, whole) + 1)
        until = self._read_pieces(block, search.ends(data[:first]), until)
        if first < last:
            self._read_lines(Block(base + first, data[first:last].replace(b"\r", b"\n"), last - first, 0))
        until = self._read_pieces(block, [last + end for end in search.ends(data[last : block.size])], until)
        if block.open_end:
            self._done = base + max(seen_whole(block), until)

    def _read_pieces(self, block: Block, ends: Sequence[int], until: int) -> int:
        """Read lines that are long or cut by the block's edge. `ends` are the places behind words; returns up to where it read."""
        data, base, limit = block.data, block.offset, seen_whole(block)
        for after in ends:
            if after <= until:
                continue
            if self._late():
                self._stopped = self._stopped or base + after
                break
            start, end, whole = piece(block, after - 1)
            if after > limit and not (whole and end < len(data)):
                continue
            until = end + 1 if whole else end
            if whole:
                self._read_lines(Block(base + start, data[start:end] + b"\n", end + 1 - start, 1))
            else:
                self._read_fragment(data[start:end], base + start)
        return until

    def _read_fragment(self, text: bytes, place: int) -> None:
        """Count what surrounds a literal in a long line: it has no label, and its shape will not come again."""
        stripped = self._strip_labels(self._source, text)
        tally = self._tally(self._confirmed(self._literals.wanted(text), text, stripped))
        if tally is not None:
            tally.add(b"", place)

    def _learn(self, line: bytes, place: int) -> None:
        """Find out what all lines of a new shape mean, by the first of them, and count it."""
        wanted = self._literals.wanted(line + b"\n")
        start, end, start2, end2 = span = self._writer_key.span(line)
        key = likeness(wanted, line, max(end, end2))
        outcome = self._outcomes.settled(key, self._end is not None and place >= self._end)
        if outcome is None:
            self._outcomes.learn(key, self._learn_asked(line, place, wanted, span))
            return
        tally = outcome.tally
        if tally is not None:
            tally.add(line[start:end] + line[start2:end2], place)
        shape = None if self._outcomes.unasked % _LEARN_EACH else marked_shape(line)
        if shape is not None:
            shape = line.translate(DIGITS) if self._walk.known(shape) else shape
            self._remember(shape)
            plan = ShapePlan(tally, (), span, -1) if tally is not None and end2 else None
            self._walk.learn(shape, start, end, tally, plan, -1)

    def _learn_asked(self, line: bytes, place: int, wanted: Sequence[int], span: Span) -> Tally | None:
        """Confirm a line, count it, and remember what follows for all lines of its shape. Where it was counted."""
        shape = line.translate(DIGITS)
        self._asked += 1
        with_marks = marked_shape(line) if self._asked > _FEW_ASKED or BYTE in line else shape
        matches = None
        if with_marks is not None and with_marks != shape:
            matches = self._learn_marked(line, with_marks, span)
        if matches is not None and with_marks is not None:
            shape, digit_sensitive, unclear, text = with_marks, [], False, ""
        else:
            text = self._strip_labels(self._source, line)
            digit_sensitive = self._digit_sensitive(wanted, text)
            unclear = self._literals.hidden(shape)
            matches = self._confirmed([m for m in wanted if not self._matchers[m].digit_sensitive], line, text)
        start, end, start2, end2 = span
        label = line[start:end] + line[start2:end2]
        tally = counted = self._tally(matches)
        plan = None
        if digit_sensitive or unclear:
            tail = text.encode()
            begin = len(line) - len(tail) if self._some_take_any_digits and line.endswith(tail) else -1
            plan = ShapePlan(tally, matches, span, begin, {}, None if unclear else digit_sensitive)
            counted = self._count(plan, line, place)
        elif tally is not None:
            plan = ShapePlan(tally, matches, span, -1) if end2 else None
            tally.add(label, place)
        if with_marks is not None:
            self._remember(shape)
            self._walk.learn(shape, start, end, tally, plan, plan.text if plan else -1)
        return counted

    def _learn_marked(self, line: bytes, shape: bytes, span: Span) -> list[Match] | None:
        """The matches of all lines with other hexadecimal words, where these do not matter; else such lines go by their digits."""
        if self._walk.known(shape) is not None:  # by digits
            return None
        found = self._matches_of_any_words(line, span) if self._in_vain < _MOST_IN_VAIN else None
        self._in_vain += 1 if found is None else -1
        if found is None:
            self._remember(shape)
            self._walk.learn(shape, 0, 0, None, BY_DIGITS, -2)
        return found

    def _matches_of_any_words(self, line: bytes, span: Span) -> list[Match] | None:
        """The matches of this line and of those with other hexadecimal words in it; None where they differ, or digits matter."""
        found: list[Match] | None = None
        for other in (line, *with_other_words(line)):
            wanted = self._literals.wanted(other + b"\n")
            text = self._strip_labels(self._source, other)
            unclear = self._digit_sensitive(wanted, text) or self._literals.hidden(other.translate(DIGITS))
            if unclear or self._writer_key.span(other) != span:
                return None
            matches = self._confirmed((m for m in wanted if not self._matchers[m].digit_sensitive), other, text)
            if found not in (None, matches):
                return None
            found = matches
        return found

    def _digit_sensitive(self, wanted: Iterable[int], text: str) -> list[int]:
        """Those of the matchers that may take a line like this one, but for its digits, and refuse another."""
        sensitive = (m for m in wanted if self._matchers[m].digit_sensitive)
        return [m for m in sensitive if self._could_match(self._matchers[m], text)]

    def _count(self, plan: ShapePlan, line: bytes, place: int) -> Tally | None:
        """Count a line whose shape has a plan. Where it was counted."""
        tally = plan.tally if plan.exact is None else self._tally_of_text(plan, plan.exact, line, place)
        if tally is not None:
            start, end, start2, end2 = plan.label
            tally.add(line[start:end] + line[start2:end2], place)
        return tally

    def _tally_of_text(
        self, plan: ShapePlan, exact: dict[bytes, Tally | None], line: bytes, place: int
    ) -> Tally | None:
        """Where a line is counted in which digits matter: by its text, digits and all."""
        tail = line[plan.text :] if plan.text >= 0 else line
        if tail in exact:
            return exact[tail]
        sensitive = plan.digit_sensitive
        if sensitive is None:
            sensitive = [m for m in self._literals.wanted(line + b"\n") if self._matchers[m].digit_sensitive]
        text = tail.decode("utf-8", "replace") if plan.text >= 0 else self._strip_labels(self._source, line)
        matches = self._confirmed(sensitive, line, text)
        start, end, _, end2 = plan.label
        tally = self._tally(sorted({*matches, *plan.matches}))
        if len(exact) < _MOST_TEXTS:
            exact[tail] = tally
            if plan.text >= 0 and end2 == 0:
                self._walk.learn(line.translate(DIGITS) + b"\n" + tail, start, end, tally, None, -1)
        return tally

    def _remember(self, shape: bytes) -> None:
        self._remembered += len(shape)
        if self._remembered > _MOST_SHAPES:
            self._walk.forget()
            self._remembered = len(shape)

    def _confirmed(self, numbers: Iterable[int], line: bytes, text: str) -> list[Match]:
        confirm = self._confirm_line
        return [(m, kind) for m in numbers if (kind := confirm(self._matchers[m], line, text)) is not None]

    def _tally(self, matches: Sequence[Match]) -> Tally | None:
        """Where lines of these matches are counted."""
        key = tuple(matches)
        if not key:
            return None
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = self._new_tally(self._keep(key))
            self._outcomes.belongs(tally, [number for number, _ in key])
        return tally

    def _keep(self, matches: Iterable[Match]) -> int:
        return max(self._matchers[number].keep for number, _ in matches)
