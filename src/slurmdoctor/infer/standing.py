"""Where each rank stands in the failure: first, suspect, collateral, waiting, silent, finished; and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from slurmdoctor.infer.culprits import last_words
from slurmdoctor.infer.endings import shown
from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import ExitReport, Hit, Line, Observations, RankGroup
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.timeline.order import Timeline

Standing = Literal["first", "suspect", "collateral", "waiting", "silent", "finished"]
Place = tuple[int, int]
"""Source and offset of a line."""

_WAITING = frozenset({"collective-timeout", "nccl-id-timeout", "rendezvous-timeout"})


def groups(finding: Finding, story: Timeline, assembled: Observations, lines: Lines) -> tuple[RankGroup, ...]:
    """One group for each way to stand; a rank belongs to the first that fits it."""
    if finding.verdict != "failed" or finding.root is None:
        return ()
    placed: set[int] = set()
    found: list[RankGroup] = []

    def add(standing: Standing, ranks: Iterable[int | None], why: str, place: Place | None = None) -> None:
        new = sorted({r for r in ranks if r is not None} - placed)
        if new:
            placed.update(new)
            file = lines.sources[place[0]].name if place else None
            found.append(RankGroup(standing, tuple(new), why, file, lines.number(*place) if place else None))

    root = finding.root
    if finding.suspicion is not None:
        add("suspect", finding.suspicion.ranks, finding.suspicion.how, _trace_of(finding, story, assembled, lines))
        dumped = [assembled.dumps[r].line for r in finding.suspicion.waiting if r in assembled.dumps]
        if finding.suspicion.stands_in and dumped:
            add("waiting", finding.suspicion.waiting, "their stacks show them waiting", _of(dumped[0]))
    elif finding.origin.rank is not None:
        add("first", [finding.origin.rank], finding.how or root.cause, _of(root.main.hit))
        alike = [i for i in finding.same if i.main.origin.rank is not None]
        if alike:
            ranks = (rank for i in alike for rank in i.main.ranks)
            add("first", ranks, f"failed alike: {root.cause}", _of(alike[0].main.hit))
    incidents = [i for i in (*finding.same, root, *finding.cascade) if i.main.origin.rank is not None]
    for cause in dict.fromkeys(i.cause for i in incidents):
        told = [i for i in incidents if i.cause == cause]
        waited = cause in _WAITING
        why = f"{cause}: waited for others" if waited else f"{cause}, which follows"
        add("waiting" if waited else "collateral", (r for i in told for r in i.main.ranks), why, _of(told[0].main.hit))
    for (witness, ending), reports in _endings(story).items():
        why = f"{ending}, says {witness}; no error of their own"
        add("collateral", (r for one in reports for r in one.ranks), why, _of(reports[0].line))
    done = [m.line for m in assembled.marks if m.signal.kind == "finished" and m.line.origin.rank is not None]
    add("finished", (line.origin.rank for line in done), "said that they completed", _of(done[0]) if done else None)
    known = {p.rank for p in story.progress} | assembled.maps.seen
    if assembled.maps.world_size:
        known |= set(range(assembled.maps.world_size))
    add("silent", known, "no error, no ending: nothing in the log tells")
    return tuple(found)


def _of(line: Hit | Line) -> Place:
    return line.source, line.offset


def _endings(story: Timeline) -> dict[tuple[str, str], list[ExitReport]]:
    """Bad endings by witness and kind."""
    found: dict[tuple[str, str], list[ExitReport]] = {}
    for report in story.reports:
        if report.exit.exit_class != "ok":
            found.setdefault((report.witness, shown(report.exit)), []).append(report)
    return found


def _trace_of(finding: Finding, story: Timeline, assembled: Observations, lines: Lines) -> Place | None:
    """A line that shows a suspect: its error, or what it said last, or what a witness says of its end."""
    assert finding.root is not None
    assert finding.suspicion is not None
    suspects = set(finding.suspicion.ranks)
    if not suspects:
        return None
    if finding.root.main.origin.rank in suspects:
        return _of(finding.root.main.hit)
    if finding.suspicion.stands_in and min(suspects) in assembled.dumps:
        return _of(assembled.dumps[min(suspects)].line)
    said = last_words(min(suspects), finding.root.main, lines)
    line = said or next((r.line for r in story.reports if suspects & set(r.ranks)), None)
    return _of(line) if line is not None else None
