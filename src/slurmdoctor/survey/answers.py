"""What the rows of a dataset say together: the types. Every number stands beside what it is of."""

from __future__ import annotations

from datetime import date, datetime

from msgspec import Struct


class Cost(Struct, frozen=True):
    """Failed jobs that have something in common, and what they cost."""

    what: str
    """A cause's id (`unknown` for none), a partition, a user."""
    jobs: int
    """Jobs that failed so."""
    of: int
    """Of so many that have it in common: all jobs of the partition; for a cause all that failed."""
    users: int = 0
    """Distinct users of these jobs."""
    gpu_hours_lost: float = 0.0
    with_hours: int = 0
    """Failed jobs whose GPU hours are known: the sum is over these."""
    title: str | None = None


class Period(Struct, frozen=True):
    """A day, a week or a month: how many jobs ended in it, and the failed ones by cause."""

    begins: date
    jobs: int
    causes: tuple[Cost, ...]


class Suspect(Struct, frozen=True):
    """A node on which more jobs fail than chance explains."""

    node: str
    failures: int
    """Failures that a node can bring about: one a user, job name, cause and day; program errors are left out."""
    expected: float
    """So many would be there if they fell on all nodes by their hours."""
    jobs: int
    """Jobs that ran on it."""
    hours: float
    """Hours that jobs ran on it."""
    users: int
    causes: tuple[tuple[str, int], ...]
    """Distinct causes, each with its count."""
    chance: float
    """The probability that a node of its hours has so many or more by chance, corrected for the number of nodes tested."""


class Nodes(Struct, frozen=True):
    """The test of all nodes, and those that did not pass it."""

    tested: int = 0
    failures: int = 0
    hours: float = 0.0
    test: str = ""
    """The test in one sentence."""
    left_out: int = 0
    """Failures of programs, or without a node that could be named."""
    suspects: tuple[Suspect, ...] = ()
    exclude: str | None = None
    """The line for sbatch: `--exclude=node[03,07]`."""


class SizeClass(Struct, frozen=True):
    """Jobs of like size: how long they run until one fails."""

    smallest: int
    largest: int
    """GPUs."""
    jobs: int
    failures: int
    hours: float
    """Hours that all of them ran."""
    mttf: float | None
    """Hours of running a failure; None without a failure."""
    low: float | None = None
    high: float | None = None
    """Its 95 % interval."""


class Delays(Struct, frozen=True):
    """From the first error to the job's end: what somebody who watches could save."""

    jobs: int = 0
    """Failed jobs of which both times are known,"""
    of: int = 0
    """of so many failed ones."""
    median_s: float | None = None
    p90_s: float | None = None
    gpu_hours: float = 0.0
    """GPUs times these seconds, in all."""
    worst: tuple[tuple[str, float, float], ...] = ()
    """Jobs that cost most so: (job id, seconds, GPU hours)."""


class Repeat(Struct, frozen=True):
    """A job that one user started again and again, and that died of the same cause each time."""

    user: str | None
    job_name: str | None
    cause: str
    times: int
    """Deaths of that cause in a row."""
    first: datetime | None
    last: datetime | None
    gpu_hours_lost: float
    """Of all but the first."""
    job_ids: tuple[str, ...] = ()


class UnknownKind(Struct, frozen=True):
    """Jobs that failed of no known cause, and whose last lines are alike."""

    pattern: str
    jobs: int
    users: int
    gpu_hours_lost: float
    example: str
    draft: str
    """The command that drafts a rule from it."""


class Unknown(Struct, frozen=True):
    """The failures whose cause is not known."""

    jobs: int = 0
    of: int = 0
    """Failed jobs."""
    with_line: int = 0
    """Of these jobs a last line is there."""
    kinds: tuple[UnknownKind, ...] = ()


class Answers(Struct, frozen=True):
    """All that a report says."""

    jobs: int = 0
    """Rows."""
    read: int = 0
    """Of these the logs were read."""
    failed: int = 0
    healthy: int = 0
    undecided: int = 0
    """Read, and the log does not tell."""
    errors: int = 0
    no_log: int = 0
    not_asked: int = 0
    """Slurm calls them COMPLETED, and they were not read."""
    completed_but_failed: int = 0
    """Slurm calls them COMPLETED, and their logs show a failure."""
    first: datetime | None = None
    last: datetime | None = None
    """The first and the last end of a job."""
    gpu_hours: float = 0.0
    gpu_hours_lost: float = 0.0
    with_hours: int = 0
    """Jobs whose GPU hours are known."""
    lost_counted: tuple[tuple[str, int], ...] = ()
    """How the loss is counted, and of how many jobs."""
    causes: tuple[Cost, ...] = ()
    periods: tuple[Period, ...] = ()
    period: str = "day"
    partitions: tuple[Cost, ...] = ()
    users: tuple[Cost, ...] = ()
    nodes: Nodes = Nodes()
    sizes: tuple[SizeClass, ...] = ()
    delays: Delays = Delays()
    repeats: tuple[Repeat, ...] = ()
    unknown: Unknown = Unknown()
    rules_versions: int = 1
    """Versions of rules and program that made the rows: of more than one, a run is not finished."""
    clusters: tuple[str, ...] = ()
