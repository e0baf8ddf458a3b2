"""What the readers found in the log: the one input of the stages after them."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from slurmdoctor.model.events import CollectiveStatus, Event, ExitReport, Line, Progress, SignalHit, StackDump
from slurmdoctor.model.finding import Reason
from slurmdoctor.model.ranks import RankMap


class LogFile(Struct, frozen=True):
    """One file of the job."""

    name: str
    bytes: int
    lines: int


class Observations(Struct, frozen=True):
    """Everything that was read, in the order of the job's text."""

    events: tuple[Event, ...]
    reports: tuple[ExitReport, ...]
    collectives: tuple[CollectiveStatus, ...]
    signals: tuple[SignalHit, ...]
    rank_map: RankMap
    dumps: Mapping[int, StackDump] = field(default_factory=dict)
    """Each rank's last stack dump."""
    progress: tuple[Progress, ...] = ()
    """Training steps: where they are few all, else those at each file's ends, around the events, and around long pauses."""
    launcher: str | None = None
    """The job's launcher, where one reported an exit: `torchrun`, `srun`."""
    memory: str | None = None
    """The memory that the last step's line shows: `61.2GB`, `7.7G/80G`."""
    last_words: Mapping[int, Line] = field(default_factory=dict)
    """What each rank printed last around the first wait for another rank, its own errors left out."""
    files: tuple[LogFile, ...] = ()
    notes: tuple[Reason, ...] = ()
    """What was not read, and why: the limits that the search and the readers met."""
    complete: bool = True
    """Whether all of the log was looked at; what was not may hold a failure, or an earlier one."""
