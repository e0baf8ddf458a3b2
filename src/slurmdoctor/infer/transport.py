"""Which node NCCL could not reach over InfiniBand, or took to plain sockets, while another one used InfiniBand."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.model import SOCKET_FALLBACK, Finding, Knowledge, Observations, Timeline, reason

_IB = "nccl_ib"
"""The fact that NCCL found InfiniBand: its line names the node."""


def tell_transport(finding: Finding, timeline: Timeline, observed: Observations, knowledge: Knowledge) -> Finding:
    """The finding with the few nodes that alone fell back to sockets: what a hang or a broken link comes from."""
    root = finding.root
    if root is None or finding.cause not in knowledge.traits["timed-out"] | knowledge.traits["link"] | {root.cause}:
        return finding
    if "blames-node" not in knowledge.causes[root.cause].traits:
        return finding
    nodes = _fallen(timeline, observed)
    if not nodes:
        return finding
    told = reason("fell-to-sockets", nodes=nodes)
    # that all entered the collective no longer leaves open who is at fault
    reasons = tuple(
        replace(one, values={**one.values, "told": True}) if one.code == "all-entered" else one
        for one in finding.reasons
    )
    how = tuple(
        replace(one, values={**one.values, "told": True}) if one.code == "all-entered" else one for one in finding.how
    )
    origin = finding.origin
    if origin.rank is None and origin.node is None and len(nodes) == 1:
        origin = replace(origin, node=nodes[0])
    return replace(finding, origin=origin, how=how, reasons=(told, *reasons))


def _fallen(timeline: Timeline, observed: Observations) -> tuple[str, ...]:
    """The nodes on which NCCL took sockets, where they are at most half of all, and another one has InfiniBand."""
    sockets = {e.origin.node for e in timeline.events if e.rule == SOCKET_FALLBACK}
    ib = {mark.line.origin.node for mark in observed.signals if mark.signal.id.partition("/")[0] == _IB}
    known = sockets | ib | set(observed.rank_map.node_of.values())
    if None in sockets or not sockets or not ib - sockets - {None} or 2 * len(sockets) > len(known - {None}):
        return ()
    return tuple(sorted(node for node in sockets if node))
