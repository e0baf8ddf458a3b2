"""What one process was busy with while the others waited: work as long as their timeout, or an end that hung after all was done."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.model import (
    CANCELLED,
    COLLECTIVE_TIMEOUT,
    ID_TIMEOUT,
    LIMITS,
    SIGTERM,
    Busy,
    Finding,
    Knowledge,
    Observations,
    Reason,
    Timeline,
    number,
    reason,
)

_USUAL = (600.0, 1800.0)
"""Seconds of PyTorch's timeouts where nobody sets them: NCCL since 2.2, and Gloo and NCCL before."""


def tell_busy(finding: Finding, timeline: Timeline, observed: Observations, knowledge: Knowledge) -> Finding:
    """The finding with what kept the others waiting, how late that was reported, and whether all was done before."""
    root = finding.root
    if root is None or finding.verdict != "failed":
        return finding
    if root.cause in (CANCELLED, SIGTERM):
        told = _busy_until_ended(observed.busy, timeline, root.main.order)
    elif finding.cause in knowledge.traits["timed-out"]:
        told = _completed(timeline, root.main.order) or _busy_meanwhile(finding, timeline, observed)
    else:
        return finding
    late = _overdue(finding) if finding.cause == COLLECTIVE_TIMEOUT else None
    reasons = (*(one for one in (told, late) if one is not None), *finding.reasons)
    if told is not None and told.code == "completed-before":  # how its end hung is neither the network's nor a GPU's
        reasons = tuple(one for one in reasons if one.code != "all-entered")
    finding = replace(finding, reasons=reasons)
    heard = {rank for i in (root, *finding.same) for e in i.events for rank in e.ranks}
    if told is None or told.code != "busy-meanwhile" or root.cause != ID_TIMEOUT or 0 in heard:
        return finding
    # rank 0 is the one whose id they waited for
    how = (reason("rank-0-busy", text=told.values["text"]),)
    return replace(finding, origin=replace(finding.origin, rank=0, node=observed.rank_map.node_of.get(0)), how=how)


def _busy_meanwhile(finding: Finding, timeline: Timeline, observed: Observations) -> Reason | None:
    """The work that took as long as the timeout, where no training step came after it began."""
    root, busy = finding.root, observed.busy
    if root is None or busy is None or not _is_last(busy, timeline, root.main.order):
        return None
    told = root.main.captures.get("timeout_ms") or str(observed.numbers.get("timeout_ms", ""))
    spent = busy.elapsed
    if spent is None and busy.time is not None and root.main.origin.time is not None and not root.main.bound:
        spent = root.main.origin.time - busy.time
    limit = number(told) / 1000 if told.isdecimal() else 0
    if spent is None or not LIMITS.work_least * limit <= spent <= LIMITS.work_most * limit or not limit:
        return None
    return reason("busy-meanwhile", kind=busy.kind, text=busy.text, spent=spent, limit=limit)


def _busy_until_ended(busy: Busy | None, timeline: Timeline, end: int) -> Reason | None:
    """Where a step was ended after just the time for which the others wait by default."""
    if busy is None or busy.elapsed is None or not _is_last(busy, timeline, end):
        return None
    limit = next((usual for usual in _USUAL if 0.9 * usual <= busy.elapsed <= 1.02 * usual), None)
    if limit is None:
        return None
    return reason("busy-until-ended", kind=busy.kind, text=busy.text, spent=busy.elapsed, limit=limit)


def _is_last(busy: Busy, timeline: Timeline, end: int) -> bool:
    return busy.order <= end and not any(busy.order < step.order < end for step in timeline.progress)


def _completed(timeline: Timeline, end: int) -> Reason | None:
    """The program's own word that it was done, before the wait."""
    done, last = timeline.finished, timeline.last_progress
    if done is None or done.order > end or (last is not None and last.order > done.order):
        return None
    return reason("completed-before", text=done.line.text.strip()[:80])


def _overdue(finding: Finding) -> Reason | None:
    """A watchdog that reported much later than its limit."""
    assert finding.root is not None
    events = [e.captures for i in (finding.root, *finding.same) for e in i.events]
    times = [(number(c["ran_ms"]), number(c["timeout_ms"])) for c in events if c.get("ran_ms") and c.get("timeout_ms")]
    ran, limit = max(times, default=(0, 1))
    return reason("overdue", ran=ran / 1000, limit=limit / 1000) if ran >= LIMITS.overdue * limit > 0 else None
