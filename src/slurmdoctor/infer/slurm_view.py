"""How Slurm's word takes the place of what the log alone led to."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import (
    EXIT_CODE,
    HOST_OOM,
    SIGTERM,
    Confidence,
    Finding,
    JobRecord,
    Knowledge,
    Origin,
    Reason,
    RunState,
    Step,
    Timeline,
)

_OF_THE_LOG_ALONE = frozenset({"steps-to-the-end", "program-completed", "stopped-short", "cut-short"})
"""Codes of reasons for a verdict that Slurm's word has replaced."""


class SlurmView(Struct, frozen=True):
    """Slurm's record of a job, and what it is compared with."""

    job: JobRecord
    timeline: Timeline
    run: RunState
    knowledge: Knowledge

    def only_symptoms(self, finding: Finding) -> bool:
        """Whether the log names no root that may start a failure."""
        root = finding.root
        return root is None or root.main.role in ("cascade", "either", "hint") or finding.cause in (EXIT_CODE, SIGTERM)

    def only_an_ending(self, finding: Finding) -> bool:
        """Whether the log shows no more than that something ended."""
        unnamed = finding.verdict != "failed" or self.only_symptoms(finding)
        return unnamed or finding.cause in self.knowledge.traits["exit-only"]

    def replaced(
        self,
        finding: Finding,
        cause: str,
        confidence: Confidence,
        recorded: Reason,
        keep: bool = False,
        step: Step | None = None,
    ) -> Finding:
        """The finding with Slurm's word as its cause; with `keep` a rank that is known to have died of it stays."""
        if not keep:
            old = () if finding.root is None else (finding.root,)
            nodes = step.nodes if step and step.nodes else self.job.nodes
            finding = replace(
                finding,
                cascade=(*old, *finding.cascade),
                root=None,
                suspicion=None,
                origin=Origin(node=nodes[0] if len(nodes) == 1 and cause == HOST_OOM else None),
                how=(Reason("record-names-no-process"),),
                reasons=tuple(r for r in finding.reasons if r.code not in _OF_THE_LOG_ALONE),
            )
        return replace(
            finding,
            verdict="failed",
            cause=cause,
            rule=None,
            confidence=confidence,
            cascade=tuple(i for i in finding.cascade if i.cause != cause),
            reasons=(recorded, *finding.reasons),
        )


def because(finding: Finding, why: Reason) -> Finding:
    """The finding with one more reason."""
    return replace(finding, reasons=(*finding.reasons, why))
