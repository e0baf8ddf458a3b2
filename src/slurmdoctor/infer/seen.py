"""What the log shows of each rank over time: its steps, its first error, since when it waited, and its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from slurmdoctor.infer.axis import Axis
from slurmdoctor.model import (
    EXIT_CODE,
    Event,
    Finding,
    Incident,
    Knowledge,
    Line,
    MarkKind,
    Observations,
    Origin,
    ProcessExit,
    Sighting,
    Timeline,
)

JOB = -1
"""Stands for the job where a line names no rank."""
MOST_LINES = 8
"""Lines that a rank's lane shows besides steps,"""
MOST_STEPS = 6
"""and steps."""
LONGEST = 200
"""Characters of a line that are shown."""


class Seen(Struct):
    """One rank; places are those of the axis."""

    first: float | None = None
    last: float | None = None
    """The first and the last line of it that was read."""
    pause: float = 0.0
    """The longest time between two of its last steps."""
    error: float | None = None
    waits: float | None = None
    """Since when it was in the collective that timed out."""
    ran: float = 0.0
    """How long it was there, where its watchdog's line has no stamp."""
    exit: float | None = None
    ending: ProcessExit | None = None
    done: float | None = None
    """When it said that it completed."""
    sightings: list[Sighting] = field(default_factory=list)
    left_out: int = 0
    told: set[tuple[MarkKind, str]] = field(default_factory=set)

    def heard(self, at: float) -> None:
        self.first = at if self.first is None else min(at, self.first)
        self.last = at if self.last is None else max(at, self.last)

    def show(self, one: Sighting) -> None:
        if len(self.sightings) < MOST_LINES + MOST_STEPS:
            self.sightings.append(one)
        else:
            self.left_out += 1


class Scene(Struct):
    """All ranks, and what concerns the job as a whole."""

    ranks: dict[int, Seen]
    failed: float | None = None
    """When the first failure was."""
    waited: float | None = None
    """Since when ranks waited for others."""
    ended: float | None = None
    """When Slurm ended the job;"""
    nodes_ended: dict[str, float] = field(default_factory=dict)
    """or what ran on a node."""
    last_step: float | None = None

    @property
    def longest_pause(self) -> float:
        """The longest time between two steps of any rank."""
        return max((seen.pause for seen in self.ranks.values()), default=0.0)

    def of(self, rank: int | None) -> Seen:
        return self.ranks.setdefault(JOB if rank is None else rank, Seen())


def look(
    finding: Finding,
    timeline: Timeline,
    observed: Observations,
    knowledge: Knowledge,
    axis: Axis,
    heard: Mapping[int, Line],
) -> Scene:
    """Gather what the last attempt's lines show."""
    scene = Scene({})
    _add_steps(scene, timeline, observed, axis)
    _add_waits(scene, timeline, axis)
    _add_words(scene, timeline, observed, axis)
    for rank, line in heard.items():
        if timeline.attempts == 1 and (at := axis.of_words(line)) is not None:
            scene.of(rank).heard(at)
    _add_errors(scene, finding, knowledge, axis)
    _add_exits(scene, timeline, axis)
    return scene


def _add_steps(scene: Scene, timeline: Timeline, observed: Observations, axis: Axis) -> None:
    low, high = timeline.span
    of_file: dict[int, int | None] = {}
    before: dict[int | None, float] = {}
    steps: dict[int | None, list[Sighting]] = {}
    for step in timeline.progress:
        if not low <= step.order < high or (at := axis.of_step(step)) is None:
            continue
        rank = step.rank
        if rank is None:
            if step.source not in of_file:
                of_file[step.source] = observed.rank_map.resolve(Origin(), step.source)[0].rank
            rank = of_file[step.source]
        seen = scene.of(rank)
        seen.heard(at)
        if rank in before and not step.skipped:
            seen.pause = max(seen.pause, at - before[rank])
        before[rank] = at
        scene.last_step = at if scene.last_step is None else max(at, scene.last_step)
        if step.step is not None:
            text = f"step {step.step}" if step.steps is None else f"step {step.step}/{step.steps}"
            steps.setdefault(rank, []).append(Sighting(at, "step", rank, None, (step.source, step.offset), text))
    for rank, made in steps.items():
        seen = scene.of(rank)
        seen.sightings = made[-MOST_STEPS:]
        seen.left_out = 0


def _add_waits(scene: Scene, timeline: Timeline, axis: Axis) -> None:
    """Since when ranks were in the collective that their watchdogs ended: only these lines tell how long it ran.

    Without a stamp of theirs a rank was not there before its last step.
    """
    if not axis.clock:
        return
    for status in timeline.collectives:
        ran = status.ran_ms if status.ran_ms is not None else status.timeout_ms
        if status.op is None or ran is None:
            continue
        seen = scene.of(status.rank)
        if status.time is not None:
            since = axis.corrected(status.time, status.source, status.rank) - ran / 1000
        elif seen.last is not None:
            seen.ran, since = ran / 1000, seen.last
        else:
            continue
        seen.waits = since if seen.waits is None else min(since, seen.waits)
    scene.waited = min((seen.waits for seen in scene.ranks.values() if seen.waits is not None), default=None)


def _add_words(scene: Scene, timeline: Timeline, observed: Observations, axis: Axis) -> None:
    """What ranks printed besides: their last words, and that they completed."""
    low, high = timeline.span
    for rank, line in observed.last_words.items():
        if axis.clock and line.origin.time is not None:
            scene.of(rank).heard(axis.corrected(line.origin.time, line.source, rank))
    for mark in observed.signals:
        if (
            low <= mark.order < high
            and mark.signal.kind == "finished"
            and (at := axis.of_line(mark.line, mark.order)) is not None
        ):
            seen = scene.of(mark.line.origin.rank)
            seen.heard(at)
            seen.done = at


