"""What Slurm's record says beside the log's root: it confirms it, takes its place, or contradicts it.

Slurm's word is evidence, not a verdict. A log that names a root keeps it; Slurm's states replace what is only a victim's
line or a bare exit code; and where the two do not agree, the reasons say so. The time limit has a part of its own: a job
may have run out of time, hung, finished, or not handled the warning.
"""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, because
from slurmdoctor.infer.exits import cause_of, worst_exit
from slurmdoctor.model import (
    CANCELLED,
    EXIT_CODE,
    FAILED,
    HANG,
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
    Frozen,
    JobRecord,
    Knowledge,
    Origin,
    Reason,
    RunState,
    Step,
    Timeline,
    reason,
)

_EARLY = 90
"""Seconds by which Slurm may send the warning before its time (a minute), and a script may take to end."""


class SlurmView(Frozen):
    """Slurm's record of a job, and what it is compared with."""

    job: JobRecord
    timeline: Timeline
    run: RunState
    knowledge: Knowledge

    def only_symptoms(self, finding: Finding) -> bool:
        """Whether the log names no root that may start a failure."""
        root = finding.root
        return root is None or root.main.role in ("cascade", "either", "hint") or finding.cause in (EXIT_CODE, SIGTERM)

    def only_an_ending(self, finding: Finding) -> bool:
        """Whether the log shows no more than that something ended."""
        unnamed = finding.verdict != "failed" or self.only_symptoms(finding)
        return unnamed or finding.cause in self.knowledge.traits["exit-only"]

    def replaced(
        self,
        finding: Finding,
        cause: str,
        confidence: Confidence,
        recorded: Reason,
        keep: bool = False,
        step: Step | None = None,
    ) -> Finding:
        """The finding with Slurm's word as its cause; with `keep` a rank that is known to have died of it stays."""
        if not keep:
            old = () if finding.root is None else (finding.root,)
            nodes = step.nodes if step and step.nodes else self.job.nodes
            finding = replace(
                finding,
                cascade=(*old, *finding.cascade),
                root=None,
                suspicion=None,
                origin=Origin(node=nodes[0] if len(nodes) == 1 and cause == HOST_OOM else None),
                how=(Reason("record-names-no-process"),),
            )
        return replace(
            finding,
            verdict="failed",
            cause=cause,
            rule=None,
            confidence=confidence,
            cascade=tuple(i for i in finding.cascade if i.cause != cause),
            reasons=(recorded, *finding.reasons),
        )


def apply_record(finding: Finding, record: JobRecord, run: RunState, case: Case) -> Finding:
    """The finding with what Slurm's record confirms, replaces or contradicts in it."""
    finding, view = replace(finding, record=record), SlurmView(record, case.timeline, run, case.knowledge)
    state = state_of(record)
    if state in WAITING and not record.ended:
        return because(finding, reason("not-started", why=record.reason))
    if state in RUNNING:
        return because(finding, reason("still-running"))
    if state == "COMPLETED":
        return _completed(finding, view)
    return _failed(_without_success(finding), state, view) if state in FAILED else finding


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


# ── Slurm calls it completed ──


def _completed(finding: Finding, view: SlurmView) -> Finding:
    job = view.job
    last = job.work_steps[-1] if job.work_steps else None
    if last is not None and last.failed and last.state in view.knowledge.cause_of_state:
        # the script went on after the step's end: its 0 says nothing of the step
        said = reason("completed-but-last-step", step=last.id, state=last.state)
        return _state_speaks(because(_without_success(finding), said), last.state, last, view)
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


def _acquitted(finding: Finding, why: Reason) -> Finding:
    return replace(finding, verdict="no-failure", root=None, cause=None, reasons=(why,))


# ── Slurm calls it failed ──


def _without_success(finding: Finding) -> Finding:
    """What shows that nothing failed does not count any longer."""
    return finding if finding.verdict == "failed" else replace(finding, reasons=())


