"""Where each rank stands in the failure: first, suspect, collateral, waiting, silent, finished; and why."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from slurmdoctor.model import (
    ExitReport,
    Finding,
    Hit,
    Knowledge,
    Line,
    Observations,
    ProcessExit,
    RankStanding,
    Reason,
    Standing,
    Timeline,
    reason,
)

Place = tuple[int, int]
"""Source and offset of a line."""


def stand_ranks(
    finding: Finding, timeline: Timeline, observed: Observations, knowledge: Knowledge
) -> tuple[RankStanding, ...]:
    """One group for each way to stand; a rank belongs to the first that fits it."""
    if finding.verdict != "failed" or finding.root is None:
        return ()
    groups = _Groups()
    _add_first(groups, finding, timeline, observed)
    _add_followers(groups, finding, knowledge)
    for (witness, ending), reports in _bad_exits(timeline).items():
        why = reason("ended-without-error", exit=ending, witness=witness)
        groups.add("collateral", chain.from_iterable(one.ranks for one in reports), (why,), _place(reports[0].line))
    done = [m.line for m in observed.signals if m.signal.kind == "finished" and m.line.origin.rank is not None]
    groups.add("finished", (x.origin.rank for x in done), (reason("completed"),), _place(done[0]) if done else None)
    known = {p.rank for p in timeline.progress} | observed.rank_map.seen
    known |= set(range(finding.facts.get("world_size") or observed.rank_map.world_size or 0))
    groups.add("silent", known, (reason("nothing-told"),))
    return tuple(groups.found)


class _Groups:
    """The groups so far; a rank stands in one alone."""

    def __init__(self) -> None:
        self._placed: set[int] = set()
        self.found: list[RankStanding] = []

    def add(
        self, standing: Standing, ranks: Iterable[int | None], why: tuple[Reason, ...], place: Place | None = None
    ) -> None:
        """A group of those ranks that stand nowhere yet."""
        new = sorted({r for r in ranks if r is not None} - self._placed)
        if new:
            self._placed.update(new)
            self.found.append(RankStanding(standing, tuple(new), why, place))


def _add_first(groups: _Groups, finding: Finding, timeline: Timeline, observed: Observations) -> None:
    """The rank that was first, those that failed alike, or the suspects."""
    root, suspicion = finding.root, finding.suspicion
    assert root is not None
    if suspicion is not None:
        groups.add("suspect", suspicion.ranks, (suspicion.how,), _trace_of_suspect(finding, timeline, observed))
        dumped = [observed.dumps[r].line for r in suspicion.waiting if r in observed.dumps]
        if suspicion.stands_in and dumped:
            groups.add("waiting", suspicion.waiting, (reason("stacks-show-waiting"),), _place(dumped[0]))
    elif finding.origin.rank is not None or finding.alike:
        first = finding.alike if finding.origin.rank is None else (finding.origin.rank,)
        groups.add("first", first, finding.how or (reason("cause", cause=root.cause),), _place(root.main.hit))
        alike = [i for i in finding.same if i.main.origin.rank is not None]
        if alike or root.main.others:
            ranks = (rank for i in (root, *alike) for rank in i.main.ranks)
            shown = (alike or [root])[0].main.hit
            groups.add("first", ranks, (reason("failed-alike", cause=root.cause),), _place(shown))


def _add_followers(groups: _Groups, finding: Finding, knowledge: Knowledge) -> None:
    """The ranks whose own lines follow from the root."""
    assert finding.root is not None
    incidents = [i for i in (*finding.same, finding.root, *finding.cascade) if i.main.origin.rank is not None]
    for cause in dict.fromkeys(i.cause for i in incidents):
        here = [i for i in incidents if i.cause == cause]
        waited = cause in knowledge.traits["timed-out"]
        why = reason("waited-for-others" if waited else "follows-from-first", cause=cause)
        ranks = (r for i in here for r in i.main.ranks)
        groups.add("waiting" if waited else "collateral", ranks, (why,), _place(here[0].main.hit))


def _place(line: Hit | Line) -> Place:
    return line.source, line.offset


def _bad_exits(timeline: Timeline) -> dict[tuple[str, ProcessExit], list[ExitReport]]:
    """Bad exits by witness and kind."""
    found: dict[tuple[str, ProcessExit], list[ExitReport]] = {}
    for report in timeline.reports:
        if report.exit.exit_class != "ok":
            kind = ProcessExit(None if report.exit.signal else report.exit.code, report.exit.signal, "unknown")
            found.setdefault((report.witness, kind), []).append(report)
    return found


def _trace_of_suspect(finding: Finding, timeline: Timeline, observed: Observations) -> Place | None:
    """A line that shows a suspect: its error, or what it printed last, or the report of its exit."""
    assert finding.root is not None
    assert finding.suspicion is not None
    suspects = set(finding.suspicion.ranks)
    if not suspects:
        return None
    if finding.root.main.origin.rank in suspects:
        return _place(finding.root.main.hit)
    if finding.suspicion.stands_in and min(suspects) in observed.dumps:
        return _place(observed.dumps[min(suspects)].line)
    words = observed.last_words.get(min(suspects))
    line = words or next((r.line for r in timeline.reports if suspects & set(r.ranks)), None)
    return _place(line) if line is not None else None
