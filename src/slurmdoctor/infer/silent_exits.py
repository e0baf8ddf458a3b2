"""Exit reports → incidents: processes of which only srun, torchelastic, the shell or a launcher tells how they ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.infer.exits import cause_of
from slurmdoctor.infer.members import ended_tasks
from slurmdoctor.model import (
    ABORT,
    COMMAND_NOT_FOUND,
    EXIT_CODE,
    HOST_OOM,
    KILLED,
    LIMITS,
    NOT_STOPPED,
    SIGTERM,
    TASK_FAILED,
    Event,
    ExitReport,
    Hit,
    Incident,
    Knowledge,
    Origin,
    ProcessExit,
    RankMap,
    Role,
    Timeline,
    ranges,
)

_ROLE_OF_CAUSE: Mapping[str, Role] = {
    SIGTERM: "cascade",
    EXIT_CODE: "cascade",
    HOST_OOM: "confirmation",
    ABORT: "either",
}
_STOPPED = ("terminated", "killed")
"""How tasks end that Slurm stops."""
_WARNINGS = ("SIGUSR1", "SIGUSR2")
"""Signals that a job asks for before its time limit."""


def silent_exits(
    timeline: Timeline, incidents: Sequence[Incident], rank_map: RankMap, knowledge: Knowledge
) -> list[Incident]:
    """The incidents of processes that printed nothing of their end themselves."""
    generic = knowledge.traits["generic"]
    spoke = {rank for i in incidents for e in i.events for rank in e.ranks}
    # a rank that lost a peer or timed out aborts: an abort of somebody tells nothing more
    waited = any(i.main.role in ("cascade", "either") and i.cause not in generic for i in incidents)
    unlabelled = any(i.main.origin.rank is None and i.main.role in ("root", "either") for i in incidents)
    first_end = _first_own_ends(timeline.reports)
    not_stopped = _not_stopped(timeline, spoke, rank_map)
    found = [*not_stopped]
    for report in timeline.reports:
        cause = cause_of(report.exit, knowledge)
        if report.exit.code == 0 or report.exit.signal in _WARNINGS:
            continue
        silent = [r for r in report.ranks if r not in spoke]
        accounted = (report.ranks and not silent) or unlabelled
        if cause in (EXIT_CODE, COMMAND_NOT_FOUND, ABORT) and accounted:
            continue
        if cause == ABORT and not report.ranks and waited:
            continue
        role = _ROLE_OF_CAUSE.get(cause, "root")
        if cause == KILLED and (not_stopped or _stopped_late(report, first_end)):
            role = "cascade"
        found.append(_incident(report, cause, role, silent, rank_map))
    return found


def _not_stopped(timeline: Timeline, spoke: set[int], rank_map: RankMap) -> list[Incident]:
    """Slurm ended a step because a task had failed, and stopped all tasks but few: these are the ones that had failed."""
    reports = [r for r in timeline.reports if r.kind == "step" and r.ranks]
    if not any(e.rule == TASK_FAILED for e in timeline.events) or any(
        r.exit.exit_class not in _STOPPED for r in reports
    ):
        return []
    stopped = {rank for report in reports for rank in report.ranks}
    left = [rank for rank in range(ended_tasks(reports)) if rank not in stopped]
    if not left or len(left) > max(1, len(stopped) // LIMITS.few) or spoke.intersection(left):
        return []
    beside = max(reports, key=lambda r: (min(r.ranks) < left[0] < max(r.ranks), len(r.ranks)))
    ended = replace(beside, exit=ProcessExit(None, None, "unknown"), ranks=tuple(left), tasks=tuple(left))
    one = _incident(ended, EXIT_CODE, "cascade", left, rank_map)
    main = replace(one.main, rule=NOT_STOPPED)
    return [Incident(main, (main,), ended)]


def _incident(report: ExitReport, cause: str, role: Role, silent: Sequence[int], rank_map: RankMap) -> Incident:
    rank = silent[0] if len(silent) == 1 else report.ranks[0] if len(report.ranks) == 1 else None
    origin = Origin(rank=rank, local_rank=report.local_rank, node=report.node, pid=report.pid, time=report.time)
    resolved, basis = rank_map.resolve(origin)
    line = report.line
    event = Event(
        cause=cause,
        role=role,
        rule=f"{cause}/{report.witness.split()[0].lower()}",
        origin=resolved,
        rank_basis=report.rank_basis or basis,
        hit=Hit(line.source, line.offset, line.text, line.raw),
        order=report.order,
        captures={"tasks": ranges(report.ranks)} if report.ranks else {},
    )
    return Incident(event, (event,), report)


def _first_own_ends(reports: Sequence[ExitReport]) -> Mapping[str, int]:
    """Each witness, and the place of its first report of an end that is no SIGKILL; -1 where places tell no order."""
    first: dict[str, int] = {}
    for report in reports:
        stopped = ("killed", "terminated") if report.by_rank else ("killed",)
        if report.exit.exit_class not in (*stopped, "ok"):
            place = -1 if report.by_rank else report.line.offset
            first[report.witness] = min(place, first.get(report.witness, place))
    return first


def _stopped_late(report: ExitReport, first_end: Mapping[str, int]) -> bool:
    """Whether a SIGKILL may be how a launcher ends what outlived its first failure."""
    if report.marks_first:
        return not report.first
    return first_end.get(report.witness, report.line.offset) < report.line.offset