def _failed(finding: Finding, state: str | None, view: SlurmView) -> Finding:
    job = view.job
    worst = next((s for s in job.work_steps if s.state == "OUT_OF_MEMORY"), None)
    state = _sharper(state, worst, view)
    if state in view.knowledge.cause_of_state:
        return _state_speaks(finding, state, worst, view)
    if view.only_an_ending(finding) and warning_came(job, view.timeline):
        return _ended_by_warning(finding, view)
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
    job, traits = view.job, view.knowledge.traits
    cause = view.knowledge.cause_of_state[state or ""]
    said = reason("recorded", step=step.id if step else None, state=state)
    if cause == TIME_LIMIT:
        return _out_of_time(finding, said, view)
    if cause == CANCELLED:
        uid = step.cancelled_by if step else job.cancelled_by
        said = reason("recorded", step=step.id if step else None, state=state, uid=uid, owner=job.uid)
    elif cause == PREEMPTED and job.state != state:
        said = reason("preempted-as", state=job.state)
    root = finding.root
    if finding.verdict == "failed" and finding.cause == cause:
        return replace(because(finding, said), confidence="high")
    if finding.verdict == "failed" and root is not None and not _yields(finding, cause, view):
        return because(finding, reason("recorded-after" if cause == CANCELLED else "recorded-besides", said=said))
    keep = (
        root is not None and root.main.role != "cascade" and cause == HOST_OOM and finding.cause in traits["like-oom"]
    )
    sure: Confidence = "high" if cause != HOST_OOM or keep else "medium"
    return view.replaced(finding, cause, sure, said, keep=keep, step=step)


def _yields(finding: Finding, cause: str, view: SlurmView) -> bool:
    """Whether the log's root is only what Slurm's state looks like from inside."""
    assert finding.root is not None
    if finding.root.main.role in ("cascade", "hint"):
        return True
    traits = view.knowledge.traits
    if cause == HOST_OOM:
        return finding.cause in traits["like-oom"] | traits["link"]
    if cause == NODE_FAILURE:
        return finding.cause in traits["exit-only"] | traits["link"]
    return finding.cause in traits["exit-only"] or (cause == PREEMPTED and finding.cause == TIME_LIMIT)


def _signalled(finding: Finding, view: SlurmView) -> Finding:
    """The script ended while srun still ran: somebody signalled it."""
    said = reason("script-signalled", program=view.job.running_children[0])
    if not view.only_an_ending(finding) or finding.cause == CANCELLED:
        return because(finding, said)
    return view.replaced(finding, SIGTERM, "low", Reason("script-signalled-by-unknown", said.values))


# ── the time limit ──


def apply_run_state(finding: Finding, state: RunState) -> Finding:
    """The finding of a job that ended by Slurm or a person, with how it stood then: a time limit may have ended a hang."""
    if state.began is not None:
        known = state.kind == "hung" or state.idle is None
        return because(finding, reason("no-first-step", state=state)) if known else finding
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


def _as_it_stood(finding: Finding, state: RunState) -> Finding:
    if state.began is not None:
        return because(finding, reason("no-first-step", state=state))
    if state.kind is None:
        return finding
    if state.kind == "hung":
        finding = replace(finding, cause=HANG, rule=None, confidence="medium")
    return because(
        finding, reason(f"had-{state.kind}" if state.kind != "progressing" else "made-progress", state=state)
    )


def _out_of_time(finding: Finding, recorded: Reason, view: SlurmView) -> Finding:
    """Slurm calls it TIMEOUT: it ran out of time, had hung, or had finished; or it had failed before."""
    root, no_look = finding.root, view.knowledge.traits["exit-only"] | {TIME_LIMIT, HANG}
    failed = finding.verdict == "failed"
    before = root is not None and root.main.role in ("root", "confirmation", "either")
    if failed and before and finding.cause not in no_look:
        return because(finding, reason("idled-into-limit", recorded=recorded))
    known = failed and finding.cause == TIME_LIMIT
    found = because(finding, recorded) if known else view.replaced(finding, TIME_LIMIT, "high", recorded)
    return _as_it_stood(found, view.run)


def _ended_by_warning(finding: Finding, view: SlurmView) -> Finding:
    """The signal that `--signal=USR1@120` asks for ended what did not handle it."""
    job = view.job
    came = reason(
        "warning-ended-it",
        program=job.running_children[0] if job.running_children else None,
        left=max(0, (job.time_limit or 0) - (job.elapsed or 0)),
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
