"""How sure a verdict is: the table of docs/confidence.md."""

from __future__ import annotations

from slurmdoctor.infer.finding import Finding
from slurmdoctor.timeline.order import Timeline


def weigh(finding: Finding, timeline: Timeline) -> None:
    """Confidence by the table in docs/confidence.md."""
    root = finding.root
    if finding.suspicion is not None:
        finding.confidence = finding.suspicion.confidence
        return
    if root is None or root.cause == "exit-code" or root.main.role == "hint":
        finding.confidence = "medium" if root and root.main.role == "hint" and root.report else "low"
        return
    agrees = [
        r for r in timeline.reports if r.first and finding.origin.rank is not None and r.rank == finding.origin.rank
    ]
    if agrees:
        finding.reasons.append("torchelastic's table names the same rank")
    several = len({i.main.origin.rank for i in finding.rivals}) > 0
    if root.main.role == "cascade" or root.cause in ("killed", "sigterm"):
        finding.confidence = "low" if root.cause in ("peer-lost", "sigterm") else "medium"
    elif (
        (several and timeline.order != "timestamps" and not agrees) or root.main.survived or root.main.role == "either"
    ):
        finding.confidence = "medium"
    else:
        finding.confidence = "high"
    words = {
        "timestamps": "first error by time",
        "file": "first in the file; the log has no usable stamps",
    }.get(timeline.order)
    if words and (finding.cascade or finding.rivals):
        finding.reasons.append(words)
    if finding.cascade:
        kinds = sorted({i.cause for i in finding.cascade})
        finding.reasons.append(f"{', '.join(kinds[:4])} follow{'s' * (len(kinds) == 1)} from it")
