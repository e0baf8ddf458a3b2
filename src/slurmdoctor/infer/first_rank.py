"""Who was first: the root's rank and node, from its own line, its message, a witness, or a map learnt from the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slurmdoctor.infer.culprits import lines_of_rank
from slurmdoctor.infer.endings import ended_first, own_death
from slurmdoctor.infer.finding import GENERIC, SCHEDULER, STRIKES, WAITS, Finding
from slurmdoctor.model import Incident, Origin, RankMap, Suspicion
from slurmdoctor.model.ranges import expand_nodes, ranges
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.timeline.order import TICK, Timeline

_STRUCK = ("killed", "host-oom", "segfault", "bus-error", "cuda-error", "gpu-fault", "data-worker", "exit-code")
"""What the process says, or is said of it, that the system struck."""
_SUMMED_UP = frozenset({"container", "slurm-step"})
"""Their cascades sum up the same process's failure: no other process is behind them."""
_MOST_MISSING = 0.5


def name_first(
    finding: Finding, timeline: Timeline, maps: RankMap, incidents: Sequence[Incident], lines: Lines
) -> None:
    """The rank and node of the root: read, or worked out with the reason told, or left open."""
    root = finding.root
    if root is None:
        return
    if finding.suspicion is not None:
        _name_suspect(finding, finding.suspicion, maps)
        return
    if root.cause in SCHEDULER:
        finding.how = "Slurm or a person ended the whole job, not one rank"
        finding.origin = Origin(node=root.main.origin.node, time=root.main.origin.time, dated=root.main.origin.dated)
        return
    victim = root.main.role == "cascade" and root.cause not in _SUMMED_UP
    if root.report is None and (victim or root.cause in WAITS):
        _name_missing_peer(finding, root, timeline, maps, lines)
        return
    origin = root.main.origin
    if origin.rank is None and root.cause in STRIKES:
        origin = _struck(finding, root, origin, maps)
    if origin.rank is not None and (better := _ended_by_itself(root, origin, timeline, maps, incidents)) is not None:
        finding.root = root = better
        origin = maps.resolve(root.main.origin, root.main.hit.source)[0]
    if origin.rank is None:
        ranks = {i.main.origin.rank for i in finding.same if i.main.origin.rank is not None and _alike(i, root)}
        if len(ranks) == 1:
            origin = replace(maps.resolve(Origin(rank=ranks.pop()))[0], time=origin.time, dated=origin.dated)
            finding.how = "the error is told again with its rank"
    if origin.rank is not None:
        _tell_how(finding, root, origin, timeline, maps, incidents)
    else:
        origin = _from_witnesses(finding, root, origin, timeline, maps)
        if origin.rank is None and (rank := _group_rank(root, finding.same)) is not None:
            origin = maps.resolve(replace(origin, rank=rank))[0]
            finding.how = (
                f"the watchdog that quotes the error says [Rank {rank}], and no other process group is to be seen"
            )
    finding.origin = _where_it_ended(origin, root, timeline, maps, lines)


def _where_it_ended(origin: Origin, root: Incident, timeline: Timeline, maps: RankMap, lines: Lines) -> Origin:
    """The node by the witness of the rank's end: what an earlier job in the same file said of this rank is not its place."""
    after = (r for r in timeline.reports if r.order > root.main.order and r.node)
    report = next((r for r in after if origin.rank is not None and origin.rank in r.ranks), None)
    if report is None or report.node is None or origin.node is None:
        return origin
    same = report.node.partition(".")[0] == origin.node.partition(".")[0]
    return origin if same else replace(origin, node=report.node)


