"""What each rank did over time: its lane, from what the log shows of it; ranks of one node that went alike share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.infer.axis import Axis
from slurmdoctor.infer.members import world_size
from slurmdoctor.infer.seen import JOB, MOST_LINES, MOST_STEPS, Scene, Seen, look, quoted
from slurmdoctor.infer.shown_part import ROOM, all_places, first_shown, onset, stood_still
from slurmdoctor.model import (
    NODE_FAILURE,
    Course,
    Courses,
    Event,
    Finding,
    Knowledge,
    Line,
    MarkKind,
    Observations,
    Sighting,
    Span,
    State,
    Timeline,
    expand_nodes,
)

_QUOTED = 400
"""Lines of which the text is shown, over all lanes,"""
_KINDS: Sequence[MarkKind] = ("first", "error", "exit", "step")
"""in this order."""
_RECENT = 12
"""Lanes of a node that the next rank may share."""
_SILENCE = 0.1
"""The share of what is shown for which a rank that had spoken must say nothing to be called silent."""


class _World(Struct):
    """What the lanes of all ranks have in common."""

    scene: Scene
    start: float
    end: float
    failed: bool
    stalled: bool
    lost: frozenset[str]
    """Nodes that failed."""
    clock: bool
    cause: str | None
    root: Event | None
    pause: float
    """The longest time between two steps."""


def chart(
    finding: Finding,
    timeline: Timeline,
    observed: Observations,
    knowledge: Knowledge,
    heard: Mapping[int, Line] = MappingProxyType({}),
) -> Courses:
    """All lanes, over the part of the run in which the failure can be seen.

    `heard` are the last lines of ranks that may have fallen silent.
    """
    axis = Axis(finding, timeline, observed)
    scene = look(finding, timeline, observed, knowledge, axis, heard)
    places = [*all_places(scene), *([axis.begin] if axis.clock else [])]
    if not places or min(places) == max(places):
        return Courses()
    began, last = min(places), max(places)
    standing = {rank: one.standing for one in finding.standings for rank in one.ranks}
    start = began
    if finding.verdict == "failed" and scene.failed is not None:
        start = first_shown(scene, began, last, onset(scene, finding, standing), axis.clock)
    end = last + ROOM * (last - start)
    world = _World(
        scene,
        start,
        end,
        failed=finding.verdict == "failed",
        stalled=stood_still(scene, finding),
        lost=_lost(finding),
        clock=axis.clock,
        cause=finding.cause,
        root=finding.root.main if finding.root is not None else None,
        pause=scene.longest_pause,
    )
    ranks = {*standing, *observed.ranks_seen, *(rank for rank in scene.ranks if rank != JOB)}
    ranks |= set(range(world_size(observed, finding.record) or 0))
    node_of = _nodes(finding, observed, timeline)
    courses = [_course(rank, node_of.get(rank), standing.get(rank, ""), world) for rank in sorted(ranks)]
    found = _folded(courses, (end - start) * (0.01 if axis.clock else 0.05))
    if (job := scene.ranks.get(JOB)) is not None and (not ranks or job.sightings):
        # lines that name no rank
        found.append(_of_the_job(job, finding, world, not ranks))
    return Courses(_quoting_few(found), start, end, scene.failed, began, axis.clock, axis.apart, axis.dated)


def _lost(finding: Finding) -> frozenset[str]:
    if finding.root is None or finding.cause != NODE_FAILURE:
        return frozenset()
    told = finding.root.main.captures
    return frozenset(expand_nodes(told.get("nodes") or told.get("node") or finding.origin.node or ""))


def _nodes(finding: Finding, observed: Observations, timeline: Timeline) -> Mapping[int, str]:
    found = {rank: report.node for report in timeline.reports for rank in report.ranks if report.node}
    found |= observed.rank_map.node_of
    if finding.origin.rank is not None and finding.origin.node is not None:
        found[finding.origin.rank] = finding.origin.node
    return found


# ── one rank ─────────────────────────────────────────────────────────────────────────────────


def _course(rank: int, node: str | None, standing: str, world: _World) -> Course:
    seen = world.scene.ranks.get(rank, Seen())
    turns = _turns(seen, node, standing, world)
    known = [*seen.sightings, *_unsaid(rank, seen, turns, standing, world)]
    shown = [one for one in known if one.at >= world.start]
    return Course(
        ranks=(rank,),
        node=node,
        standing=standing,
        spans=_spans(turns, world),
        sightings=tuple(sorted(shown, key=lambda one: one.at)),
        ending=seen.ending,
        left_out=seen.left_out + len(known) - len(shown),
    )


Turn = tuple[float, State]
"""From where on a rank was in a state."""


def _unsaid(rank: int, seen: Seen, turns: Sequence[Turn], standing: str, world: _World) -> Iterator[Sighting]:
    """The mark of a first failure of which the rank itself printed nothing."""
    if standing not in ("first", "suspect") or world.root is None or any(x.kind == "first" for x in seen.sightings):
        return
    state: State = "silent" if standing == "suspect" else "failed"
    at = next((at for at, state_there in turns if state_there == state), None)
    if at is None:
        return
    if standing == "suspect":
        yield Sighting(at, "first", rank, world.cause)
    else:
        yield Sighting(at, "first", rank, world.cause, world.root.hit.place, quoted(world.root.hit.raw))


def _turns(seen: Seen, node: str | None, standing: str, world: _World) -> list[Turn]:
    """The turns of one rank's way, in order."""
    scene = world.scene
    ended = _end(seen, node, world)
    there = any(at is not None for at in (seen.last, seen.error, seen.exit, seen.done, seen.waits))
    turns: list[Turn] = [(world.start, "running" if there or not world.failed else "silent")]
    waits = seen.waits
    if standing == "waiting" and waits is None:
        waits = _last_step(seen, scene)
    if waits is not None and (seen.error is None or waits < seen.error):
        turns.append((waits, "waiting"))
    elif (since := _silent_since(seen, standing, ended, world)) is not None:
        turns.append((since, "silent"))
    if seen.error is not None:
        turns.append((seen.error, "failed" if standing in ("first", "suspect", "") else "followed"))
    done = seen.done if seen.done is not None or world.failed else scene.ranks.get(JOB, Seen()).done
    if done is not None and seen.error is None:
        turns.append((done, "finished"))
    elif ended is not None:
        if seen.error is None and standing == "first":
            turns.append((ended, "failed"))
        turns.append((max(ended, seen.error or ended), "gone"))
    return turns


