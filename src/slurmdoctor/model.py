"""The types that flow through slurmdoctor, in the order in which data meets them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, Literal, get_args

from slurmdoctor.records import dataclass

Role = Literal["root", "cascade", "either", "confirmation", "hint"]
"""How a line stands in the chain of events.

root          may start a failure
cascade       follows another failure; the answer only where no root is found
either        the order of events decides
confirmation  a later witness (slurmstepd's oom_kill, NODE FAIL) of what killed a silent rank
hint          noise unless the job failed and nothing better explains it
"""

Confidence = Literal["high", "medium", "low"]
Verdict = Literal["failed", "no-failure", "unknown"]
RetryAdvice = Literal["as-is", "elsewhere", "after-fix", "resume"]
ExitClass = Literal[
    "ok", "python-error", "usage-error", "oom-killed", "killed", "terminated", "segfault", "abort",
    "bus-error", "interrupted", "time-limit", "not-executable", "not-found", "other", "unknown",
]  # fmt: skip


Trait = Literal[
    "generic", "waited", "timed-out", "link", "scheduler", "system", "struck", "hides-hang", "ends-stalled",
    "summary", "exit-only", "like-oom", "killed-process", "is-ending", "own-signal", "blames-node",
    "proven-by-script",
]  # fmt: skip
"""What a cause is like, as far as inference treats such causes alike (`traits:` of a cause's file).

generic           an exit alone establishes it; a more specific cause beside it is the better answer
waited            printed by a rank that waited for another one, or lost its connection to it
timed-out         a wait for other ranks that ended by a timeout
link              what other ranks print when a process or a node goes away
scheduler         what Slurm or a person does to a job, often after it failed or hung
system            reported by the system, often without naming the rank that was hit
struck            printed by, or about, a process that the system ended or whose hardware failed
hides-hang        a rank that hung without printing anything may be the reason for it
ends-stalled      how Slurm or a person ends a job that may have stood still
summary           its cascade repeats an earlier failure of the same process
exit-only         established by an exit status alone; Slurm's record knows better what ended the process
like-oom          how a process may look that the kernel killed for lack of memory
killed-process    its process ends by SIGKILL
is-ending         the cause is the exit itself
own-signal        its process ends by the signal of the same name
blames-node       a node that Slurm reports as bad confirms it
proven-by-script  a mistake in the batch script can explain it completely
"""


# ── knowledge: what the rule files say ───────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Rule:
    """One way in which a known program prints a cause."""

    id: str
    """Stable, `<cause>/<name>`; shown in the verdict."""
    cause: str
    role: Role
    """The rule's own role, or its cause's."""
    source: str
    """The program that prints it, and since which version."""
    literals: tuple[str, ...]
    """Any one of these, present in a line, admits the line to the regex."""
    regex: str
    """Searched (third-party `regex` syntax) in the line without its labels and colours.

    Named groups become captures. `rank`, `local_rank`, `node`, `nodes`, `tasks`, `pid` name who failed.
    """
    on: Literal["line", "exception", "frame"] = "line"
    """What the line must be: any line, an exception's own line (`pkg.SomeError: text`), or a traceback frame."""
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fix:
    """What to do about a cause; `{placeholders}` are filled from captures and facts."""

    do: str
    why: str | None = None
    when: Mapping[str, Any] = field(default_factory=dict)
    """Names (captures, facts, `rule`, `seen`) and the values they must have; `true` means present."""
    reference: str | None = None
    retry: RetryAdvice | None = None
    """What to do with the job where this fix comes first; without it, what its cause says."""


@dataclass(frozen=True, slots=True)
class Cause:
    """All that slurmdoctor knows of one cause: one file of the rules folder."""

    id: str
    family: str
    title: str
    """Completes "rank 13: ..."."""
    role: Role
    exit_classes: tuple[ExitClass, ...]
    explains: frozenset[str]
    """The causes that this one brings about."""
    retry: RetryAdvice
    summary: str
    rules: tuple[Rule, ...]
    fixes: tuple[Fix, ...]
    verify: tuple[str, ...] = ()
    falsepositives: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    traits: frozenset[Trait] = frozenset()
    slurm_states: tuple[str, ...] = ()
    """The job states of Slurm that stand for this cause: TIMEOUT, NODE_FAIL."""
    endings: tuple[ExitClass, ...] = ()
    """The exit classes that alone establish it."""


@dataclass(frozen=True, slots=True)
class LineFormat:
    """A label at the head of a line, as a launcher or logger prints it (`rules/formats.yaml`)."""

    id: str
    pattern: str
    """Anchored at the start of what is left of the line; groups: rank, local_rank, node, time, pid, level."""
    lock: float = 0.0
    """Share of a source's lines that must carry it before it is believed; 0: always believed."""
    samples: tuple[Mapping[str, Any], ...] = ()
    no_match: tuple[str, ...] = ()
    source: str = ""
    after_time: bool = False
    """Only believed directly after a label that held a time."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A line that tells the state of the job rather than a cause (`rules/signals.yaml`, `rules/facts.yaml`)."""

    id: str
    kind: Literal["progress", "finished", "survived", "attempt", "fact"]
    literals: tuple[str, ...]
    regex: str
    match: tuple[str, ...] = ()
    no_match: tuple[str, ...] = ()
    value: str | None = None
    """What a fact is where its line says it by being there (`framework: megatron`), not by a group."""
    source: str = ""


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """Everything read from the rule files."""

    causes: Mapping[str, Cause]
    formats: tuple[LineFormat, ...]
    signals: tuple[Signal, ...]
    paths: tuple[LineFormat, ...] = ()
    """What a file's path says of the process that wrote it (`paths:` of formats.yaml)."""
    touchy: frozenset[str] | None = None
    """The patterns to which digits matter (`shapes.digits_matter`); None where nobody looked: to look takes longer than a scan."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules of all causes, in the order of their ids."""
        return tuple(rule for cause in self.causes.values() for rule in cause.rules)

    @cached_property
    def traits(self) -> Mapping[Trait, frozenset[str]]:
        """Each trait and the ids of the causes that have it; none for a trait that no cause has."""
        traits: tuple[Trait, ...] = get_args(Trait)
        return {one: frozenset(cause.id for cause in self.causes.values() if one in cause.traits) for one in traits}

    @cached_property
    def cause_of_state(self) -> Mapping[str, str]:
        """Slurm's job state -> the cause that it stands for: TIMEOUT -> time-limit."""
        return {state: cause.id for cause in self._ours_first for state in cause.slurm_states}

    @cached_property
    def cause_of_ending(self) -> Mapping[ExitClass, str]:
        """Exit class -> the cause that it establishes where nothing else is known: segfault -> segfault."""
        return {ending: cause.id for cause in self._ours_first for ending in cause.endings}

    @property
    def _ours_first(self) -> list[Cause]:
        """All causes, a site's own last: what a site claims, it has."""
        return sorted(self.causes.values(), key=lambda cause: cause.id.startswith("site/"))


# ── scan: what the log says ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Origin:
    """Who said a line, and when. Each field is read from the log, or None: never guessed."""

    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    time: float | None = None
    """Seconds since the epoch as if the stamp were UTC; the year may be assumed (see `dated`)."""
    dated: bool = False
    """Whether the stamp held a year."""
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """One line of one source that a rule or a reader took."""

    source: int
    offset: int
    line: int
    """1-based."""
    text: str
    """The line without labels, colour and line end."""
    raw: str
    """The line as printed, without its line end."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a rank: the unit that inference reasons about."""

    cause: str
    role: Role
    rule: str
    origin: Origin
    hit: Hit
    order: int
    """Position in the whole job's text, over all sources; comparable between events."""
    captures: Mapping[str, str] = field(default_factory=dict)
    traceback: tuple[str, ...] = ()
    """The frames and the exception's line, outermost first, where the event is a traceback."""
    group: int = 0
    """Events of one chained traceback, or of one rank's burst, share a group."""
    count: int = 1
    survived: bool = False
    """The same rank, or the job as a whole, went on after it."""
    last_order: int = 0
    exit_code: int | None = None
    """For witnesses of a death: the code as printed, negative for a signal."""
    witness: str = ""
    """Who says so, where it is not the rank itself: `torchelastic table`, `srun`, `slurmstepd`, `kernel`..."""
    bound: bool = False
    """The line itself has no time: the origin's is that of a line before it, so it came then or later."""
    others: frozenset[int] = frozenset()
    """The ranks that said the same and have no event of their own: of a crowd only the first ones have."""

    @property
    def ranks(self) -> frozenset[int]:
        """All ranks that the event stands for."""
        return self.others if self.origin.rank is None else self.others | {self.origin.rank}


# ── the answer ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class NamedCause:
    id: str
    family: str
    title: str
    rule: str | None
    confidence: Confidence


@dataclass(frozen=True, slots=True)
class FirstFailure:
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    time: str | None = None
    file: str | None = None
    line: int | None = None
    text: str | None = None
    traceback: tuple[str, ...] = ()
    how: str | None = None
    ranks: tuple[int, ...] = ()
    """All ranks that failed alike at once, where `rank` is only the one first seen (or None)."""


@dataclass(frozen=True, slots=True)
class Exit:
    """How the first failing process ended; `code` is null where only the signal is shown."""

    code: int | None = None
    signal: str | None = None
    exit_class: ExitClass = "unknown"
    step_code: int | None = None
    how: str | None = None
    """The witness that shows it."""
    meaning: str | None = None
    """What such an ending means, in plain words."""


@dataclass(frozen=True, slots=True)
class Evidence:
    file: str
    line: int
    text: str
    rank: int | None
    node: str | None
    time: str | None
    rule: str
    cause: str
    role: Role


@dataclass(frozen=True, slots=True)
class Cascade:
    cause: str
    ranks: int
    count: int
    file: str
    line: int
    time: str | None
    delay: float | None = None
    """Seconds after the first failure, where both times are known."""
    title: str = ""
    """The cause's title, which completes "63 ranks ..."; the reports fall back on the id."""


@dataclass(frozen=True, slots=True)
class Rival:
    id: str
    confidence: Confidence
    why: str


@dataclass(frozen=True, slots=True)
class Remedy:
    do: str
    why: str | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    advice: RetryAdvice
    why: str
    exclude_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that stand alike in the failure (`diagnose --ranks`)."""

    standing: Literal["first", "suspect", "collateral", "waiting", "silent", "finished"]
    ranks: tuple[int, ...]
    why: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was read, and what was not there to read."""

    bytes: int = 0
    lines: int = 0
    files: int = 0
    ranks_seen: int = 0
    silent_ranks: tuple[int, ...] = ()
    order: Literal["timestamps", "file", "unknown"] = "unknown"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The verdict on a job, with everything that proves it."""

    verdict: Verdict
    cause: NamedCause | None = None
    first_failure: FirstFailure | None = None
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

    def to_dict(self) -> dict[str, Any]:
        """The JSON contract, schema_version 1 (`slurmdoctor/report/schema.json`)."""
        from slurmdoctor.report.json import to_dict

        return to_dict(self)

    def to_markdown(self) -> str:
        """A short answer for a chat: at most 1,500 characters, safe to post once redacted."""
        from slurmdoctor.report.markdown import render

        return render(self)


class UserError(Exception):
    """A bad call or bad input: one line that says what is wrong, and one that says how to mend it."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.message}: {self.mend}" if self.mend else self.message
