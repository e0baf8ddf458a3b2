"""Events and exit reports → incidents, and whether the job failed: what was survived does not count."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.case import STOPPED, TELLING, Case
from slurmdoctor.infer.exits import cause_of
from slurmdoctor.infer.waiting_ranks import Members, untold_tasks
from slurmdoctor.model import (
    ABORT,
    COLLECTIVE_TIMEOUT,
    COMMAND_NOT_FOUND,
    EXIT_CODE,
    HOST_OOM,
    KILLED,
    LIMITS,
    MPI_ABORT,
    NOT_STOPPED,
    PROGRAM_ERROR,
    PYTHON_ERROR,
    SIGTERM,
    STEP_CANCELLED,
    TASK_FAILED,
    Event,
    ExitReport,
    Finding,
    Incident,
    Origin,
    ProcessExit,
    RankMap,
    Role,
    Timeline,
    ranges,
    reason,
)

_RECENT = 40
"""Incidents of one writer that its next event may still belong to."""
_WARNINGS = ("SIGUSR1", "SIGUSR2")
"""Signals that a job asks for before its time limit."""
_ROLE_OF_CAUSE: Mapping[str, Role] = {
    SIGTERM: "cascade",
    EXIT_CODE: "cascade",
    HOST_OOM: "confirmation",
    ABORT: "either",
}

# ── events → incidents ───────────────────────────────────────────────────────────────────────


def live_events(case: Case) -> tuple[list[Event], int]:
    """The events that count, and how many were left aside because the job went on after them.

    Where nothing but survived events is left of a job that ended badly, they count after all; without an exit of its own
    only those that were not followed by long work.
    """
    live = [e for e in case.events if not e.survived]
    if case.exit_status == 0:
        return [e for e in live if not e.outlived], 0
    if any(e.role in TELLING for e in live):
        return live, len(case.events) - len(live)
    if case.exit_status or unresolved_exits(case.timeline):  # it did fail: other ranks may have gone on to the end
        return list(case.events), 0
    if case.timeline.finished is not None or not any(e.role == "cascade" for e in live):
        return live, 0
    return [e for e in case.events if e.outlived != "long"], 0


def gather_incidents(events: Sequence[Event], case: Case) -> list[Incident]:
    """Events of one chain, or of one writer at one time, are one incident; its most telling event names it."""
    parts: dict[object, list[Event]] = {}
    generic = case.traits["generic"]
    recent: dict[object, deque[object]] = defaultdict(lambda: deque(maxlen=_RECENT))
    for event in sorted(events, key=lambda e: e.order):
        if event.role == "hint":
            continue
        by_rank = event.origin.rank is not None
        mine = recent[event.hit.source, by_rank, event.origin.rank if by_rank else event.origin.node]
        key = _belongs_to(event, parts, mine, generic, case.traits["scheduler"])
        parts.setdefault(key, []).append(event)
        if not mine or mine[-1] != key:
            mine.append(key)
    return sorted((Incident(_main(part, generic), tuple(part)) for part in parts.values()), key=case.key)


def _belongs_to(
    event: Event,
    parts: Mapping[object, list[Event]],
    recent: Sequence[object],
    generic: frozenset[str],
    stops: frozenset[str],
) -> object:
    """The incident of this event, by its key; `recent` are those of its writer."""
    own = ("group", event.group) if event.group else ("event", event.order, event.rule)
    if own in parts:
        return own
    known = event.origin.rank is not None
    for key in reversed(recent):
        last = parts[key][-1]
        if event.group and last.group and not known:
            continue
        if "confirmation" in (event.role, last.role) and event.role != last.role:
            continue
        both = {event.cause, last.cause}
        if PROGRAM_ERROR in both and both & stops:
            continue  # who stops a process does not say why another one failed
        if _only_waited(parts[key]) and event.role == "root" and event.cause not in generic:
            continue  # what a rank meets after it gave up waiting is another incident
        near = event.order - last.order < LIMITS.one_incident_bytes
        if known and event.origin.time is not None and last.origin.time is not None:
            near = near or abs(event.origin.time - last.origin.time) <= LIMITS.one_incident_seconds
        if near:
            return key
    return own


def _only_waited(part: Sequence[Event]) -> bool:
    return part[0].cause == COLLECTIVE_TIMEOUT and part[0].role == "either" and all(e.role != "root" for e in part)


def _main(part: Sequence[Event], generic: frozenset[str]) -> Event:
    """The event that names an incident: the first telling one; a victim's words make what it leads to a victim's too."""
    by_role = sorted(part, key=lambda e: e.role not in ("root", "either"))
    first = next((e for e in part if e.cause not in generic), by_role[0])
    if first.role == "cascade":
        same_chain = [e for e in part if e.role in ("root", "confirmation") and e.cause not in generic]
        before = [e for e in part if e.cause == PYTHON_ERROR and e.order < first.order and e.group != first.group]
        # on one line, as in a paste that lost its line ends, no order is to be seen
        beside = [e for e in part if e.role == "either" and e.order == first.order and e.cause not in generic]
        # of one cause, the line that can start a failure tells more than the one that only follows
        own = [e for e in part if e.role == "either" and e.cause == first.cause]
        return next(iter((*same_chain, *before, *beside, *own)), first)
    if first.role == "either":
        died = [e for e in part if e.cause == EXIT_CODE and e.role == "either" and e.order < first.order]
        return next((e for e in part if e.role == "root" and e.cause not in generic), (*died, first)[0])
    return first


# ── exit reports → incidents: of processes of which only others tell how they ended ──────────


def silent_exits(case: Case, incidents: Sequence[Incident]) -> list[Incident]:
    """The incidents of processes that printed nothing of their end themselves."""
    printed = {rank for i in incidents for e in i.events for rank in e.ranks}
    # a rank that lost a peer or timed out aborts: an abort of somebody tells nothing more
    generic = case.traits["generic"]
    waited = any(i.main.role in ("cascade", "either") and i.cause not in generic for i in incidents)
    telling = [i for i in incidents if i.main.role in ("root", "either") and i.cause != EXIT_CODE]
    unlabelled = any(i.main.origin.rank is None for i in telling)
    first_end = _first_own_ends(case.reports)
    found = not_stopped = _not_stopped(case, printed)
    for report in case.reports:
        cause = cause_of(report.exit, case.knowledge)
        if report.exit.code == 0 or report.exit.signal in _WARNINGS:
            continue
        silent = [r for r in report.ranks if r not in printed]
        accounted = (report.ranks and not silent) or unlabelled
        if cause in (EXIT_CODE, COMMAND_NOT_FOUND, ABORT) and accounted:
            continue
        if cause == ABORT and not report.ranks and waited:
            continue
        role = _ROLE_OF_CAUSE.get(cause, "root")
        if cause == KILLED and (not_stopped or _stopped_late(report, first_end)):
            role = "cascade"
        rule = f"{cause}/{report.witness.split()[0].lower()}"
        found = [*found, _incident(report, cause, role, rule, silent, case.rank_map)]
    return found


def _not_stopped(case: Case, printed: set[int]) -> list[Incident]:
    """Slurm ended a step because a task had failed, and stopped all tasks but few: these are the ones that had failed."""
    reports = [r for r in case.reports if r.rank_basis == "task"]
    if not any(e.rule == TASK_FAILED for e in case.events) or any(r.exit.exit_class not in STOPPED for r in reports):
        return []
    left, stopped = untold_tasks(reports), {rank for report in reports for rank in report.ranks}
    if not Members(sorted(stopped), True).few(left) or printed.intersection(left):
        return []
    beside = max(reports, key=lambda r: (left[0] in range(min(r.ranks), max(r.ranks)), len(r.ranks)))
    ended = replace(beside, exit=ProcessExit(None, None, "unknown"), ranks=left, tasks=left)
    return [_incident(ended, EXIT_CODE, "cascade", NOT_STOPPED, left, case.rank_map)]


def _incident(
    report: ExitReport, cause: str, role: Role, rule: str, silent: Sequence[int], rank_map: RankMap
) -> Incident:
    rank = silent[0] if len(silent) == 1 else report.ranks[0] if len(report.ranks) == 1 else None
    origin = Origin(rank=rank, local_rank=report.local_rank, node=report.node, pid=report.pid, time=report.time)
    resolved, basis = rank_map.resolve(origin)
    event = Event(
        cause,
        role,
        rule,
        resolved,
        report.line,
        report.order,
        report.rank_basis or basis,
        captures={"tasks": ranges(report.ranks)} if report.ranks else {},
    )
    return Incident(event, (event,), report)


def _first_own_ends(reports: Sequence[ExitReport]) -> Mapping[str, int]:
    """The place of each witness's first report of an end that nobody brought about by SIGKILL; -1 where places tell no order."""
    first: dict[str, int] = {}
    for report in reports:
        stopped = STOPPED if report.kind == "box" else ("killed",)
        if report.exit.exit_class not in (*stopped, "ok"):
            place = -1 if report.kind == "box" else report.line.offset
            first[report.witness] = min(place, first.get(report.witness, place))
    return first