def _add_errors(scene: Scene, finding: Finding, knowledge: Knowledge, axis: Axis) -> None:
    """The root's lines and those that follow from it, earliest first."""
    if finding.root is None:
        return
    standing = {rank: one.standing for one in finding.standings for rank in one.ranks}
    firsts = {rank for rank, how in standing.items() if how == "first"}
    placed = [(_placed(event, scene, axis), event) for event in _events(finding)]
    bound = _bound(scene, firsts, placed)
    root = finding.root.main
    # the first rank's, also where they do not name it
    own_lines = {event.order for event in finding.root.events}
    followed = {event.order for incident in finding.cascade for event in incident.events}
    since = next((at for at, event in placed if event.order == root.order), axis.begin)
    for at, event in sorted(placed, key=lambda one: one[0]):
        ranks = event.ranks or {finding.origin.rank if event.order in own_lines else None}
        began = event.order == root.order or (event.cause == root.cause and firsts & event.ranks)
        if began and bound is not None and not axis.is_stamped(event) and scene.of(event.origin.rank).waits is None:
            at = max(min(at, bound), axis.earliest(event))
        elif event.order in followed and not axis.is_stamped(event):
            at = max(at, since)
        if event.order == root.order:
            scene.failed = at if scene.failed is None else min(at, scene.failed)
        if _ends_all(event, knowledge):
            scene.ended = at if scene.ended is None else min(at, scene.ended)
        for rank in ranks:
            first = rank in firsts if firsts else event.order == root.order
            own = event is not root or not _is_report(finding.root)
            _add_error(scene.of(rank), event, at, rank, first and event.cause == root.cause, own)
    if finding.suspicion is not None and scene.waited is not None:
        scene.failed = scene.waited


def _add_error(seen: Seen, event: Event, at: float, rank: int | None, first: bool, own: bool) -> None:
    if own:
        seen.error = at if seen.error is None else min(at, seen.error)
    if rank not in event.others:
        seen.heard(at)
    kind: MarkKind = "first" if first else "error"
    if (kind, event.cause) in seen.told:
        seen.left_out += 1
        return
    seen.told.add((kind, event.cause))
    if rank is None or rank not in event.others:
        seen.show(Sighting(at, kind, rank, event.cause, event.hit.place, quoted(event.hit.raw)))
    else:  # the line is another rank's, which printed the same
        seen.show(Sighting(at, kind, rank, event.cause))


def _events(finding: Finding) -> Iterator[Event]:
    """Those of all incidents, each once; of what only a report tells none, but for the root."""
    done: set[int] = set()
    root = finding.root.main if finding.root is not None else None
    incidents: Iterable[Incident | None] = (finding.root, *finding.same, *finding.rivals, *finding.cascade)
    for incident in incidents:
        for event in incident.events if incident is not None else ():
            told = (incident is not None and incident.report is not None) or (
                event.cause == EXIT_CODE and not event.ranks
            )
            if event.order not in done and (event is root or not told):
                done.add(event.order)
                yield event


def quoted(raw: str) -> str:
    """A line as a lane shows it."""
    text = raw.strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"


def _is_report(incident: Incident) -> bool:
    """Whether nothing but a report tells of it: its process printed no error."""
    report = incident.report
    return report is not None and incident.main.hit.place == (report.line.source, report.line.offset)


def _placed(event: Event, scene: Scene, axis: Axis) -> float:
    """Where an event stands. Without a stamp of its own it came after its rank's last step and its wait."""
    at = axis.of_event(event)
    if not axis.clock or axis.is_stamped(event):
        return axis.begin if at is None else at
    seen = scene.ranks.get(JOB if event.origin.rank is None else event.origin.rank, Seen())
    if seen.last is not None:
        at = max(seen.last + seen.ran, axis.begin if at is None else at)
    if at is None:
        at = scene.waited if scene.waited is not None else axis.begin
    return at


def _bound(scene: Scene, firsts: set[int], placed: Iterable[tuple[float, Event]]) -> float | None:
    """What follows from the first failure came after it, wherever an error without a stamp was printed."""
    waits = [seen.waits for rank, seen in scene.ranks.items() if seen.waits is not None and rank not in firsts]
    return min(waits, default=None)


def _ends_all(event: Event, knowledge: Knowledge) -> bool:
    """Whether Slurm ends the job, or its step, by this line."""
    whole = event.cause in knowledge.traits["scheduler"] or event.cause in knowledge.traits["whole-job"]
    return event.role != "hint" and (event.ends_job or (whole and "at" in event.captures))


def _add_exits(scene: Scene, timeline: Timeline, axis: Axis) -> None:
    """The reports of how processes ended; torchelastic's table tells more than its agent does."""
    for report in sorted(timeline.reports, key=lambda one: (not one.marks_first, one.order)):
        at = axis.of_report(report)
        if at is None:
            at = axis.begin
        for rank in report.ranks:
            seen = scene.of(rank)
            if seen.ending is None:
                seen.ending = report.exit
                # a table shows whole seconds
                at = seen.exit = max(at, seen.last if seen.last is not None else at)
                text = quoted(report.line.raw)
                seen.show(Sighting(at, "exit", rank, None, (report.line.source, report.line.offset), text))
        if not report.ranks and report.node is not None:
            scene.nodes_ended[report.node] = min(at, scene.nodes_ended.get(report.node, at))
