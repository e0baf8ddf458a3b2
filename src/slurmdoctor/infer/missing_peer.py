"""Only ranks that waited or lost a peer spoke: never their rank. Who did not come, or what rank 0 did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.model import (
    ID_TIMEOUT,
    LIMITS,
    MOST_RANKS,
    Finding,
    Incident,
    Line,
    Observations,
    Origin,
    RankMap,
    Suspicion,
    Timeline,
    number,
    reason,
)


def name_suspect(finding: Finding, suspicion: Suspicion, rank_map: RankMap) -> Finding:
    """The suspect as the first rank, where there is one."""
    origin = finding.origin
    if len(suspicion.ranks) == 1:
        rank = suspicion.ranks[0]
        origin = Origin(rank=rank, node=rank_map.node_of.get(rank))
    elif suspicion.ranks:
        nodes = {rank_map.node_of.get(r) for r in suspicion.ranks}
        origin = Origin(node=nodes.pop() if len(nodes) == 1 else None)
    return replace(finding, how=(suspicion.how,), origin=origin)


def name_missing_peer(finding: Finding, root: Incident, observed: Observations) -> Finding:
    """The process that the others waited for, where the log shows who did not come, or that rank 0 was busy."""
    spoke = {rank for i in (root, *finding.same) for e in i.events for rank in e.ranks}
    ranks = tuple(sorted(spoke))
    origin = root.main.origin
    finding = replace(
        finding,
        how=(reason("waited-for-unknown", ranks=ranks),),
        origin=Origin(time=origin.time, dated=origin.dated),
    )
    missing = _who_did_not_come(root, spoke, observed.rank_map)
    if missing:
        how = reason("never-a-word", waiting=ranks, ranks=missing)
        suspicion = Suspicion("missing", missing, ranks, how, "medium" if len(missing) == 1 else "low")
        finding = replace(finding, suspicion=suspicion, reasons=(*finding.reasons, how))
        return name_suspect(finding, suspicion, observed.rank_map)
    words = observed.last_words.get(0)
    if root.cause != ID_TIMEOUT or 0 in spoke or words is None:
        return finding
    text = words.text.strip()[:100]
    if origin.time is not None and (words.origin.time or 0.0) > origin.time + LIMITS.still_there:
        busy = reason("rank-0-busy", text=text)
        at = replace(finding.origin, rank=0, node=words.origin.node)
        return replace(finding, origin=at, how=(busy,), reasons=(*finding.reasons, busy))
    work = observed.rank_0_work
    if work is None and not _spoke_after(words, (root, *finding.same)):
        return finding
    at_work = reason("rank-0-at-work", text=work.text if work else text, line=words)
    return replace(finding, reasons=(*finding.reasons, at_work))


def _spoke_after(words: Line, waits: Sequence[Incident]) -> bool:
    """Whether rank 0 still printed when the others had given up, also by the clock where both show it."""
    ends = [wait.main for wait in waits if wait.main.hit.source == words.source]
    if not ends or any(words.offset < end.hit.offset for end in ends):
        return False
    times = [end.origin.time for end in ends if end.origin.time is not None]
    return words.origin.time is None or not times or words.origin.time >= max(times)


def _who_did_not_come(root: Incident, spoke: set[int], rank_map: RankMap) -> tuple[int, ...]:
    """The ranks that no line names, where a count of those who came agrees with it."""
    captures = root.main.captures
    joined, expected = captures.get("joined", ""), captures.get("expected", "")
    if not (joined.isdecimal() and expected.isdecimal()):
        return ()
    came, size = number(joined), number(expected)
    if size > MOST_RANKS or rank_map.world_size not in (None, size):
        return ()
    missing = set(range(size)) - spoke - rank_map.seen - set(rank_map.node_of)
    agrees = len(missing) == size - came and len(missing) <= LIMITS.unheard * size
    return tuple(sorted(missing)) if agrees and spoke else ()


def tell_who_joined(finding: Finding, timeline: Timeline, observed: Observations) -> Finding:
    """A log that ends while ranks join, and shows only some of them: no failure is proven, but who is absent is told."""
    marks = [mark for mark in observed.signals if mark.signal.kind == "fact"]
    joining = any("members" in mark.captures for mark in marks)
    size, seen = observed.rank_map.world_size, observed.rank_map.seen
    if finding.verdict != "unknown" or timeline.progress or not joining or size is None or size > MOST_RANKS:
        return finding
    absent = tuple(rank for rank in range(size) if rank not in seen)
    if not absent or any(mark.signal.id == "registered" for mark in marks):
        return finding
    told = reason("still-joining", came=size - len(absent), of=size, absent=absent)
    return replace(finding, reasons=(told, *finding.reasons))
