"""The moment by which a diagnosis must say what it has."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from msgspec import Struct


class Deadline(Struct, frozen=True):
    """A limit in seconds, from a start on a clock that only goes forward: the same one in all processes of a machine."""

    seconds: float = math.inf
    start: float = 0.0
    clock: Callable[[], float] = time.monotonic

    @staticmethod
    def after(seconds: float | None, clock: Callable[[], float] = time.monotonic) -> Deadline:
        """So many seconds from now; never for None."""
        return NEVER if seconds is None else Deadline(seconds, clock(), clock)

    def passed(self, share: float = 1.0) -> bool:
        """Whether this share of the time has gone by."""
        return self.clock() - self.start >= share * self.seconds


NEVER = Deadline()
