"""Incidents → the root: the earliest one that no other explains, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, because, printed_above
from slurmdoctor.infer.exits import cause_of, first_reports
from slurmdoctor.model import (
    ABORT,
    CLASSIFIER,
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
    Progress,
    reason,
)


def choose_root(finding: Finding, incidents: Sequence[Incident], case: Case) -> Finding:
    """The finding with the earliest incident that no other explains, its rivals, and its cascade."""
    in_time, late = _by_their_own_wait(incidents, case)
    root: Incident | None = None
    for tier in _tiers(incidents, in_time, case):
        if ordered := _in_order_of_choice(unexplained(tier, in_time, case), case):
            root = ordered[0]
            finding = replace(finding, rivals=tuple(i for i in ordered[1:] if i.cause != root.cause))
            break
    if (root is None or root.cause == EXIT_CODE) and (hinted := _last_hint(root, case)) is not None:
        root = hinted
        finding = because(finding, reason("last-telling-line"))
    if root is None:
        return replace(finding, root=None, cause=EXIT_CODE, rule=None)
    if consequences := tuple(sorted({i.cause for i in late} - {root.cause})):
        finding = because(finding, reason("after-own-wait", causes=consequences))
    others = [i for i in incidents if i is not root]
    return replace(
        finding,
        root=root,
        cause=root.cause,
        rule=root.main.rule,
        same=tuple(i for i in others if i.cause == root.cause),
        cascade=tuple(i for i in others if i.cause != root.cause and not i.main.unclocked),
    )


def what_stalled(finding: Finding, case: Case) -> Finding:
    """The finding with what stopped the job long before Slurm or a person ended it: an error below its last step."""
    end, state, last = finding.root, finding.state, case.timeline.last_progress
    if end is None or state.kind in ("progressing", "finished") or finding.cause not in case.traits["ends-stalled"]:
        return finding
    endings = case.traits["scheduler"] | case.traits["exit-only"]
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
    found = choose_root(replace(finding, rivals=()), before, case)
    rest = tuple(i for i in (end, *finding.same, *finding.cascade) if i not in before)
    stalled = (reason("stood-still", state=state),) if state.kind == "hung" and state.began is None else ()
    return because(replace(found, cascade=(*found.cascade, *rest)), *stalled)


def _came_after(event: Event, step: Progress) -> bool:
    """Whether an event came after a step: in one file by place, else by their times."""
    if event.hit.source == step.source:
        return event.order > step.order
    return event.origin.time is not None and step.time is not None and event.origin.time > step.time


# ── what explains what ───────────────────────────────────────────────────────────────────────


def unexplained(tier: Sequence[Incident], explainers: Iterable[Incident], case: Case) -> list[Incident]:
    """The incidents of a tier that no other one brings about; all of them where each is explained.

    Of incidents that explain the same, the first by time and the first by place explain all that the others do: in each
    file, for its lines, and over all files.
    """
    firsts: dict[object, Incident] = {}
    by_file: dict[int | None, list[Incident]] = {}
    for by_place in (False, True):
        for incident in sorted(explainers, key=lambda i: (0.0, i.main.order) if by_place else case.key(i)):
            for file in (incident.main.hit.source, None):
                kind = (by_place, file, incident.cause, incident.main.role, incident.report is None)
                if kind not in firsts:
                    firsts[kind] = incident
                    by_file.setdefault(file, []).append(incident)

    def is_explained(one: Incident) -> bool:
        others = (*by_file.get(one.main.hit.source, ()), *by_file.get(None, ()))
        return any(_explains_alone(other, one, case) for other in others)

    return [one for one in tier if not is_explained(one)] or list(tier)


def _explains_alone(one: Incident, other: Incident, case: Case) -> bool:
    """Whether `one` explains `other`; where two explain each other, the earlier one does."""
    if not explains(one, other, case):
        return False
    return case.key(one) <= case.key(other) or not explains(other, one, case)


def explains(one: Incident, other: Incident, case: Case) -> bool:
    """Whether one incident may have brought the other about, as far as causes, roles and order tell."""
    if one.cause == other.cause:
        return False
    listed = other.cause in case.causes[one.cause].explains
    ended_by_slurm = other.cause in case.traits["scheduler"]
    earlier = _clearly_earlier(other, one, case)
    if ended_by_slurm and not earlier and one.main.role in ("root", "confirmation"):
        # in two files without a clock, a root's own error says that it came before Slurm's ending
        no_common_clock = one.main.hit.source != other.main.hit.source and not case.timed
        return (one.report is None and no_common_clock) or one.main.order < other.main.order
    if not listed or not _role_may_explain(one, other):
        return False
    # a witness may speak late of what came first
    return one.main.role == "confirmation" or not earlier


def _clearly_earlier(one: Incident, other: Incident, case: Case) -> bool:
    """Whether stamps (or, for roots without stamps, the file) show that `one` came before `other`."""
    printed = printed_above(one, other)
    if case.timed:
        # a lower bound alone does not show that it was early
        return case.key(one)[0] < case.key(other)[0] - TICK and (printed or not one.main.bound)
    return one.main.role == other.main.role == "root" and printed


def _role_may_explain(one: Incident, other: Incident) -> bool:
    """A symptom explains symptoms only, and what may be either never explains a root."""
    if one.main.role == "cascade":
        return other.main.role == "cascade"
    return one.main.role != "either" or other.main.role != "root"


# ── tiers: a later one answers only where the earlier ones are empty ─────────────────────────


def _tiers(incidents: Sequence[Incident], in_time: Sequence[Incident], case: Case) -> list[list[Incident]]:
    roots = [i for i in in_time if i.main.role in ("root", "confirmation")]
    eithers = [i for i in incidents if i.main.role == "either"]
    victims = _victims([i for i in incidents if _is_victim(i)], case)
    exits = [i for i in incidents if i.cause == EXIT_CODE and i.report is not None]
    tiers = [roots, eithers, victims, exits]
    tiers += [[i for i in incidents if i.cause == cause] for cause in (SIGTERM, EXIT_CODE)]
    silent = [i for i in exits if i.main.origin.rank is not None]
    if eithers and all(i.cause == EXIT_CODE and i.main.origin.rank is None for i in eithers):
        tiers.insert(1, silent)  # whose death it was, another line tells
    if not roots and not eithers and any(v.main.origin.rank is not None for v in victims):
        # everyone who spoke is a victim: the one who ended with a code of its own and said nothing was first
        tiers.insert(0, silent)
    return tiers


def _is_victim(incident: Incident) -> bool:
    return incident.report is None and incident.cause not in (EXIT_CODE, SIGTERM)


def _victims(victims: Sequence[Incident], case: Case) -> list[Incident]:
    """Without a step's cancellation where it only follows: srun ends a step when one of its tasks has failed."""
    found = [i for i in victims if i.main.rule != STEP_CANCELLED]
    ended = _first_own_exits(case)

    def counts(end: Incident) -> bool:
        hit = end.main.hit
        if ended.get(hit.source, hit.offset) < hit.offset:
            return False
        # in two files without a clock, what a rank prints tells more than the step's end
        return case.timed or all(hit.source == other.main.hit.source for other in found)

    return [i for i in victims if i.main.rule != STEP_CANCELLED or counts(i)]


