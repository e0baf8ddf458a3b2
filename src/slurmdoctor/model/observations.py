"""What the readers found in the log: the one input of the stages after them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from slurmdoctor.model.events import (
    Busy,
    CollectiveStatus,
    Event,
    ExitReport,
    Line,
    MemoryReading,
    MemoryTrend,
    Progress,
    SignalHit,
    StackDump,
)
from slurmdoctor.model.finding import Reason
from slurmdoctor.model.numbers import number
from slurmdoctor.model.ranks import RankMap


class LogFile(Struct, frozen=True):
    """One file of the job."""

    name: str
    bytes: int
    lines: int
    cut: bool = False
    """Whether it ends within a line."""


class Ending(Struct, frozen=True):
    """How the job's text ends, where no line proves why."""

    telling: Line | None = None
    """The line that looks most like an end,"""
    shown: tuple[Line, ...] = ()
    """and the last ones of its file."""


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
    memory: tuple[MemoryReading, ...] = ()
    """What each rank's last step shows of its GPU's memory, and reports of it."""
    trends: tuple[MemoryTrend, ...] = ()
    """How each GPU's memory went, where something sampled it beside the job."""
    last_words: Mapping[int, Line] = field(default_factory=dict)
    """What each rank printed last around the first wait for another rank, its own errors left out."""
    busy: Busy | None = None
    """What a process was busy with when the first wait timed out, or when the job was ended."""
    rank_0_work: Busy | None = None
    """The work that rank 0's last words tell of, where it was not done."""
    ending: Ending = Ending()
    """Nothing where a line may prove why the job ended."""
    files: tuple[LogFile, ...] = ()
    zone: int | None = None
    """Seconds east of UTC of the log's stamps, where they name a zone."""
    notes: tuple[Reason, ...] = ()
    """What was not read, and why: the limits that the search and the readers met."""
    complete: bool = True
    """Whether all of the log was looked at; what was not may hold a failure, or an earlier one."""

    @property
    def ranks_heard(self) -> set[int]:
        """The ranks of which a line was read."""
        heard = {rank for e in self.events for rank in e.ranks} | {w.rank for w in self.collectives}
        heard |= set(self.last_words) | {step.rank for step in self.progress if step.rank is not None}
        return heard | {int(path["rank"]) for n, path in self._paths() if "rank" in path and self.files[n].lines}

    @property
    def ranks_seen(self) -> set[int]:
        """All ranks that the log names, those of which only others tell, too."""
        seen = self.ranks_heard | self.rank_map.seen | set(self.rank_map.node_of)
        if self.rank_map.tasks_are_ranks:
            seen |= {task for report in self.reports for task in report.tasks}
        return seen

    def _paths(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        return ((n, path) for n, path in self.rank_map.of_path.items() if n < len(self.files))

    @property
    def numbers(self) -> Mapping[str, int]:
        """The facts that are numbers; of each the first line that tells it counts."""
        found: dict[str, int] = {}
        for mark in self.signals:
            if mark.signal.kind == "fact":
                name = mark.signal.id.partition("/")[0]
                for key, value in mark.captures.items():
                    if value.isdecimal():
                        found.setdefault(name if key == "value" else key, number(value))
        return found

    @property
    def started_by(self) -> str | None:
        """What started the ranks, as far as the log shows: the first fact `launcher`, else who reported an exit."""
        told = (mark.signal.value for mark in self.signals if mark.signal.id.partition("/")[0] == "launcher")
        return next((one for one in told if one), self.launcher)