def _tell_how(
    finding: Finding, root: Incident, origin: Origin, timeline: Timeline, maps: RankMap, incidents: Sequence[Incident]
) -> None:
    assert origin.rank is not None
    alike = sorted(
        {rank for i in incidents if _alike(i, root) for e in i.events if e.cause == root.cause for rank in e.ranks}
    )
    # ranks count from 0: where the size is not told, ranks 10 and 11 alone are not all of them
    everyone = maps.world_size or max((*alike, *maps.seen), default=0) + 1
    if len(alike) > 1 and len(alike) >= max(2, everyone):
        finding.alike = tuple(alike)
        finding.how = f"all {len(alike)} ranks failed alike; first seen on rank {origin.rank}"
    elif len(alike) > 1:
        finding.how = f"{_order_words(timeline)} of {len(alike)} ranks that failed alike ({ranges(alike)})"
    elif finding.how:
        pass
    elif root.report is not None:
        finding.how = f"{root.report.witness} reports it; the rank itself said nothing"
    else:
        finding.how = f"{_order_words(timeline)} that nothing else explains"
    here = [i.main for i in (root, *finding.same) if i.main.origin.rank == origin.rank]
    if any(event.rank_basis == "lone-launcher" for event in here):
        finding.how += "; its rank is its local rank: one launcher speaks, and nothing shows a second node"


def _alike(one: Incident, root: Incident) -> bool:
    """Whether two incidents are the same failure: uncaught exceptions of different kinds are not."""
    if one.cause != root.cause:
        return False
    return one.cause not in GENERIC or one.main.captures.get("exception") == root.main.captures.get("exception")


def _order_words(timeline: Timeline) -> str:
    if timeline.order != "timestamps":
        return "first error in the file"
    return "first error by time, the nodes' clocks aligned," if timeline.notes else "first error by time"


def _name_suspect(finding: Finding, suspicion: Suspicion, maps: RankMap) -> None:
    finding.how = suspicion.how
    if len(suspicion.ranks) == 1:
        rank = suspicion.ranks[0]
        finding.origin = Origin(rank=rank, node=maps.node_of.get(rank))
    elif suspicion.ranks:
        nodes = {maps.node_of.get(r) for r in suspicion.ranks}
        finding.origin = Origin(node=nodes.pop() if len(nodes) == 1 else None)


# ── only victims spoke ───────────────────────────────────────────────────────────────────────


def _name_missing_peer(finding: Finding, root: Incident, timeline: Timeline, maps: RankMap, lines: Lines) -> None:
    """Only who waited or lost a peer spoke: never its rank. The log may show who did not come, or what rank 0 did meanwhile."""
    spoke = {rank for i in (root, *finding.same) for e in i.events for rank in e.ranks}
    ranks = sorted(spoke)
    who = f"rank{'s' * (len(ranks) > 1)} {ranges(ranks)}" if ranks else "the writers of these lines"
    finding.how = f"{who} lost or waited for another process, which the log does not name"
    finding.origin = Origin(time=root.main.origin.time, dated=root.main.origin.dated)
    missing = _who_did_not_come(root, spoke, maps)
    if missing:
        finding.suspicion = Suspicion(
            "missing", missing, tuple(ranks), f"{who} waited; rank{'s' * (len(missing) > 1)} {ranges(missing)} never said a word",
            "medium" if len(missing) == 1 else "low",
        )  # fmt: skip
        finding.reasons.append(finding.suspicion.how)
        _name_suspect(finding, finding.suspicion, maps)
        return
    if root.cause != "nccl-id-timeout" or 0 in ranks:
        return
    busy = lines_of_rank(0, root.main, lines)
    since = root.main.origin.time
    # what it said at the wait's beginning does not show that it was still there
    during = [b for b in busy if since is not None and b.origin.time is not None and b.origin.time > since + 60]
    if during:
        finding.origin = replace(finding.origin, rank=0, node=during[0].origin.node)
        finding.how = f"rank 0 was busy while the others waited for it: {during[-1].text.strip()[:100]}"
        finding.reasons.append(finding.how)


def _who_did_not_come(root: Incident, spoke: set[int], maps: RankMap) -> tuple[int, ...]:
    """The ranks that no line names, where a count of those who came agrees with it."""
    captures = root.main.captures
    joined, expected = captures.get("joined", ""), captures.get("expected", "")
    if not (joined.isdigit() and expected.isdigit()) or maps.world_size not in (None, int(expected)):
        return ()
    missing = set(range(int(expected))) - spoke - maps.seen - set(maps.node_of)
    agrees = len(missing) == int(expected) - int(joined) and len(missing) <= _MOST_MISSING * int(expected)
    return tuple(sorted(missing)) if agrees and spoke else ()


