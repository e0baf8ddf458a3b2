"""What the log says: lines, who wrote them, and the events that they add up to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from slurmdoctor.model.exits import ProcessExit
from slurmdoctor.model.knowledge import Signal
from slurmdoctor.model.words import ExitReporter, RankBasis, Role

HELD_BACK = 8192
"""Bytes that a program without a terminal holds back before it prints them: they may come after the traceback that ended it."""


LAST_STAMP = "last_stamp"
"""The capture with the time of the last stamped line above one of Slurm's that has none."""


class Origin(Struct, frozen=True):
    """Who said a line, and when. Each field is read from the log, or None: never guessed."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    time: float | None = None
    """Seconds since the epoch as if the stamp were UTC; the year may be assumed (see `dated`)."""
    dated: bool = False
    """Whether the stamp held a year."""
    pid: int | None = None


class Line(Struct, frozen=True):
    """One line, taken apart."""

    source: int
    offset: int
    end: int
    """Offset of the byte after its line end."""
    raw: str
    text: str
    origin: Origin
    label: bytes


class Hit(Struct, frozen=True):
    """One line of one source that a rule or a reader took."""

    source: int
    offset: int
    text: str
    """The line without labels, colour and line end."""
    raw: str
    """The line as printed, without its line end."""

    @property
    def place(self) -> tuple[int, int]:
        """Where the line stands; its number is looked up for the few lines that are shown."""
        return self.source, self.offset


Outlived = Literal["", "maybe", "perhaps", "likely", "shortly", "long"]


class Event(Struct, frozen=True):
    """Something that happened to a rank: the unit that inference reasons about."""

    cause: str
    role: Role
    rule: str
    origin: Origin
    hit: Hit
    order: int
    """Position in the whole job's text, over all sources; comparable between events."""
    rank_basis: RankBasis | None = None
    """How the origin's rank is known."""
    captures: Mapping[str, str] = field(default_factory=dict)
    traceback: tuple[str, ...] = ()
    """The frames and the exception's line, outermost first, where the event is a traceback."""
    group: int = 0
    """Events of one chained traceback, or of one rank's burst, share a group."""
    count: int = 1
    survived: bool = False
    """The same rank, or the job as a whole, went on after it."""
    bound: bool = False
    """The line itself has no time: the origin's is that of a line before it, so it came then or later."""
    others: frozenset[int] = frozenset()
    """The ranks that printed the same and have no event of their own: of a crowd only the first ones have."""
    label: bytes = b""
    """The label of its line, which tells its writer from the others (`WriterKey`)."""
    retried: bool = False
    """A line just after it shows that the error was caught and dealt with: `attempt 2/5 succeeded`."""
    outlived: Outlived = ""
    """Whether what its writer printed after it shows that it went on; after long work what ended it later is something else. Maybe: it
    said something more; perhaps: it spoke on, or told results; likely: the job had survived the same several times."""
    caught: ProcessExit | None = None
    """The signal that a crash handler caught, where its line names one: the process ends by it."""
    warned: bool = False
    """Its line is a record of level WARNING or lower: who prints that goes on."""
    ends_job: bool = False
    """On its line Slurm ends or requeues the whole job."""
    stack_of: Literal["", "current", "main"] = ""
    """Whose frames a crash dump's `traceback` holds: those of the thread that crashed, or of the main thread."""

    @property
    def ranks(self) -> frozenset[int]:
        """All ranks that the event stands for."""
        return self.others if self.origin.rank is None else self.others | {self.origin.rank}


class SignalHit(Struct, frozen=True):
    """A signal's line: progress, a finish, a new attempt, a fact."""

    signal: Signal
    line: Line
    order: int
    captures: Mapping[str, str]

    @property
    def by_program(self) -> bool:
        """Whether a program prints it: `Training complete!` without a label may be an echo of the batch script (group `said`)."""
        return "said" not in self.captures or self.line.raw.strip() != self.line.text.strip()


