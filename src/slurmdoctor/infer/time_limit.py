"""The time limit: a job that ran out of time, that had hung, that had finished, or that did not handle the warning."""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.infer.slurm_view import SlurmView, because
from slurmdoctor.model import CANCELLED, HANG, TIME_LIMIT, Finding, JobRecord, Reason, RunState, Timeline, reason

_EARLY = 90
"""Seconds by which Slurm may send the warning before its time (a minute), and a script may take to end."""


def apply_run_state(finding: Finding, state: RunState) -> Finding:
    """The finding of a job that ended by Slurm or a person, with how it stood then: a time limit may have ended a hang."""
    if state.began is not None:
        known = state.kind == "hung" or state.idle is None
        return because(finding, _how_it_stood(state)) if known else finding
    if state.kind == "hung" and (finding.cause == CANCELLED or _by_slurms_clock(finding, state)):
        return because(finding, reason("stood-still", state=state))
    ended_a_hang = state.kind == "hung" and finding.cause == TIME_LIMIT
    return _as_it_stood(finding, state) if ended_a_hang or state.kind == "finished" else finding


def _by_slurms_clock(finding: Finding, state: RunState) -> bool:
    """Whether Slurm's own words alone show the stall: the program's clock, or what it printed besides, does not."""
    assert finding.root is not None
    last = finding.root.main
    return "at" in last.captures and (
        last.origin.time is None or (last.bound and last.origin.time <= (state.since or 0.0))
    )


def out_of_time(finding: Finding, recorded: Reason, view: SlurmView) -> Finding:
    """Slurm calls it TIMEOUT: it ran out of time, had hung, or had finished; or it had failed before."""
    if _failed_before(finding, view):
        return because(finding, Reason("idled-into-limit", {"recorded": recorded}))
    known = finding.verdict == "failed" and finding.cause == TIME_LIMIT
    found = because(finding, recorded) if known else view.replaced(finding, TIME_LIMIT, "high", recorded)
    return _as_it_stood(found, view.run)


def ended_by_warning(finding: Finding, view: SlurmView) -> Finding:
    """The signal that `--signal=USR1@120` asks for ended what did not handle it."""
    job = view.job
    assert job.time_limit is not None
    assert job.elapsed is not None
    came = reason(
        "warning-ended-it",
        program=job.running_children[0] if job.running_children else None,
        left=max(0, job.time_limit - job.elapsed),
        signal=job.warned_by,
        before=job.warned_before,
    )
    return _as_it_stood(view.replaced(finding, TIME_LIMIT, "medium", came), view.run)


def warning_came(job: JobRecord, timeline: Timeline | None = None) -> bool:
    """Whether the job ended by the signal for which it asks before its time limit."""
    left = job.time_limit - job.elapsed if job.time_limit is not None and job.elapsed is not None else None
    if left is None or job.warned_before is None or left > job.warned_before + _EARLY:
        return False
    if job.exit_status is not None and job.running_children:
        return True
    exits = [job.exit, job.derived, *(s.exit for s in job.work_steps)]
    exits += [r.exit for r in timeline.reports] if timeline is not None else []
    return any(e is not None and e.signal == job.warned_by for e in exits)


def _failed_before(finding: Finding, view: SlurmView) -> bool:
    """Whether the log names a failure that came before the limit, and that is no look of it."""
    root = finding.root
    if finding.verdict != "failed" or root is None or root.main.role not in ("root", "confirmation", "either"):
        return False
    return finding.cause not in view.knowledge.traits["exit-only"] | {TIME_LIMIT, HANG}


def _as_it_stood(finding: Finding, state: RunState) -> Finding:
    if state.kind is None and state.began is None:
        return finding
    if state.kind == "hung" and state.began is None:
        finding = replace(finding, cause=HANG, rule=None, confidence="medium")
    return because(finding, _how_it_stood(state))


def _how_it_stood(state: RunState) -> Reason:
    if state.began is not None:
        return reason("no-first-step", state=state)
    return reason(f"had-{state.kind}" if state.kind != "progressing" else "made-progress", state=state)
