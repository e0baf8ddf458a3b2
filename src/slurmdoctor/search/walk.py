"""Goes through the lines of a block that hold a word, and counts those whose shape and writer are known: most of them.

In Python, and in C (`native/`) where that was compiled: the same to the last count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurmdoctor.model.matches import BURST, BURST_FIRST, COUNT, CROWD, STRETCH
from slurmdoctor.search import extension, marks
from slurmdoctor.search.extension import Engine
from slurmdoctor.search.shapes import DIGITS
from slurmdoctor.search.tally import MOST, Tally

BY_DIGITS = "by digits"
"""The `rest` of a shape with marks whose lines are looked at by their digits alone; `text` is -2 with it."""
Known = tuple[int, int, "Tally | None", Any]
"""(begin, end, tally, rest) of a shape: its label's place in the line, and where it is counted. With a `rest` it takes more than counting."""


class Walk:
    """Knows shapes, and where their lines are counted."""

    def __init__(self) -> None:
        self._plans: dict[bytes, tuple[int, int, dict[bytes, list[Any]], Tally | None, Any]] = {}

    def learn(self, shape: bytes, begin: int, end: int, tally: Tally | None, rest: object, text: int) -> None:
        """From now on count lines of this shape, or yield them with their `rest`. With neither, they match nothing.

        Of those with a `rest` and a `text` of 0 or more, lines are counted that were learnt under their shape, a line end,
        and their text from there on, digits and all: the compiled walk does that; this one yields them.
        """
        self._plans[shape] = begin, end, tally.crowd if tally else {}, tally, rest

    def known(self, shape: bytes) -> Known | None:
        plan = self._plans.get(shape)
        return (plan[0], plan[1], plan[3], plan[4]) if plan else None

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
            shape = marks.shape(line)
            plan = None if shape is None else plan_of(shape)
            if plan is not None and plan[4] is BY_DIGITS:
                plan = plan_of(line.translate(DIGITS))
            if plan is None:
                yield start, stop - 1, None
                continue
            begin, end, crowd, tally, rest = plan
            if rest is not None:
                yield start, stop - 1, rest
            elif tally is not None:
                place = base + start
                entry = crowd.get(line[begin:end])
                if entry is None or place >> STRETCH != tally.stretch:
                    tally.add(line[begin:end], place)
                    continue
                # the same as tally.add in a crowd
                entry[COUNT] += 1
                if entry[BURST] != tally.burst:
                    entry[BURST] = tally.burst
                    entry[BURST_FIRST] = place


def new(search: Engine) -> tuple[Any, Any]:
    """(a walk, what makes a tally of so many places): compiled ones where the search is."""
    if extension.native is not None and isinstance(search, extension.native.Search):
        made = extension.native
        return made.Walk(), lambda keep: made.Tally(keep, CROWD, MOST, STRETCH)
    return Walk(), Tally
