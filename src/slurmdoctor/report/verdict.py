"""Composes the Diagnosis: the finding with its evidence, cascade, fixes, retry advice and coverage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.infer import standing
from slurmdoctor.infer.facts import with_root
from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import (
    Cascade,
    Cause,
    Coverage,
    Diagnosis,
    Event,
    Evidence,
    Exit,
    FirstFailure,
    Incident,
    Knowledge,
    NamedCause,
    Observations,
    Retry,
    RetryAdvice,
    Rival,
    Suspicion,
)
from slurmdoctor.model.exits import sentence
from slurmdoctor.model.ranges import expand_nodes, ranges
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.origins import format_time
from slurmdoctor.report import remedies
from slurmdoctor.timeline import told
from slurmdoctor.timeline.order import Timeline

MOST_EVIDENCE = 8
_TITLE_OF_SUSPECT = {
    "mismatch": "called another collective than the other ranks",
    "behind": "never came to the collective that the others waited in",
    "missing": "never came to the collective that the others waited in",
    "all-entered": "hung in a collective that every rank had entered",
}
_RETRY_WHY: Mapping[RetryAdvice, str] = {
    "as-is": "nothing in the job needs to change",
    "elsewhere": "the evidence is against the node, not against the job",
    "after-fix": "it would fail the same way again",
    "resume": "the work up to it is not lost",
}


def compose(
    finding: Finding,
    story: Timeline,
    assembled: Observations,
    facts: Mapping[str, Any],
    lines: Lines,
    knowledge: Knowledge,
) -> Diagnosis:
    """Everything that the report formats show."""
    coverage = _coverage(finding, story, assembled, lines)
    shown_facts = {k: v for k, v in facts.items() if not k.startswith("_")}
    if finding.verdict != "failed" or finding.cause is None:
        return Diagnosis(finding.verdict, reasons=tuple(finding.reasons), facts=shown_facts, coverage=coverage)
    cause = knowledge.causes.get(finding.cause)
    names = _names(finding, facts, story) | told.names(finding, story, assembled)
    return Diagnosis(
        verdict="failed",
        cause=_named(finding, cause),
        first_failure=_first(finding, lines),
        exit=_exit(finding),
        evidence=_evidence(finding, story, lines),
        cascade=_cascade(finding, lines, knowledge),
        others=_rivals(finding, knowledge),
        reasons=tuple(dict.fromkeys(finding.reasons)),
        fixes=remedies.choose(cause, names) if cause else (),
        verify=remedies.verify(cause, names) if cause else (),
        retry=_retry(finding, cause, names),
        facts=shown_facts,
        coverage=coverage,
        ranks=standing.groups(finding, story, assembled, lines),
    )


def _named(finding: Finding, cause: Cause | None) -> NamedCause:
    assert finding.cause is not None
    if cause is None:
        return NamedCause(finding.cause, "process", finding.cause, finding.rule, finding.confidence)
    title = _TITLE_OF_SUSPECT.get(finding.suspicion.kind, cause.title) if finding.suspicion else cause.title
    if cause.id == "nccl-id-timeout" and finding.origin.rank == 0:
        title = "kept the others waiting for its ncclUniqueId"
    return NamedCause(cause.id, cause.family, title, finding.rule, finding.confidence)


def _names(finding: Finding, facts: Mapping[str, Any], story: Timeline) -> dict[str, Any]:
    captures = finding.root.main.captures if finding.root else {}
    names = with_root(facts, captures)
    origin = finding.origin
    for key, value in (("rank", origin.rank), ("local_rank", origin.local_rank), ("node", origin.node)):
        if value is not None:
            names[key] = value
    names["rule"] = finding.rule
    if finding.suspicion is not None:
        names |= _suspect_names(finding.suspicion)
    names["seen"] = sorted({e.cause for e in story.events})
    return names


def _suspect_names(suspicion: Suspicion) -> dict[str, Any]:
    """The names that a fix may use of a culprit that said nothing."""
    names: dict[str, Any] = {"seq": suspicion.seq, "op": suspicion.op, "stands_in": suspicion.stands_in}
    if suspicion.kind == "mismatch":
        names["odd_ranks"] = ranges(suspicion.ranks)
    elif suspicion.ranks:
        names["silent_ranks"] = ranges(suspicion.ranks)
    elif suspicion.kind == "all-entered":
        names["all_entered"] = len(suspicion.waiting)
    return {name: value for name, value in names.items() if value is not None}


def _first(finding: Finding, lines: Lines) -> FirstFailure:
    root = finding.root
    origin = finding.origin
    if root is None:
        return FirstFailure(how=finding.how)
    hit = root.main.hit
    return FirstFailure(
        rank=origin.rank,
        local_rank=origin.local_rank,
        node=origin.node,
        time=format_time(origin.time, origin.dated),
        file=lines.sources[hit.source].name,
        line=lines.number(hit.source, hit.offset),
        text=hit.text.strip() or hit.raw.strip(),
        traceback=root.main.traceback,
        ranks=finding.alike,
        how=finding.how,
    )


def _exit(finding: Finding) -> Exit:
    death = finding.exit
    if death is None:
        return Exit(step_code=finding.step_code)
    return Exit(
        death.code, death.signal, death.exit_class, finding.step_code, finding.exit_how, sentence(death.exit_class)
    )


def _evidence(finding: Finding, story: Timeline, lines: Lines) -> tuple[Evidence, ...]:
    """The lines that prove it: the root's own first, then witnesses, then the cascade's first lines."""
    root = finding.root
    chosen: list[Event] = [] if root is None else [root.main, *(e for e in root.events if e is not root.main)]
    if root is not None:
        own = [i.main for i in finding.same if i.main.origin.rank == finding.origin.rank or i.report is not None]
        if finding.suspicion is not None:  # what the suspect says of itself, then what the ranks say that wait for it
            waiting = [i.main for i in finding.same if "Watchdog caught" in i.main.hit.text]
            chosen[1:1] = waiting[:1]
        chosen += own[:1]
        chosen += [e for e in story.events if e.cause == root.cause and e.role in ("confirmation", "hint", "root")][:2]
    chosen[1:1] = _last_words(finding, lines)
    for incident in finding.cascade[:3]:
        chosen.append(incident.main)
    shown: list[Evidence] = []
    places: set[tuple[int, int]] = set()
    for event in chosen:
        place = (event.hit.source, event.hit.offset)
        if place in places:
            continue
        places.add(place)
        shown.append(_proof(event, lines))
        if len(shown) == MOST_EVIDENCE:
            break
    return tuple(shown)


def _last_words(finding: Finding, lines: Lines) -> list[Event]:
    """What a process said last before an ending that tells nothing: no cause, but where to look."""
    root = finding.root
    if finding.cause != "exit-code" or root is None or root.report is None:
        return []
    for line in root.report.above:
        if line.origin.rank in (None, finding.origin.rank):
            order = lines.order(line.source, line.offset)
            return [Event("exit-code", "hint", "exit-code/last-words", line.origin, lines.hit(line), order)]
    return []


def _proof(event: Event, lines: Lines) -> Evidence:
    hit, origin = event.hit, event.origin
    return Evidence(
        lines.sources[hit.source].name, lines.number(hit.source, hit.offset), hit.raw.strip(), origin.rank, origin.node,
        format_time(origin.time, origin.dated), event.rule, event.cause, event.role,
    )  # fmt: skip


def _cascade(finding: Finding, lines: Lines, knowledge: Knowledge) -> tuple[Cascade, ...]:
    by_cause: dict[str, list[Incident]] = {}
    for incident in finding.cascade:
        if incident.cause != "exit-code":
            by_cause.setdefault(incident.cause, []).append(incident)
    found = []
    start = finding.root.main.origin.time if finding.root else None
    for cause, incidents in by_cause.items():
        first = incidents[0].main
        ranks = {rank for i in incidents for e in i.events for rank in e.ranks}
        delay = first.origin.time - start if start is not None and first.origin.time is not None else None
        found.append(
            Cascade(
                cause,
                len(ranks),
                sum(e.count for i in incidents for e in i.events),
                lines.sources[first.hit.source].name,
                lines.number(first.hit.source, first.hit.offset),
                format_time(first.origin.time, first.origin.dated),
                delay if delay is not None and delay >= 0 else None,
                known.title if (known := knowledge.causes.get(cause)) else "",
            )
        )
    return tuple(found)


def _rivals(finding: Finding, knowledge: Knowledge) -> tuple[Rival, ...]:
    found: dict[str, Rival] = {}
    for incident in finding.rivals:
        if incident.cause not in found:
            rank = incident.main.origin.rank
            where = f"on rank {rank}" if rank is not None else "in the log"
            found[incident.cause] = Rival(
                incident.cause,
                "low",
                f"also {where}, later, and not explained by the root: {incident.main.hit.text.strip()[:120]}",
            )
    return tuple(found.values())[:3]


def _retry(finding: Finding, cause: Cause | None, names: Mapping[str, Any]) -> Retry | None:
    if cause is None:
        return None
    advice = remedies.advice(cause, names)
    nodes: tuple[str, ...] = ()
    if advice == "elsewhere":
        far = names.get("far_nodes", ())
        named = finding.origin.node or names.get("failed_nodes") or (far[0] if len(far) == 1 else "")
        nodes = tuple(expand_nodes(named))
    return Retry(advice, _RETRY_WHY[advice], nodes)


def _coverage(finding: Finding, story: Timeline, assembled: Observations, lines: Lines) -> Coverage:
    ranks = _ranks_seen(assembled)
    suspected: Sequence[int] = (
        finding.suspicion.ranks if finding.suspicion and finding.suspicion.kind == "missing" else ()
    )
    return Coverage(
        bytes=sum(s.length for s in lines.sources),
        lines=sum(s.lines for s in lines.sources),
        files=len(lines.sources),
        ranks_seen=len(ranks),
        silent_ranks=tuple(suspected),
        order=story.order,
        missing=("sacct", "scontrol"),
        notes=story.notes,
    )


def _ranks_seen(assembled: Observations) -> set[int]:
    seen = {rank for e in assembled.events for rank in e.ranks}
    seen |= {w.rank for w in assembled.works} | assembled.maps.seen
    if assembled.maps.tasks_are_ranks:
        seen |= {t for r in assembled.reports for t in r.tasks}
    return seen
