"""Who was first: the root's rank and node, from its own line, its message, a witness, or the map of ranks."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.infer.earliest import how_ordered
from slurmdoctor.infer.exits import could_be_own, first_reported, reported_first
from slurmdoctor.infer.extent import alike_ranks, same_failure
from slurmdoctor.infer.members import Members, world_of
from slurmdoctor.infer.missing_peer import name_missing_peer, name_suspect
from slurmdoctor.model import (
    HANG,
    LIMITS,
    NODE_FAILURE,
    NOT_STOPPED,
    TASK_FAILED,
    TICK,
    ExitReport,
    Finding,
    Incident,
    Knowledge,
    Observations,
    Origin,
    Reason,
    Timeline,
    expand_nodes,
    reason,
)


def name_first_rank(
    finding: Finding, timeline: Timeline, observed: Observations, incidents: Sequence[Incident], knowledge: Knowledge
) -> Finding:
    """The rank and node of the root: read, or worked out with its reason, or left open."""
    root = finding.root
    if root is None:
        return _by_the_record(finding)
    if finding.suspicion is not None:
        return name_suspect(finding, finding.suspicion, observed.rank_map)
    if root.cause in knowledge.traits["scheduler"]:
        at = root.main.origin
        failed = any(e.rule == TASK_FAILED for e in timeline.events)
        why = reason("task-failed" if failed else "whole-job")
        return replace(finding, how=(why,), origin=Origin(node=at.node, time=at.time, dated=at.dated))
    victim = root.main.role == "cascade" and root.cause not in knowledge.traits["summary"]
    if root.report is None and (victim or root.cause in knowledge.traits["waited"]):
        return name_missing_peer(finding, root, observed)
    finding = _by_the_log(finding, root, timeline, observed, incidents, knowledge)
    return replace(finding, origin=_where_it_ended(finding, timeline))


def _by_the_record(finding: Finding) -> Finding:
    """Slurm's record names no process: a node where it names one."""
    record = finding.record
    if record is None or finding.origin.node is not None:
        return finding
    nodes = tuple(record.bad_nodes) if finding.cause == NODE_FAILURE else ()
    return replace(finding, origin=Origin(node=nodes[0] if len(nodes) == 1 else None))


def _by_the_log(
    finding: Finding,
    root: Incident,
    timeline: Timeline,
    observed: Observations,
    incidents: Sequence[Incident],
    knowledge: Knowledge,
) -> Finding:
    origin, rank_map, world = root.main.origin, observed.rank_map, world_of(observed)
    how: tuple[Reason, ...] = ()
    if origin.rank is None and root.cause in knowledge.traits["system"]:
        origin, how = _struck(finding, root, knowledge)
    if origin.rank is not None and (better := _ended_by_itself(root, origin, timeline, incidents)) is not None:
        finding = replace(finding, root=better)
        root, origin = better, rank_map.resolve(better.main.origin, better.main.hit.source)[0]
    if origin.rank is None and (rank := _rank_of_same(finding, root, knowledge)) is not None:
        origin = replace(rank_map.resolve(Origin(rank=rank))[0], time=origin.time, dated=origin.dated)
        how = (reason("printed-again"),)
    if origin.rank is not None and _one_of_many(root, timeline, knowledge):
        own = [r for r in timeline.reports if could_be_own(r, root, knowledge)]
        return _unnamed(finding, root, replace(origin, rank=None, local_rank=None), own, timeline, observed)
    if origin.rank is not None:
        alike = alike_ranks(root, incidents, knowledge)
        everyone = len(alike) > 1 and len(alike) >= max(len(world.ranks), alike[-1] + 1)
        how = _how_known(finding, origin.rank, alike, world if everyone else None, how, timeline)
        if root.cause == HANG and len(alike) > 1:  # who stood still alike is not told apart by milliseconds
            origin, how = (
                Origin(time=origin.time, dated=origin.dated),
                (reason("stood-still-alike", ranks=tuple(alike)),),
            )
        if everyone and world.complete and _at_once(root, incidents, timeline, knowledge):
            one_node = len({rank_map.node_of.get(rank, origin.node) for rank in alike}) == 1
            origin = replace(origin, rank=None, local_rank=None, node=origin.node if one_node else None)
        return replace(finding, origin=origin, how=how, alike=tuple(alike) if everyone else ())
    finding = _from_witnesses(finding, root, origin, timeline, observed, knowledge)
    if finding.origin.rank is None and (rank := _group_rank(root, finding.same)) is not None:
        placed = rank_map.resolve(replace(finding.origin, rank=rank))[0]
        return replace(finding, origin=placed, how=(reason("group-rank", rank=rank),))
    return finding


