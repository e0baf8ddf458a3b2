"""What inference concludes: incidents, suspects, reasons, and the finding on the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import field

from slurmdoctor.model.events import Busy, Event, ExitReport, Line, Order, Origin, Reason
from slurmdoctor.model.frozen import Frozen
from slurmdoctor.model.job_records import JobFiles, JobRecord, Quote
from slurmdoctor.model.notation import ProcessExit
from slurmdoctor.model.words import (
    ID_TIMEOUT,
    Confidence,
    ExitClass,
    RetryAdvice,
    Role,
    RunStateKind,
    Standing,
    Verdict,
)


class Suspicion(Frozen):
    """Who held up the collective, or why nobody can be named."""

    kind: Literal["mismatch", "behind", "missing", "lost", "all-entered", "unclear"]
    ranks: tuple[int, ...]
    waiting: tuple[int, ...]
    how: Reason
    confidence: Confidence
    seq: int | None = None
    op: str | None = None
    silent: tuple[int, ...] = ()
    """Ranks of the group of which no line was read, where others are suspected or nobody is."""
    of: int | None = None
    """How many ranks the group has, where the log tells."""
    stuck_in: str | None = None
    """The suspect's innermost frame, where stack dumps show it: `function (file:line)`."""
    line: Line | None = None
    """The line that names the suspect."""


class Incident(Frozen):
    """What happened to one writer at one time: one or more events, and the one that names it."""

    main: Event
    events: tuple[Event, ...]
    report: ExitReport | None = None
    """The exit report, where the rank itself printed nothing."""

    @property
    def cause(self) -> str:
        return self.main.cause


class RunState(Frozen):
    """Whether the job had finished, stood still, or made steps when it ended."""

    kind: RunStateKind | None = None
    """None where neither steps nor a finish tell."""
    idle: float | None = None
    """Seconds from the last step, or from the finish, to the end."""
    since: float | None = None
    """Time of the last step."""
    pause: float | None = None
    """Usual seconds between two steps."""
    step: int | None = None
    """The last step's number."""
    began: str | None = None
    """The line that says that the training loop begins, where no step came after it."""


class EarlierAttempt(Frozen):
    """An attempt that failed before the one that the verdict is about."""

    cause: str | None
    rank: int | None


class ScriptMistake(Frozen):
    """What a check of the batch script found."""

    check: str
    """The check's id: `exit-status-in-pipe`."""
    level: str
    line: int
    says: str
    why: str
    fix: str
    text: str = ""
    """The line of the script."""
    causes: frozenset[str] = frozenset()
    """The causes that it can bring about."""


class ScriptEvidence(Frozen):
    """What the batch script says of the job."""

    name: str
    """The script's file name."""
    facts: Mapping[str, Any]
    mistakes: tuple[ScriptMistake, ...]
    notes: tuple[Reason, ...] = ()
    """What of it was not read, and why."""


class RankStanding(Frozen):
    """Ranks with the same state in the failure, why, and a line that shows it."""

    standing: Standing
    ranks: tuple[int, ...]
    why: tuple[Reason, ...]
    place: tuple[int, int] | None = None
    """(source, offset) of the line."""


class Extent(Frozen):
    """How far a failure reached."""

    ranks: tuple[int, ...] = ()
    """The ranks that failed the same way, held up the others, or waited; none where the log names none."""
    of: int | None = None
    """How many ranks there are, where the log tells."""
    nodes: tuple[str, ...] = ()
    """Their nodes, where each is known."""
    whole_node: bool = False
    """They are all ranks of one node, and no other node has any."""


