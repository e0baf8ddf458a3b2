"""What inference concludes: incidents, suspects, and the finding on the job."""

from __future__ import annotations

from typing import Literal

from slurmdoctor.model.events import Event, ExitReport
from slurmdoctor.model.words import Confidence
from slurmdoctor.records import dataclass


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Who held up the collective, or why nobody can be named."""

    kind: Literal["mismatch", "behind", "missing", "all-entered", "unclear"]
    ranks: tuple[int, ...]
    waiting: tuple[int, ...]
    how: str
    confidence: Confidence
    seq: int | None = None
    op: str | None = None
    stands_in: str | None = None
    """Where stack dumps show the suspect, in words."""


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened to one writer at one time: one or more events, and the one that names it."""

    main: Event
    events: tuple[Event, ...]
    report: ExitReport | None = None
    """The witness, where the rank itself said nothing."""

    @property
    def cause(self) -> str:
        return self.main.cause
