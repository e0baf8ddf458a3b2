"""The verdict on a job as it is reported: the types behind the JSON contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from slurmdoctor.model.finding import Extent
from slurmdoctor.model.jobs import JobFiles
from slurmdoctor.model.lanes import Lanes
from slurmdoctor.model.words import Confidence, ExitClass, RetryAdvice, Role, Verdict


class NamedCause(Struct, frozen=True):
    """The cause that the verdict names. Without a failure there is none: it is false, and all in it is None."""

    id: str | None = None
    family: str | None = None
    title: str | None = None
    rule: str | None = None
    confidence: Confidence | None = None

    def __bool__(self) -> bool:
        return self.id is not None


class FirstFailure(Struct, frozen=True):
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
    """All ranks that failed alike at once, where `rank` is only the one first seen (or None)."""
    clock: str | None = None
    """The time of day, as the log shows it."""
    telling: tuple[int, int] | None = None
    """From where to where the rule takes the text, where that is long; not part of the JSON contract."""

    def __bool__(self) -> bool:
        return self != FirstFailure()


class Exit(Struct, frozen=True, rename={"exit_class": "class"}):
    """How the first failing process ended; `code` is null where only the signal is shown."""

    code: int | None = None
    signal: str | None = None
    exit_class: ExitClass = "unknown"
    step_code: int | None = None
    how: str | None = None
    """The witness that shows it."""
    meaning: str | None = None
    """What such an ending means, in plain words."""


class Evidence(Struct, frozen=True):
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


class Surroundings(Struct, frozen=True):
    """The lines above and below one that a report quotes, whoever wrote them; not part of the JSON contract."""

    file: str
    line: int | None
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    numbered: bool = True
    """Whether the lines follow one another in the file, as the numbers of lines count."""


class Cascade(Struct, frozen=True):
    cause: str
    ranks: int
    count: int
    file: str
    line: int | None
    time: str | None
    delay: float | None = None
    """Seconds after the first failure, where both times are known."""
    title: str = ""
    """The cause's title, which completes "63 ranks ..."; the reports fall back on the id."""
    clock: str | None = None


class Rival(Struct, frozen=True):
    id: str
    confidence: Confidence
    why: str


class Remedy(Struct, frozen=True):
    do: str
    why: str | None = None
    reference: str | None = None


class Retry(Struct, frozen=True):
    advice: RetryAdvice
    why: str
    exclude_nodes: tuple[str, ...] = ()


class RankGroup(Struct, frozen=True):
    """Ranks that stand alike in the failure (`diagnose --ranks`)."""

    standing: Literal["first", "suspect", "collateral", "waiting", "silent", "finished"]
    ranks: tuple[int, ...]
    why: str
    file: str | None = None
    line: int | None = None


class Coverage(Struct, frozen=True):
    """What was read, and what was not there to read."""

    bytes: int = 0
    lines: int = 0
    files: int = 0
    ranks_seen: int = 0
    silent_ranks: tuple[int, ...] = ()
    order: Literal["timestamps", "file", "unknown"] = "unknown"
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Diagnosis(Struct, frozen=True):
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
    lanes: Lanes = Lanes()
    """What each rank did over time; not part of the JSON contract."""
    job: JobFiles = field(default_factory=JobFiles)
    surroundings: tuple[Surroundings, ...] = ()
    """Of the evidence's lines."""
    last_words: str | None = None
    """The line that looks most like an end, without its labels, where none proves why; not part of the JSON contract."""
