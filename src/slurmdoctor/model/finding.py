"""What inference concludes: incidents, suspects, reasons, and the finding on the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from slurmdoctor.model.causes import ID_TIMEOUT
from slurmdoctor.model.events import Event, ExitReport, Origin
from slurmdoctor.model.exits import ProcessExit
from slurmdoctor.model.record import JobRecord, Quote
from slurmdoctor.model.words import Confidence, RetryAdvice, RunStateKind, Standing, Verdict


class Reason(Struct, frozen=True):
    """Why inference decided as it did: a code, and the values that its sentence needs (`report/reasons.py`)."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)


def reason(code: str, **values: Any) -> Reason:
    """A reason with its values by name."""
    return Reason(code, values)


class Suspicion(Struct, frozen=True):
    """Who held up the collective, or why nobody can be named."""

    kind: Literal["mismatch", "behind", "missing", "all-entered", "unclear"]
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
    stands_in: str | None = None
    """The suspect's innermost frame, where stack dumps show it: `function (file:line)`."""


class Incident(Struct, frozen=True):
    """What happened to one writer at one time: one or more events, and the one that names it."""

    main: Event
    events: tuple[Event, ...]
    report: ExitReport | None = None
    """The exit report, where the rank itself printed nothing."""

    @property
    def cause(self) -> str:
        return self.main.cause


class RunState(Struct, frozen=True):
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


class EarlierAttempt(Struct, frozen=True):
    """An attempt that failed before the one that the verdict is about."""

    cause: str | None
    rank: int | None


class ScriptMistake(Struct, frozen=True):
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


class ScriptEvidence(Struct, frozen=True):
    """What the batch script says of the job."""

    name: str
    """The script's file name."""
    facts: Mapping[str, Any]
    mistakes: tuple[ScriptMistake, ...]
    notes: tuple[Reason, ...] = ()
    """What of it was not read, and why."""


class RankStanding(Struct, frozen=True):
    """Ranks that stand alike in the failure, why, and a line that shows it."""

    standing: Standing
    ranks: tuple[int, ...]
    why: tuple[Reason, ...]
    place: tuple[int, int] | None = None
    """(source, offset) of the line."""


class Extent(Struct, frozen=True):
    """How far a failure reached."""

    ranks: tuple[int, ...] = ()
    """The ranks that failed alike, held up the others, or waited; none where the log names none."""
    of: int | None = None
    """How many ranks there are, where the log tells."""
    nodes: tuple[str, ...] = ()
    """Their nodes, where each is known."""
    whole_node: bool = False
    """They are all ranks of one node, and no other node has any."""


class Finding(Struct, frozen=True):
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
    alike: tuple[int, ...] = ()
    """Ranks that failed alike at once."""
    extent: Extent = Extent()
    suspicion: Suspicion | None = None
    same: tuple[Incident, ...] = ()
    """Other incidents of the root's cause."""
    rivals: tuple[Incident, ...] = ()
    """Incidents that nothing explains, of other causes than the root's."""
    cascade: tuple[Incident, ...] = ()
    """Incidents that follow from the root."""
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
    """What to do with the job, whatever the cause's fixes are."""
    node_names: Mapping[str, Any] = field(default_factory=dict)
    """What fixes call the nodes that the failure belongs to."""
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
