"""Incidents → the root: the earliest one that no other explains, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.exits import cause_of, first_reported, reported_first
from slurmdoctor.infer.explain import Explainer, printed_above
from slurmdoctor.infer.incidents import was_not_made
from slurmdoctor.model import (
    COLLECTIVE_TIMEOUT,
    EXIT_CODE,
    HANG,
    LIMITS,
    SIGTERM,
    STEP_CANCELLED,
    TICK,
    Event,
    Finding,
    Incident,
    Knowledge,
    Progress,
    RunState,
    Timeline,
    reason,
)


def choose_root(finding: Finding, timeline: Timeline, incidents: Sequence[Incident], knowledge: Knowledge) -> Finding:
    """The finding with the earliest incident that no other explains, its rivals, and its cascade."""
    in_time, late = _by_their_own_wait(incidents, timeline, knowledge)
    explainer = Explainer(timeline, knowledge)
    root: Incident | None = None
    for tier in _tiers(incidents, in_time, timeline, knowledge):
        ordered = _in_order_of_choice(explainer.unexplained(tier, in_time), timeline, knowledge)
        if ordered:
            root = ordered[0]
            finding = replace(finding, rivals=tuple(i for i in ordered[1:] if i.cause != root.cause))
            break
    if root is None or root.cause == EXIT_CODE:
        hinted = _last_hint(root, timeline, knowledge)
        if hinted is not None:
            root = hinted
            finding = replace(finding, reasons=(*finding.reasons, reason("last-telling-line")))
    others = [i for i in incidents if root is not None and i is not root]
    cascade = tuple(i for i in others if root is not None and i.cause != root.cause)
    consequences = tuple(sorted({i.cause for i in late if root is not None and i.cause != root.cause}))
    if consequences:
        finding = replace(finding, reasons=(*finding.reasons, reason("after-own-wait", causes=consequences)))
    return replace(
        finding,
        root=root,
        cause=root.cause if root else EXIT_CODE,
        rule=root.main.rule if root else None,
        same=tuple(i for i in others if root is not None and i.cause == root.cause),
        cascade=cascade,
    )


def what_stalled(finding: Finding, timeline: Timeline, state: RunState, knowledge: Knowledge) -> Finding:
    """The finding with what stopped the job long before Slurm or a person ended it: an error below its last step."""
    end, last = finding.root, timeline.last_progress
    idle = state.kind == "hung" or state.began is not None or last is None
    if end is None or not idle or finding.cause not in knowledge.traits["ends-stalled"]:
        return finding
    endings = knowledge.traits["scheduler"] | knowledge.traits["exit-only"]
    before = [
        i
        for i in finding.cascade
        if i.main.role in ("root", "either")
        and i.cause not in endings
        and printed_above(i, end)
        and (last is None or _came_after(i.main, last))
    ]
    if not before:
        return finding
    found = choose_root(replace(finding, rivals=()), timeline, before, knowledge)
    rest = tuple(i for i in (end, *finding.same, *finding.cascade) if i not in before)
    stalled = (reason("stood-still", state=state),) if state.kind == "hung" and state.began is None else ()
    return replace(found, cascade=(*found.cascade, *rest), reasons=(*found.reasons, *stalled))


def _came_after(event: Event, step: Progress) -> bool:
    """Whether an event came after a step: in one file by place, else by their times."""
    if event.hit.source == step.source:
        return event.order > step.order
    return event.origin.time is not None and step.time is not None and event.origin.time > step.time


# ── tiers: a later one answers only where the earlier ones are empty ─────────────────────────


def _tiers(
    incidents: Sequence[Incident], in_time: Sequence[Incident], timeline: Timeline, knowledge: Knowledge
) -> list[list[Incident]]:
    roots = [i for i in in_time if _is_root(i)]
    eithers = [i for i in incidents if i.main.role == "either"]
    roots += [i for i in eithers if any(was_not_made(i.main, lacked.main, knowledge) for lacked in roots)]
    victims = _victims([i for i in incidents if _is_victim(i)], timeline, knowledge)
    exits = [i for i in incidents if i.cause == EXIT_CODE and i.report is not None]
    tiers = [roots, eithers, victims, exits]
    tiers.append([i for i in incidents if i.cause == SIGTERM])
    tiers.append([i for i in incidents if i.cause == EXIT_CODE])
    silent = [i for i in exits if i.main.origin.rank is not None]
    if not roots and not eithers and silent and any(v.main.origin.rank is not None for v in victims):
        # everyone who spoke is a victim: the one who ended with a code of its own and said nothing was first
        tiers.insert(0, silent)
    return tiers


def _is_root(incident: Incident) -> bool:
    return incident.main.role in ("root", "confirmation")


def _is_victim(incident: Incident) -> bool:
    own_words = incident.report is None and incident.cause not in (EXIT_CODE, SIGTERM)
    return incident.main.role == "cascade" and own_words


def _victims(victims: Sequence[Incident], timeline: Timeline, knowledge: Knowledge) -> list[Incident]:
    """Without a step's cancellation where it only follows: srun ends a step when one of its tasks has failed."""
    found = [i for i in victims if i.main.rule != STEP_CANCELLED]
    ended = _first_own_exits(timeline, knowledge)
    ends = [i for i in victims if i.main.rule == STEP_CANCELLED and not _exit_reported_before(i, ended)]
    if timeline.order != "timestamps":
        # in two files without a clock, what a rank prints tells more than the step's end
        return found + [i for i in ends if all(i.main.hit.source == other.main.hit.source for other in found)]
    return [*found, *ends]