def _first_own_exits(case: Case) -> Mapping[int, int]:
    """Each file, and where it first tells that a process ended by a code of its own."""
    own = [r.line for r in case.reports if cause_of(r.exit, case.knowledge) == EXIT_CODE]
    return {line.source: line.offset for line in sorted(own, key=lambda line: -line.offset)}


def _by_their_own_wait(incidents: Sequence[Incident], case: Case) -> tuple[list[Incident], list[Incident]]:
    """The incidents, parted from errors of ranks that had timed out before: nobody waited for such a rank."""
    waits: dict[int | None, Incident] = {}
    for incident in sorted(incidents, key=case.key, reverse=True):
        rank = incident.main.origin.rank
        if rank is not None and incident.cause == COLLECTIVE_TIMEOUT and incident.main.role == "either":
            waits[rank] = incident
    may_come_late = case.traits["scheduler"] | case.traits["system"] | {HANG}
    in_time: list[Incident] = []
    late: list[Incident] = []
    for incident in incidents:
        wait = waits.get(incident.main.origin.rank)
        error = incident.main.role == "root" and incident.cause not in may_come_late
        is_late = error and wait is not None and _came_before(wait, incident, case)
        (late if is_late else in_time).append(incident)
    return in_time, late


def _came_before(wait: Incident, error: Incident, case: Case) -> bool:
    if wait.main.hit.source == error.main.hit.source:
        return wait.main.order < error.main.order
    return case.key(wait)[0] < case.key(error)[0] - TICK


