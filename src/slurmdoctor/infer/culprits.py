"""A culprit that said nothing: from the others' sequence numbers, their stack dumps, or what a barrier counted."""

from __future__ import annotations

from collections.abc import Iterable

from slurmdoctor.infer.endings import shown
from slurmdoctor.infer.finding import SCHEDULER, Finding
from slurmdoctor.model import Event, Line, Observations, RankMap, Suspicion
from slurmdoctor.model.ranges import ranges
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.readers import collectives, stacks
from slurmdoctor.timeline.order import Timeline

_LOOK_AROUND = 256 * 1024
_NOISE = ("rror", "[c10d]", "ProcessGroup", "[PG ", "Traceback", "  File ", "call first)", "Timeout (")
"""What a rank prints of its end, or of the others' silence, does not tell what it did meanwhile."""
_LATE = 3.0
"""Seconds after the first time-outs in which those who lose their peers by them have said so."""


def find_silent_culprit(finding: Finding, assembled: Observations, timeline: Timeline, lines: Lines) -> None:
    """Only time-outs: stack dumps, or the collective's sequence numbers, tell who never came."""
    assert finding.root is not None
    suspicion = _from_stacks(assembled)
    if finding.root.cause in SCHEDULER:
        if suspicion is None:
            return  # who was ended from outside need not have hung
        finding.cause, finding.rule = "hang", None
    if suspicion is None and finding.root.cause != "hang":
        suspicion = (
            _named_by_others(finding)
            or collectives.suspect(timeline.works, _world(assembled), _endings(timeline, assembled.maps))
            or _never_timed_out(finding, timeline, _world(assembled))
        )
        if suspicion is not None:
            finding.cause = "collective-timeout"
    if suspicion is None:
        return
    finding.suspicion = suspicion
    finding.reasons.append(suspicion.how)
    if len(suspicion.ranks) == 1 and suspicion.kind in ("missing", "behind") and not suspicion.stands_in:
        said = last_words(suspicion.ranks[0], finding.root.main, lines)
        if said is not None:
            finding.reasons.append(f"rank {suspicion.ranks[0]} meanwhile: {said.text.strip()[:100]}")
    told = [i for i in finding.same if i.main.origin.rank in suspicion.ranks and i.report is None]
    if told:
        finding.same = (finding.root, *(i for i in finding.same if i is not told[0]))
        finding.root = told[0]


def _from_stacks(assembled: Observations) -> Suspicion | None:
    odd = stacks.odd_ones({rank: dump.where for rank, dump in assembled.dumps.items()})
    if odd is None:
        return None
    ranks, usual = odd
    here = assembled.dumps[ranks[0]].innermost
    how = f"rank {ranges(ranks)} stands in {here} while the others stand in {usual}"
    return Suspicion("behind", ranks, tuple(assembled.dumps), how, "medium", stands_in=here)


def _named_by_others(finding: Finding) -> Suspicion | None:
    """monitored_barrier and PyTorch's desync report name the ranks that did not come."""
    assert finding.root is not None
    missing: set[int] = set()
    words = ""
    for incident in (finding.root, *finding.same, *finding.cascade):
        for event in incident.events:
            named = event.captures.get("missing_ranks") or event.captures.get("lagging_ranks")
            if named and event.cause == "collective-timeout":
                missing |= {int(n) for n in named.replace(",", " ").split() if n.isdigit()}
                words = "monitored_barrier" if event.captures.get("missing_ranks") else "PyTorch's desync report"
    if not missing:
        return None
    ranks = tuple(sorted(missing))
    who = f"rank{'s' * (len(ranks) > 1)} {ranges(ranks)}"
    return Suspicion("missing", ranks, (), f"{words} names {who} as missing", "medium" if len(ranks) == 1 else "low")


def _world(assembled: Observations) -> Iterable[int]:
    maps = assembled.maps
    if maps.world_size:
        return range(maps.world_size)
    seen = {w.rank for w in assembled.works if w.rank is not None} | maps.seen | set(maps.node_of)
    return range(max(seen) + 1) if seen else ()


def _endings(timeline: Timeline, maps: RankMap) -> dict[int, str]:
    """How single ranks ended, in words."""
    return {
        ranks[0]: f"was later ended by {report.exit.signal}, says {report.witness}"
        if report.exit.signal
        else f"ended with {shown(report.exit)}, says {report.witness}"
        for report in timeline.reports
        if len(ranks := report.ranks) == 1
    }


def _never_timed_out(finding: Finding, timeline: Timeline, world: Iterable[int]) -> Suspicion | None:
    """Gloo names no collective: who neither timed out nor lost a peer when the others did was the one that they waited for."""
    assert finding.root is not None
    if finding.root.cause != "collective-timeout":
        return None
    waits = [i for i in (finding.root, *finding.same) if i.main.role == "either"]
    waiting = {rank for i in waits for e in i.events for rank in e.ranks}
    members = set(world)
    if len(waiting) < 2 or not members:
        return None
    start, low = timeline.key(finding.root.main)
    timed = timeline.order == "timestamps"
    others = {
        rank
        for i in finding.cascade
        if i.cause == "peer-lost"
        and (timeline.key(i.main)[0] <= start + _LATE if timed else i.main.order - low < _LOOK_AROUND)
        for e in i.events
        for rank in e.ranks
    }
    missing = tuple(sorted(members - waiting - others))
    if not missing or len(missing) > max(1, len(members) // 4):
        return None
    who = f"rank{'s' * (len(missing) > 1)} {ranges(missing)}"
    return Suspicion(
        "missing", missing, tuple(sorted(waiting)), f"{len(waiting)} of {len(members)} ranks timed out; {who} did not wait with them",
        "medium" if len(missing) == 1 else "low",
    )  # fmt: skip


def last_words(rank: int, event: Event, lines: Lines) -> Line | None:
    """What a rank printed last around an event, errors left out."""
    said = lines_of_rank(rank, event, lines)
    return said[-1] if said else None


def lines_of_rank(rank: int, event: Event, lines: Lines) -> list[Line]:
    """What one rank printed around an event, errors of its own left out."""
    source, offset = event.hit.source, event.hit.offset
    start = max(0, offset - _LOOK_AROUND)
    found: list[Line] = []
    data = lines.text(source, start, 2 * _LOOK_AROUND)
    at = data.find(b"\n") + 1 if start else 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = lines.at(source, start + at) if end - at < 2000 else None
        if line is not None and line.origin.rank == rank and not any(noise in line.raw for noise in _NOISE):
            found.append(line)
        at = end + 1
    return found
