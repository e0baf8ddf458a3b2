"""Incidents → the root: the earliest one that no other explains, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from slurmdoctor.infer.endings import ended_first
from slurmdoctor.infer.finding import GENERIC, SCHEDULER, STRIKES, Finding
from slurmdoctor.model import Cause, ExitReport, Incident
from slurmdoctor.timeline.order import TICK, Timeline

_OF_THE_SYSTEM = SCHEDULER | STRIKES | {"hang"}
"""Causes that a rank may meet while it waits for another one."""

_SAID_AFTERWARDS = frozenset({"command-not-found/broken-continuation"})
"""Rules of what a shell says when the command before has ended: it explains nothing that was printed until then."""
_JUST_ABOVE = 2048
"""Bytes."""


def choose_root(
    finding: Finding, timeline: Timeline, incidents: Sequence[Incident], causes: Mapping[str, Cause]
) -> None:
    """The earliest incident that no other explains: roots first, then what may be either, then the cascade itself."""
    late = _after_their_own_wait(incidents, timeline)
    tiers = [
        [i for i in incidents if i.main.role in ("root", "confirmation") and id(i) not in late],
        [i for i in incidents if i.main.role == "either"],
        [
            i
            for i in incidents
            if i.main.role == "cascade" and i.cause not in ("exit-code", "sigterm") and i.report is None
        ],
        [i for i in incidents if i.cause == "exit-code" and i.report is not None],
        [i for i in incidents if i.cause == "sigterm"],
        [i for i in incidents if i.cause == "exit-code"],
    ]
    # srun ends a step when one of its tasks has failed
    tiers[2] = [i for i in tiers[2] if i.main.rule != "cancelled/step" or not _told_before(timeline.reports, i)]
    if timeline.order != "timestamps":
        # in two files without a clock, what a rank says tells more than that
        ends = [i for i in tiers[2] if i.main.rule == "cancelled/step"]
        said = [i for i in tiers[2] if i.main.rule != "cancelled/step"]
        tiers[2] = said + [i for i in ends if all(i.main.hit.source == other.main.hit.source for other in said)]
    roots, eithers, victims, *_ = tiers
    silent = [i for i in tiers[3] if i.main.origin.rank is not None]
    if not roots and victims and silent and not eithers and any(v.main.origin.rank is not None for v in victims):
        # everyone who spoke is a victim: the one who ended with a code of its own and said nothing was first
        tiers.insert(0, silent)
    explainers = _earliest([i for i in incidents if id(i) not in late], timeline)
    for tier in tiers:
        left = _unexplained(tier, explainers, timeline, causes)
        if left:
            finding.root = left[0]
            finding.rivals = tuple(i for i in left[1:] if i.cause != left[0].cause)
            break
    if finding.root is None or finding.root.cause == "exit-code":
        hear_last_words(finding, timeline)
    root = finding.root
    finding.cause = root.cause if root else "exit-code"
    finding.rule = root.main.rule if root else None
    finding.same = tuple(i for i in incidents if root is not None and i is not root and i.cause == root.cause)
    finding.cascade = tuple(i for i in incidents if root is not None and i is not root and i.cause != root.cause)
    if root is not None and any(id(i) in late for i in finding.cascade):
        told = sorted({i.cause for i in finding.cascade if id(i) in late})
        finding.reasons.append(
            f"{', '.join(told)} only on ranks that had waited in vain for another one before: a consequence"
        )


def _told_before(reports: Sequence[ExitReport], other: Incident) -> bool:
    """Whether a process had ended by a code of its own when the step was cancelled."""
    hit = other.main.hit
    return any(
        r.exit.cause == "exit-code" and r.line.source == hit.source and r.line.offset < hit.offset for r in reports
    )


def _after_their_own_wait(incidents: Sequence[Incident], timeline: Timeline) -> set[int]:
    """Errors (their ids) of ranks that had timed out in a collective before: who waited is not whom the others waited for."""
    waited: dict[int, Incident] = {}
    for incident in incidents:
        rank = incident.main.origin.rank
        if rank is None or incident.cause != "collective-timeout" or incident.main.role != "either":
            continue
        if rank not in waited or timeline.key(incident.main) < timeline.key(waited[rank].main):
            waited[rank] = incident
    late = set()
    for incident in incidents:
        wait = waited.get(incident.main.origin.rank) if incident.main.origin.rank is not None else None
        if wait is None or incident.main.role != "root" or incident.cause in _OF_THE_SYSTEM:
            continue
        one, other = wait.main, incident.main
        same_file = one.hit.source == other.hit.source
        if one.order < other.order if same_file else timeline.key(one)[0] < timeline.key(other)[0] - TICK:
            late.add(id(incident))
    return late


def hear_last_words(finding: Finding, timeline: Timeline) -> None:
    """An ending that tells nothing: what else the same rank said, though harmless elsewhere, is the best that there is."""
    silent = finding.root
    rank = silent.main.origin.rank if silent else None
    hints = [e for e in timeline.events if e.role == "hint" and e.origin.rank in (rank, None)]
    # a last try that nobody went on after was not survived
    hints = [
        e for e in hints if not e.survived or (silent is not None and 0 <= silent.main.order - e.order < _JUST_ABOVE)
    ]
    if hints:
        last = max(hints, key=lambda e: (e.cause not in GENERIC, e.order))
        origin = replace(last.origin, rank=rank if last.origin.rank is None else last.origin.rank)
        event = replace(last, origin=origin)
        finding.root = Incident(event, (event,), silent.report if silent else None)
        finding.reasons.append("no error of its own: the last telling line before its end names the cause")


# ── what explains what ───────────────────────────────────────────────────────────────────────


def _earliest(incidents: Iterable[Incident], timeline: Timeline) -> list[Incident]:
    """Of incidents that explain the same, the earliest by time and the first in each file: the others add nothing."""
    by_time: dict[object, Incident] = {}
    in_file: dict[object, Incident] = {}
    for incident in incidents:
        main = incident.main
        kind = (incident.cause, main.role, main.hit.source)
        if kind not in by_time or timeline.key(main) < timeline.key(by_time[kind].main):
            by_time[kind] = incident
        if kind not in in_file or main.order < in_file[kind].main.order:
            in_file[kind] = incident
    return list({id(i): i for i in (*by_time.values(), *in_file.values())}.values())


def _unexplained(
    tier: Sequence[Incident], explainers: Sequence[Incident], timeline: Timeline, causes: Mapping[str, Cause]
) -> list[Incident]:
    left = [
        i for i in tier
        if not any(o is not i and _explains(o, i, timeline, causes) and not _explains_first(i, o, timeline, causes) for o in explainers)
    ]  # fmt: skip
    ordered = sorted(left or tier, key=lambda i: _rank_of_choice(i, timeline))
    return _printed_before(ordered, timeline)


def _rank_of_choice(incident: Incident, timeline: Timeline) -> tuple[float, bool, int]:
    time, order = timeline.key(incident.main)
    generic = incident.cause in GENERIC
    told = incident.report if incident.cause == "exit-code" else None
    later = told is not None and not (told.first and ended_first(told, timeline))
    return (time + (TICK if generic else 0.0) if timeline.order == "timestamps" else 0.0, later, order)


def _printed_before(ordered: list[Incident], timeline: Timeline) -> list[Incident]:
    """Where the first one's time is only a lower bound, what the same file shows before it was first."""
    if not ordered or timeline.order != "timestamps" or not ordered[0].main.bound:
        return ordered
    first = ordered[0].main
    above = [i for i in ordered[1:] if i.main.hit.source == first.hit.source and i.main.order < first.order]
    if not above:
        return ordered
    timed = [i for i in above if not i.main.bound]
    best = timed[0] if timed else min(above, key=lambda i: i.main.order)
    return [best, *(i for i in ordered if i is not best)]


