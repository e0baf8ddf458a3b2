"""What the rows of a dataset show together: the types. Every number comes with its base."""

from __future__ import annotations

from datetime import date, datetime

from slurmdoctor.model import Frozen


class Cost(Frozen):
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
    gpu_hours: float = 0.0
    """GPU hours of all its jobs, failed or not, where they are known: of partitions and users."""
    title: str | None = None
    """A cause's, which completes "a rank ..."."""


class Period(Frozen):
    """A day, a week or a month: how many jobs ended in it, and the failed ones by cause."""

    begins: date
    jobs: int
    causes: tuple[Cost, ...]


class Suspect(Frozen):
    """A node on which more jobs fail than chance explains."""

    node: str
    failures: int
    """Failures that a node can bring about, as the test counts them (`Nodes.test`)."""
    certain: int
    """Of these, failures that nothing but the node brings about, as a GPU fault."""
    expected: float
    """So many would be there if they fell on the nodes of each partition by their hours or their starts, whichever expects more."""
    jobs: int
    """Jobs that ran on it."""
    hours: float
    """Hours that jobs ran on it."""
    users: int
    causes: tuple[tuple[str, int], ...]
    """Distinct causes, each with its count."""
    chance: float
    """The probability that a node of its hours has so many or more by chance, corrected for the number of nodes tested."""


class Nodes(Frozen):
    """The test of all nodes, and those that did not pass it."""

    tested: int = 0
    failures: int = 0
    hours: float = 0.0
    test: str = ""
    """The test in one sentence."""
    of_programs: int = 0
    """Failures left out: no node brings them about (an error of the program, a cancellation),"""
    without_node: int = 0
    """the log names no node of the job, or which nodes the job had is not known,"""
    counted_already: int = 0
    """or the same user's same trouble is counted already (`test`)."""
    jobs_left_out: int = 0
    """Jobs whose nodes or hours are not known: the hours are without theirs."""
    failed_only: bool = False
    """No job of the dataset went well: hours are of failed jobs only, and the test says less."""
    suspects: tuple[Suspect, ...] = ()
    exclude: str | None = None
    """The line for sbatch: `--exclude=node[03,07]`."""
    not_names: int = 0
    """Suspects that are not in it: what the dataset calls them is no name of a node."""


class SizeClass(Frozen):
    """Jobs of like size: how long they run until one fails."""

    smallest: int
    """GPUs;"""
    largest: int | None
    """no largest number in the last class."""
    jobs: int
    failures: int
    """Failures of any cause but an end by Slurm or a person (time limit, preemption, cancellation)."""
    hours: float
    """Hours that all of them ran."""
    mttf: float | None
    """Hours of running a failure; None without a failure."""
    low: float | None = None
    high: float | None = None
    """Its exact 95 % interval; no upper end without a failure."""
    machine_failures: int = 0
    """Of these failures, those that a node, a link or storage can bring about: not the program's own."""
    machine_mttf: float | None = None
    machine_low: float | None = None
    machine_high: float | None = None


class Delays(Frozen):
    """From the first error to the job's end: what somebody who watches could save."""

    jobs: int = 0
    """Failed jobs of which both times are known,"""
    of: int = 0
    """of so many failed ones: without those that Slurm or a person ended, which have no first error."""
    median_s: float | None = None
    p90_s: float | None = None
    gpu_hours: float = 0.0
    """GPUs times these seconds, in all,"""
    with_gpus: int = 0
    """over so many of these jobs, whose GPUs are known."""
    worst: tuple[tuple[str, float, float], ...] = ()
    """Jobs that cost most so: (job id, seconds, GPU hours)."""


class Repeat(Frozen):
    """A job that one user started again and again, and that died of the same cause each time."""

    user: str | None
    job_name: str | None
    cause: str
    times: int
    """Deaths of that cause in a row: the first, and the runs that began after it."""
    first: datetime | None
    last: datetime | None
    gpu_hours_lost: float | None
    """Of all but the first; None where those of none are known."""
    job_ids: tuple[str, ...] = ()
    """The first ones of the runs that are counted."""


