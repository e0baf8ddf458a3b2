"""Who was first, and how far it reached: the root's rank and node, from its own line, its message, a witness, or the map of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, events_of
from slurmdoctor.infer.confidence import how_ordered
from slurmdoctor.infer.exits import could_be_own, first_reports
from slurmdoctor.infer.silence import name_missing_peer, name_suspect
from slurmdoctor.infer.waiting_ranks import world_of, world_size
from slurmdoctor.model import (
    EXIT_CODE,
    HANG,
    LIMITS,
    NODE_FAILURE,
    NOT_STOPPED,
    TASK_FAILED,
    TICK,
    Event,
    ExitReport,
    Extent,
    Finding,
    Incident,
    Knowledge,
    Origin,
    RankMap,
    Reason,
    expand_nodes,
    reason,
)


def name_first_rank(finding: Finding, incidents: Sequence[Incident], case: Case) -> Finding:
    """The rank and node of the root: read, or worked out with its reason, or left open."""
    root = finding.root
    if root is None:
        return _by_the_record(finding)
    if finding.suspicion is not None:
        return name_suspect(finding, finding.suspicion, case)
    if root.cause in case.traits["scheduler"]:
        at = root.main.origin
        failed = any(e.rule == TASK_FAILED for e in case.events)
        why = reason("task-failed" if failed else "whole-job")
        return replace(finding, how=(why,), origin=Origin(node=at.node, time=at.time, dated=at.dated))
    victim = root.main.role == "cascade" and root.cause not in case.traits["summary"] | {EXIT_CODE}
    if root.report is None and (victim or root.cause in case.traits["waited"]):
        return name_missing_peer(finding, root, case)
    finding = _by_the_log(finding, root, incidents, case)
    return replace(finding, origin=_where_it_ended(finding, root, case))


def _by_the_record(finding: Finding) -> Finding:
    """Slurm's record names no process: a node where it names one."""
    if finding.record is None or finding.origin.node is not None:
        return finding
    nodes = tuple(finding.record.bad_nodes) if finding.cause == NODE_FAILURE else ()
    return replace(finding, origin=Origin(node=nodes[0] if len(nodes) == 1 else None))


def _by_the_log(finding: Finding, root: Incident, incidents: Sequence[Incident], case: Case) -> Finding:
    origin = root.main.origin
    how: tuple[Reason, ...] = ()
    if origin.rank is None and root.cause in case.traits["system"]:
        origin, how = _struck(finding, root, case)
    if origin.rank is not None and (better := _ended_by_itself(root, origin.rank, incidents, case)) is not None:
        finding = replace(finding, root=better)
        root, origin = better, case.rank_map.resolve(better.main.origin, better.main.hit.source)[0]
    if origin.rank is None and (rank := _rank_of_same(finding, root, case)) is not None:
        origin = replace(case.rank_map.resolve(Origin(rank=rank))[0], time=origin.time, dated=origin.dated)
        how = (reason("printed-again"),)
    own = [r for r in case.reports if could_be_own(r, root, case.knowledge)]
    if origin.rank is not None and _one_of_many(root, own, case):
        return _unnamed(finding, root, replace(origin, rank=None, local_rank=None), own, case)
    if origin.rank is not None:
        return _named(finding, root, origin, how, incidents, case)
    finding = _from_witnesses(finding, root, origin, own, case)
    if finding.origin.rank is None and (rank := _group_rank(finding, root)) is not None:
        placed = case.rank_map.resolve(replace(finding.origin, rank=rank))[0]
        return replace(finding, origin=placed, how=(reason("group-rank", rank=rank),))
    if finding.origin.rank is None and not finding.together and case.rank_map.world_size == 1:
        return replace(finding, origin=replace(finding.origin, rank=0), how=(reason("only-rank"),))
    return finding