def _at_once(root: Incident, incidents: Sequence[Incident], timeline: Timeline, knowledge: Knowledge) -> bool:
    """Whether no clock shows one of those who failed alike far before the others: then none of them was first."""
    if timeline.order != "timestamps":
        return True
    alike = (
        i for i in incidents if same_failure(i, root, knowledge) and i.main.ranks and i.main.ranks != root.main.ranks
    )
    second = min((timeline.key(i.main)[0] for i in alike), default=0.0)
    return second - timeline.key(root.main)[0] <= LIMITS.at_once


def _where_it_ended(finding: Finding, timeline: Timeline) -> Origin:
    """The origin, its node by the report of the rank's exit: what an earlier job in the same file printed is not its place."""
    origin, root = finding.origin, finding.root
    assert root is not None
    after = (r for r in timeline.reports if r.order > root.main.order and r.node)
    report = next((r for r in after if origin.rank is not None and origin.rank in r.ranks), None)
    if report is None or report.node is None or origin.node is None:
        return origin
    same = report.node.partition(".")[0] == origin.node.partition(".")[0]
    return origin if same else replace(origin, node=report.node)


# ── how a rank is known ──────────────────────────────────────────────────────────────────────


def _how_known(
    finding: Finding,
    rank: int,
    alike: Sequence[int],
    everyone: Members | None,
    known: tuple[Reason, ...],
    timeline: Timeline,
) -> tuple[Reason, ...]:
    root = finding.root
    assert root is not None
    order, aligned = timeline.order, bool(timeline.notes)
    how: tuple[Reason, ...]
    if everyone:
        how = (reason("all-alike", count=len(alike), rank=rank, all=everyone.complete),)
    elif len(alike) > 1:
        how = (reason("first-of-alike", order=order, aligned=aligned, ranks=tuple(alike)),)
    elif known:
        how = known
    elif root.main.rule == NOT_STOPPED:
        how = (reason("not-stopped", task=rank),)
    elif root.report is not None:
        code = "last-line-of-reported" if root.main.role == "hint" else "witness-alone"
        how = (reason(code, witness=root.report.witness),)
    elif not (finding.cascade or finding.rivals or finding.same):
        how = (reason("only-error"),)
    else:
        how = (_first_unexplained(finding, timeline),)
    here = (i.main for i in (root, *finding.same) if i.main.origin.rank == rank)
    assumed = any(event.rank_basis == "lone-launcher" for event in here)
    return (*how, reason("local-rank-assumed")) if assumed else how


def _rank_of_same(finding: Finding, root: Incident, knowledge: Knowledge) -> int | None:
    """The rank that the same error names where it is printed again."""
    if _several_crashed(root, finding.same):
        return None
    same = (i for i in finding.same if same_failure(i, root, knowledge))
    ranks = {i.main.origin.rank for i in same if i.main.origin.rank is not None}
    return ranks.pop() if len(ranks) == 1 else None


def _one_of_many(root: Incident, timeline: Timeline, knowledge: Knowledge) -> bool:
    """Whether its line, or its witness, names one rank for several that ended alike, and not the first."""
    if root.report is not None and root.report.by_rank:
        own = (r for r in timeline.reports if could_be_own(r, root, knowledge))
        return len({rank for r in own for rank in r.ranks}) > 1
    more = any("more_ranks" in e.captures and e.cause == root.cause for e in timeline.events)
    return more and "rank" in root.main.captures


def _several_crashed(root: Incident, same: Sequence[Incident]) -> bool:
    """Whether several processes told of the same end, none of them its rank: a launcher names the one that it noticed."""
    told = (e for i in (root, *same) for e in i.events if e.cause == root.cause and e.origin.rank is None)
    return len({(e.origin.node, e.origin.pid) for e in told if e.origin.pid is not None}) > 1


# ── what witnesses tell ──────────────────────────────────────────────────────────────────────


def _group_rank(root: Incident, same: Sequence[Incident]) -> int | None:
    """The rank in the default process group, where all lines of the root's cause agree on it."""
    events = [e for i in (root, *same) for e in i.events if e.cause == root.cause]
    ranks = {e.captures["group_rank"] for e in events if "group_rank" in e.captures}
    return int(ranks.pop()) if len(ranks) == 1 else None


