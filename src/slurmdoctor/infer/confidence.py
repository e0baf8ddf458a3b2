"""How sure a verdict is (the table of docs/confidence.md), and what shows that the root came before the other errors."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, because, because_first, ranks_of
from slurmdoctor.model import (
    CLASSIFIER,
    EXIT_CODE,
    KILLED,
    PEER_LOST,
    SIGTERM,
    Confidence,
    Event,
    Finding,
    Incident,
    Reason,
    Timeline,
    reason,
)

_RAISED = r"[\w.]*(?:Error|Exception): "
_MOST_NAMED = 4
"""Causes that a reason names."""
_DAY = 86_400.0


def rate_confidence(finding: Finding, case: Case) -> Finding:
    """The finding with its confidence, unless Slurm's record or the time limit settled it, and with the reasons of order."""
    root = finding.root
    if finding.suspicion is not None:
        return _rated(finding, finding.suspicion.confidence)
    if root is not None and root.main.unclocked:
        return _rated(because(finding, reason("kernel-clock-unknown")), "low")
    if root is not None and root.main.rule == CLASSIFIER:
        return _rated(finding, "low")
    if root is None or root.cause == EXIT_CODE or root.main.role == "hint":
        known = root is not None and root.main.role == "hint" and root.report is not None
        return _rated(finding, "medium" if known else "low")
    rank = finding.origin.rank
    agrees = rank is not None and any(r.first and r.rank == rank for r in case.reports)
    witness = [reason("table-agrees")] if agrees else [reason("spoke-on")] if _printed_on(root) else []
    found = because(finding, *_reasons_of_order(finding, root, case.timeline), *witness)
    return _rated(found, _of_root(finding, root, case.timeline, agrees))


def of_a_part(finding: Finding) -> Finding:
    """The finding on a log of which not all was read: it may hold a failure, or an earlier one."""
    if finding.verdict == "failed":
        return replace(finding, confidence="medium") if finding.confidence == "high" else finding
    return because_first(replace(finding, verdict="unknown"), reason("part-read"))


def _rated(finding: Finding, confidence: Confidence) -> Finding:
    return finding if finding.confidence is not None else replace(finding, confidence=confidence)


def _of_root(finding: Finding, root: Incident, timeline: Timeline, agrees: bool) -> Confidence:
    if root.main.role == "cascade" or root.cause in (KILLED, SIGTERM):
        return "low" if root.cause in (PEER_LOST, SIGTERM) else "medium"
    unordered_rivals = bool(finding.rivals) and timeline.order != "timestamps" and not agrees
    done = timeline.finished is not None and timeline.finished.order > root.main.order
    went_on = root.main.survived or (not agrees and (done or _printed_on(root)))
    raised = bool(root.main.traceback or re.match(_RAISED, root.main.hit.text))
    went_on = went_on or (raised and _others_named(finding, timeline))
    return "medium" if unordered_rivals or went_on or root.main.role == "either" else "high"


def _printed_on(root: Incident) -> bool:
    """Whether the root's writer printed much after it, and it may be only an error on the way."""
    return all(event.outlived not in ("", "maybe") for event in root.events)


def _others_named(finding: Finding, timeline: Timeline) -> bool:
    """Whether Slurm names tasks that failed of themselves, and the root's rank is none of them."""
    of_steps = (r for r in timeline.reports if r.kind == "step" and r.exit.code and not r.exit.signal)
    failed = {rank for r in of_steps for rank in r.ranks}
    return bool(failed) and finding.origin.rank is not None and finding.origin.rank not in failed


# ── in what order ────────────────────────────────────────────────────────────────────────────


def _reasons_of_order(finding: Finding, root: Incident, timeline: Timeline) -> list[Reason]:
    others = [incident.main for incident in finding.cascade]
    if not others:
        return []
    by = how_ordered(root.main, others, timeline)
    ranks = len(ranks_of(finding, *finding.cascade))
    found = [reason("first-in-order", by=by, ranks=ranks)] if by not in (None, "below") else []
    causes = tuple(dict.fromkeys(other.cause for other in others))[:_MOST_NAMED]
    delays = [delay for other in others if (delay := delay_to(root.main, other)) is not None]
    within = max(delays, default=None) if by == "time" else None
    return [*found, reason("follows", by=by, causes=causes, within=within)]


def how_ordered(root: Event, others: Sequence[Event], timeline: Timeline) -> str | None:
    """What shows that the root came before the others: `time`, `line`, `partly`; `below`: it is below them."""
    if timeline.order == "unknown":
        return None
    if timeline.order == "timestamps":
        return "time" if all(timeline.key(root) <= timeline.key(other) for other in others) else "below"
    delays = {other.order: delay_to(root, other) for other in others}
    if all(order > root.order if delay is None else delay >= 0 for order, delay in delays.items()):
        if any(delay is not None for delay in delays.values()):
            return "time"
        return "line" if root.origin.time is None else "partly"
    return "below"


def delay_to(root: Event, other: Event) -> float | None:
    """Seconds from the root to the other; by the time of day where only one of the two has a date."""
    start, time = root.origin.time, other.origin.time
    if start is None or time is None:
        return None
    if root.origin.dated == other.origin.dated and (start < _DAY) == (time < _DAY):
        return time - start
    return (time - start + _DAY / 2) % _DAY - _DAY / 2
