"""What Slurm's record says beside the log's root: it confirms it, takes its place, or contradicts it.

Slurm's word is evidence, not a verdict. A log that names a root keeps it; Slurm's states replace what is only a victim's
line or a bare exit code; and where the two do not agree, the reasons say so.
"""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.infer.exits import cause_of, worst_exit
from slurmdoctor.infer.slurm_view import SlurmView, because
from slurmdoctor.infer.time_limit import ended_by_warning, out_of_time, warning_came
from slurmdoctor.model import (
    CANCELLED,
    EXIT_CODE,
    FAILED,
    HOST_OOM,
    KILLED,
    NODE_FAILURE,
    PREEMPTED,
    RUNNING,
    SIGTERM,
    TIME_LIMIT,
    WAITING,
    Confidence,
    Finding,
    JobRecord,
    Knowledge,
    Reason,
    RunState,
    Step,
    Timeline,
    reason,
)


def apply_record(
    finding: Finding, timeline: Timeline, record: JobRecord, state: RunState, knowledge: Knowledge
) -> Finding:
    """The finding with what Slurm's record confirms, replaces or contradicts in it."""
    return _apply(replace(finding, record=record), SlurmView(record, timeline, state, knowledge))


def quote_record(finding: Finding, knowledge: Knowledge) -> Finding:
    """The finding with Slurm's own line on how the job, or its step, ended: where the log has no root, or the state names a cause."""
    job = finding.record
    if job is None or finding.verdict != "failed" or job.state in RUNNING | WAITING:
        return finding
    if finding.root is not None and job.state not in knowledge.cause_of_state:
        return finding
    worst = next((s for s in reversed(job.work_steps) if s.failed), None)
    quote = job.quotes.get("state")
    if worst is not None and worst.quote is not None and job.state in ("COMPLETED", "FAILED", None):
        quote = worst.quote
    if job.preempted_at is not None and job.state in FAILED:
        quote = job.quotes.get("preempt", quote)
    return replace(finding, quote=quote)


def script_status(record: JobRecord) -> int | None:
    """The script's own status, where Slurm says that it failed: then an error that others survived counts after all."""
    if record.state != "FAILED":
        return None
    return (record.exit.code if record.exit is not None else None) or 1


def state_of(job: JobRecord) -> str | None:
    """The job's state; in a footer the script's own end, which Slurm has not recorded yet."""
    if job.exit_status is None or job.state not in (None, "RUNNING", "COMPLETING"):
        return job.state
    if job.state == "COMPLETING":  # Slurm is ending it: its log has the line that says why
        return "TIMEOUT" if job.reason == "TimeLimit" else None
    return "COMPLETED" if job.exit_status == 0 and not job.running_children else "FAILED"


def _apply(finding: Finding, view: SlurmView) -> Finding:
    job, state = view.job, state_of(view.job)
    if state in WAITING and not job.ended:
        return because(finding, reason("not-started", why=job.reason))
    if state in RUNNING:
        return because(finding, reason("still-running"))
    if state == "COMPLETED":
        return _completed(finding, view)
    return _failed(finding, state, view) if state in FAILED else finding


# ── Slurm calls it completed ──


def _completed(finding: Finding, view: SlurmView) -> Finding:
    job = view.job
    last = job.work_steps[-1] if job.work_steps else None
    if last is not None and last.failed and last.state in view.knowledge.cause_of_state:
        # the script went on after the step's end: its 0 says nothing of the step
        said = reason("completed-but-last-step", step=last.id, state=last.state)
        return _state_speaks(because(finding, said), last.state, last, view)
    step_failed = last.failed if last else job.derived is not None and job.derived.exit_class != "ok"
    if finding.verdict == "failed":
        if not step_failed and not job.running_children and view.only_symptoms(finding):
            return _acquitted(finding, _completed_reason("no-root", last, view))
        return because(finding, _completed_reason("status-hides", last, view))
    if step_failed and view.timeline.finished is None:
        found = replace(finding, verdict="failed", cause=EXIT_CODE, confidence="low")
        return because(found, _completed_reason("untold", last, view))
    if finding.verdict == "unknown":
        return _acquitted(finding, _completed_reason("no-step-failed", last, view))
    return finding


def _completed_reason(code: str, last: Step | None, view: SlurmView) -> Reason:
    job = view.job
    by_script = job.exit_status == 0 and job.state != "COMPLETED"
    step = (last.id, last.state, last.exit) if last is not None and last.failed else None
    derived = job.derived if job.derived is not None and job.derived.exit_class != "ok" else None
    return reason(f"completed-{code}", by_script=by_script, step=step, derived=None if step else derived)


# ── Slurm calls it failed ──


