"""Which nodes the evidence is against: the only source of what a fix or the retry line excludes."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from slurmdoctor.model import (
    ID_TIMEOUT,
    SHORT,
    Finding,
    Incident,
    JobRecord,
    Knowledge,
    Observations,
    expand_nodes,
    parse_time,
    ranges,
)

_BROKEN = re.compile(r"DOWN|FAIL|NOT_RESPONDING|\*")
"""States of a node that Slurm itself has lost; one that is only drained somebody took out."""
_STAMP = re.compile(r"\[[^\s\[@]{0,120}@([^\s@]{1,120})\]\)?$")
_FOUND_LATER = 86400.0
"""Seconds after a job's end in which a node is drained for what broke the job."""


def blame_nodes(finding: Finding, observed: Observations, knowledge: Knowledge) -> Finding:
    """The finding with the nodes to leave out, by the log and by Slurm's record, and the names that fixes have for them."""
    if finding.verdict != "failed":
        return finding
    names = _by_the_extent(finding, observed)
    root = finding.root
    waits = finding.cause == ID_TIMEOUT
    if root is not None:
        if waits or finding.suspicion is not None:  # the nodes of those that waited are not to blame
            names["bad_nodes"] = ()
        if "peer" in root.main.captures and root.main.origin.node is not None:
            names |= _ends_of_the_link(finding, root, observed)
        if waits:
            names |= _far_from_rank_0(finding, root, observed)
    fell = next((told.values["nodes"] for told in finding.reasons if told.code == "fell-to-sockets"), None)
    if fell:
        names |= {"socket_nodes": fell, "bad_nodes": fell}
    bad = tuple(names.pop("bad_nodes", ()))
    reported = _reported(finding.record) if finding.cause in knowledge.traits["blames-node"] and finding.record else {}
    known = knowledge.causes.get(finding.cause or "")
    # nodes that name a peer are not to blame themselves; and Slurm's word is more than where something else failed
    if not bad and "bad_peer" not in names and not (reported and known and known.retry != "elsewhere"):
        bad = (finding.origin.node,) if finding.origin.node else tuple(expand_nodes(_listed(finding) or ""))
    return replace(
        finding,
        node_names=names,
        exclude=tuple(dict.fromkeys([*bad, *reported])),
        reported=reported,
        retry="elsewhere" if any(_BROKEN.search(words.partition(" ")[0]) for words in reported.values()) else None,
    )


def _reported(job: JobRecord) -> dict[str, str]:
    """The nodes that Slurm reports as bad, but for those that were drained long after the job."""
    found: dict[str, str] = {}
    for node, words in job.bad_nodes.items():
        stamp = _STAMP.search(words)
        since = parse_time(stamp[1]) if stamp else None
        if since is None or job.end is None or since <= job.end + _FOUND_LATER:
            found[node] = words
    return found


def _listed(finding: Finding) -> str | None:
    """The nodes that the message itself lists."""
    root = finding.root
    if root is None:
        return None
    said = (e for i in (root, *finding.same) for e in (i.main, *i.events) if e.cause == root.cause)
    return next((e.captures["nodes"] for e in said if e.captures.get("nodes")), None)


def _by_the_extent(finding: Finding, observed: Observations) -> dict[str, Any]:
    """Whether the failure belongs to some nodes, where all ranks had it and elsewhere none, or to all nodes in the same way."""
    extent, node_of = finding.extent, observed.rank_map.node_of
    told = finding.facts.get("nodes")
    number = max(len(set(node_of.values())), told if isinstance(told, int) else 0)
    if number < 2 or not extent.ranks:
        return {}
    if extent.of == len(extent.ranks) or (extent.nodes and len(extent.nodes) == number):
        return {"on_all_nodes": True}
    there = {rank for rank, node in node_of.items() if node in extent.nodes}
    several = len(extent.ranks) >= 2 * len(extent.nodes) or extent.of == number
    if extent.nodes and several and there == set(extent.ranks):
        return {"only_nodes": ",".join(extent.nodes), "bad_nodes": extent.nodes}
    return {}


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


def _far_from_rank_0(finding: Finding, root: Incident, observed: Observations) -> dict[str, Any]:
    """What rank 0 did while the others waited; or that those who waited are all on other nodes than rank 0."""
    busy = next((r for r in (*finding.how, *finding.reasons) if r.code in ("rank-0-busy", "rank-0-at-work")), None)
    if busy is not None:
        return {"rank0_busy": busy.values["text"]}
    node_of = observed.rank_map.node_of
    incidents = [i for i in (root, *finding.same) if i.cause == ID_TIMEOUT]
    waiting = {rank for i in incidents for e in i.events for rank in e.ranks}
    home = node_of.get(0)
    nodes = {node_of.get(rank) for rank in waiting}
    if not waiting or None in nodes or home in nodes:
        return {}
    far_nodes = tuple(sorted(node for node in nodes if node))
    names = {"far_ranks": ranges(tuple(waiting), SHORT), "far_nodes": far_nodes}
    if home is None or not any(node == home for rank, node in node_of.items() if rank not in waiting and rank > 0):
        return names
    names["home_node"] = home
    others = set(node_of.values()) - {home, *far_nodes}
    # of two nodes either may be the one that cannot reach the other
    bad = far_nodes if others else (home, *far_nodes)
    return names | ({"bad_nodes": bad} if len(far_nodes) == 1 else {})
