"""The events of a job in the order in which they came, cut into attempts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from slurmdoctor.model.events import CollectiveStatus, Event, ExitReport, Progress, SignalHit
from slurmdoctor.model.finding import Reason

Order = Literal["timestamps", "file", "unknown"]
TICK = 1.0
"""Seconds within which two stamps of two clocks do not tell what came first."""


class Timeline(Struct, frozen=True):
    """The last attempt that failed, in order; what came before it is kept apart."""

    events: tuple[Event, ...] = ()
    reports: tuple[ExitReport, ...] = ()
    collectives: tuple[CollectiveStatus, ...] = ()
    earlier: tuple[Timeline, ...] = ()
    """The attempts that failed before, oldest first."""
    attempts: int = 1
    span: tuple[int, int] = (0, 1 << 62)
    """From where to where the attempt stands in the job's text."""
    order: Order = "unknown"
    finished: SignalHit | None = None
    """The last line that says that the program completed."""
    last_progress: Progress | None = None
    progress: tuple[Progress, ...] = ()
    began: SignalHit | None = None
    """The last line that says that the training loop begins, where no step came after it."""
    keys: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    """Event order -> its sorting key."""
    cut: bool = False
    """Whether a file of the job ends within a line."""
    notes: tuple[Reason, ...] = ()

    def key(self, event: Event) -> tuple[float, int]:
        """What events are sorted by: the time, and the place in the text."""
        return self.keys.get(event.order, (float("inf"), event.order))