class Finding(Frozen):
    """What is concluded of a job, with the reasons; the report only words it."""

    verdict: Verdict = "unknown"
    root: Incident | None = None
    cause: str | None = None
    rule: str | None = None
    confidence: Confidence | None = None
    """None until it is rated."""
    origin: Origin = field(default_factory=Origin)
    """The first failing rank and node, and when."""
    how: tuple[Reason, ...] = ()
    """How the first rank is known, or why it is not."""
    exit: ProcessExit | None = None
    """How the first failing process ended."""
    exit_how: tuple[Reason, ...] = ()
    step_code: int | None = None
    together: tuple[int, ...] = ()
    """Ranks that failed the same way at once, or held up the others."""
    extent: Extent = Extent()
    suspicion: Suspicion | None = None
    silent: tuple[int, ...] = ()
    """Ranks of which no line was read, where others are suspected or nobody is."""
    work: Busy | None = None
    """What kept the others waiting, or that all was `finished`."""
    timeout: float | None = None
    """Seconds for which they waited for it."""
    rank_0_work: str | None = None
    """What rank 0 was at while the others waited for its id,"""
    last_words: Line | None = None
    """and the line that shows it, where rank 0 had printed nothing more."""
    socket_nodes: tuple[str, ...] = ()
    """The few nodes that could not use InfiniBand, as others did."""
    same: tuple[Incident, ...] = ()
    """Other incidents of the root's cause."""
    rivals: tuple[Incident, ...] = ()
    """Those of the cascade that nothing explains."""
    cascade: tuple[Incident, ...] = ()
    """Incidents of other causes than the root's."""
    reasons: tuple[Reason, ...] = ()
    earlier: tuple[EarlierAttempt, ...] = ()
    """The attempts that failed before this one, oldest first."""
    evidence: tuple[Event, ...] = ()
    """The lines that prove it, the best first."""
    standings: tuple[RankStanding, ...] = ()
    script: str | None = None
    """The batch script's file name, where a mistake in it bears on the failure."""
    mistakes: tuple[ScriptMistake, ...] = ()
    """Mistakes of the script that bring this failure about."""
    hiding: tuple[ScriptMistake, ...] = ()
    """Mistakes of the script that hid the exit status."""
    record: JobRecord | None = None
    """Slurm's record of the job."""
    quote: Quote | None = None
    """The line of it that shows how the job ended, where it proves the cause."""
    exclude: tuple[str, ...] = ()
    """The nodes that the evidence is against."""
    reported: Mapping[str, str] = field(default_factory=dict)
    """Those of them that Slurm reports as bad, and as what."""
    retry: RetryAdvice | None = None
    """What to do with the job, besides the cause's fixes."""
    node_names: Mapping[str, Any] = field(default_factory=dict)
    """What fixes call the nodes that the failure belongs to."""
    state: RunState = RunState()
    """How the job stood when it ended."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Facts of the job, by name."""
    notes: tuple[Reason, ...] = ()
    """What somebody should know of the job besides."""

    @property
    def held_up(self) -> str | None:
        """How the ranks that are named held up the others."""
        if self.cause == ID_TIMEOUT and self.origin.rank == 0:
            return "awaited"
        return self.suspicion.kind if self.suspicion is not None else None

    @property
    def first_of_cascade(self) -> Mapping[str, Incident]:
        """Each cause of the cascade, and its first incident."""
        return {i.cause: i for i in reversed(self.cascade)}

    @property
    def places(self) -> set[tuple[int, int]]:
        """(source, offset) of all lines that a report shows."""
        shown = [*self.evidence, *(i.main for i in self.first_of_cascade.values())]
        if self.root is not None:
            shown.append(self.root.main)
        return {e.hit.place for e in shown} | {s.place for s in self.standings if s.place is not None}


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


class Span(Frozen):
    """What a rank did from one time to another; a failure that ends at once has no length."""

    start: float
    """Seconds from `RankTimelines.start`."""
    end: float
    state: State


class Mark(Frozen):
    """One line of the log that tells of a rank."""

    at: float
    kind: MarkKind
    cause: str | None = None
    text: str = ""
    file: str | None = None
    """None where no line shows it: a rank that never came to what others waited in."""
    line: int | None = None
    rank: int | None = None
    """Whose it is, of the ranks with the same states."""
    place: tuple[int, int] | None = None
    """(source, offset) of the line."""


class RankTimeline(Frozen):
    """Ranks that did the same at the same times."""

    ranks: tuple[int, ...]
    """None where the log does not tell which rank it is."""
    nodes: tuple[str, ...]
    """Their nodes, as far as they are known."""
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
    exit: ProcessExit | None = None
    """What `ended` words."""
    first: bool = False
    """The first failure is here."""


class RankTimelines(Frozen):
    """All ranks over the shown part of the run: the time around the failure."""

    timelines: tuple[RankTimeline, ...] = ()
    """The first failure first, then by rank; none where the log shows no times."""
    start: float = 0.0
    """When the shown part begins: seconds since the epoch as the log's clock counts them."""
    end: float = 0.0
    ticks: tuple[tuple[float, str], ...] = ()
    """Where to label the axis, and the label: the time of day."""
    since: str = ""
    """`start` as the log writes it."""
    began: float = 0.0
    """Where the run began; below 0 where its earlier part is not shown."""
    dated: bool = False
    """Whether the log's stamps name their year."""
    by_order: bool = False
    """Ranks share a timeline whose states came in the same order, at any times."""
    left_out: tuple[int, ...] = ()
    """Ranks that are in no timeline: there were too many."""

    @property
    def places(self) -> set[tuple[int, int]]:
        """(source, offset) of all lines that they show."""
        return {mark.place for one in self.timelines for mark in one.marks if mark.place is not None}


