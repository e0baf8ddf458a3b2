"""Chooses the lines that prove a finding, and names all lines that a report of it shows."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.model import EXIT_CODE, Ending, Event, Finding, Hit, Line, Timeline

_MOST = 8
"""Lines of evidence: a reader wants few."""


def choose_evidence(finding: Finding, timeline: Timeline, ending: Ending) -> Finding:
    """The finding with its evidence: the root's own lines first, then witnesses, then the cascade's first lines.

    Where nothing proves why the job ended, the lines that look most like its end follow.
    """
    root = finding.root
    chosen: list[Event] = [i.main for i in finding.cascade[:3]]
    if root is not None:
        own = [root.main]
        if (
            finding.suspicion is not None
        ):  # what the suspect prints of itself, then what a rank prints that waits for it
            waits = {status.order for status in timeline.collectives if status.op is not None}
            own += [i.main for i in finding.same if i.main.order in waits][:1]
        # of symptoms, what says the same again comes last
        again = root.main.rule if root.main.role == "cascade" else None
        own += sorted((e for e in root.events if e is not root.main), key=lambda e: e.rule == again)
        own += [i.main for i in finding.same if i.main.origin.rank == finding.origin.rank or i.report is not None][:1]
        proofs = (e for e in timeline.events if e.cause == root.cause and e.role in ("confirmation", "hint", "root"))
        own += list(proofs)[:2]
        own[1:1] = _last_words(finding)
        chosen = own + chosen
    if finding.verdict != "no-failure" and finding.cause in (None, EXIT_CODE):
        shown = ending.shown if finding.cause is None else ()
        chosen += [_hint(line) for line in (ending.telling, *shown) if line is not None]
    by_place: dict[tuple[int, int], Event] = {}
    for event in chosen:
        by_place.setdefault(event.hit.place, event)
    return replace(finding, evidence=tuple(by_place.values())[:_MOST])


def _last_words(finding: Finding) -> list[Event]:
    """What a process printed last before an exit that tells nothing, or rank 0 as the others waited: where to look."""
    root = finding.root
    if root is None:
        return []
    told = [r.values["line"] for r in finding.reasons if r.code == "rank-0-at-work"]
    if finding.cause == EXIT_CODE and root.report is not None:
        told += [line for line in root.report.above if line.origin.rank in (None, finding.origin.rank)][:1]
    return [_hint(line, root.cause, f"{root.cause}/last-words", root.main.order) for line in told]


def _hint(line: Line, cause: str = "", rule: str = "", order: int = -1) -> Event:
    hit = Hit(line.source, line.offset, line.text, line.raw)
    return Event(cause, "hint", rule, line.origin, hit, order)