def _explains(one: Incident, other: Incident, timeline: Timeline, causes: Mapping[str, Cause]) -> bool:
    """Whether `one` brings `other` about, as far as causes and order tell."""
    known = causes.get(one.cause)
    if known is None or one.cause == other.cause:
        return False
    if other.cause not in known.explains and other.cause not in SCHEDULER:
        return False
    if one.main.rule in _SAID_AFTERWARDS and _printed_above(other, one):
        return False
    earlier = clearly_earlier(other, one, timeline)
    if (
        one.main.role in ("root", "confirmation")
        and other.cause in SCHEDULER
        and other.cause != one.cause
        and not earlier
    ):
        if one.report is None and one.main.hit.source != other.main.hit.source and timeline.order != "timestamps":
            return True  # in two files without a clock: who died of an error of its own was not ended by Slurm
        return one.main.order < other.main.order
    if other.cause not in known.explains:
        return False
    if one.main.role == "cascade" and other.main.role != "cascade":
        return False
    if one.main.role == "either" and other.main.role == "root":
        return False
    # a witness may speak late of what came first
    return one.main.role == "confirmation" or not earlier


def _explains_first(one: Incident, other: Incident, timeline: Timeline, causes: Mapping[str, Cause]) -> bool:
    """Where two explain each other, the earlier one does."""
    return _explains(one, other, timeline, causes) and timeline.key(one.main) < timeline.key(other.main)


def clearly_earlier(one: Incident, other: Incident, timeline: Timeline) -> bool:
    """Whether stamps (or, for roots without stamps, the file) show that `one` came before `other`."""
    a, b = one.main, other.main
    printed = _printed_above(one, other)
    if timeline.order == "timestamps":
        # a lower bound alone does not show that it was early
        return timeline.key(a)[0] < timeline.key(b)[0] - TICK and (printed or not a.bound)
    return a.role == "root" and b.role == "root" and printed


def _printed_above(one: Incident, other: Incident) -> bool:
    return one.main.hit.source == other.main.hit.source and one.main.order < other.main.order
