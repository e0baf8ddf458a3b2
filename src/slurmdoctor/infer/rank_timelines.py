"""What each rank of the last attempt did over time, for the page: a timeline for all ranks that did the same."""

from __future__ import annotations

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

Place = tuple[int, int]
"""Source and offset of a line."""
_SILENT = 5
"""Longest pauses between two steps after which a rank that says nothing is called silent."""
_WHOLE, _LEAD = 4, 60.0
"""The whole run is shown where that is at most so many times longer than what is needed: the failure, and before it as long
as it took, and these seconds."""
_MOST_STEPS, _MOST_LINES = 6, 8
"""Steps and lines that a timeline shows."""
_MOST_TIMELINES = 48
_GRAINS = (100, 25, 0)
"""Parts of the shown time within which two times count as one; at 0 only the order of the states counts."""
_LEADS = frozenset({"first", "suspect"})
"""Standings of the ranks that the verdict names."""
_MARGIN = 0.02
"""What is shown behind the last line, as a share of all."""
_LONGEST = 200
"""Characters of a line that are shown."""


def chart(finding: Finding, timeline: Timeline, observed: Observations, knowledge: Knowledge) -> RankTimelines:
    """All of them, over the part of the run in which the failure can be seen; none where the log shows no times."""
    case = Case(timeline, observed, knowledge)
    times = _times(case)
    if len(set(times.values())) < 2:
        return RankTimelines()
    scene = _Scene(finding, case, times)
    if scene.start >= scene.end:
        return RankTimelines()
    for grain in _GRAINS:
        groups = scene.groups(grain)
        if len(groups) <= _MOST_TIMELINES:
            break
    return RankTimelines(
        tuple(scene.rank_timeline(ranks) for ranks in groups[:_MOST_TIMELINES]),
        scene.start,
        scene.end,
        began=scene.begin - scene.start,
        dated=gmtime(scene.start).tm_year != ASSUMED_YEAR,
        by_order=grain == 0,
        left_out=tuple(sorted(rank for ranks in groups[_MOST_TIMELINES:] for rank in ranks if rank is not None)),
    )


def _times(case: Case) -> dict[Place, float]:
    """When each line was printed, or what it tells came: by its own time, else by the last one above it in its file."""
    low, high = case.timeline.span
    lines = [
        (report.line.place, replace(report.line.origin, time=report.time or report.line.origin.time), "")
        for report in case.reports
    ]
    lines += [(m.line.place, m.line.origin, "") for m in case.observed.signals if low <= m.order < high]
    for event in case.events:
        own = replace(event.origin, time=None) if event.bound else event.origin
        lines.append((event.hit.place, own, event.captures.get("at", "")))
    steps = [step for step in case.timeline.progress if low <= step.order < high]
    lines += [((step.source, step.offset), Origin(step.rank, time=step.shown_time), "") for step in steps]
    found: dict[Place, float] = {}
    latest: dict[int, float] = {}
    for place, origin, stamp in sorted(lines, key=lambda line: line[0]):
        above = latest.get(place[0])
        time = above
        if origin.time is not None:
            time = origin.time - case.timeline.clocks.ahead_of(place[0], origin.rank, origin.node)
        by_slurm = parse_time(stamp)
        if by_slurm is not None and (time is None or _one_clock(by_slurm - time)):
            time = by_slurm
        if time is not None:
            found[place] = _later(time, found.get(place))
            # what was held back comes out below what was printed later: time never goes back in a file
            latest[place[0]] = _later(time, above)
    return found


def _one_clock(later: float) -> bool:
    """Whether what Slurm says may be so much later than the line above it, by one clock."""
    return -LIMITS.other_clock <= later < LIMITS.longest_job and not by_zone(later)


class _Rank(Struct):
    """What was read of one rank, and when."""

    last: float | None = None
    """Its last line."""
    step: float | None = None
    """Its last step."""
    waits: float | None = None
    """Since when it was in the collective that timed out."""
    error: float | None = None
    done: float | None = None
    exit: float | None = None
    ending: ProcessExit | None = None
    marks: list[Mark] = field(default_factory=list)


