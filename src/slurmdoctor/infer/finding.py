"""The verdict in the making: incidents, and what is found out about them step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from slurmdoctor.model import Confidence, Incident, Origin, ProcessExit, Suspicion, Verdict
from slurmdoctor.records import dataclass

GENERIC = frozenset({"python-error", "exit-code", "abort", "killed", "sigterm", "data-worker"})
"""Causes that an ending alone establishes: a more telling cause beside them is the better answer."""
SCHEDULER = frozenset({"time-limit", "preempted", "cancelled", "sigterm"})
"""What Slurm or a person does to a job, often after it had failed or hung."""
STRIKES = frozenset({"host-oom", "node-failure", "gpu-fault"})
"""Causes that the system tells, often without naming the rank that they hit."""
WAITS = frozenset({"collective-timeout", "rendezvous-timeout", "nccl-id-timeout", "peer-lost"})
"""What a rank says that waited for another one: who says it first is no culprit."""


@dataclass(slots=True)
class Finding:
    """What is found out, step by step."""

    verdict: Verdict = "unknown"
    root: Incident | None = None
    cause: str | None = None
    rule: str | None = None
    confidence: Confidence = "low"
    origin: Origin = field(default_factory=Origin)
    how: str | None = None
    exit: ProcessExit | None = None
    exit_how: str | None = None
    step_code: int | None = None
    alike: tuple[int, ...] = ()
    """Ranks that failed alike at once."""
    suspicion: Suspicion | None = None
    same: tuple[Incident, ...] = ()
    """Other incidents of the root's cause."""
    rivals: tuple[Incident, ...] = ()
    cascade: tuple[Incident, ...] = ()
    reasons: list[str] = field(default_factory=list)
    earlier: tuple[Mapping[str, Any], ...] = ()
    """Cause and rank of the attempts that failed before this one, oldest first."""
