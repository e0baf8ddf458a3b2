"""What each rank did over time, as far as the log shows it: the lanes that a page or a trace viewer draws."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from slurmdoctor.model.exits import ProcessExit

State = Literal["running", "waiting", "failed", "followed", "silent", "gone", "finished"]
"""What a rank did.

running   it printed or made steps, or its later end shows that it was there
waiting   in a collective that timed out, or since its last step for others that failed
failed    from its error on, where it was first
followed  from an error on that follows from another rank's
silent    no line of it was read, while others went on or were ended
gone      its process had ended
finished  it had completed
"""
MarkKind = Literal["first", "error", "exit", "step"]


class Span(Struct, frozen=True):
    """What a rank did from one time to another; a failure that ends at once has no length."""

    start: float
    """Seconds from `Lanes.start`."""
    end: float
    state: State


class Mark(Struct, frozen=True):
    """One line of the log that tells of a rank."""

    at: float
    kind: MarkKind
    cause: str | None
    text: str
    file: str | None
    """None where no line shows it: a rank that never came to what others waited in."""
    line: int | None
    rank: int | None = None
    """Whose it is, of the lane's ranks."""


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
    """By rank; none where the log shows no times."""
    start: float = 0.0
    """When the shown part begins: seconds since the epoch as the log's clock counts them."""
    end: float = 0.0
    ticks: tuple[tuple[float, str], ...] = ()
    """Where to label the axis, and the label: the time as the log writes it."""
    began: float = 0.0
    """Where the run began; below 0 where its earlier part is not shown."""


class Sighting(Struct, frozen=True):
    """A line that tells of a rank, before it is worded: a mark to be."""

    at: float
    kind: MarkKind
    rank: int | None = None
    cause: str | None = None
    place: tuple[int, int] | None = None
    """(source, offset) of the line; None where no line shows it."""
    text: str = ""


class Course(Struct, frozen=True):
    """What ranks of one node that went alike did: a lane to be."""

    ranks: tuple[int, ...] = ()
    node: str | None = None
    standing: str = ""
    spans: tuple[Span, ...] = ()
    sightings: tuple[Sighting, ...] = ()
    ending: ProcessExit | None = None
    left_out: int = 0


class Courses(Struct, frozen=True):
    """All of them; times are seconds since the epoch as the log's clock counts them."""

    courses: tuple[Course, ...] = ()
    start: float = 0.0
    end: float = 0.0
    began: float = 0.0
    """When the run began."""
    dated: bool = False
    """Whether the log's stamps name their year."""

    @property
    def places(self) -> set[tuple[int, int]]:
        """(source, offset) of all lines that they show."""
        return {one.place for course in self.courses for one in course.sightings if one.place is not None}
