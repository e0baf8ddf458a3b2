"""How far the failure reached: which ranks failed alike or waited, of how many, and on which nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.members import world_size
from slurmdoctor.model import EXIT_CODE, Extent, Finding, Incident, JobRecord, Knowledge, Observations, RankMap


def measure_extent(finding: Finding, observed: Observations, knowledge: Knowledge, record: JobRecord | None) -> Finding:
    """The finding with its extent: counted, never estimated."""
    if finding.verdict != "failed":
        return finding
    ranks = _ranks(finding, knowledge)
    of = finding.suspicion.of if finding.suspicion is not None else None
    size = of or world_size(observed, record)
    size = size if size is None or len(ranks) <= size else None
    nodes = _nodes(ranks, finding, observed.rank_map)
    whole = _is_node(ranks, nodes, observed.rank_map) and not _ended_alike(finding, observed) - ranks
    return replace(finding, extent=Extent(tuple(sorted(ranks)), size, nodes, whole))


def _ranks(finding: Finding, knowledge: Knowledge) -> set[int]:
    root, suspicion = finding.root, finding.suspicion
    if suspicion is not None:
        return set(suspicion.ranks or suspicion.waiting)
    if root is None or root.cause in knowledge.traits["scheduler"]:
        return set()
    if any(told.code == "rank-0-busy" for told in finding.how):
        return {0}  # those that waited for it did not fail alike
    found = {finding.origin.rank} if finding.origin.rank is not None else set()
    if root.report is None:
        found |= set(alike_ranks(root, finding.same, knowledge))
    return {rank for rank in found if rank is not None} | set(finding.alike)


def alike_ranks(root: Incident, others: Iterable[Incident], knowledge: Knowledge) -> list[int]:
    """The ranks of the root's failure, in order, with those of the same failure elsewhere."""
    alike = (i for i in (root, *others) if same_failure(i, root, knowledge))
    return sorted({rank for i in alike for e in i.events if e.cause == root.cause for rank in e.ranks})


def same_failure(one: Incident, root: Incident, knowledge: Knowledge) -> bool:
    """Whether two incidents are the same failure: uncaught exceptions of different kinds are not."""
    if one.cause != root.cause:
        return False
    if one.cause not in knowledge.traits["generic"]:
        return True
    return one.main.captures.get("exception") == root.main.captures.get("exception")


def _nodes(ranks: set[int], finding: Finding, rank_map: RankMap) -> tuple[str, ...]:
    """The nodes of these ranks; none where one of them is not known."""
    root = finding.root
    own = {finding.origin.rank: finding.origin.node}
    for incident in (root, *finding.same) if root is not None else ():
        own |= {e.origin.rank: e.origin.node for e in incident.events if e.origin.node}
    nodes = {own.get(rank) or rank_map.node_of.get(rank) for rank in ranks}
    return tuple(sorted(node for node in nodes if node)) if None not in nodes else ()


def _is_node(ranks: set[int], nodes: Sequence[str], rank_map: RankMap) -> bool:
    """Whether these ranks are all that one node has, and other nodes have none of them."""
    if len(ranks) <= 1 or len(nodes) != 1:
        return False
    there = {rank for rank, node in rank_map.node_of.items() if node == nodes[0]}
    return there == ranks and len(set(rank_map.node_of.values())) > 1


def _ended_alike(finding: Finding, observed: Observations) -> set[int]:
    """The ranks that ended with the exit code of the first failure, and of which no line tells another reason."""
    code = finding.exit.code if finding.exit is not None else None
    if code is None or finding.root is None:
        return set()
    reports = (report for report in observed.reports if report.exit.code == code)
    other = {rank for e in observed.events if e.cause not in (finding.root.cause, EXIT_CODE) for rank in e.ranks}
    return {rank for report in reports for rank in report.ranks} - other
