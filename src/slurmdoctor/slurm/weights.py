"""What Slurm's word weighs against the log's: the causes that yield to it, and how it takes their place. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import Confidence, Origin
from slurmdoctor.slurm.record import JobInfo, Step

BARE = frozenset({"exit-code", "killed", "sigterm", "abort", "cancelled"})
"""What an ending alone establishes: Slurm knows better who ended it."""

OF_MEMORY = frozenset({*BARE, "data-worker", "bus-error", "segfault"})
"""What a process may look like that the kernel killed for memory."""

LINKS = frozenset(
    {
        "collective-timeout",
        "nccl-transport",
        "nccl-id-timeout",
        "peer-lost",
        "rendezvous-timeout",
        "gloo-connect",
        "host-unreachable",
    }
)
"""What the others see when a process or a node goes."""

CAUSE_OF_STATE: Mapping[str, str] = {
    "OUT_OF_MEMORY": "host-oom",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "NODE_FAIL": "node-failure",
    "BOOT_FAIL": "node-failure",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
}

_OF_THE_LOG_ALONE = re.compile(
    r"^(?:steps to the end|the program says|first error|first in the file)|follows? from it$"
)
"""Reasons for a root that Slurm's word has replaced."""


def only_noise(finding: Finding) -> bool:
    return (
        finding.root is None
        or finding.root.main.role in ("cascade", "either", "hint")
        or finding.cause in ("exit-code", "sigterm")
    )


def put(
    finding: Finding, cause: str, reason: str, keep: bool, confidence: Confidence, job: JobInfo, step: Step | None
) -> None:
    """Slurm's word becomes the cause; a rank that is known to have died of it stays."""
    if not keep:
        if finding.root is not None:
            finding.cascade = (finding.root, *finding.cascade)
        finding.root, finding.suspicion, finding.alike = None, None, ()
        nodes = step.nodes if step and step.nodes else job.nodes
        if cause == "node-failure":
            bad = tuple(job.bad_nodes)
            finding.origin = Origin(node=bad[0] if len(bad) == 1 else None)
        else:
            finding.origin = Origin(node=nodes[0] if len(nodes) == 1 and cause == "host-oom" else None)
        finding.how = "Slurm's record says so; the log does not name the process"
        finding.exit, finding.exit_how = None, None
    finding.verdict, finding.cause, finding.rule, finding.confidence = "failed", cause, None, confidence
    finding.cascade = tuple(i for i in finding.cascade if i.cause != cause)
    finding.reasons[:] = [
        reason,
        *(r for r in finding.reasons if keep or not _OF_THE_LOG_ALONE.search(r)),
    ]


def span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def state_of(job: JobInfo) -> str | None:
    """The job's state; in a footer the script's own end, which Slurm has not booked yet."""
    if job.exit_status is None or job.state not in (None, "RUNNING", "COMPLETING"):
        return job.state
    if job.state == "COMPLETING":  # Slurm is ending it: its log has the line that says why
        return "TIMEOUT" if job.reason == "TimeLimit" else None
    return "COMPLETED" if job.exit_status == 0 and not job.running_children else "FAILED"
