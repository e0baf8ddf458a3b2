"""What each rank did over time, as far as the log shows it: the lanes that a page or a trace viewer draws."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["running", "waiting", "failed", "followed", "silent", "gone", "finished"]


class Span(Struct, frozen=True):
    """What a rank did from one time to another; a failure that ends at once has no length."""

    start: float
    """Seconds from `Lanes.start`; where `Lanes.clock` is False, a position in the log."""
    end: float
    state: State


class Mark(Struct, frozen=True):
    """One line of the log that tells of a rank."""

    at: float
    kind: Literal["first", "error", "exit", "step"]
    cause: str | None
    text: str
    file: str | None
    line: int | None


class Lane(Struct, frozen=True):
    """Ranks of one node that went alike."""

    ranks: tuple[int, ...]
    """None where the log does not tell which rank it is."""
    node: str | None
    standing: str
    """As in `RankGroup.standing`, or empty where the verdict says nothing of them."""
    spans: tuple[Span, ...]
    """In order; none overlaps another."""
    marks: tuple[Mark, ...]
    """In order."""
    ended: str = ""
    """How their processes ended, where the log tells: `exit code 1`, `SIGTERM`."""
    left_out: int = 0
    """Marks that are not among `marks`: there were too many."""


class Lanes(Struct, frozen=True):
    """All ranks over the shown part of the run: the time around the failure."""

    lanes: tuple[Lane, ...] = ()
    """By rank; none where the log tells of no rank over time."""
    start: float | None = None
    """When the shown part begins: seconds since the epoch as the log's clock counts them; None without a clock."""
    end: float | None = None
    """When it ends. Without a clock the last position."""
    clock: bool = True
    """False where the log has no usable stamps: positions are those of lines in the log."""
    ticks: tuple[tuple[float, str], ...] = ()
    """Where to label the axis, and the label: the time as the log writes it, or `line 120`."""
    began: float = 0.0
    """Where the run began; below 0 where its earlier part is not shown."""