class NamedCause(Frozen):
    """The cause that the verdict names. Without a failure there is none: it is false, and all in it is None."""

    id: str | None = None
    family: str | None = None
    title: str | None = None
    rule: str | None = None
    confidence: Confidence | None = None

    def __bool__(self) -> bool:
        return self.id is not None


class FirstFailure(Frozen):
    """The rank, the time and the line of the root cause. What is not known, or has not failed, is None."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    time: str | None = None
    """The moment in ISO 8601; None where the log tells no date."""
    file: str | None = None
    line: int | None = None
    text: str | None = None
    traceback: tuple[str, ...] = ()
    how: str | None = None
    ranks: tuple[int, ...] = ()
    """All ranks that failed the same way at once, or that by flight recorder dumps held up the others, where `rank` is only the one
    first seen (or None)."""
    clock: str | None = None
    """The time of day, as the log shows it."""
    worker: str | None = None
    """What the log calls it where no global rank is known: `worker 4`, `node 2`."""
    telling: tuple[int, int] | None = None
    """From where to where the rule takes the text, where that is long; not part of the JSON contract."""

    def __bool__(self) -> bool:
        return self != FirstFailure()


class Exit(Frozen, rename={"exit_class": "class"}):
    """How the first failing process ended; `code` is null where only the signal is shown."""

    code: int | None = None
    signal: str | None = None
    exit_class: ExitClass = "unknown"
    step_code: int | None = None
    how: str | None = None
    """The witness that shows it."""
    meaning: str | None = None
    """What such an ending means, in plain words."""


class Evidence(Frozen):
    file: str
    line: int | None
    """None behind text that was not read."""
    text: str
    rank: int | None
    node: str | None
    time: str | None
    rule: str | None
    cause: str | None
    """None of a line that no rule takes: it only looks like an end."""
    role: Role
    clock: str | None = None


class Surroundings(Frozen):
    """The lines above and below one that a report quotes, whoever wrote them; not part of the JSON contract."""

    file: str
    line: int | None
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    numbered: bool = True
    """Whether the lines follow one another in the file, as the numbers of lines count."""


class Place(Frozen):
    """A line of a log, and when it was printed."""

    file: str
    line: int | None
    time: str | None = None
    clock: str | None = None


class Cascade(Frozen):
    cause: str
    title: str | None
    """The cause's title, which completes "63 ranks ..."; the reports fall back on the id."""
    ranks: int
    count: int
    delay: float | None
    """Seconds after the first failure, where both times are known."""
    first: Place


class Rival(Frozen):
    id: str
    confidence: Confidence
    why: str


class Remedy(Frozen):
    do: str
    why: str | None = None
    reference: str | None = None


class Retry(Frozen):
    advice: RetryAdvice
    why: str
    exclude_nodes: tuple[str, ...] = ()


class RankGroup(Frozen):
    """Ranks with the same state in the failure (`diagnose --ranks`)."""

    standing: Standing
    ranks: tuple[int, ...]
    why: str
    file: str | None = None
    line: int | None = None


class Coverage(Frozen):
    """What was read, and what was not there to read."""

    bytes: int = 0
    lines: int = 0
    files: int = 0
    ranks_seen: int = 0
    silent_ranks: tuple[int, ...] = ()
    order: Order = "unknown"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Diagnosis(Frozen):
    """The verdict on a job, with everything that proves it."""

    verdict: Verdict
    cause: NamedCause = field(default_factory=NamedCause)
    first_failure: FirstFailure = field(default_factory=FirstFailure)
    exit: Exit = field(default_factory=Exit)
    evidence: tuple[Evidence, ...] = ()
    cascade: tuple[Cascade, ...] = ()
    others: tuple[Rival, ...] = ()
    reasons: tuple[str, ...] = ()
    fixes: tuple[Remedy, ...] = ()
    verify: tuple[str, ...] = ()
    retry: Retry | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    coverage: Coverage = field(default_factory=Coverage)
    ranks: tuple[RankGroup, ...] = ()
    extent: Extent = field(default_factory=Extent)
    rank_timelines: RankTimelines = RankTimelines()
    """What each rank did over time; not part of the JSON contract."""
    job: JobFiles = field(default_factory=JobFiles)
    surroundings: tuple[Surroundings, ...] = ()
    """Of the evidence's lines."""
    last_words: str | None = None
    """The line that looks most like an end, without its labels, where none proves why; not part of the JSON contract."""