def _named(
    finding: Finding,
    root: Incident,
    origin: Origin,
    known: tuple[Reason, ...],
    incidents: Sequence[Incident],
    case: Case,
) -> Finding:
    """The root's rank, where it was the first or alone; of ranks that failed the same way at once there is no first one."""
    rank, world, node_of = origin.rank, world_of(case.observed), case.rank_map.node_of
    assert rank is not None
    together = tuple(ranks_together(root, incidents, case.knowledge))
    everyone = len(together) > 1 and len(together) >= max(len(world.ranks), together[-1] + 1)
    apart = _apart(root, incidents, case)
    # a clock, a launcher or the only traceback tells who of some was first; one mistake of the program meets all of them
    at_once = apart <= (LIMITS.at_once if everyone and world.complete else TICK) and len(together) > 1
    at_once = at_once and (everyone or not _stands_out(finding, root, together, case))
    if root.cause == HANG and len(together) > 1:  # who stood still alike is not told apart by milliseconds
        origin = Origin(time=origin.time, dated=origin.dated)
        how: tuple[Reason, ...] = (reason("stood-still-alike", ranks=together),)
    else:
        if everyone or at_once:
            known = (reason("all-alike", count=len(together), rank=rank, all=everyone and world.complete),)
        elif len(together) > 1:
            known = (reason("first-of-alike", order=case.timeline.order, aligned=_aligned(case), ranks=together),)
        how = known or (_how_known(finding, root, rank, case),)
        here = (i.main for i in (root, *finding.same) if i.main.origin.rank == rank)
        if any(event.rank_basis == "lone-launcher" for event in here):
            how = (*how, reason("local-rank-assumed"))
    if at_once:
        one_node = len({node_of.get(rank, origin.node) for rank in together}) == 1
        origin = replace(origin, rank=None, local_rank=None, node=origin.node if one_node else None)
    return replace(finding, origin=origin, how=how, together=together if everyone or at_once else ())


def _apart(root: Incident, incidents: Sequence[Incident], case: Case) -> float:
    """How many seconds the root came before the others that failed the same way; 0 where no clock shows it."""
    together = (i for i in incidents if same_failure(i, root, case.knowledge) and i.main.ranks - root.main.ranks)
    return min((case.key(i)[0] for i in together), default=0.0) - case.key(root)[0]


def _stands_out(finding: Finding, root: Incident, together: Sequence[int], case: Case) -> bool:
    """Whether the root's rank alone is called the first, was not stopped, has a traceback, or failed in words of its own."""
    first = {one for report in first_reports(case) for one in report.ranks}
    own = {one for one, end in _ends(case).items() if end != "terminated"}
    reported = _own_events(finding, root)
    ended = {e.origin.rank for e in reported if e.traceback}
    same_words = {rank for e in reported if e.rule == root.main.rule for rank in e.ranks}
    return {root.main.origin.rank} in ({*together} & first, {*together} & own, ended, same_words)


def _where_it_ended(finding: Finding, root: Incident, case: Case) -> Origin:
    """The origin, its node by the report of the rank's exit: what an earlier job in the same file printed is not its place."""
    origin = finding.origin
    later = (r.node for r in case.reports if r.order > root.main.order and origin.rank in r.ranks and r.node)
    node = next(later, None)
    if node is None or origin.node is None or node.partition(".")[0] == origin.node.partition(".")[0]:
        return origin
    return replace(origin, node=node)


# ── how a rank is known ──────────────────────────────────────────────────────────────────────


def _how_known(finding: Finding, root: Incident, rank: int, case: Case) -> Reason:
    if root.main.rule == NOT_STOPPED:
        return reason("not-stopped", task=rank)
    if root.report is not None:
        code = "last-line-of-reported" if root.main.role == "hint" else "witness-alone"
        return reason(code, witness=root.report.witness)
    return _first_or_only(finding, root, case)


def _first_or_only(finding: Finding, root: Incident, case: Case) -> Reason:
    """That the root was the first that nothing explains, or the only error."""
    if not (finding.cascade or finding.same):
        return reason("only-error")
    others = [incident.main for incident in finding.cascade]
    by_time = how_ordered(root.main, others, case.timeline) == "time"
    order = "timestamps" if by_time else case.timeline.order
    return reason("first-unexplained", order=order, aligned=_aligned(case))


def _aligned(case: Case) -> bool:
    """Whether clocks that differ were brought together."""
    return bool(case.timeline.notes)


def _rank_of_same(finding: Finding, root: Incident, case: Case) -> int | None:
    """The rank that the same error names where it is printed again."""
    if _several_crashed(finding, root):
        return None
    node = root.main.origin.node if root.main.unclocked is not None else None
    here = (i.main for i in finding.same if same_failure(i, root, case.knowledge))
    same = (event.origin.rank for event in here if node in (None, event.origin.node))
    ranks = {rank for rank in same if rank is not None}
    return ranks.pop() if len(ranks) == 1 else None