def _stopped_late(report: ExitReport, first_end: Mapping[str, int]) -> bool:
    """Whether a SIGKILL may be how a launcher ends what outlived its first failure."""
    if report.kind == "table":
        return not report.first
    ends = (first_end[who] for who in (report.witness, MPI_ABORT) if who in first_end)
    return min(ends, default=report.line.offset) < report.line.offset


# ── did it fail? ─────────────────────────────────────────────────────────────────────────────


def unresolved_exits(timeline: Timeline) -> list[ExitReport]:
    """Reports of bad exits that still count: not those of a step that was cancelled before another one finished."""
    done, bad = timeline.finished, _bad_exits(timeline)
    if done is None or not done.by_program:
        return bad
    stops = (e.hit.offset for e in timeline.events if e.rule == STEP_CANCELLED)
    last_stop = max((stop for stop in stops if stop < done.line.offset), default=-1)
    return [
        r for r in bad if r.line.source == done.line.source and r.exit.signal is None and r.line.offset >= last_stop
    ]


def _bad_exits(timeline: Timeline) -> list[ExitReport]:
    return [report for report in timeline.reports if report.exit.code not in (0, None) or report.exit.signal]


def decide_whether_failed(case: Case, incidents: Sequence[Incident], silent: Sequence[Incident]) -> Finding:
    """The verdict, before anything is known of the cause; `silent` are incidents that only exit reports tell of."""
    if case.exit_status == 0 and not any(i.main.role in ("root", "confirmation") for i in incidents):
        return Finding("no-failure", reasons=(reason("exit-status-zero"),))
    if case.exit_status or case.failed:
        return Finding("failed")
    done = case.timeline.finished
    proof = [i for i in (*incidents, *silent) if not all(e.warned for e in i.events)]
    after = [i for i in proof if _comes_after_finish(i.main, case.timeline) and not _parted(i, case)]
    telling = any(i.main.role in TELLING or i.report is not None for i in after) or unresolved_exits(case.timeline)
    if done is not None and not telling:
        return Finding("no-failure", reasons=(reason("program-completed", text=done.line.text.strip()[:400]),))
    if telling or any(i.main.role == "cascade" for i in after):
        return Finding("failed")
    return _by_steps(case)


