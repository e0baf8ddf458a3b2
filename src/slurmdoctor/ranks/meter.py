"""Counts the work of reading around lines, and tells whether a stage has done its share of it.

The unit is a line that is passed over in search of the same writer's: about 2 microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from slurmdoctor.model import Reason, reason

PEELED = 10
"""Units for a line that is taken apart."""
MOST: Mapping[str, int] = {
    "places": 300_000,
    "tracebacks": 300_000,
    "stamps": 200_000,
    "stacks": 60_000,
    "caught": 120_000,
    "messages": 60_000,
    "afterlife": 60_000,
}
"""Units that each stage may spend: half a second at most. A job with few lines that tell something comes nowhere near."""
_UNTOLD = ("stamps", "caught", "afterlife")
"""Stages whose answers are as good without what stands far away."""

Item = TypeVar("Item")


class Meter:
    """The work done, and what is left of the share of the item that is worked on."""

    def __init__(self) -> None:
        self.done = 0
        self._left = sum(MOST.values())
        self._short = 0

    def each(self, stage: str, items: Sequence[Item]) -> Iterator[Item]:
        """The items of a stage, with an equal share of what is left for each; what one leaves, the others have."""
        left = MOST[stage]
        try:
            for number, item in enumerate(items):
                share = self._left = left // (len(items) - number)
                yield item
                left -= share - self._left
                if self._left <= 0 and stage not in _UNTOLD:
                    self._short += 1
        finally:
            self._left = sum(MOST.values())

    def spend(self, units: int = 1) -> bool:
        """Whether there is work left to do for this item; if so, it is so much less."""
        if self._left <= 0:
            return False
        self._left -= units
        self.done += units
        return True

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What to tell of shares that did not suffice."""
        return (reason("read-in-part", count=self._short),) if self._short else ()
