"""What each rank of the last attempt did over time, for the page: a timeline for all ranks that did the same."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from math import inf
from time import gmtime

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.infer.case import Case
from slurmdoctor.infer.waiting_ranks import world_size
from slurmdoctor.model import (
    ASSUMED_YEAR,
    EXIT_CODE,
    HANG,
    LIMITS,
    Event,
    Finding,
    Incident,
    Knowledge,
    Mark,
    MarkKind,
    Observations,
    Origin,
    ProcessExit,
    RankTimeline,
    RankTimelines,
    Span,
    State,
    Timeline,
    parse_time,
)
from slurmdoctor.timeline import by_zone

_SILENT = 5
"""Longest pauses between two steps after which a rank that says nothing is called silent."""
_STEPS = 4
"""Steps before a failure that are shown,"""
_LEAD, _LONGEST_LEAD, _LEAST_LEAD = 0.15, 4.0, 60.0
"""and how long what is shown before it may be: at least and at most, in lengths of the failure, and in seconds."""
_MOST_STEPS, _MOST_LINES = 6, 8
"""Steps and lines that a timeline shows."""
_MARGIN = 0.02
"""What is shown behind the last line, as a share of all."""
_MOST_TIMELINES = 48
_GRAINS = (100, 25, 0)
"""Parts of the shown time within which two times count as one; at 0 only the order of the states counts."""
_LEADS = frozenset({"first", "suspect"})
"""Standings of the ranks that the verdict names."""
_UNHEARD = ("silent", "suspect")
"""Standings of ranks that may have stopped before the failure."""
_LONGEST = 200
"""Characters of a line that are shown."""


def chart(finding: Finding, timeline: Timeline, observed: Observations, knowledge: Knowledge) -> RankTimelines:
    """All of them, over the part of the run in which the failure can be seen; none where the log shows no times."""
    clock = _Clock(timeline, observed)
    if len(clock.times) < 2:
        return RankTimelines()
    scene = _Scene(finding, Case(timeline, observed, knowledge), clock)
    if scene.start >= scene.end:
        return RankTimelines()
    every = [scene.rank_timeline(rank) for rank in sorted(scene.named)]
    if not every or scene.ranks[None].steps or scene.ranks[None].lines:  # what names no rank
        every.append(scene.rank_timeline(None))
    groups: list[list[RankTimeline]] = []
    grain = 0
    for grain in _GRAINS:
        groups = _grouped(every, grain / (scene.end - scene.start))
        if len(groups) <= _MOST_TIMELINES:
            break
    shown, left_out = groups[:_MOST_TIMELINES], groups[_MOST_TIMELINES:]
    return RankTimelines(
        tuple(_merged(group) for group in shown),
        scene.start,
        scene.end,
        began=min(0.0, scene.begin - scene.start),
        dated=clock.dated,
        by_order=grain == 0,
        left_out=tuple(sorted(rank for group in left_out for one in group for rank in one.ranks)),
    )


def _grouped(every: Sequence[RankTimeline], parts: float) -> list[list[RankTimeline]]:
    """Timelines that are drawn as one, with so many parts a second: the first failure first, then by rank."""
    groups: dict[object, list[RankTimeline]] = {}
    for one in every:
        edges = tuple((span.state, round(span.start * parts)) for span in one.spans)
        groups.setdefault((one.first, one.standing, one.exit, not one.ranks, edges), []).append(one)
    return sorted(groups.values(), key=lambda group: (not group[0].first, not group[0].ranks, group[0].ranks))


def _merged(group: Sequence[RankTimeline]) -> RankTimeline:
    """The timelines as one: of lines that say the same the first one is shown."""
    shown: dict[tuple[str, str | None], Mark] = {}
    every = sorted(
        (one for rank_timeline in group for one in rank_timeline.marks), key=lambda one: (one.at, one.place is None)
    )
    for one in every:
        shown.setdefault((one.kind, one.text if one.kind == "step" else one.cause), one)
    steps = [one for one in shown.values() if one.kind == "step"]
    lines = sorted((one for one in shown.values() if one.kind != "step"), key=lambda one: (one.kind != "first", one.at))
    kept = sorted((*lines[:_MOST_LINES], *steps[-_MOST_STEPS:]), key=lambda one: one.at)
    ranks = tuple(rank for rank_timeline in group for rank in rank_timeline.ranks)
    left_out = sum(rank_timeline.left_out for rank_timeline in group) + len(lines[_MOST_LINES:])
    nodes = tuple(dict.fromkeys(node for rank_timeline in group for node in rank_timeline.nodes))
    return replace(group[0], ranks=ranks, nodes=nodes, marks=tuple(kept), left_out=left_out)


class _Clock:
    """When each line of an attempt was printed: by its own stamp, else by the last one above it in its file."""

    def __init__(self, timeline: Timeline, observed: Observations) -> None:
        low, high = timeline.span
        lines = [report.line for report in timeline.reports]
        lines += [mark.line for mark in observed.signals if low <= mark.order < high]
        stamped = [(line.place, line.origin) for line in lines]
        stamped += [(event.hit.place, event.origin) for event in timeline.events]
        steps = (step for step in timeline.progress if low <= step.order < high)
        stamped += [((step.source, step.offset), Origin(step.rank, time=step.shown_time)) for step in steps]
        by_slurm = [event for event in timeline.events if _said(event) is not None]
        times = (*map(_said, by_slurm), *(origin.time for _, origin in stamped))
        years = {gmtime(time).tm_year for time in times if time is not None} - {ASSUMED_YEAR}
        self.dated = bool(years)
        """Whether stamps name their year."""
        self._year = min(years, default=ASSUMED_YEAR)
        self._clocks = timeline.clocks
        self._stamps: dict[int, list[tuple[int, float]]] = {}
        for (source, offset), origin in sorted(stamped, key=lambda one: one[0]):
            if (time := self.true(source, origin)) is not None:
                above = self._stamps.setdefault(source, [])
                # what was held back comes out below what was printed later: time never goes back in a file
                above.append((offset, max(time, above[-1][1] if above else time)))
        for event in by_slurm:
            if (time := self.of_event(event)) is not None:
                insort(self._stamps.setdefault(event.hit.source, []), (event.hit.offset, time))

    @property
    def times(self) -> set[float]:
        """All that were read."""
        return {time for stamps in self._stamps.values() for _, time in stamps}

    def at(self, place: tuple[int, int], origin: Origin | None = None) -> float | None:
        """When a line was printed; None where neither it nor a line above it has a stamp."""
        own = self.true(place[0], origin) if origin is not None else None
        stamps = self._stamps.get(place[0], [])
        above = bisect_right(stamps, (place[1], inf))
        return own if own is not None else stamps[above - 1][1] if above else None

    def of_event(self, event: Event) -> float | None:
        """When an event came: as Slurm's line says where that can be by the same clock, else as its line was printed."""
        said, above = _said(event), self.at(event.hit.place)
        if said is not None and (above is None or (said - above >= -LIMITS.other_clock and not by_zone(said - above))):
            return said
        return self.at(event.hit.place, None if event.bound else event.origin)

    def true(self, source: int, origin: Origin) -> float | None:
        """A stamp by the clock of most steps, in the year that other stamps name."""
        time = origin.time
        if time is None:
            return None
        moment = gmtime(time)
        if moment.tm_year == ASSUMED_YEAR != self._year:
            from calendar import timegm  # slow to import, and only a page and a trace ask

            time += timegm((self._year, *moment[1:6])) - timegm(moment)
        return time - self._clocks.ahead_of(source, origin.rank, origin.node)


