"""The error that a person can mend: a bad call or bad input."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from time import gmtime
from typing import Literal

from msgspec import field

from slurmdoctor.model.frozen import Frozen
from slurmdoctor.model.notation import ProcessExit


class UserError(Exception):
    """A bad call or bad input: one line that says what is wrong, and one that says how to mend it."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    @property
    def lines(self) -> tuple[str, ...]:
        """The same, one line a problem; a name in it may hold a line end of its own."""
        return (str(self),)

    def __str__(self) -> str:
        return f"{self.message}: {self.mend}" if self.mend else self.message

    def __reduce__(self) -> tuple[object, ...]:
        """As it is, for another process: exceptions pickle only what they were called with."""
        return type(self).__new__, (type(self),), self.__dict__


class LogNotFoundError(UserError, FileNotFoundError):
    """No file has the name, or none fits the pattern."""


class Deadline(Frozen):
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


KnownBy = Literal["name", "folder", "content", "only"]


class JobFiles(Frozen):
    """The files of one job."""

    id: str | None = None
    """As Slurm writes it: `4711`, `4711_3`; None where neither names nor lines tell."""
    array_task: int | None = None
    name: str | None = None
    """What its user called it: `%x` in a file's name, or the folder."""
    files: tuple[str, ...] = ()
    known_by: KnownBy = "only"
    """What distinguished it from the other jobs; `only` where there were no others."""
    doubtful: bool = False
    """They may be of several jobs: nothing tells."""

    @property
    def label(self) -> str:
        """What to call it: its id, else its name, else its first file."""
        return self.id or self.name or (self.files[0] if self.files else "-")


class Glance(Frozen):
    """What the head and the end of a file tell of its job."""

    ids: frozenset[str] = frozenset()
    """Slurm's ids of the job that wrote it."""
    ranks: frozenset[int] = frozenset()


RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "CONFIGURING"})

WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})

FAILED = frozenset(
    {
        "FAILED",
        "TIMEOUT",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "BOOT_FAIL",
        "PREEMPTED",
        "REQUEUED",
        "CANCELLED",
        "REVOKED",
        "LAUNCH_FAILED",
    }
)


GONE = "Slurm no longer knows this job"
NO_RECORD = "no record of this job"
FINAL = (GONE, NO_RECORD, "accounting is off")
"""Answers of Slurm's programs that asking again, or from another machine, would not change."""


class Quote(Frozen):
    """A line that Slurm printed."""

    source: str
    line: int
    text: str


class Step(Frozen):
    """One step of the job: a row of sacct."""

    id: str
    """`0`, `batch`, `extern`."""
    name: str = ""
    state: str | None = None
    exit: ProcessExit | None = None
    nodes: tuple[str, ...] = ()
    elapsed: int | None = None
    max_rss: int | None = None
    """Bytes, of the largest task:"""
    max_rss_task: int | None = None
    max_rss_node: str | None = None
    cancelled_by: int | None = None
    """The uid behind `CANCELLED by 1000`."""
    quote: Quote | None = None

    @property
    def failed(self) -> bool:
        return self.state in FAILED or (
            self.exit is not None and self.exit.exit_class != "ok" and self.state != "COMPLETED"
        )


class FoundLogs(Frozen):
    """How a job's logs were found, where Slurm did not name them."""

    slurm: Literal["unreachable", "gone", "silent", "elsewhere"]
    """Why it did not: `gone` is a job that it no longer knows, `elsewhere` a log that it names and that is not here."""
    how: Literal["name", "submit-line", "script", "comment"]
    files: tuple[str, ...]


class JobRecord(Frozen):
    """One job (an array task, a component of a het job). What Slurm did not print is None."""

    id: str
    name: str | None = None
    state: str | None = None
    cancelled_by: int | None = None
    """The uid behind `CANCELLED by 1000`."""
    uid: int | None = None
    """The job's own user."""
    reason: str | None = None
    exit: ProcessExit | None = None
    """How the batch script ended."""
    derived: ProcessExit | None = None
    """The highest exit code of the job's steps."""
    nodes: tuple[str, ...] = ()
    bad_nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes of this job that Slurm reports as down, drained or failed, and its reason."""
    num_nodes: int | None = None
    num_tasks: int | None = None
    tasks_per_node: int | None = None
    time_limit: int | None = None
    """Seconds."""
    elapsed: int | None = None
    start: float | None = None
    end: float | None = None
    """Seconds since the epoch as if local time were UTC, like a log's own stamps."""
    preempted_at: float | None = None
    restarts: int | None = None
    req_mem: int | None = None
    """Bytes a node."""
    partition: str | None = None
    work_dir: str | None = None
    command: str | None = None
    std_out: str | None = None
    std_err: str | None = None
    raw_id: str | None = None
    """The id that `%j` means, where `id` is an array's with the task, or a component's."""
    submit_line: str | None = None
    failed_node: str | None = None
    """The node whose failure ended the job."""
    comment: str | None = None
    admin_comment: str | None = None
    system_comment: str | None = None
    earlier: tuple[JobRecord, ...] = ()
    """Its runs before this one: it was requeued."""
    found: FoundLogs | None = None
    array_job: str | None = None
    array_task: int | None = None
    het_offset: int | None = None
    het_ids: tuple[str, ...] = ()
    """The ids of all components."""
    steps: tuple[Step, ...] = ()
    step: str | None = None
    """The step that was asked for, where one was."""
    exit_status: int | None = None
    """What the job's own shell saw, where a footer handed it over."""
    running_children: tuple[str, ...] = ()
    """Programs that still ran when the shell ended, where a footer looked."""
    warned_by: str | None = None
    """The signal for which the script asks before the limit: `SIGUSR1`."""
    warned_before: int | None = None
    """Seconds before the limit at which the script asks for a signal (`--signal=B:USR1@120`)."""
    siblings: tuple[str, ...] = ()
    """Other failed tasks of the array, or other components."""
    quotes: Mapping[str, Quote] = field(default_factory=dict)
    sources: frozenset[str] = frozenset()
    """The programs whose output is in it: `scontrol`, `sacct`."""
    missing: tuple[str, ...] = ()
    """What could not be read, each with its reason."""
    cluster: str | None = None
    user: str | None = None
    account: str | None = None
    gpus: int | None = None
    """All that it was given."""
    submitted: float | None = None

    @property
    def label(self) -> str:
        """The id as people write it: of a task of an array `4711_3`."""
        return self.id if self.array_job is None or self.array_task is None else f"{self.array_job}_{self.array_task}"

    @property
    def work_steps(self) -> tuple[Step, ...]:
        """The steps that ran programs: neither the script nor the container for adopted processes."""
        return tuple(s for s in self.steps if s.id not in ("batch", "extern", "interactive"))

    @property
    def failed_step(self) -> Step | None:
        """The last of them that failed."""
        return next((step for step in reversed(self.work_steps) if step.failed), None)

    @property
    def max_rss(self) -> int | None:
        return max((s.max_rss for s in self.steps if s.max_rss), default=None)

    @property
    def year(self) -> int | None:
        """The year in which it started, or at least ended."""
        moment = self.start if self.start is not None else self.end
        return None if moment is None else gmtime(moment).tm_year

    @property
    def ended(self) -> bool:
        return self.state is not None and self.state not in RUNNING | WAITING