def _first_own_exits(timeline: Timeline, knowledge: Knowledge) -> dict[int, int]:
    """Each file, and where it first tells that a process ended by a code of its own."""
    first: dict[int, int] = {}
    for report in timeline.reports:
        if cause_of(report.exit, knowledge) == EXIT_CODE:
            source, offset = report.line.source, report.line.offset
            first[source] = min(offset, first.get(source, offset))
    return first


def _exit_reported_before(other: Incident, ended: Mapping[int, int]) -> bool:
    """Whether a process had ended by a code of its own when the step was cancelled."""
    hit = other.main.hit
    return ended.get(hit.source, hit.offset) < hit.offset


def _by_their_own_wait(
    incidents: Sequence[Incident], timeline: Timeline, knowledge: Knowledge
) -> tuple[list[Incident], list[Incident]]:
    """The incidents, parted from errors of ranks that had timed out before: nobody waited for such a rank."""
    waits: dict[int | None, Incident] = {}
    for incident in incidents:
        rank = incident.main.origin.rank
        if rank is None or incident.cause != COLLECTIVE_TIMEOUT or incident.main.role != "either":
            continue
        if rank not in waits or timeline.key(incident.main) < timeline.key(waits[rank].main):
            waits[rank] = incident
    may_come_late = knowledge.traits["scheduler"] | knowledge.traits["system"] | {HANG}
    in_time: list[Incident] = []
    late: list[Incident] = []
    for incident in incidents:
        wait = waits.get(incident.main.origin.rank)
        error = incident.main.role == "root" and incident.cause not in may_come_late
        is_late = error and wait is not None and _came_before(wait, incident, timeline)
        (late if is_late else in_time).append(incident)
    return in_time, late


def _came_before(wait: Incident, error: Incident, timeline: Timeline) -> bool:
    if wait.main.hit.source == error.main.hit.source:
        return wait.main.order < error.main.order
    return timeline.key(wait.main)[0] < timeline.key(error.main)[0] - TICK


def _last_hint(silent: Incident | None, timeline: Timeline, knowledge: Knowledge) -> Incident | None:
    """For an exit that tells nothing: the last line of the same rank that is harmless elsewhere, as an incident."""
    rank = silent.main.origin.rank if silent else None
    hints = [e for e in timeline.events if e.role == "hint" and e.origin.rank in (rank, None)]
    ended = silent.main.order if silent else -1
    hints = [e for e in hints if not e.survived or 0 <= ended - e.order < LIMITS.last_try]
    if not hints:
        return None
    last = max(hints, key=lambda e: (e.cause not in knowledge.traits["generic"], e.order))
    origin = last.origin
    if silent is not None and origin.rank is None:
        origin = replace(origin, rank=rank, node=origin.node or silent.main.origin.node)
    event = replace(last, origin=origin)
    return Incident(event, (event,), silent.report if silent else None)


# ── of several that nothing explains, the first ──────────────────────────────────────────────


def _in_order_of_choice(tier: Sequence[Incident], timeline: Timeline, knowledge: Knowledge) -> list[Incident]:
    generic = knowledge.traits["generic"]
    first = first_reported(timeline)

    def key(incident: Incident) -> tuple[float, bool, int]:
        time, order = timeline.key(incident.main)
        report = incident.report if incident.cause == EXIT_CODE else None
        later = report is not None and not (report.first and reported_first(report, first))
        late = TICK if incident.cause in generic else 0.0
        return (time + late if timeline.order == "timestamps" else 0.0, later, order)

    return _printed_first(sorted(tier, key=key), timeline)


def _printed_first(ordered: list[Incident], timeline: Timeline) -> list[Incident]:
    """Where the first one's time is only a lower bound, what the same file shows above it was first."""
    if not ordered or timeline.order != "timestamps" or not ordered[0].main.bound:
        return ordered
    above = [i for i in ordered[1:] if printed_above(i, ordered[0])]
    if not above:
        return ordered
    timed = [i for i in above if not i.main.bound]
    best = timed[0] if timed else min(above, key=lambda i: i.main.order)
    return [best, *(i for i in ordered if i is not best)]
