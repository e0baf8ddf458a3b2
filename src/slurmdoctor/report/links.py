"""Names for the fixes of what failed between processes: how many, who waited for rank 0, which end of a link is broken."""

from __future__ import annotations

from typing import Any

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Finding, Incident, Observations
from slurmdoctor.model.causes import ID_TIMEOUT
from slurmdoctor.model.ranges import SHORT, ranges
from slurmdoctor.report.frames import frames

_SAVING = text("saving-function")


def names_of_links(finding: Finding, observed: Observations) -> dict[str, Any]:
    """Names and their values."""
    root = finding.root
    if root is None:
        return {}
    waits = finding.cause == ID_TIMEOUT
    names: dict[str, Any] = {"failed": _how_many(finding, root)}
    if waits or finding.suspicion is not None:  # the nodes of those that waited are not to blame
        names["bad_nodes"] = ()
    for told in finding.reasons:
        if told.code == "fell-to-sockets":
            names |= {"socket_nodes": told.values["nodes"], "bad_nodes": told.values["nodes"]}
    if "peer" in root.main.captures and root.main.origin.node is not None:
        names |= _ends_of_the_link(finding, root, observed)
    alike = (root, *finding.same) if waits else (root,)
    stack = frames(next((i.main.traceback for i in alike if i.main.traceback), ()))
    if stack:
        names["frames"] = tuple(frame.function for frame in stack)
    if saving := next((frame.function for frame in reversed(stack) if _SAVING.search(frame.function)), None):
        names["saves_in"] = saving
    return names | (_of_the_wait(finding, root, observed) if waits else {})


def _how_many(finding: Finding, root: Incident) -> int:
    """The ranks that failed alike; without labels so many processes as raised the same."""
    if finding.extent.ranks or not root.main.traceback:
        return max(len(finding.extent.ranks), 1)
    alike = [e.count for i in (root, *finding.same) for e in i.events if e.rule == root.main.rule]
    return max(sum(alike), 1)


def _ends_of_the_link(finding: Finding, root: Incident, observed: Observations) -> dict[str, Any]:
    """The end that a broken link points at: the peer that several nodes name, or the node that names several peers; else both."""
    events = [e for i in (root, *finding.same) for e in i.events if e.cause == root.cause and e.captures.get("peer")]
    printed = {e.origin.node for e in events if e.origin.node}
    peers = {e.captures["peer"] for e in events}
    known = {peer for peer in peers if peer in observed.rank_map.node_of.values()}
    if len(printed) > 1 and len(peers) == 1:
        return {"bad_nodes": tuple(known), "bad_peer": next(iter(peers))}
    if printed and len(peers) > 1:
        return {"bad_nodes": tuple(sorted(printed))} if len(printed) == 1 else {}
    return {"bad_nodes": tuple(sorted(printed | known))} if printed else {}


def _of_the_wait(finding: Finding, root: Incident, observed: Observations) -> dict[str, Any]:
    """What rank 0 did while the others waited; or that those who waited are all on other nodes than rank 0."""
    busy = next((r for r in (*finding.how, *finding.reasons) if r.code in ("rank-0-busy", "rank-0-at-work")), None)
    if busy is not None:
        return {"rank0_busy": busy.values["text"]}
    node_of = observed.rank_map.node_of
    incidents = [i for i in (root, *finding.same) if i.cause == ID_TIMEOUT]
    waiting = {rank for i in incidents for e in i.events for rank in e.ranks}
    home = node_of.get(0)
    nodes = {node_of.get(rank) for rank in waiting}
    if not waiting or home is None or None in nodes or home in nodes:
        return {}
    if not any(node == home for rank, node in node_of.items() if rank not in waiting and rank > 0):
        return {}
    far_nodes = tuple(sorted(node for node in nodes if node))
    names = {"far_ranks": ranges(tuple(waiting), SHORT), "far_nodes": far_nodes, "home_node": home}
    others = set(node_of.values()) - {home, *far_nodes}
    # of two nodes either may be the one that cannot reach the other
    bad = far_nodes if others else (home, *far_nodes)
    return names | ({"bad_nodes": bad} if len(far_nodes) == 1 else {})