def _failed(finding: Finding, state: str | None, view: SlurmView) -> Finding:
    job = view.job
    worst = next((s for s in job.work_steps if s.state == "OUT_OF_MEMORY"), None)
    state = _sharper(state, worst, view)
    if state in view.knowledge.cause_of_state:
        return _state_speaks(finding, state, worst, view)
    if view.only_an_ending(finding) and warning_came(job, view.timeline):
        return ended_by_warning(finding, view)
    if job.exit_status is not None and job.running_children:
        return _signalled(finding, view)
    stopped = next((s for s in reversed(job.work_steps) if s.cancelled_by is not None), None)
    unnamed = finding.verdict != "failed" or finding.root is None
    if stopped is not None and (unnamed or _yields(finding, CANCELLED, view)):
        return _state_speaks(finding, "CANCELLED", stopped, view)
    return _failed_without_a_word(finding, state, view) if unnamed else finding


def _sharper(state: str | None, worst: Step | None, view: SlurmView) -> str | None:
    """The state that says most: a preemption or an out-of-memory step stands behind others."""
    job = view.job
    if job.preempted_at is not None and state in ("CANCELLED", "FAILED", "TIMEOUT"):
        return "PREEMPTED"
    memory = worst is not None or (job.derived is not None and job.derived.exit_class == "oom-killed")
    return "OUT_OF_MEMORY" if state in ("FAILED", "CANCELLED") and memory else state


def _failed_without_a_word(finding: Finding, state: str | None, view: SlurmView) -> Finding:
    job = view.job
    worst = worst_exit(job)
    cause = cause_of(worst, view.knowledge) if worst else EXIT_CODE
    if job.state not in FAILED and job.exit_status:
        said = reason("script-ended-with", status=job.exit_status, exit=worst)
    else:
        said = reason("recorded-state", state=state, exit=job.exit if job.state in FAILED and job.exit else worst)
    healthy = view.timeline.finished is not None or view.timeline.last_progress is not None
    return replace(
        finding,
        verdict="failed",
        root=None,
        cascade=(),
        cause=cause,
        rule=None,
        confidence="low" if cause in (EXIT_CODE, KILLED, SIGTERM) else "medium",
        reasons=(said, *([reason("log-shows-no-error")] if healthy else ())),
    )


def _state_speaks(finding: Finding, state: str | None, step: Step | None, view: SlurmView) -> Finding:
    """A state that names a cause: time limit, memory, node, preemption, cancellation."""
    job = view.job
    cause = view.knowledge.cause_of_state[state or ""]
    said = reason("recorded", step=step.id if step else None, state=state)
    if cause == TIME_LIMIT:
        return out_of_time(finding, said, view)
    if cause == CANCELLED:
        uid = step.cancelled_by if step else job.cancelled_by
        said = reason("recorded", step=step.id if step else None, state=state, uid=uid, owner=job.uid)
    elif cause == PREEMPTED and job.state != state:
        said = reason("preempted-as", state=job.state)
    root = finding.root
    if finding.verdict == "failed" and finding.cause == cause:
        return replace(because(finding, said), confidence="high")
    if finding.verdict == "failed" and root is not None and not _yields(finding, cause, view):
        code = "recorded-after" if cause == CANCELLED else "recorded-besides"
        return because(finding, Reason(code, {"said": said}))
    keep = (
        root is not None
        and cause == HOST_OOM
        and finding.cause in view.knowledge.traits["like-oom"]
        and root.main.role != "cascade"
    )
    sure: Confidence = "high" if cause != HOST_OOM or keep else "medium"
    return view.replaced(finding, cause, sure, said, keep=keep, step=step)


def _yields(finding: Finding, cause: str, view: SlurmView) -> bool:
    """Whether the log's root is only what Slurm's state looks like from inside."""
    root = finding.root
    assert root is not None
    if root.main.role in ("cascade", "hint"):
        return True
    traits = view.knowledge.traits
    if cause == HOST_OOM:
        return finding.cause in traits["like-oom"] or finding.cause in traits["link"]
    if cause == NODE_FAILURE:
        return finding.cause in traits["exit-only"] or finding.cause in traits["link"]
    if cause == PREEMPTED and finding.cause == TIME_LIMIT:
        return True
    return finding.cause in traits["exit-only"]


def _signalled(finding: Finding, view: SlurmView) -> Finding:
    """The script ended while srun still ran: somebody signalled it."""
    said = reason("script-signalled", program=view.job.running_children[0])
    if not view.only_an_ending(finding) or finding.cause == CANCELLED:
        return because(finding, said)
    sender = Reason("script-signalled-by-unknown", said.values)
    return view.replaced(finding, SIGTERM, "low", sender)


def _acquitted(finding: Finding, why: Reason) -> Finding:
    return replace(finding, verdict="no-failure", root=None, cause=None, reasons=(why,))