def _last_hint(silent: Incident | None, case: Case) -> Incident | None:
    """For an exit that tells nothing: the last line of the same rank that is harmless elsewhere, as an incident."""
    rank = silent.main.origin.rank if silent else None
    ended = silent.main.order if silent else -1
    hints = [
        e
        for e in case.events
        if e.role == "hint"
        and e.origin.rank in (rank, None)
        and (not e.survived or 0 <= ended - e.order < LIMITS.last_try)
        # that a process ended without a word is known: what only may be an error says no more
        and (silent is None or e.rule != CLASSIFIER or e.cause not in case.traits["generic"])
    ]
    if not hints:
        return None
    # a rule's hint comes before what no rule knows
    last = max(hints, key=lambda e: (e.rule != CLASSIFIER, e.cause not in case.traits["generic"], e.order))
    if silent is not None and last.origin.rank is None:
        last = replace(last, origin=replace(last.origin, rank=rank, node=last.origin.node or silent.main.origin.node))
    return Incident(last, (last,), silent.report if silent else None)


_OF_A_MESSAGE = 2048
"""Bytes of a message."""
_LONGEST_WHAT = 200
"""Characters of a line that the advice repeats."""
_WORDS_OF_A_MESSAGE = 3
"""A bare `AssertionError` tells no cause."""


def name_nearer(finding: Finding, case: Case) -> Finding:
    """The finding with the nearer cause that the root reads like, and why it is believed."""
    if finding.root is None or finding.cause != finding.root.cause:  # Slurm's word is nearer
        return finding
    root = _nearer(finding.root, case)
    finding = replace(finding, root=root)
    if root.main.rule != CLASSIFIER:
        return finding
    finding = replace(finding, cause=root.cause, rule=CLASSIFIER)
    like = case.observed.likeness[root.main.hit.place]
    sure = root.cause == like.cause
    why = reason("reads-like", cause=like.cause, words=like.words, example=like.example, sure=sure)
    return because(finding, why)


def _nearer(root: Incident, case: Case) -> Incident:
    """The root with the nearer cause that its line reads like, where rules only know a general one; else with the line to read."""
    like, main = case.observed.likeness.get(root.main.hit.place), root.main
    generic = case.traits["generic"]
    if like is None or root.cause not in generic | {ABORT}:
        return root
    worded = main.traceback or any(event.rule.endswith("/message") for event in _below(main, case))
    lines = () if worded else like.pointed
    least = LIMITS.likely_exception if main.traceback else LIMITS.likely_nearer
    unheard = generic | case.knowledge.untold | case.traits["scheduler"]
    known = like.cause not in unheard and like.probability >= least
    if known and len(like.line.text.split()) >= _WORDS_OF_A_MESSAGE:
        main, lines = replace(main, cause=like.cause, rule=CLASSIFIER), (like.line, *lines)
    elif lines and "what" not in main.captures:
        main = replace(main, captures={**main.captures, "what": lines[0].text.strip()[:_LONGEST_WHAT]})
    others = tuple(e for e in root.events if e is not root.main)
    beside = (replace(main, hit=line, order=line.order, role="hint") for line in lines if line != main.hit)
    return replace(root, main=main, events=(main, *beside, *others))


def _below(main: Event, case: Case) -> Iterator[Event]:
    """What its writer printed just below it."""
    near = (e for e in case.events if e.hit.source == main.hit.source and e.label == main.label)
    return (e for e in near if 0 < e.order - main.order < _OF_A_MESSAGE)


# ── of several that nothing explains, the first ──────────────────────────────────────────────


def _in_order_of_choice(tier: Sequence[Incident], case: Case) -> list[Incident]:
    first = first_reports(case)

    def key(incident: Incident) -> tuple[float, bool, int]:
        time, order = case.key(incident)
        later = incident.cause == EXIT_CODE and incident.report not in first
        late = TICK if incident.cause in case.traits["generic"] else 0.0
        return (time + late if case.timed else 0.0, later, order)

    return _printed_first(sorted(tier, key=key), case)


def _printed_first(ordered: list[Incident], case: Case) -> list[Incident]:
    """Where the first one's time is only a lower bound, what the same file shows above it was first."""
    if not ordered or not ordered[0].main.bound:
        return ordered
    above = [i for i in ordered[1:] if printed_above(i, ordered[0])]
    if not above:
        return ordered
    best = next((i for i in above if not i.main.bound), None) or min(above, key=lambda i: i.main.order)
    return [best, *(i for i in ordered if i is not best)]
