"""Finds patterns that take more than linear time: each is timed on lines that its own loops are made for.

It parses only as much of the syntax as that needs; what it does not know counts as a plain character.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import regex
from msgspec import Struct, field

from slurmdoctor.matching import bounded

LONG = 2048
"""Length of the lines that a pattern is tried on, and of those that are four times as long."""
LIMIT = 0.02
"""Seconds of processor time for one such line: a good pattern needs a fortieth of it."""
_MEASURABLE = LIMIT / 20
_GROWTH = 9
"""What the longer line costs: four times as much where a pattern is linear, sixteen times where it is quadratic."""
_REPEATS = 3
_MANY = 16
Ask = Callable[[str, float], object]
"""(line, seconds) -> what a pattern finds in the line; TimeoutError where it takes longer."""
_ALPHABET = "\t" + "".join(map(chr, range(32, 127)))
_PICKS = "a0 .x_-/:,=A'\"[({"
_TOKEN = re.compile(
    r"(?P<flags>\(\?[aiLmsux]+\))"
    r"|(?P<nothing>\(\?#[^)]*\)|\^|\$|\\[bBAZzKmMG])"
    r"|(?P<look>\(\?<?[=!])"
    r"|(?P<one>\(\?P[=>]\w+\)|\(\?&\w+\)|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]"
    r"|\\(?:[xuUN](?:\{[^}]*\}|[0-9A-Fa-f]+)|[pP]\{[^}]*\}|g<\w+>|\d+|.))"
    r"|(?P<open>\((?:\?(?:P?<\w+>|[:>|]|\(\w+\)|[a-zA-Z01-]+:))?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<loop>[*+?][?+]?|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\}[?+]?)"
    r"|(?P<char>.)",
    re.DOTALL,
)


class Part(Struct):
    """One repeatable piece of a pattern: something that takes a character, or a group."""

    source: str = ""
    branches: list[list[Part]] = field(default_factory=list)
    least: int = 1
    most: float = 1
    looks: bool = False
    """A look-around: takes no text."""


class Pattern:
    """A pattern that compiles, as a tree of its pieces."""

    def __init__(self, pattern: str) -> None:
        self.flags = ""
        stack = [Part(branches=[[]])]
        for found in _TOKEN.finditer(pattern):
            kind, here = found.lastgroup, stack[-1].branches
            if kind in ("open", "look"):
                stack.append(Part(branches=[[]], looks=kind == "look"))
            elif kind == "close":
                group = stack.pop()
                stack[-1].branches[-1].append(group)
            elif kind == "bar":
                here.append([])
            elif kind == "loop":
                _repeat(here[-1][-1], found)
            elif kind == "flags":
                self.flags += found[0]
            elif kind != "nothing":
                here[-1].append(Part(found[0]))
        self.branches = stack[0].branches

    def hostile(self) -> Iterator[Callable[[int], str]]:
        """Makers of lines that nearly match: a loop's text, or all up to it, again and again, beside what the rest wants."""
        for branch in self.branches:
            whole = self._sample(branch)
            for before, once, rest in dict.fromkeys(self._pumps([branch], "")):
                for lead, pump in (before, once), ("", before + once), ("", once):
                    yield _maker(lead, pump, f"{rest[:-1]}\x01{whole}")
                    yield _maker(f"{rest}\x01{lead}", pump, "\x01")
                    if "m" in self.flags:
                        yield _maker(lead, pump, f"\x01\n{whole}")

    def _pumps(self, branches: Sequence[Sequence[Part]], before: str) -> Iterator[tuple[str, str, str]]:
        """(text that leads to a loop, text that the loop takes once, text for what follows), for each loop."""
        for branch in branches:
            text = before
            for at, part in enumerate(branch):
                rest = branch[at + 1 :]
                if part.most >= _MANY:
                    # the text of a loop is worst where it could also be what follows, or the pattern's beginning
                    for wanted in frozenset[str](), self._first(rest), self._first(branch[:1]):
                        for inner in part.branches or [[Part(part.source)]]:
                            yield text, self._sample(inner, wanted), self._sample(rest)
                yield from self._pumps(part.branches, text)
                text += self._sample([part])

    def _first(self, parts: Sequence[Part]) -> frozenset[str]:
        """What the text that these pieces take can begin with."""
        found: frozenset[str] = frozenset()
        for part in parts:
            if part.looks:
                continue
            inner = (self._first(branch) for branch in part.branches)
            found = found.union(*inner) if part.branches else found | _chars(part.source, self.flags)
            if part.least:
                break
        return found

    def _sample(self, parts: Sequence[Part], wanted: frozenset[str] = frozenset()) -> str:
        """A text that the pieces take, of wanted characters where they may be (look-arounds are not minded)."""
        return "".join(self._once(part, wanted) * max(part.least, part.most > 1) for part in parts if not part.looks)

    def _once(self, part: Part, wanted: frozenset[str]) -> str:
        if part.branches:
            return self._sample(part.branches[0], wanted)
        chars = _chars(part.source, self.flags)
        return min(chars & wanted, default="") or next(
            (pick for pick in _PICKS if pick in chars), min(chars, default="")
        )


def _repeat(part: Part, found: re.Match[str]) -> None:
    sign = found[0][0]
    if sign == "{":
        part.least = int(found["least"] or 0)
        part.most = float(found["most"] or ("inf" if found["comma"] else part.least))
    else:
        part.least, part.most = int(sign == "+"), 1 if sign == "?" else float("inf")


@lru_cache(maxsize=4096)
def _chars(source: str, flags: str) -> frozenset[str]:
    """The ASCII characters that a piece which is no group can take."""
    try:
        one = regex.compile(flags + source)
    except regex.error:  # a back-reference, say: it could be anything
        return frozenset()
    return frozenset(char for char in _ALPHABET if one.fullmatch(char))


def _maker(head: str, pump: str, tail: str) -> Callable[[int], str]:
    return lambda length: head + pump * (length // max(1, len(pump))) + tail


def slowest(pattern: str, ask: Ask | None = None) -> str | None:
    """A line on which the pattern takes more than linear time, shortened for people; None where no such line was found."""
    search = bounded(pattern).search
    asked = ask or (lambda line, seconds: search(line, timeout=seconds))
    makers = {maker(LONG): maker for maker in Pattern(pattern).hostile()}
    for line, maker in makers.items():
        if all(_grows(asked, line, maker(4 * LONG)) for _ in range(_REPEATS)):
            return f"{line[:60]}... ({len(line)} characters)"
    return None


def _grows(ask: Ask, line: str, longer: str) -> bool:
    took = _seconds(ask, line, LIMIT)
    return took >= LIMIT or (took >= _MEASURABLE and _seconds(ask, longer, _GROWTH * took) >= _GROWTH * took)


def _seconds(ask: Ask, line: str, limit: float) -> float:
    """Seconds of processor time, at most about `limit`."""
    start = time.process_time()
    try:
        ask(line, limit)
    except TimeoutError:
        return limit
    return time.process_time() - start
