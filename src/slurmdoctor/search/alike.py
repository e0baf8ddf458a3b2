"""Remembers what lines with the same literals came to: where hundreds of them, each of a new shape, came to the same, the next do too.

Why: to confirm a line of a new shape takes some 50 µs, and words make shapes as digits do: `KeyError: 'w81f'`, `request to
https://… failed`. A log may hold a million of those. What a line came to is told by the matchers that took it. Lines are alike
where the same matchers' literals stand in them and their first two words end alike: `KeyError: …` is not `cannot parse x: KeyError: …`.

Limits: a line that means something else than the hundreds before it that are alike is counted as they are. One that was confirmed
differently in between begins the count anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from slurmdoctor.search.tally import Tally

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


class Alike:
    """The outcomes of one source."""

    def __init__(self) -> None:
        self._outcomes: dict[Likeness, Outcome] = {}
        self._taken_by: dict[Tally, tuple[int, ...]] = {}
        self.unasked = 0
        """Lines that were counted as those before them."""

    def settled(self, likeness: Likeness, near_end: bool) -> Outcome | None:
        """What a line comes to without being asked; None where it is to be asked. Near a log's end none is thrown away."""
        outcome = self._outcomes.get(likeness)
        if outcome is None or outcome.lines < TAKEN:
            return None
        if outcome.tally is None and (near_end or outcome.lines < REFUSED):
            return None
        self.unasked += 1
        return outcome

    def learn(self, likeness: Likeness, tally: Tally | None) -> None:
        """Note where a line was counted."""
        matchers = () if tally is None else self._taken_by[tally]
        outcome = self._outcomes.setdefault(likeness, Outcome(matchers))
        if outcome.matchers != matchers:
            outcome.matchers, outcome.lines = matchers, 0
        outcome.tally = tally
        outcome.lines += 1

    def belongs(self, tally: Tally, matchers: Sequence[int]) -> None:
        """Note which matchers take the lines of a tally."""
        self._taken_by[tally] = tuple(matchers)