class UnknownKind(Frozen):
    """Jobs that failed of no known cause, and whose last lines have one pattern."""

    pattern: str
    jobs: int
    users: int
    gpu_hours_lost: float | None
    """None where those of none of the jobs are known."""
    example: str
    draft: str
    """The command that drafts a rule from it."""


class Unknown(Frozen):
    """The failures whose cause is not known."""

    jobs: int = 0
    of: int = 0
    """Failed jobs."""
    with_line: int = 0
    """Of these jobs a last line is there."""
    kinds: tuple[UnknownKind, ...] = ()
    generic: tuple[tuple[str, int], ...] = ()
    """Causes that only say how a job ended, and of how many; the other jobs have none."""


class Answers(Frozen):
    """All that a report says. Each row is one of failed, healthy, undecided, errors, not_asked."""

    jobs: int = 0
    """Rows."""
    read: int = 0
    """Of these the logs were read."""
    failed: int = 0
    healthy: int = 0
    undecided: int = 0
    """Neither the log nor Slurm tells whether it failed."""
    errors: int = 0
    """The logs could not be read."""
    not_asked: int = 0
    """Slurm calls them COMPLETED, and they were not read."""
    no_log: int = 0
    """No log was found: Slurm's word decides; such a row is a failed, a healthy or an undecided one."""
    completed_but_failed: int = 0
    """Slurm calls them COMPLETED, and their logs show a failure."""
    first: datetime | None = None
    last: datetime | None = None
    """The first and the last end of a job."""
    gpu_hours: float = 0.0
    gpu_hours_lost: float = 0.0
    with_hours: int = 0
    """Jobs whose GPU hours are known: `gpu_hours` is over these."""
    failed_with_hours: int = 0
    """Failed jobs whose GPU hours are known: `gpu_hours_lost` is over these."""
    lost_counted: tuple[tuple[str, int], ...] = ()
    """How the loss is counted, and of how many jobs."""
    causes: tuple[Cost, ...] = ()
    periods: tuple[Period, ...] = ()
    period: str = "day"
    partitions: tuple[Cost, ...] = ()
    partitions_in_all: int = 0
    users: tuple[Cost, ...] = ()
    """Those that cost most."""
    users_in_all: int = 0
    nodes: Nodes = Nodes()
    sizes: tuple[SizeClass, ...] = ()
    sizes_left_out: int = 0
    """Jobs without a GPU, or whose GPUs or hours are not known."""
    delays: Delays = Delays()
    repeats: tuple[Repeat, ...] = ()
    """Those that cost most."""
    repeats_in_all: int = 0
    repeated_jobs: int = 0
    """Jobs that died of what the run before died of: all but the first of each, in all,"""
    repeated_gpu_hours: float | None = 0.0
    """and what they cost; None where it is not known of any."""
    unknown: Unknown = Unknown()
    rules_versions: int = 1
    """Versions of rules and program that made the rows: of more than one, a run is not finished."""
    rules: tuple[str, ...] = ()
    """These versions; of many the first."""
    undated: int = 0
    """Of the jobs those without any time: they are in no period."""
    undated_left_out: int = 0
    """Jobs without any time that are not in the report, because a date was asked for."""
    lacks: tuple[str, ...] = ()
    """What the dataset lacks, in words: a run that was stopped, shards that are not there."""
    clusters: tuple[str, ...] = ()
    filters: tuple[tuple[str, str], ...] = ()
    """What the report was restricted to: (option, value)."""

    def weight(self, cost: Cost) -> float:
        """What decides how much something costs: GPU hours, or jobs."""
        return cost.gpu_hours_lost if self.by_hours else cost.jobs

    @property
    def by_hours(self) -> bool:
        """Whether GPU hours decide what is first: where those of most failed jobs are not known, the jobs do."""
        return self.gpu_hours_lost > 0 and 2 * self.failed_with_hours >= self.failed