def _said(event: Event) -> float | None:
    """The time that a line of Slurm's tells."""
    return parse_time(event.captures.get("at", ""))


class _Rank(Struct):
    """What was read of one rank, and when."""

    last: float | None = None
    """Its last line."""
    waits: float | None = None
    """Since when it was in the collective that timed out."""
    error: float | None = None
    done: float | None = None
    exit: float | None = None
    ending: ProcessExit | None = None
    steps: list[Mark] = field(default_factory=list)
    lines: dict[tuple[MarkKind, str | None], Mark] = field(default_factory=dict)
    """Of each kind and cause the first one."""
    left_out: int = 0

    def heard(self, at: float) -> None:
        """One more line of it."""
        self.last = _later(at, self.last)

    def show(self, one: Mark) -> None:
        """One more line to show, if it says something new."""
        if self.lines.setdefault((one.kind, one.cause), one) is not one:
            self.left_out += 1


def _later(one: float, *others: float | None) -> float:
    return max((one, *(other for other in others if other is not None)))


def _earlier(one: float, *others: float | None) -> float:
    return min((one, *(other for other in others if other is not None)))


class _Scene:
    """All ranks over time, and what concerns the job as a whole; what names no rank is under None."""

    def __init__(self, finding: Finding, case: Case, clock: _Clock) -> None:
        self.ranks: dict[int | None, _Rank] = {None: _Rank()}
        self.finding, self._clock = finding, clock
        self.begin = min(clock.times)
        """When the first line came."""
        self._standing = {rank: one.standing for one in finding.standings for rank in one.ranks}
        self._led = not _LEADS.isdisjoint(self._standing.values())
        """Whether the verdict says which ranks were first; else the first line of the failure does."""
        self._node_of = {rank: report.node for report in case.reports for rank in report.ranks if report.node}
        self._node_of |= case.rank_map.node_of
        if finding.origin.rank is not None and finding.origin.node is not None:
            self._node_of[finding.origin.rank] = finding.origin.node
        self._ended: float | None = None
        """When Slurm ended the job."""
        self._add_steps(case)
        steps = [one.at for seen in self.ranks.values() for one in seen.steps]
        self._last_step = max(steps, default=None)
        self._waited = self._add_waits(case)
        failed = self._add_errors(finding.root, case) if finding.root is not None else None
        self._add_exits(case)
        self.named = {
            *self._standing,
            *case.observed.ranks_seen,
            *range(world_size(case.observed, finding.record) or 0),
        }
        self.named |= {rank for rank in self.ranks if rank is not None}
        self.end = _later(self.begin, self._ended, *(self._ends_of(seen) for seen in self.ranks.values()))
        step, ended = self._last_step, self._ended
        idle = ended - step if ended is not None and step is not None else 0.0
        self._stalled = idle > self._quiet or (step is not None and finding.cause == HANG)
        self.begin = _earlier(self.begin, failed, self._waited)
        self.start = self.begin if failed is None or finding.verdict != "failed" else self._first_shown(failed, steps)
        self.end += _MARGIN * (self.end - self.start)

    def _seen(self, rank: int | None) -> _Rank:
        return self.ranks.setdefault(rank, _Rank())

    def _ends_of(self, seen: _Rank) -> float:
        return _later(self.begin, seen.last, seen.error, seen.exit)

    # ── what was read ──

    def _add_steps(self, case: Case) -> None:
        """Each rank's steps, and that it completed; from the longest pause between two follows when it is called silent."""
        low, high = case.timeline.span
        of_file = [case.rank_map.resolve(Origin(), source)[0].rank for source in range(len(case.observed.files))]
        pause = 0.0
        for step in case.timeline.progress:
            rank = step.rank if step.rank is not None else of_file[step.source]
            at = self._clock.at((step.source, step.offset), Origin(rank, time=step.shown_time))
            if not low <= step.order < high or at is None:
                continue
            seen = self._seen(rank)
            if seen.last is not None and not step.skipped:
                pause = max(pause, at - seen.last)
            seen.heard(at)
            text = f"step {step.step}" if step.steps is None else f"step {step.step}/{step.steps}"
            seen.steps.append(Mark(at, "step", None, text, None, None, rank))
        self._quiet = _SILENT * pause or inf
        """Seconds without a line after which something is called silent."""
        for mark in case.observed.signals:
            if mark.signal.kind == "finished" and low <= mark.order < high:
                seen = self._seen(mark.line.origin.rank)
                seen.done = self._clock.at(mark.line.place, mark.line.origin) or self.begin
                seen.heard(seen.done)

    def _add_waits(self, case: Case) -> float | None:
        """Since when ranks were in the collective that their watchdogs ended: only these lines tell how long it ran."""
        for status in case.timeline.collectives:
            ran = status.ran_ms if status.ran_ms is not None else status.timeout_ms
            if status.op is None or ran is None:
                continue
            seen = self._seen(status.rank)
            now = self._clock.true(status.source, Origin(status.rank, time=status.time))
            since = now - ran / 1000 if now is not None else seen.last
            if since is not None:
                seen.waits = _earlier(since, seen.waits)
        return min((seen.waits for seen in self.ranks.values() if seen.waits is not None), default=None)

    def _add_errors(self, root: Incident, case: Case) -> float:
        """The root's lines and those that follow from it; returns when the failure began."""
        failed = self._when(root.main, self._waited)
        firsts = {rank for rank, standing in self._standing.items() if standing == "first"}
        done: set[int] = set()
        ends = case.traits["scheduler"] | case.traits["whole-job"]
        for incident in (root, *self.finding.same, *self.finding.rivals, *self.finding.cascade):
            for event in incident.events:
                reported = incident.report is not None or (event.cause == EXIT_CODE and not event.ranks)
                if event.order in done or (reported and event is not root.main):
                    continue
                done.add(event.order)
                began = event is root.main or (event.cause == root.cause and firsts & event.ranks)
                at = failed if began and not _is_stamped(event) else self._when(event, None)
                at = at if _is_stamped(event) else max(at, failed)
                if event.role != "hint" and (event.ends_job or (event.cause in ends and "at" in event.captures)):
                    self._ended = _earlier(at, self._ended)
                for rank in event.ranks or {self.finding.origin.rank if incident is root else None}:
                    first = event.cause == root.cause and (rank in firsts if firsts else event is root.main)
                    self._add_error(event, at, rank, "first" if first else "error", own=not reported)
        return self._waited if self.finding.suspicion is not None and self._waited is not None else failed

    def _when(self, event: Event, waited: float | None) -> float:
        """When an event came. Without a stamp it was printed after its rank's last step, but before others waited for it."""
        at = self._clock.of_event(event) or self.begin
        if _is_stamped(event):
            return at
        own = self._seen(event.origin.rank)
        return _earlier(_later(at, own.last), None if own.waits is not None else waited)

    def _add_error(self, event: Event, at: float, rank: int | None, kind: MarkKind, own: bool) -> None:
        seen = self._seen(rank)
        if own:
            seen.error = _earlier(at, seen.error)
        one = Mark(at, kind, event.cause, "", None, None, rank)
        if rank is None or rank not in event.others:  # else the line is another rank's, which printed the same
            seen.heard(at)
            one = replace(one, place=event.hit.place, text=_quoted(event.hit.raw))
        seen.show(one)

    def _add_exits(self, case: Case) -> None:
        """The reports of how processes ended; torchelastic's table tells more than its agent does."""
        for report in sorted(case.reports, key=lambda one: (one.kind != "table", one.order)):
            origin = Origin(min(report.ranks, default=None), node=report.node, time=report.time)
            at = self._clock.at(report.line.place, origin) or self.begin
            for seen, rank in ((self._seen(rank), rank) for rank in report.ranks):
                if seen.ending is None:
                    seen.ending, seen.exit = report.exit, _later(at, seen.last)  # a table shows whole seconds
                    text = _quoted(report.line.raw)
                    seen.show(Mark(seen.exit, "exit", None, text, None, None, rank, report.line.place))

    # ── what is shown of it ──

    def _first_shown(self, failed: float, steps: Sequence[float]) -> float:
        """Where the shown part begins: some steps before it began to go wrong, as long as the failure can still be seen."""
        since = _earlier(failed, self._waited, self._last_step if self._stalled else None)
        unheard = (self.ranks.get(rank, _Rank()).last for rank, how in self._standing.items() if how in _UNHEARD)
        last = self._last_step or 0.0
        since = _earlier(since, *(at for at in unheard if at is not None and last - at > self._quiet))
        before = sorted({at for at in steps if at < since})[-_STEPS:]
        lead = since - before[0] if before else _LEAST_LEAD
        lead = max(min(lead, _LONGEST_LEAD * (self.end - since) + _LEAST_LEAD), _LEAD * (self.end - since))
        start = since - lead
        return self.begin if self.end - self.begin <= _LONGEST_LEAD * (self.end - start) else start

    def rank_timeline(self, rank: int | None) -> RankTimeline:
        """What one rank did."""
        seen = self.ranks.get(rank, _Rank())
        alone = not self.named
        node = self.finding.origin.node if alone else self._node_of.get(rank or 0) if rank is not None else None
        standing = "first" if alone and self.finding.verdict == "failed" else ""
        if rank is not None:
            standing = self._standing.get(rank, "")
        turns = self._turns(seen, standing) if alone or rank is not None else []
        lines = [*seen.lines.values(), *self._first_of(rank, seen, standing, turns), *seen.steps[-_MOST_STEPS:]]
        return RankTimeline(
            ranks=(rank,) if rank is not None else (),
            nodes=(node,) if node else (),
            standing=standing,
            spans=self._spans(turns),
            marks=tuple(replace(one, at=one.at - self.start) for one in lines if one.at >= self.start),
            left_out=seen.left_out,
            exit=self.finding.exit if alone else seen.ending,
            first=standing in _LEADS or (not self._led and any(one.kind == "first" for one in lines)),
        )

    def _first_of(
        self, rank: int | None, seen: _Rank, standing: str, turns: Sequence[tuple[float, State]]
    ) -> list[Mark]:
        """The mark of a rank that was first, or suspected, and that no line of its own shows."""
        root, state = self.finding.root, {"suspect": "silent", "first": "failed"}.get(standing)
        if rank is None or root is None or state is None or any(one.kind == "first" for one in seen.lines.values()):
            return []
        one = Mark(0.0, "first", self.finding.cause, "", None, None, rank)
        if standing == "first":
            one = replace(one, place=root.main.hit.place, text=_quoted(root.main.hit.raw))
        return [replace(one, at=at) for at, now in turns if now == state][:1]

    def _turns(self, seen: _Rank, standing: str) -> list[tuple[float, State]]:
        """From where on a rank was in which state, in order."""
        ended = seen.exit if seen.exit is not None else self._ended
        failed = self.finding.verdict == "failed"
        done = seen.done if seen.done is not None or failed else self.ranks[None].done
        there = not failed or any(at is not None for at in (seen.last, seen.error, seen.exit, seen.waits))
        turns: list[tuple[float, State]] = [(self.start, "running" if there else "silent")]
        last_step = seen.steps[-1].at if seen.steps else self._last_step
        waits = last_step if standing == "waiting" and seen.waits is None else seen.waits
        if waits is not None and (seen.error is None or waits < seen.error):
            turns.append((waits, "waiting"))
        elif failed and (since := self._silent_since(seen, standing, ended)) is not None:
            turns.append((since, "silent"))
        if seen.error is not None:
            turns.append((seen.error, "failed" if standing in ("first", "suspect", "") else "followed"))
        if done is not None and seen.error is None:
            turns.append((done, "finished"))
        elif ended is not None:
            turns += [(ended, "failed")] if seen.error is None and standing == "first" else []
            turns.append((_later(ended, seen.error), "gone"))
        return turns

    def _silent_since(self, seen: _Rank, standing: str, ended: float | None) -> float | None:
        """From where on no line of a rank was read, where others waited for it, went on, or all stood still."""
        if standing == "suspect" and self._waited is not None:
            return _later(self._waited, seen.steps[-1].at if seen.steps else None)
        if self._stalled or seen.last is None:
            return self._last_step if self._stalled else None
        until = self._last_step
        if standing == "silent" or until is None:
            until = ended if ended is not None else self.end
        return seen.last if until - seen.last > self._quiet else None

    def _spans(self, turns: Sequence[tuple[float, State]]) -> tuple[Span, ...]:
        """Each state until the next; of a failure that ended at once its moment stays."""
        found: list[Span] = []
        for at, (begin, state) in enumerate(turns):
            low = min(max(begin, self.start), self.end)
            high = min(max(turns[at + 1][0], low), self.end) if at + 1 < len(turns) else self.end
            if high > low or state in ("failed", "followed"):
                found.append(Span(low - self.start, high - self.start, state))
        return tuple(found)


def _is_stamped(event: Event) -> bool:
    """Whether an event's own line shows its time."""
    return "at" in event.captures or (event.origin.time is not None and not event.bound)


def _quoted(raw: str) -> str:
    """A line as a timeline shows it."""
    text = raw.strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"