def _one_of_many(root: Incident, own: Sequence[ExitReport], case: Case) -> bool:
    """Whether its line, or its witness, names one rank for several that ended the same way, and not the first."""
    if root.report is not None and root.report.kind == "box":
        return len({rank for r in own for rank in r.ranks}) > 1
    more = any("more_ranks" in e.captures for e in case.events)
    return more and "rank" in root.main.captures


def _several_crashed(finding: Finding, root: Incident) -> bool:
    """Whether several processes reported the same end, none of them its rank: a launcher names the one that it noticed."""
    reported = (e.origin for e in _own_events(finding, root) if e.origin.rank is None)
    return len({(origin.node, origin.pid) for origin in reported if origin.pid is not None}) > 1


def _own_events(finding: Finding, root: Incident) -> list[Event]:
    """What tells of the root's cause."""
    return [e for e in events_of(finding) if e.cause == root.cause]


# ── what witnesses tell ──────────────────────────────────────────────────────────────────────


def _group_rank(finding: Finding, root: Incident) -> int | None:
    """The rank in the default process group, where all lines of the root's cause agree on it."""
    reported = {e.captures["group_rank"] for e in _own_events(finding, root) if "group_rank" in e.captures}
    return int(reported.pop()) if len(reported) == 1 else None


def _struck(finding: Finding, root: Incident, case: Case) -> tuple[Origin, tuple[Reason, ...]]:
    """The rank that the system hit: the one that died by itself there, not those that lost their peer."""
    origin = root.main.origin
    captures = root.main.captures
    nodes = set(expand_nodes(captures.get("nodes") or captures.get("node") or origin.node or ""))
    for incident in (root, *finding.same, *finding.cascade):
        struck = incident.main.origin
        if struck.rank is None or incident.cause not in case.traits["struck"]:
            continue
        if nodes and struck.node is not None and struck.node not in nodes:
            continue
        time = struck.time if struck.time is not None else origin.time
        return replace(struck, time=time), (reason("struck", cause=root.cause, rank=struck.rank),)
    return origin, ()


def _ends(case: Case) -> dict[int | None, str]:
    """How each rank ended, as its launcher says."""
    return {one: r.exit.exit_class for r in case.reports if r.kind != "step" for one in r.ranks}


def _ended_by_itself(root: Incident, rank: int, incidents: Sequence[Incident], case: Case) -> Incident | None:
    """Of ranks that failed the same way at once, the one that ended by itself came before those that were stopped meanwhile."""
    ends = _ends(case)
    if ends.get(rank) != "terminated":
        return None
    for other in incidents:
        near = case.key(other)[0] <= case.key(root)[0] + TICK
        if other.cause == root.cause and near and ends.get(other.main.origin.rank, "terminated") != "terminated":
            return other
    return None


def _from_witnesses(finding: Finding, root: Incident, origin: Origin, own: list[ExitReport], case: Case) -> Finding:
    """The root's line names no rank: a witness may, if only one process ended as the root would end it."""
    if root.report is not None and root.report.ranks:  # srun tells the same end of each node's tasks by itself
        own = [r for r in own if r.exit == root.report.exit]
        origin = origin if len({r.node for r in own}) == 1 else replace(origin, node=None)
    elif origin.node:
        here = [r for r in own if r.node in (None, origin.node)]
        own = here if here or root.main.unclocked is not None else own
    named = {r.ranks[0]: r for r in own if len(r.ranks) == 1}
    several = any(len(r.ranks) > 1 for r in own) or any("more_ranks" in e.captures for e in case.events)
    firsts = first_reports(case)
    first = [rank for rank, r in named.items() if r in firsts]
    # agents that noticed in the same second: the one that speaks first is next to the error
    chosen = next(iter(named)) if len(named) == 1 and not several else first[0] if first else None
    if chosen is None or (_several_crashed(finding, root) and named[chosen].pid not in (None, origin.pid)):
        return _unnamed(finding, root, origin, own, case)
    report = named[chosen]
    at = Origin(rank=chosen, node=report.node, local_rank=report.local_rank)
    placed = replace(
        case.rank_map.resolve(at)[0],
        time=origin.time if origin.time is not None else report.time,
        dated=origin.dated or report.time is not None,
    )
    return replace(finding, origin=placed, how=(reason("witness-names", witness=report.witness, rank=chosen),))


