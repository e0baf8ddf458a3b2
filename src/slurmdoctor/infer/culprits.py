"""A culprit that printed nothing: from the others' sequence numbers, their stack dumps, or what a barrier counted."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.infer import collectives
from slurmdoctor.infer.members import Members, world_of
from slurmdoctor.infer.stacks import odd_ones
from slurmdoctor.model import (
    COLLECTIVE_TIMEOUT,
    HANG,
    LIMITS,
    PEER_LOST,
    Confidence,
    ExitReport,
    Finding,
    JobRecord,
    Knowledge,
    Observations,
    Suspicion,
    Timeline,
    number,
    reason,
)


def find_silent_culprit(
    finding: Finding, timeline: Timeline, observed: Observations, knowledge: Knowledge, record: JobRecord | None = None
) -> Finding:
    """Only time-outs: stack dumps, or the collective's sequence numbers, tell who never came."""
    root = finding.root
    if (far := collectives.how_far(timeline.collectives)) is not None:
        finding = replace(finding, reasons=(*finding.reasons, far))
    if root is None or root.cause not in knowledge.traits["hides-hang"]:
        return finding
    suspicion = _from_stacks(observed)
    if root.cause in knowledge.traits["scheduler"]:
        if suspicion is None:
            return finding  # a job that was ended from outside need not have hung
        finding = replace(finding, cause=HANG, rule=None)
    if suspicion is None and root.cause != HANG:
        world = world_of(observed, record)
        suspicion = (
            _named_by_others(finding)
            or collectives.suspect(timeline.collectives, world, _exits_of_ranks(timeline), observed.ranks_heard)
            or _never_timed_out(finding, timeline, world)
        )
        if suspicion is not None:
            finding = replace(finding, cause=COLLECTIVE_TIMEOUT)
    if suspicion is not None:
        finding = _with_suspicion(finding, suspicion, observed)
    elif finding.cause == HANG:
        finding = _with_the_silent(finding, world_of(observed, record), observed.ranks_heard)
    first = {w.told_by for w in timeline.collectives} - {None}
    if len(first) != 1 or finding.cause != COLLECTIVE_TIMEOUT:
        return finding
    return replace(finding, reasons=(*finding.reasons, reason("timed-out-first", rank=first.pop())))


def _with_suspicion(finding: Finding, suspicion: Suspicion, observed: Observations) -> Finding:
    """The finding with its suspect, what that rank printed meanwhile, and the suspect's own incident as the root."""
    root = finding.root
    assert root is not None
    reasons = [*finding.reasons, suspicion.how]
    if suspicion.silent and suspicion.kind != "unclear":
        reasons.append(reason("says-nothing", ranks=suspicion.silent, of=suspicion.of))
    if len(suspicion.ranks) == 1 and suspicion.kind in ("missing", "behind") and not suspicion.stands_in:
        words = observed.last_words.get(suspicion.ranks[0])
        if words is not None:
            reasons.append(reason("meanwhile", rank=suspicion.ranks[0], text=words.text.strip()[:100]))
    finding = replace(finding, suspicion=suspicion, reasons=tuple(reasons))
    own = next((i for i in finding.same if i.main.origin.rank in suspicion.ranks and i.report is None), None)
    if own is None:
        return finding
    return replace(finding, root=own, same=(root, *(i for i in finding.same if i is not own)))


def _with_the_silent(finding: Finding, world: Members, heard: set[int]) -> Finding:
    """The finding on ranks that stood still, with those of which no line was read: where to look first."""
    silent = tuple(rank for rank in world.ranks if rank not in heard)
    if not silent or not (world.complete or len(heard) >= LIMITS.waiting_of_unknown):
        return finding
    return replace(finding, reasons=(*finding.reasons, reason("says-nothing", ranks=silent, of=world.size)))


def _from_stacks(observed: Observations) -> Suspicion | None:
    odd = odd_ones({rank: dump.where for rank, dump in observed.dumps.items()})
    if odd is None:
        return None
    ranks, usual = odd
    here = observed.dumps[ranks[0]].innermost
    how = reason("stands-elsewhere", ranks=ranks, here=here, usual=usual)
    return Suspicion("behind", ranks, tuple(observed.dumps), how, "medium", stands_in=here)


def _named_by_others(finding: Finding) -> Suspicion | None:
    """monitored_barrier and PyTorch's desync report name the ranks that did not come."""
    assert finding.root is not None
    missing: set[int] = set()
    report = ""
    for incident in (finding.root, *finding.same, *finding.cascade):
        for event in incident.events:
            named = event.captures.get("missing_ranks") or event.captures.get("lagging_ranks")
            if named and event.cause == COLLECTIVE_TIMEOUT:
                missing |= {number(n) for n in named.replace(",", " ").split() if n.isdecimal()}
                report = "barrier" if event.captures.get("missing_ranks") else "desync"
    if not missing:
        return None
    ranks = tuple(sorted(missing))
    how = reason("named-missing", report=report, ranks=ranks)
    return Suspicion("missing", ranks, (), how, "medium" if len(ranks) == 1 else "low")


def _exits_of_ranks(timeline: Timeline) -> dict[int, ExitReport]:
    """The exit reports that speak of one rank alone."""
    return {report.ranks[0]: report for report in timeline.reports if len(report.ranks) == 1}


def _never_timed_out(finding: Finding, timeline: Timeline, world: Members) -> Suspicion | None:
    """Gloo names no collective: a rank that neither timed out nor lost a peer then was the one that the others waited for."""
    root = finding.root
    assert root is not None
    if root.cause != COLLECTIVE_TIMEOUT:
        return None
    waits = [i for i in (root, *finding.same) if i.main.role == "either"]
    waiting = {rank for i in waits for e in i.events for rank in e.ranks}
    if len(waiting) < LIMITS.waiting or not world.complete:
        return None
    missing = tuple(sorted(set(world.ranks) - waiting - _lost_a_peer_then(finding, timeline)))
    if not missing or len(missing) > max(1, len(world.ranks) // LIMITS.few):
        return None
    how = reason("did-not-wait", waiting=len(waiting), of=world.size, ranks=missing)
    sure: Confidence = "medium" if len(missing) == 1 else "low"
    return Suspicion("missing", missing, tuple(sorted(waiting)), how, sure, of=world.size)


def _lost_a_peer_then(finding: Finding, timeline: Timeline) -> set[int]:
    """The ranks that lost a peer when the others timed out: no culprits."""
    assert finding.root is not None
    start, low = timeline.key(finding.root.main)
    timed = timeline.order == "timestamps"
    return {
        rank
        for i in finding.cascade
        if i.cause == PEER_LOST
        and (
            timeline.key(i.main)[0] <= start + LIMITS.lost_with_others
            if timed
            else i.main.order - low < LIMITS.lost_with_others_bytes
        )
        for e in i.events
        for rank in e.ranks
    }