def _struck(finding: Finding, root: Incident, knowledge: Knowledge) -> tuple[Origin, tuple[Reason, ...]]:
    """The rank that the system hit: the one that died by itself there, not those that lost their peer."""
    origin = root.main.origin
    captures = root.main.captures
    nodes = set(expand_nodes(captures.get("nodes") or captures.get("node") or origin.node or ""))
    for incident in (root, *finding.same, *finding.cascade):
        struck = incident.main.origin
        if struck.rank is None or incident.cause not in knowledge.traits["struck"]:
            continue
        if nodes and struck.node is not None and struck.node not in nodes:
            continue
        time = struck.time if struck.time is not None else origin.time
        return replace(struck, time=time), (reason("struck", cause=root.cause, rank=struck.rank),)
    return origin, ()


def _ended_by_itself(
    root: Incident, origin: Origin, timeline: Timeline, incidents: Sequence[Incident]
) -> Incident | None:
    """Of ranks that failed alike at once, the one that ended by itself came before those that were stopped meanwhile."""
    ends = {rank: r.exit.exit_class for r in timeline.reports if r.kind != "step" for rank in r.ranks}
    if ends.get(origin.rank or 0) != "terminated":
        return None
    for other in incidents:
        rank = other.main.origin.rank
        near = timeline.order != "timestamps" or timeline.key(other.main)[0] <= timeline.key(root.main)[0] + TICK
        if other.cause == root.cause and rank is not None and near and ends.get(rank, "terminated") != "terminated":
            return other
    return None


def _from_witnesses(
    finding: Finding, root: Incident, origin: Origin, timeline: Timeline, observed: Observations, knowledge: Knowledge
) -> Finding:
    """The root's line names no rank: a witness may, if only one process ended as the root would end it."""
    own = [r for r in timeline.reports if could_be_own(r, root, knowledge)]
    if root.report is not None and len(root.report.ranks) > 1:  # srun tells the same end of each node's tasks by itself
        own = [r for r in own if r.exit == root.report.exit]
        origin = origin if len({r.node for r in own}) == 1 else replace(origin, node=None)
    elif origin.node:
        own = [r for r in own if r.node in (None, origin.node)] or own
    named = {r.ranks[0]: r for r in own if len(r.ranks) == 1}
    several = any(len(r.ranks) > 1 for r in own) or any("more_ranks" in e.captures for e in timeline.events)
    crashed = _several_crashed(root, finding.same)
    earliest = first_reported(timeline)
    first = [rank for rank, r in named.items() if r.first and reported_first(r, earliest)]
    # agents that noticed in the same second: the one that speaks first is next to the error
    chosen = next(iter(named)) if len(named) == 1 and not several else first[0] if first else None
    if chosen is None or (crashed and named[chosen].pid not in (None, origin.pid)):
        return _unnamed(finding, root, origin, own, timeline, observed)
    report = named[chosen]
    at = Origin(rank=chosen, node=report.node, local_rank=report.local_rank)
    placed = replace(
        observed.rank_map.resolve(at)[0],
        time=origin.time if origin.time is not None else report.time,
        dated=origin.dated or report.time is not None,
    )
    return replace(finding, origin=placed, how=(reason("witness-names", witness=report.witness, rank=chosen),))


def _first_unexplained(finding: Finding, timeline: Timeline) -> Reason:
    root, others = finding.root, [incident.main for incident in (*finding.cascade, *finding.rivals)]
    by_time = root is not None and bool(others) and how_ordered(root.main, others, timeline) == "time"
    order = "timestamps" if by_time else timeline.order
    return reason("first-unexplained", order=order, aligned=bool(timeline.notes))


def _unnamed(
    finding: Finding,
    root: Incident,
    origin: Origin,
    own: Sequence[ExitReport],
    timeline: Timeline,
    observed: Observations,
) -> Finding:
    """Neither the line nor a witness names one rank. All failed alike only where so many said so."""
    everyone = tuple(sorted({rank for r in own for rank in r.ranks}))
    nodes = {r.node for r in own if r.node}
    node = origin.node or (nodes.pop() if len(nodes) == 1 else None)
    said = sum(e.count for i in (root, *finding.same) for e in i.events if e.cause == root.cause)
    alike: tuple[int, ...] = ()
    if len(everyone) > 1:
        all_said_so = root.report is not None or said >= len(everyone)
        alike = everyone if all_said_so else ()
        how = reason("ended-alike", ranks=everyone)
    elif origin.local_rank is not None:
        how = reason("local-rank-only", local_rank=origin.local_rank)
    else:
        several = observed.ranks_seen or any(r.ranks for r in timeline.reports) or (world_of(observed).size or 1) > 1
        others = finding.cascade or finding.rivals or finding.same
        how = (
            reason("no-rank") if several else _first_unexplained(finding, timeline) if others else reason("only-error")
        )
    return replace(finding, origin=replace(origin, node=node), how=(how,), alike=alike)
