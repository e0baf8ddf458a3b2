"""Where each rank stands in the failure: first, suspect, collateral, waiting, silent, finished; and why."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from slurmdoctor.events import Assembled
from slurmdoctor.finding import Finding, Incident
from slurmdoctor.lines import Lines
from slurmdoctor.model import RankGroup
from slurmdoctor.timeline import Timeline

Standing = Literal["first", "suspect", "collateral", "waiting", "silent", "finished"]

_WAITING = frozenset({"collective-timeout", "nccl-id-timeout", "rendezvous-timeout"})


def groups(finding: Finding, story: Timeline, assembled: Assembled, lines: Lines) -> tuple[RankGroup, ...]:
    """One group for each way to stand; a rank belongs to the first that fits it."""
    if finding.verdict != "failed" or finding.root is None:
        return ()
    placed: set[int] = set()
    found: list[RankGroup] = []

    def add(standing: Standing, ranks: Iterable[int | None], why: str, incident: Incident | None = None) -> None:
        new = sorted({r for r in ranks if r is not None} - placed)
        if not new:
            return
        placed.update(new)
        hit = incident.main.hit if incident else None
        file = lines.sources[hit.source].name if hit else None
        line = lines.number(hit.source, hit.offset) if hit else None
        found.append(RankGroup(standing, tuple(new), why, file, line))

    root = finding.root
    if finding.suspicion is not None:
        add("suspect", finding.suspicion.ranks, finding.suspicion.how)
    elif finding.origin.rank is not None:
        add("first", [finding.origin.rank], finding.how or root.cause, root)
        alike = [i for i in finding.same if i.main.origin.rank is not None]
        if alike:
            add("first", (rank for i in alike for rank in i.main.ranks), f"failed alike: {root.cause}", alike[0])
    incidents = [i for i in (*finding.same, root, *finding.cascade) if i.main.origin.rank is not None]
    for cause in dict.fromkeys(i.cause for i in incidents):
        told = [i for i in incidents if i.cause == cause]
        standing: Standing = "waiting" if cause in _WAITING else "collateral"
        why = f"{cause}, which follows" if standing == "collateral" else f"{cause}: waited for others"
        add(standing, (rank for i in told for rank in i.main.ranks), why, told[0])
    for report in story.reports:
        if report.tasks and assembled.maps.tasks_are_ranks and report.death.exit_class != "ok":
            add("collateral", report.tasks, f"{report.witness} says how they ended; they said nothing of it")
    done = [m.line.origin.rank for m in assembled.marks if m.signal.kind == "finished"]
    add("finished", done, "said that they completed")
    known = {p.rank for p in story.progress} | assembled.maps.seen
    if assembled.maps.world_size:
        known |= set(range(assembled.maps.world_size))
    add("silent", known, "no error, no ending: nothing in the log tells")
    return tuple(found)