def _end(seen: Seen, node: str | None, world: _World) -> float | None:
    """When its process had ended: by the report of it, of what ran on its node, or of the job."""
    if seen.exit is not None:
        return seen.exit
    if node is not None and node in world.lost:
        return world.scene.failed
    if node is not None and node in world.scene.nodes_ended:
        return world.scene.nodes_ended[node]
    return world.scene.ended


def _last_step(seen: Seen, scene: Scene) -> float | None:
    """A rank that waited made no step since its last one; where it prints none, since that of others."""
    own = [one.at for one in seen.sightings if one.kind == "step"]
    return max(own, default=scene.last_step)


def _silent_since(seen: Seen, standing: str, ended: float | None, world: _World) -> float | None:
    """From where on no line of a rank was read, where others waited for it, went on, or all stood still."""
    scene = world.scene
    if not world.failed:
        return None
    if standing == "suspect" and scene.waited is not None:
        return max(scene.waited, _last_step(seen, Scene({})) or scene.waited)
    if world.stalled and scene.last_step is not None:
        return scene.last_step
    if seen.last is None or not world.clock:
        return seen.last if standing == "silent" else None
    usual = max(2 * (seen.pause or world.pause), _SILENCE * (world.end - world.start))
    others = scene.last_step if scene.last_step is not None else seen.last
    until = (ended if ended is not None else world.end) if standing == "silent" else others
    return seen.last if until - seen.last > usual else None