def _unnamed(finding: Finding, root: Incident, origin: Origin, own: Sequence[ExitReport], case: Case) -> Finding:
    """Neither the line nor a witness names one rank. All failed the same way only where so many reported it."""
    everyone = tuple(sorted({rank for r in own for rank in r.ranks}))
    nodes = {r.node for r in own if r.node}
    node = origin.node or (nodes.pop() if len(nodes) == 1 else None)
    locals_ = {r.local_rank for r in own if not r.ranks}
    if origin.local_rank is None and len(locals_) == 1:  # what an agent calls it, whose node is not known
        origin = replace(origin, local_rank=locals_.pop())
    together: tuple[int, ...] = ()
    if len(everyone) > 1:
        printed = sum(e.count for e in _own_events(finding, root))
        together = everyone if root.report is not None or printed >= len(everyone) else ()
        how = reason("ended-alike", ranks=everyone)
    elif origin.local_rank is not None:
        how = reason("local-rank-only", local_rank=origin.local_rank)
    elif case.observed.ranks_seen or any(r.ranks for r in case.reports) or (world_size(case.observed) or 1) > 1:
        how = reason("no-rank")
    else:
        how = _first_or_only(finding, root, case)
    return replace(finding, origin=replace(origin, node=node), how=(how,), together=together)


# ── how far it reached ───────────────────────────────────────────────────────────────────────


def measure_extent(finding: Finding, case: Case) -> Finding:
    """The finding with its extent: which ranks failed the same way or waited, of how many, and on which nodes; counted, never estimated."""
    ranks = _ranks(finding, case)
    of = finding.suspicion.of if finding.suspicion is not None else None
    nodes = _nodes(ranks, finding, case.rank_map)
    whole = _is_node(ranks, nodes, case.rank_map) and not _ended_together(finding, case) - ranks
    extent = Extent(tuple(sorted(ranks)), of or world_size(case.observed, case.record), nodes, whole)
    return replace(finding, extent=extent)


def _ranks(finding: Finding, case: Case) -> set[int]:
    root, suspicion, rank = finding.root, finding.suspicion, finding.origin.rank
    if suspicion is not None:
        return set(suspicion.ranks or suspicion.waiting)
    if root is None or root.cause in case.traits["scheduler"]:
        return set()
    found = set(finding.together) if rank is None else {rank, *finding.together}
    # those that waited for rank 0 did not fail alike
    alone = root.report is not None or finding.held_up == "awaited"
    return found if alone else found | set(ranks_together(root, finding.same, case.knowledge))


def ranks_together(root: Incident, others: Iterable[Incident], knowledge: Knowledge) -> list[int]:
    """The ranks of the root's failure, in order, with those of the same failure elsewhere."""
    together = (i for i in (root, *others) if same_failure(i, root, knowledge))
    return sorted({rank for i in together for e in i.events if e.cause == root.cause for rank in e.ranks})


def same_failure(one: Incident, root: Incident, knowledge: Knowledge) -> bool:
    """Whether two incidents are the same failure: uncaught exceptions of different kinds are not."""
    if one.cause != root.cause or one.cause not in knowledge.traits["generic"]:
        return one.cause == root.cause
    return one.main.captures.get("exception") == root.main.captures.get("exception")


def _nodes(ranks: set[int], finding: Finding, rank_map: RankMap) -> tuple[str, ...]:
    """The nodes of these ranks; none where one of them is not known."""
    own = {finding.origin.rank: finding.origin.node}
    own |= {e.origin.rank: e.origin.node for e in events_of(finding) if e.origin.node}
    nodes = {own.get(rank) or rank_map.node_of.get(rank, "") for rank in ranks}
    return tuple(sorted(nodes)) if all(nodes) else ()


def _is_node(ranks: set[int], nodes: Sequence[str], rank_map: RankMap) -> bool:
    """Whether these ranks are all that one node has, and other nodes have none of them."""
    if len(ranks) <= 1 or len(nodes) != 1:
        return False
    there = {rank for rank, node in rank_map.node_of.items() if node == nodes[0]}
    return there == ranks and len(set(rank_map.node_of.values())) > 1


def _ended_together(finding: Finding, case: Case) -> set[int]:
    """The ranks that ended with the exit code of the first failure, and of which no line tells another reason."""
    code = finding.exit.code if finding.exit is not None else None
    if code is None or finding.root is None:
        return set()
    reports = (report for report in case.observed.reports if report.exit.code == code)
    causes = (finding.root.cause, EXIT_CODE)
    other = {rank for e in case.observed.events if e.cause not in causes for rank in e.ranks}
    return {rank for report in reports for rank in report.ranks} - other