def _by_steps(case: Case) -> Finding:
    """The verdict on a log in which nothing failed: whether its steps go to the end."""
    last, steps = case.timeline.last_progress, case.timeline.progress
    if last is None:
        return Finding("unknown")
    if last.step is not None and last.steps is not None:
        before = next((p.step for p in reversed(steps[:-1]) if p.source == last.source and p.step), last.step)
        if last.steps - last.step >= max(1, last.step - before):
            return Finding("unknown", reasons=(reason("stopped-short", step=last.step, steps=last.steps),))
    elif case.timeline.cut:
        return Finding("unknown", reasons=(reason("cut-short"),))
    return Finding("no-failure", reasons=(reason("steps-to-the-end"),) if case.observed.complete else ())


def _parted(incident: Incident, case: Case) -> bool:
    """Whether a rank only says that others have left, after the last step of all or the program's own end."""
    if incident.cause not in case.traits["parting"] or _bad_exits(case.timeline):
        return False
    last, done = case.timeline.last_progress, case.timeline.finished
    ends = [(done.line.source, done.order)] if done is not None and done.by_program else []
    if last is not None and not last.part and last.step is not None and last.step == last.steps:
        ends.append((last.source, last.order))
    return any(source == incident.main.hit.source and order < incident.main.order for source, order in ends)


def _comes_after_finish(event: Event, timeline: Timeline) -> bool:
    """Whether an event came after the line that says that the program completed."""
    done = timeline.finished
    if done is None:
        return True
    if event.hit.source == done.line.source:
        if len({event.origin.rank, done.line.origin.rank} - {None}) > 1:
            return True  # one rank's goodbye is none of another's
        # what a program has printed but not yet written comes out as it dies, below its last words
        return event.order >= done.order or not (done.by_program or done.order - event.order > LIMITS.held_back)
    if event.origin.time is not None and done.line.origin.time is not None:
        return event.origin.time >= done.line.origin.time
    return True