def _later(one: float, *others: float | None) -> float:
    return max((one, *(other for other in others if other is not None)))


def _earlier(one: float, *others: float | None) -> float:
    return min((one, *(other for other in others if other is not None)))


class _Scene:
    """All ranks over time, and what concerns the job as a whole; what names no rank is under None."""

    def __init__(self, finding: Finding, case: Case, times: dict[Place, float]) -> None:
        self.ranks: dict[int | None, _Rank] = {None: _Rank()}
        self.finding, self._times = finding, times
        self.begin = min(times.values())
        """When the first line came."""
        self._standing: dict[int | None, str] = {rank: one.standing for one in finding.standings for rank in one.ranks}
        self._node_of: dict[int | None, str | None] = {finding.origin.rank: finding.origin.node}
        self._node_of.update(case.rank_map.node_of.items())
        self._ended: float | None = None
        """When Slurm ended the job."""
        self._add_steps(case)
        self._last_step = max((seen.step for seen in self.ranks.values() if seen.step is not None), default=None)
        self._waited = self._add_waits(case)
        failed = self._add_errors(finding.root, case) if finding.root is not None else None
        self._add_exits(case)
        size = world_size(case.observed, finding.record) or 0
        self.named = {*self._standing, *case.observed.ranks_seen, *range(size), *self.ranks} - {None}
        if self.named:
            self._node_of.pop(None, None)
        else:
            self._standing[None] = "first" if finding.verdict == "failed" else ""
            self.ranks[None].ending = finding.exit
        ends = (end for seen in self.ranks.values() for end in (seen.last, seen.error, seen.exit))
        self.end = _later(self.begin, self._ended, *ends)
        step, ended = self._last_step, self._ended
        idle = ended - step if ended is not None and step is not None else 0.0
        self._stalled = idle > self._quiet or finding.cause == HANG
        self.begin = _earlier(self.begin, failed, self._waited)
        self.start = self.begin
        if failed is not None:
            silent = (self._silent_since(seen, self._standing.get(rank, "")) for rank, seen in self.ranks.items())
            since = _earlier(failed, self._waited, *silent)
            start = since - (self.end - since) - _LEAD
            self.start = start if self.end - self.begin > _WHOLE * (self.end - start) else self.begin
        self.end += _MARGIN * (self.end - self.start)

    def _seen(self, rank: int | None) -> _Rank:
        return self.ranks.setdefault(rank, _Rank())

    # ── what was read ──

    def _add_steps(self, case: Case) -> None:
        """Each rank's steps, and that it completed; from the longest pause between two follows when it is called silent."""
        of_file = [case.rank_map.resolve(Origin(), source)[0].rank for source in range(len(case.observed.files))]
        pause = 0.0
        for step in case.timeline.progress:
            at = self._times.get((step.source, step.offset))
            if at is None:
                continue
            rank = step.rank if step.rank is not None else of_file[step.source]
            seen = self._seen(rank)
            if seen.last is not None and not step.skipped:
                pause = max(pause, at - seen.last)
            seen.step = seen.last = _later(at, seen.last)
            text = f"step {step.step}" if step.steps is None else f"step {step.step}/{step.steps}"
            seen.marks.append(Mark(at, "step", text=text, rank=rank))
        self._quiet = _SILENT * pause or inf
        """Seconds without a line after which something is called silent."""
        for mark in case.observed.signals:
            at = self._times.get(mark.line.place)
            if mark.signal.kind == "finished" and at is not None:
                seen = self._seen(mark.line.origin.rank)
                seen.done, seen.last = at, _later(at, seen.last)

    def _add_waits(self, case: Case) -> float | None:
        """Since when ranks were in the collective that their watchdogs ended: only these lines tell how long it ran."""
        for status in case.timeline.collectives:
            ran = status.ran_ms if status.ran_ms is not None else status.timeout_ms
            if status.op is None or ran is None:
                continue
            seen = self._seen(status.rank)
            since = seen.last
            if status.time is not None:
                since = status.time - case.timeline.clocks.ahead_of(status.source, status.rank, None) - ran / 1000
            if since is not None:
                seen.waits = _earlier(since, seen.waits)
        return min((seen.waits for seen in self.ranks.values() if seen.waits is not None), default=None)

    def _add_errors(self, root: Incident, case: Case) -> float:
        """The root's lines and those that follow from it; returns when the failure began."""
        failed = self._when(root.main, None)
        if not _is_stamped(root.main):
            failed = _earlier(failed, self._waited)  # it was held back, and others waited for its rank
        firsts = {rank for rank, standing in self._standing.items() if standing == "first"}
        ends = case.traits["scheduler"] | case.traits["whole-job"]
        for incident in (root, *self.finding.same, *self.finding.cascade):
            for event in incident.events:
                reported = incident.report is not None or (event.cause == EXIT_CODE and not event.ranks)
                if reported and event is not root.main:
                    continue
                began = event.cause == root.cause and not _is_stamped(event)
                at = failed if began else self._when(event, failed)
                if event.role != "hint" and (event.ends_job or (event.cause in ends and "at" in event.captures)):
                    self._ended = _earlier(at, self._ended)
                for rank in event.ranks or {self.finding.origin.rank if incident is root else None}:
                    first = event.cause == root.cause and (rank in firsts if firsts else event is root.main)
                    self._add_error(event, at, rank, "first" if first else "error", own=not reported)
        return failed

    def _when(self, event: Event, failed: float | None) -> float:
        """When an event came. Without a stamp it was neither before its rank's last line nor before the failure."""
        at = self._times.get(event.hit.place, self.begin)
        return at if _is_stamped(event) else _later(at, self._seen(event.origin.rank).last, failed)

    def _add_error(self, event: Event, at: float, rank: int | None, kind: MarkKind, own: bool) -> None:
        seen = self._seen(rank)
        if own:
            seen.error = _earlier(at, seen.error)
        one = Mark(at, kind, event.cause, rank=rank)
        if rank is None or rank not in event.others:  # else the line is another rank's, which printed the same
            seen.last = _later(at, seen.last)
            one = replace(one, place=event.hit.place, text=_quoted(event.hit.raw))
        seen.marks.append(one)

    def _add_exits(self, case: Case) -> None:
        """The reports of how processes ended; torchelastic's table tells more than its agent does."""
        for report in sorted(case.reports, key=lambda one: (one.kind != "table", one.order)):
            at = self._times.get(report.line.place, self.begin)
            for rank in report.ranks:
                seen = self._seen(rank)
                if seen.ending is None:
                    seen.ending, seen.exit = report.exit, _later(at, seen.last)  # a table shows whole seconds
                    text, place = _quoted(report.line.raw), report.line.place
                    seen.marks.append(Mark(seen.exit, "exit", text=text, rank=rank, place=place))

    # ── what is shown of it ──

    def groups(self, parts: int) -> list[list[int | None]]:
        """The ranks that did the same, with so many parts of the shown time: the first failure first, then by rank."""
        every: list[int | None] = [*sorted(self.named)]
        if not every or self.ranks[None].marks:  # what names no rank
            every.append(None)
        found: dict[object, list[int | None]] = {}
        for rank in every:
            edges = tuple(
                (span.state, round(span.start * parts / (self.end - self.start))) for span in self._spans(rank)
            )
            same = (self._is_first(rank), self._standing.get(rank), self._seen(rank).ending, rank is None, edges)
            found.setdefault(same, []).append(rank)
        return sorted(found.values(), key=lambda ranks: (not self._is_first(ranks[0]), ranks[0] is None, ranks[0] or 0))

    def rank_timeline(self, ranks: Sequence[int | None]) -> RankTimeline:
        """What these ranks did, as the first of them: of lines that say the same the first one is shown."""
        rank = ranks[0]
        every = [mark for one in ranks for mark in self._marks(one) if mark.at >= self.start]
        shown: dict[tuple[str, str], Mark] = {}
        for mark in sorted(every, key=lambda mark: (mark.at, mark.place is None)):
            shown.setdefault((mark.kind, mark.cause or mark.text), mark)
        steps = [mark for mark in shown.values() if mark.kind == "step"][-_MOST_STEPS:]
        lines = [mark for mark in shown.values() if mark.kind != "step"]
        lines = sorted(lines, key=lambda mark: (mark.kind != "first", mark.at))[:_MOST_LINES]
        kept = sorted((*lines, *steps), key=lambda mark: mark.at)
        return RankTimeline(
            ranks=tuple(one for one in ranks if one is not None),
            nodes=tuple(dict.fromkeys(node for one in ranks if (node := self._node_of.get(one)))),
            standing=self._standing.get(rank, ""),
            spans=self._spans(rank),
            marks=tuple(replace(mark, at=mark.at - self.start) for mark in kept),
            left_out=sum(mark.kind != "step" for mark in every) - len(lines),
            exit=self._seen(rank).ending,
            first=self._is_first(rank),
        )

    def _is_first(self, rank: int | None) -> bool:
        """Whether the first failure is here: as the verdict says, else where its first line is."""
        if _LEADS.isdisjoint(self._standing.values()):
            return any(mark.kind == "first" for mark in self._marks(rank))
        return self._standing.get(rank) in _LEADS

    def _marks(self, rank: int | None) -> list[Mark]:
        """What is shown of a rank; also where it was first, or suspected, and no line of its own shows it."""
        seen_marks = self._seen(rank).marks
        root, standing = self.finding.root, self._standing.get(rank)
        state = {"suspect": "silent", "first": "failed"}.get(standing or "")
        if rank is None or root is None or any(mark.kind == "first" for mark in seen_marks):
            return seen_marks
        one = Mark(0.0, "first", self.finding.cause, rank=rank)
        if standing == "first":
            one = replace(one, place=root.main.hit.place, text=_quoted(root.main.hit.raw))
        return [*seen_marks, *[replace(one, at=at) for at, now in self._turns(rank) if now == state][:1]]

    def _turns(self, rank: int | None) -> list[tuple[float, State]]:
        """From where on a rank was in which state, in order; of what names none of several nothing is known."""
        if rank is None and self.named:
            return []
        seen, standing = self._seen(rank), self._standing.get(rank, "")
        ended = seen.exit if seen.exit is not None else self._ended
        failed = self.finding.verdict == "failed"
        done = seen.done if seen.done is not None or failed else self.ranks[None].done
        there = not failed or any(at is not None for at in (seen.last, seen.error, seen.exit, seen.waits))
        turns: list[tuple[float, State]] = [(self.start, "running" if there else "silent")]
        last_step = seen.step if seen.step is not None else self._last_step
        waits = last_step if standing == "waiting" and seen.waits is None else seen.waits
        if waits is not None:
            turns.append((waits, "waiting"))
        elif failed and (since := self._silent_since(seen, standing)) is not None:
            turns.append((since, "silent"))
        if seen.error is not None:
            turns.append((seen.error, "failed" if standing in ("first", "suspect", "") else "followed"))
        if done is not None and seen.error is None:
            turns.append((done, "finished"))
        elif ended is not None:
            turns += [(ended, "failed")] if seen.error is None and standing == "first" else []
            turns.append((_later(ended, seen.error), "gone"))
        return turns

    def _silent_since(self, seen: _Rank, standing: str) -> float | None:
        """From where on no line of a rank was read, where others waited for it, went on, or all stood still."""
        if standing == "suspect" and self._waited is not None:
            return _later(self._waited, seen.step)
        if self._stalled:
            return self._last_step
        last_step = self._last_step or 0.0
        return seen.last if seen.last is not None and last_step - seen.last > self._quiet else None

    def _spans(self, rank: int | None) -> tuple[Span, ...]:
        """Each state until the next; of a failure that ended at once its moment stays."""
        found: list[Span] = []
        turns = self._turns(rank)
        for (begin, state), end in zip(turns, [*(at for at, _ in turns[1:]), self.end], strict=False):
            low = min(max(begin, self.start), self.end)
            high = min(max(end, low), self.end)
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
