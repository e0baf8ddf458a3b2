"""Finds patterns that can be slow: loops within a loop over the same characters, and lines that take too long.

It parses only as much of the syntax as that needs; what it does not know counts as a plain character.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache

import regex
from msgspec import Struct
from msgspec.structs import replace

LONG = 4096
"""Length of the lines that a pattern is tried on, and of those that are four times as long."""
LIMIT = 0.05
"""Seconds for one such line. A good pattern needs a hundredth of it."""
_TELLING = LIMIT / 25
"""Where it takes less, nothing is told by"""
_GROWTH = 10
"""what the longer line costs: four times as much where a pattern is linear, sixteen times where it is quadratic."""
_SURE = 6
"""So often it is measured: what other programs of the machine take counts as ours now and then."""
_MANY = 16
Ask = Callable[[str, float], object]
"""(line, seconds) -> what a pattern says of the line; TimeoutError where it takes longer."""
_ALPHABET = "\t" + "".join(map(chr, range(32, 127)))
_PICKS = "a0 .x_-/:,=A'\"[({"
_QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d{0,9})(,?)(\d{0,9})\})([?+]?)")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]")
_ESCAPE = re.compile(r"\\(?:[xuUN](?:\{[^}]*\}|[0-9A-Fa-f]+)|[pP]\{[^}]*\}|g<\w+>|\d+|.)", re.S)
_OPEN = re.compile(r"\((?:\?(?:P?<\w+>|P=\w+|P>\w+|<?[=!]|[:>|]|#|\(\w+\)|[a-zA-Z01-]+[:)]?|&\w+))?")
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")


class Part(Struct, frozen=True):
    """One repeatable piece of a pattern."""

    source: str
    """As written, without its quantifier."""
    least: int = 1
    most: float = 1
    guarded: bool = False
    """Never gives back what it took: possessive, atomic, or a look-around."""
    branches: tuple[tuple[Part, ...], ...] = ()
    empty: bool = False
    """Takes no text: anchors, look-arounds, flags."""
    start: int = 0
    end: int = 0
    """Where it stands in the pattern, with its quantifier."""

    @property
    def loops(self) -> bool:
        return self.most >= _MANY


class Pattern(Struct):
    branches: tuple[tuple[Part, ...], ...]
    flags: str

    def chars(self, part: Part) -> frozenset[str]:
        """The ASCII characters that a piece which is no group can take."""
        return _chars(part.source, self.flags)

    def first(self, parts: Sequence[Part]) -> frozenset[str]:
        """What the text taken by these pieces can begin with."""
        found: frozenset[str] = frozenset()
        for part in parts:
            if part.empty:
                continue
            if part.branches:
                found = found.union(*(self.first(branch) for branch in part.branches))
            else:
                found |= self.chars(part)
            if not optional(part):
                break
        return found

    def sample(self, parts: Sequence[Part]) -> str:
        """A text that the pieces take (look-arounds are not minded)."""
        return "".join(self._one(part) * max(part.least, 1 if part.most > 1 else part.least) for part in parts)

    def _one(self, part: Part) -> str:
        if part.empty:
            return ""
        if part.branches:
            return self.sample(part.branches[0])
        chars = self.chars(part)
        return next((pick for pick in _PICKS if pick in chars), min(chars, default=""))

    def shared_loops(self) -> Iterator[tuple[Part, str]]:
        """Loops within a loop whose text can be cut in many ways: (inner loop, a character of two pieces)."""
        yield from self._shared(self.branches, frozenset(), False)

    def _shared(
        self, branches: Sequence[Sequence[Part]], follow: frozenset[str], inside: bool
    ) -> Iterator[tuple[Part, str]]:
        for branch in branches:
            for at, part in enumerate(branch):
                rest = branch[at + 1 :]
                after = self.first(rest) | (follow if all(map(optional, rest)) else frozenset())
                if part.guarded:
                    continue
                if not part.branches:
                    both = self.chars(part) & after if part.loops and inside and not part.empty else frozenset()
                    if both:
                        yield part, min(both, key=lambda char: (_PICKS + char).index(char))
                elif part.loops:
                    again = frozenset[str]().union(*(self.first(inner) for inner in part.branches))
                    # what follows outside the outermost loop is met once: that alone stays harmless
                    yield from self._shared(part.branches, again | after if inside else again, True)
                else:
                    yield from self._shared(part.branches, after, inside)

    def pumps(self, branches: Sequence[Sequence[Part]], before: str = "") -> Iterator[tuple[str, str, str]]:
        """(text that leads to a loop, text that the loop takes once, text for what follows), for each loop of the pattern."""
        for branch in branches:
            text = before
            for at, part in enumerate(branch):
                rest = branch[at + 1 :]
                if part.loops and part.branches:
                    yield from ((text, self.sample(inner), self.sample(rest)) for inner in part.branches)
                elif part.loops and not part.empty:
                    taken = self.chars(part)
                    both = (min(taken & other, default="") for other in (self.first(rest), self.first(branch[:1])))
                    yield from ((text, pick, self.sample(rest)) for pick in {self._one(part), *both})
                if part.branches and not part.empty:
                    yield from self.pumps(part.branches, text)
                text += self.sample([part])

    def hostile(self, length: int) -> Iterator[str]:
        """Lines that nearly match: a loop's text, or all up to it, again and again; some begin with what stands behind the loop."""
        for branch in self.branches:
            whole = self.sample(branch)
            for before, once, rest in dict.fromkeys(self.pumps([branch])):
                for lead, pump in (before, once), ("", before + once), ("", once):
                    repeated = lead + pump * (length // len(pump)) + "\x01" if once else ""
                    yield from (repeated, repeated + whole, f"{rest}\x01{repeated}")
                    if "m" in self.flags:
                        yield f"{repeated}\n{whole}"


def optional(part: Part) -> bool:
    """Whether the piece may take no text at all."""
    if part.empty or part.least == 0:
        return True
    return bool(part.branches) and any(all(map(optional, branch)) for branch in part.branches)


@lru_cache(maxsize=4096)
def _chars(source: str, flags: str) -> frozenset[str]:
    try:
        one = regex.compile(flags + source)
    except regex.error:  # a back-reference, say: it could be anything
        return frozenset()
    return frozenset(char for char in _ALPHABET if one.fullmatch(char))


@lru_cache(maxsize=1024)
def parse(pattern: str) -> Pattern:
    """The pieces of a pattern that compiles."""
    flags = "".join(found[0] for found in _FLAGS.finditer(pattern))
    branches, _ = _branches(pattern, 0)
    return Pattern(branches, flags)


def _branches(pattern: str, at: int) -> tuple[tuple[tuple[Part, ...], ...], int]:
    found: list[list[Part]] = [[]]
    while at < len(pattern) and pattern[at] != ")":
        if pattern[at] == "|":
            found.append([])
            at += 1
            continue
        start = at
        part, at = _piece(pattern, at)
        quantifier = _QUANTIFIER.match(pattern, at)
        if quantifier and not part.empty:
            part, at = _repeated(part, quantifier), quantifier.end()
        found[-1].append(replace(part, start=start, end=at))
    return tuple(tuple(branch) for branch in found), at


def _piece(pattern: str, at: int) -> tuple[Part, int]:
    char = pattern[at]
    if char == "(":
        return _group(pattern, at)
    if char in "^$":
        return Part(char, empty=True), at + 1
    found = (_ESCAPE if char == "\\" else _CLASS).match(pattern, at) if char in "\\[" else None
    end = found.end() if found else at + 1
    source = pattern[at:end]
    return Part(source, empty=source[:2] in (r"\b", r"\B", r"\A", r"\Z", r"\z", r"\K", r"\m", r"\M", r"\G")), end


def _group(pattern: str, at: int) -> tuple[Part, int]:
    found = _OPEN.match(pattern, at)
    head = found[0] if found else "("
    inner = at + len(head)
    if head.startswith("(?#"):
        return Part(head, empty=True), pattern.find(")", inner) + 1 or len(pattern)
    if head.endswith(")") and not head.startswith("(?("):
        return Part(head, empty=True), inner  # (?i)
    branches, end = _branches(pattern, inner)
    looks = head in ("(?=", "(?!", "(?<=", "(?<!")
    known = head.startswith(("(?P=", "(?P>", "(?&"))
    source = pattern[at : end + 1]
    part = Part(source, guarded=looks or head == "(?>", branches=() if known else branches, empty=looks)
    return part, end + 1


def _repeated(part: Part, quantifier: re.Match[str]) -> Part:
    sign, least, comma, most, mood = quantifier.groups()
    if sign:
        low, high = {"*": (0, float("inf")), "+": (1, float("inf")), "?": (0, 1.0)}[sign]
    else:
        low = int(least or 0)
        high = float(most) if most else (float("inf") if comma else float(low))
    return replace(part, least=low, most=high, guarded=part.guarded or mood == "+")


def slowest(pattern: str, ask: Ask | None = None) -> str | None:
    """A line on which the pattern takes more than linear time, shortened for people; None where no such line was found."""
    asked = ask or (lambda line, seconds: regex.compile(pattern).search(line, timeout=seconds))
    inside = parse(pattern)
    for line, longer in dict.fromkeys(zip(inside.hostile(LONG), inside.hostile(4 * LONG), strict=True)):
        if all(_grows(asked, line, longer) for _ in range(_SURE)):
            return f"{line[:60]}... ({len(line)} characters)"
    return None


def _grows(ask: Ask, line: str, longer: str) -> bool:
    took = _cost(ask, line, LIMIT, _TELLING)
    limit = _GROWTH * took
    return took >= LIMIT or (took >= _TELLING and _cost(ask, longer, limit, limit) >= limit)


def _cost(ask: Ask, line: str, limit: float, enough: float) -> float:
    """Seconds of processor time, the least of three times or one below `enough`; a time-out on a busy machine proves nothing."""
    best = limit
    for patience in (limit, 4 * limit, 16 * limit):
        start = time.process_time()
        with suppress(TimeoutError):
            ask(line, 2 * patience)
            best = min(best, time.process_time() - start)
        if best < enough:
            break
    return best