def _spans(turns: Sequence[Turn], world: _World) -> tuple[Span, ...]:
    """Each state until the next; of a failure that ended at once its moment stays."""
    found: list[Span] = []
    for at, (begin, state) in enumerate(turns):
        low = min(max(begin, world.start), world.end)
        high = min(max(turns[at + 1][0], low), world.end) if at + 1 < len(turns) else world.end
        if high > low or state in ("failed", "followed"):
            found.append(Span(low, high, state))
    return tuple(found)


def _of_the_job(seen: Seen, finding: Finding, world: _World, alone: bool) -> Course:
    """What no rank is named for; where none is named at all, the one process's lane."""
    turns = _turns(seen, None, "first" if finding.verdict == "failed" else "", world) if alone else []
    shown = [one for one in seen.sightings if one.at >= world.start]
    return Course(
        node=finding.origin.node if alone else None,
        standing="first" if any(one.kind == "first" for one in seen.sightings) else "",
        spans=_spans(turns, world),
        sightings=tuple(sorted(shown, key=lambda one: one.at)),
        ending=finding.exit if alone else None,
        left_out=seen.left_out + len(seen.sightings) - len(shown),
    )


def _quoting_few(courses: Sequence[Course]) -> tuple[Course, ...]:
    """The lanes of the job, with the texts of so many lines as somebody may read; the other marks stay without one."""
    every = [one for course in courses for one in course.sightings if one.place is not None]
    if len(every) <= _QUOTED:
        return tuple(courses)
    kept = set(map(id, sorted(every, key=lambda one: (_KINDS.index(one.kind), one.at))[:_QUOTED]))

    def bare(one: Sighting) -> Sighting:
        return one if id(one) in kept else replace(one, place=None, text=one.text if one.kind == "step" else "")

    return tuple(replace(course, sightings=tuple(map(bare, course.sightings))) for course in courses)


# ── ranks that went alike ────────────────────────────────────────────────────────────────────


def _folded(courses: Sequence[Course], apart: float) -> list[Course]:
    """One lane for those of a node that did the same within so much of one another."""
    groups: list[list[Course]] = []
    recent: dict[tuple[object, ...], list[list[Course]]] = {}
    for one in courses:
        states = tuple(span.state for span in one.spans)
        near = recent.setdefault((one.node, one.standing, one.ending, states), [])
        group = next((group for group in near[-_RECENT:] if _alike(group[0], one, apart)), None)
        if group is None:
            group = []
            near.append(group)
            groups.append(group)
        group.append(one)
    return [_merged(group) for group in groups]


def _alike(one: Course, other: Course, apart: float) -> bool:
    return all(abs(a.start - b.start) <= apart for a, b in zip(one.spans, other.spans, strict=True))


def _merged(group: Sequence[Course]) -> Course:
    first = group[0]
    if len(group) == 1:
        return first
    every = sorted((one for course in group for one in course.sightings), key=lambda one: (one.at, one.place is None))
    shown: dict[tuple[str, str | None], Sighting] = {}
    for one in every:
        shown.setdefault((one.kind, one.text if one.kind == "step" else one.cause), one)
    steps = [one for one in shown.values() if one.kind == "step"]
    told = [one for one in shown.values() if one.kind != "step"]
    kept = sorted((*told[:MOST_LINES], *steps[-MOST_STEPS:]), key=lambda one: one.at)
    return Course(
        ranks=tuple(rank for course in group for rank in course.ranks),
        node=first.node,
        standing=first.standing,
        spans=first.spans,
        sightings=tuple(kept),
        ending=first.ending,
        left_out=sum(course.left_out for course in group) + len(every) - len(kept),
    )
