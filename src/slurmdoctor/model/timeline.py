"""The events of a job in the order in which they came, cut into attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct, field

from slurmdoctor.model.events import CollectiveStatus, Event, ExitReport, Progress, SignalHit
from slurmdoctor.model.finding import Reason, reason

Order = Literal["timestamps", "file", "unknown"]
TICK = 1.0
"""Seconds within which two stamps of two clocks do not tell what came first."""


class Clocks(Struct, frozen=True):
    """Seconds by which the clocks of nodes (or files) are ahead of the one that most steps were stamped with."""

    ahead: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    """How many common steps show it."""
    reference: str = ""
    name_of: Callable[[int, int | None, str | None], str] = lambda source, rank, node: ""
    """(source, rank, node) of a line -> the clock that stamped it."""

    def ahead_of(self, source: int, rank: int | None, node: str | None) -> float:
        """What to take from a line's time to compare it with those of other nodes."""
        if not self.ahead:
            return 0.0
        own = self.ahead.get(self.name_of(source, rank, node))
        return self.ahead.get(self.name_of(source, None, None), 0.0) if own is None else own

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What a reader should know of clocks that differ."""
        return tuple(
            reason("clocks-differ", name=name, seconds=by, reference=self.reference, steps=self.steps[name])
            for name, by in sorted(self.ahead.items())
        )


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
    clocks: Clocks = Clocks()

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What a reader should know of its order."""
        return self.clocks.notes if self.order == "timestamps" else ()

    def key(self, event: Event) -> tuple[float, int]:
        """What events are sorted by: the time, and the place in the text."""
        return self.keys.get(event.order, (float("inf"), event.order))
