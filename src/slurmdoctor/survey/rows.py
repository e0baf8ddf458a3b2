"""The types of a survey: a job that is to be diagnosed, and the row that comes of it. The row is the dataset's schema."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal

from slurmdoctor.model import Frozen, JobRecord

SCHEMA_VERSION = 1
"""It grows with each change of a column that is there; new columns are added at the end."""


OWN_JOBS = "slurmdoctor-survey"
"""Name of the jobs that a survey sends itself: no survey counts them."""


class Log(Frozen):
    """A log, as the file system knows it: what has the same stamp holds the same text."""

    path: str
    inode: int = 0
    size: int = 0
    """Bytes."""
    mtime_ns: int = 0
    begins: int = 0
    """The byte at which this run's text begins: a requeued job appends to its log."""
    ends: int = 0
    """The byte at which it ends, where a later run has written below it; 0 at the file's end."""

    @property
    def length(self) -> int:
        """Bytes of this run's text."""
        return (self.ends or self.size) - self.begins


class Item(Frozen):
    """One job (an array's task, one run of a requeued job), with all that its diagnosis needs. It crosses to other machines."""

    key: str
    """What it is called in the dataset: the same for the same run of the same job, whenever it is surveyed."""
    id: str | None = None
    name: str | None = None
    logs: tuple[Log, ...] = ()
    record: JobRecord | None = None
    script: str | None = None
    """Path of its batch script, where that lies on disk."""
    user: str | None = None
    """The owner of its logs, where no record tells the user."""
    notes: tuple[str, ...] = ()
    """Why a log of it is not there, or may not be its own."""
    read: bool = True
    """Whether its logs are to be read: those of jobs that Slurm calls COMPLETED only where that is asked for."""

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(log.length for log in self.logs) if self.read else 0


class How(Frozen):
    """How each job is diagnosed: the same for a whole run."""

    rules: tuple[str, ...] = ()
    """Folders of site rules."""
    rules_version: str = ""
    """A digest of all rules and of the program: a row of another one is made anew."""
    time_limit: float = 300.0
    """Seconds that one job may take; then the verdict is on what was read until then."""


class Choice(Frozen):
    """Which jobs are meant; empty is all. One ended when its record says so, else when its newest log was written."""

    since: datetime | None = None
    until: datetime | None = None
    """The first moment that is too late."""
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


ALL = Choice()


def fingerprint(item: Item, how: How) -> str:
    """What the row depends on: while it is the same, the job need not be diagnosed again."""
    record = item.record
    known = record and (record.state, record.end, record.elapsed, str(record.exit), len(record.steps))
    parts = repr((item.logs, known, item.script, item.read, how.rules_version))
    return sha256(parts.encode("utf-8", "backslashreplace")).hexdigest()[:32]


Read = Literal["yes", "no-log", "not-asked", "error"]


class Row(Frozen, kw_only=True):
    """One job of the dataset. What is not known is null. Times are local to the cluster, without a zone, as Slurm prints them.

    Beside a field's type is what its column means, as the files say it, too.
    """

    key: Annotated[str, "The run of the job: unique in the dataset"]
    fingerprint: Annotated[str, "What the row depends on: logs, record, rules; the same one is not read again"]
    cluster: Annotated[str | None, "Slurm's name of the cluster"] = None
    job_id: Annotated[str | None, "As Slurm writes it: 4711, 4711_3, 4711+1"] = None
    job_name: Annotated[str | None, "The job's name"] = None
    user: Annotated[str | None, "Who submitted it; without a record the owner of the logs, where they have several"] = (
        None
    )
    account: Annotated[str | None, "Slurm's account"] = None
    partition: Annotated[str | None, "Slurm's partition"] = None
    nodes: Annotated[tuple[str, ...], "The nodes of the job"] = ()
    num_nodes: Annotated[int | None, "How many nodes it had"] = None
    gpus: Annotated[int | None, "How many GPUs it had"] = None
    gpus_known_by: Annotated[
        str | None, "sacct: AllocTRES; log: a GPU a rank, where it shows that GPUs are used; null: not known"
    ] = None
    submitted: Annotated[datetime | None, "When it was submitted"] = None
    started: Annotated[datetime | None, "When it began; without a record the first time in the logs"] = None
    ended: Annotated[datetime | None, "When it ended; without a record the last time in the logs"] = None
    elapsed_s: Annotated[float | None, "Seconds from its start to its end"] = None
    state: Annotated[str | None, "Slurm's state: FAILED, TIMEOUT, COMPLETED ..."] = None
    restarts: Annotated[int | None, "How often it was started again before this end"] = None
    verdict: Annotated[str, "failed, no-failure or unknown"] = "unknown"
    cause: Annotated[str | None, "The root cause's id (slurmdoctor rules list)"] = None
    family: Annotated[str | None, "The cause's family"] = None
    title: Annotated[str | None, "The cause in words"] = None
    confidence: Annotated[str | None, "high, medium or low"] = None
    rule: Annotated[str | None, "The rule that names the cause"] = None
    rank: Annotated[int | None, "The rank that failed first"] = None
    node: Annotated[str | None, "The node of the first failure"] = None
    failed_at: Annotated[datetime | None, "When the first failure was printed"] = None
    ran_on_s: Annotated[float | None, "Seconds from the first failure to the job's end"] = None
    exit_code: Annotated[int | None, "The exit code of the first process that failed"] = None
    exit_signal: Annotated[str | None, "Its signal"] = None
    exit_class: Annotated[str | None, "What kind of end that is (docs/exit-status.md)"] = None
    world_size: Annotated[int | None, "Ranks of the job"] = None
    launcher: Annotated[str | None, "What started the ranks"] = None
    evidence: Annotated[str | None, "The line that proves the cause"] = None
    evidence_file: Annotated[str | None, "The file of that line"] = None
    evidence_line: Annotated[int | None, "Its number in the file"] = None
    fix: Annotated[str | None, "What to do first"] = None
    retry: Annotated[str | None, "What to do with the job: as-is, after-fix, resume, other-nodes ..."] = None
    exclude_nodes: Annotated[tuple[str, ...], "Nodes that the diagnosis advises to leave out"] = ()
    gpu_hours: Annotated[float | None, "GPUs times elapsed hours"] = None
    gpu_hours_lost: Annotated[float | None, "Of these, what the failure cost"] = None
    lost_counted: Annotated[
        str | None, "How the loss is counted: since-checkpoint, whole-run, or null: not known or none"
    ] = None
    last_line: Annotated[str | None, "Where the cause is not known: the last line that tells something"] = None
    logs: Annotated[tuple[str, ...], "The job's log files"] = ()
    bytes: Annotated[int, "Bytes of these"] = 0
    read: Annotated[Read, "yes; no-log: none was found; not-asked: Slurm calls it COMPLETED; error"] = "yes"
    error: Annotated[str | None, "Why it could not be read"] = None
    notes: Annotated[tuple[str, ...], "What was noted: logs that are not there, cut, damaged, or unreadable"] = ()
    slurmdoctor: Annotated[str, "The version of slurmdoctor"] = ""
    rules_version: Annotated[str, "A digest of the rules and the program that made the row"] = ""
    schema_version: Annotated[int, "The version of these columns"] = SCHEMA_VERSION