# ── what witnesses tell ──────────────────────────────────────────────────────────────────────


def _group_rank(root: Incident, same: Sequence[Incident]) -> int | None:
    """The rank in the default process group, where all lines of the root's cause agree on it."""
    events = [e for i in (root, *same) for e in i.events if e.cause == root.cause]
    ranks = {e.captures["group_rank"] for e in events if "group_rank" in e.captures}
    return int(ranks.pop()) if len(ranks) == 1 else None


def _struck(finding: Finding, root: Incident, origin: Origin, maps: RankMap) -> Origin:
    """The rank that a witness's event hit: the one that died by itself there, not those that lost their peer."""
    named = root.main.captures.get("nodes") or root.main.captures.get("node") or origin.node or ""
    nodes = set(expand_nodes(named))
    for incident in (root, *finding.same, *finding.cascade):
        struck = incident.main.origin
        if struck.rank is None or incident.cause not in _STRUCK:
            continue
        if nodes and struck.node is not None and struck.node not in nodes:
            continue
        finding.how = f"{root.cause} is told by the system; rank {struck.rank} is the one that died of it"
        return replace(struck, time=struck.time if struck.time is not None else origin.time)
    return origin


def _ended_by_itself(
    root: Incident, origin: Origin, timeline: Timeline, maps: RankMap, incidents: Sequence[Incident]
) -> Incident | None:
    """Of ranks that failed alike at once, the one that ended by itself came before those that were stopped meanwhile."""
    ends = {rank: r.exit.exit_class for r in timeline.reports if r.witness != "srun" for rank in r.ranks}
    if ends.get(origin.rank or 0) != "terminated":
        return None
    for other in incidents:
        rank = other.main.origin.rank
        near = timeline.order != "timestamps" or timeline.key(other.main)[0] <= timeline.key(root.main)[0] + TICK
        if other.cause == root.cause and rank is not None and near and ends.get(rank, "terminated") != "terminated":
            return other
    return None


def _from_witnesses(finding: Finding, root: Incident, origin: Origin, timeline: Timeline, maps: RankMap) -> Origin:
    """The root's line names no rank: a witness may, if only one process ended as the root would end it."""
    own = [r for r in timeline.reports if own_death(r, root)]
    if origin.node:
        own = [r for r in own if r.node in (None, origin.node)] or own
    named = {ranks[0]: r for r in own if len(ranks := r.ranks) == 1}
    first = [rank for rank, r in named.items() if r.first and ended_first(r, timeline)]
    several = any(len(r.ranks) > 1 for r in own)
    if len(named) == 1 and not several:
        rank, report = next(iter(named.items()))
    elif first:
        # agents that noticed in the same second: the one that speaks first is next to the error
        rank, report = first[0], named[first[0]]
    else:
        everyone = sorted({rank for r in own for rank in r.ranks})
        if len(everyone) > 1:
            finding.alike = tuple(everyone) if len(everyone) >= (maps.world_size or 0) else ()
            finding.how = f"ranks {ranges(everyone)} ended alike, and the error's line names none of them"
        else:
            finding.how = "the error's line names no rank"
            if origin.local_rank is not None:
                finding.how = f"the line tells only a local rank ({origin.local_rank}), and nothing tells of which node"
        nodes = {r.node for r in own if r.node}
        return replace(origin, node=origin.node or (nodes.pop() if len(nodes) == 1 else None))
    finding.how = f"the error's line names no rank; {report.witness} says that rank {rank} ended so"
    placed, _ = maps.resolve(Origin(rank=rank, node=report.node, local_rank=report.local_rank))
    return replace(
        placed,
        time=origin.time if origin.time is not None else report.time,
        dated=origin.dated or report.time is not None,
    )