class ExitReport(Struct, frozen=True):
    """A program's report that one or several processes have ended."""

    line: Line
    witness: str
    """The program that reports it, as the verdict shows it: `mpirun`."""
    exit: ProcessExit
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    pid: int | None = None
    tasks: tuple[int, ...] = ()
    """srun's task ids: ranks only where a task is a rank."""
    time: float | None = None
    first: bool = False
    """The witness itself calls it the first failure."""
    traceback: tuple[str, ...] = field(default=())
    order: int = 0
    """Position of its line in the whole job's text."""
    ranks: tuple[int, ...] = ()
    """The global ranks that it is about; none where they are not known."""
    above: tuple[Line, ...] = ()
    """Lines above an exit that has no known reason, nearest first: where a person would look. Read for a few reports only."""
    rank_basis: RankBasis | None = None
    """How they are known."""
    kind: ExitReporter = "launcher"
    by_rank: bool = False
    """Its witness reports in the order of ranks: that it stands above another report says nothing."""
    launcher: str | None = None
    """What the fact `launcher` is where this report is seen: `torchrun`."""

    @property
    def first_hand(self) -> bool:
        """Whether the witness started the process and saw it end itself."""
        return self.kind == "table"

    @property
    def marks_first(self) -> bool:
        """Whether the witness says of each of its processes whether it failed first."""
        return self.kind == "table"


class CollectiveStatus(Struct, frozen=True):
    """What one rank's watchdog says of one collective."""

    rank: int
    group: str | None = None
    group_rank: int | None = None
    time: float | None = None
    order: int = 0
    seq: int | None = None
    op: str | None = None
    """The operation that timed out; None where the line tells only how far the rank's works were."""
    size: tuple[int, int] | None = None
    """Its input and output elements."""
    group_size: int | None = None
    """How many ranks its group has, where the operation's sizes tell."""
    enqueued: int | None = None
    completed: int | None = None
    dump: bool = False
    """Printed on a dump signal: its numbers are those of the default group, whichever timed out."""
    entered: str | None = None
    """The operation that the rank entered as this number; it need not have hung there."""
    told_by: int | None = None
    """The rank whose time-out gave the dump signal."""
    timeout_ms: int | None = None
    ran_ms: int | None = None
    """How long the operation had run when it timed out."""
    source: int = 0


class Busy(Struct, frozen=True):
    """Work that one process did while others waited, by its bar or by a logger's line."""

    kind: str
    """`preparing`, `fetching`, `saving` or `evaluating`."""
    text: str
    order: int
    elapsed: float | None = None
    """Seconds that it had taken, where a bar says so;"""
    time: float | None = None
    """else when it began."""


class StackDump(Struct, frozen=True):
    """Where one rank stood: the innermost frame of the thread that the line opens."""

    rank: int
    innermost: str
    """`function (file:line)`."""
    line: Line
    where: str = ""
    """`function (file)`: ranks that wait in one loop stand in one place."""
    order: int = 0
    """Position of its first line in the whole job's text."""


class Progress(Struct, frozen=True):
    """One step made by one writer."""

    source: int
    offset: int
    order: int
    rank: int | None
    label: bytes
    step: int | None
    steps: int | None
    time: float | None
    clock_time: float | None = None
    """Where the line has no time of its own: what the log's bare clock showed before it (`readers/attribution.py`)."""
    part: bool = False
    """Whether `steps` may be those of a part of the work: of an epoch, or a bar's."""
    skipped: bool = False
    """Whether steps may stand between the one before in its source and this one that were not read."""

    @property
    def shown_time(self) -> float | None:
        """The time of the step, by its own stamp or by the log's clock."""
        return self.time if self.time is not None else self.clock_time


GPU_MEMORY = "gpu_memory"
"""The fact (rules/facts.yaml) whose lines are readings, not names of their own."""


class MemoryReading(Struct, frozen=True):
    """What one writer's line shows of its GPU's memory, in GiB."""

    rank: int | None
    step: int | None
    text: str
    """As the line shows it: `18.2GB/40GB`."""
    order: int
    used: float | None = None
    total: float | None = None
    peak: float | None = None
    gpu: tuple[int, int] | None = None
    """The node's number and the GPU's on it, where the line names these in place of a rank."""
    before: float | None = None
    """What was used in the first of the steps that were read."""


class MemoryTrend(Struct, frozen=True):
    """How one GPU's memory went while its process ran, in GiB, by samples taken beside it."""

    gpu: int
    node: str | None
    kind: str
    """`grew` steadily, or `level`."""
    first: float
    last: float
    minutes: float
