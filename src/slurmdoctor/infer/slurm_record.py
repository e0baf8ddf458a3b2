"""What Slurm's record says beside the log's root: it confirms it, takes its place, or contradicts it.

Slurm's word is evidence, not a verdict. A log that names a root keeps it; Slurm's states replace what is only a victim's
line or a bare exit code; and where the two do not agree, the reasons say so. The time limit has a part of its own: a job
may have run out of time, hung, finished, or not handled the warning.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.infer.case import TELLING, Case, because
from slurmdoctor.infer.exits import cause_of, worst_exit
from slurmdoctor.model import (
    CANCELLED,
    CLASSIFIER,
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
    ExitReport,
    Finding,
    Incident,
    JobRecord,
    Origin,
    Reason,
    Step,
    reason,
)

_EARLY = 90
"""Seconds by which Slurm may send the warning before its time (a minute), and a script may take to end."""


def apply_record(finding: Finding, record: JobRecord, case: Case) -> Finding:
    """The finding with what Slurm's record confirms, replaces or contradicts in it."""
    return because(_by_state(replace(finding, record=record), record, case), *_earlier_runs(record))


def _by_state(finding: Finding, record: JobRecord, case: Case) -> Finding:
    state = state_of(record)
    if state in WAITING:
        return because(finding, reason("not-started", why=record.reason))
    if state in RUNNING:
        return because(finding, reason("still-running"))
    if state == "COMPLETED":
        return _completed(finding, record, case)
    return _failed(_without_success(finding), state, record, case) if state in FAILED else finding


def _only_symptoms(finding: Finding) -> bool:
    """Whether the log names no root that may start a failure."""
    root = finding.root
    return root is None or root.main.role in ("cascade", "either", "hint")


def _only_an_ending(finding: Finding, case: Case) -> bool:
    """Whether the log shows no more than that something ended."""
    return _only_symptoms(finding) or finding.cause in case.traits["exit-only"]


def _named(finding: Finding, cause: str, confidence: Confidence, recorded: Reason) -> Finding:
    """The finding with Slurm's word as its cause."""
    return replace(
        finding,
        verdict="failed",
        cause=cause,
        rule=None,
        confidence=confidence,
        cascade=tuple(i for i in finding.cascade if i.cause != cause),
        reasons=(recorded, *finding.reasons),
    )


def _replaced(finding: Finding, cause: str, confidence: Confidence, recorded: Reason, *nodes: str) -> Finding:
    """The finding with Slurm's word as its cause in place of the log's root; on the node that alone ran out of memory."""
    old = () if finding.root is None or finding.rule == CLASSIFIER else (finding.root,)
    without_root = replace(
        finding,
        cascade=(*old, *finding.cascade),
        reasons=tuple(one for one in finding.reasons if one.code not in ("last-telling-line", "reads-like")),
        root=None,
        suspicion=None,
        origin=Origin(node=nodes[0] if len(nodes) == 1 and cause == HOST_OOM else None),
        how=(Reason("record-names-no-process"),),
    )
    return _named(without_root, cause, confidence, recorded)


def quote_record(finding: Finding, case: Case) -> Finding:
    """The finding with Slurm's own line on how the job, or its step, ended: where the log has no root, or the state names a cause."""
    job = finding.record
    if job is None or finding.verdict != "failed" or job.state in RUNNING | WAITING:
        return finding
    if finding.root is not None and job.state not in case.knowledge.cause_of_state:
        return finding
    quote, worst = job.quotes.get("state"), job.failed_step
    if worst is not None and worst.quote is not None and job.state in ("COMPLETED", "FAILED", None):
        quote = worst.quote
    if job.preempted_at is not None:
        quote = job.quotes.get("preempt", quote)
    return replace(finding, quote=quote)


def script_status(record: JobRecord) -> int | None:
    """The script's own status, where Slurm says that it failed: then an error that others survived counts after all."""
    if record.state not in ("FAILED", "REQUEUED") or state_of(record) == "REQUEUED":
        return None
    return (record.exit.code if record.exit is not None else None) or 1


def state_of(job: JobRecord) -> str | None:
    """The job's state; in a footer the script's own end, which Slurm has not recorded yet."""
    if job.state == "REQUEUED" and job.exit is not None and job.exit.exit_class != "ok":
        return "FAILED"  # it had ended so, and was requeued while it was completing; one that ran has no exit code
    if job.exit_status is None or job.state not in (None, "RUNNING", "COMPLETING"):
        return job.state
    if job.state == "COMPLETING":  # Slurm is ending it: its log has the line that says why
        return "TIMEOUT" if job.reason == "TimeLimit" else None
    return "COMPLETED" if job.exit_status == 0 and not job.running_children else "FAILED"


def _earlier_runs(job: JobRecord) -> tuple[Reason, ...]:
    """That the job was requeued, how its last run ended, and where the record does not agree with itself."""
    found: list[Reason] = []
    if job.earlier:
        last = job.earlier[-1]
        ran_before = reason(
            "ran-before",
            count=len(job.earlier),
            state=last.state,
            ran=any(step.state == "CANCELLED" for step in last.steps),
            failed=last.exit if state_of(last) != last.state else None,
            nodes=last.nodes,
            again=tuple(node for node in last.nodes if node in job.nodes),
            expedited="--requeue=expedite" in (job.submit_line or ""),
            counter=None if job.restarts in (None, len(job.earlier)) else job.restarts,
        )
        found.append(ran_before)
    if job.ended and job.nodes and job.start is None and (job.restarts or job.earlier):
        found.append(reason("no-start-recorded"))
    return tuple(found)


# ── Slurm calls it completed ──


def _completed(finding: Finding, job: JobRecord, case: Case) -> Finding:
    last = next(reversed(job.work_steps), None)
    if last is not None and last.state in case.knowledge.cause_of_state:
        # the script went on after the step's end: its 0 says nothing of the step
        why = reason("completed-but-last-step", step=last.id, state=last.state)
        return _state_speaks(because(_without_success(finding), why), last.state, last, job, case)
    worst = last if last is not None and last.failed else job.failed_step
    step = (worst.id, worst.state, worst.exit) if worst is not None else None
    derived = job.derived if step is None and job.derived is not None and job.derived.exit_class != "ok" else None
    step_failed = (worst is not None and worst is last) or (last is None and derived is not None)

    def note(code: str) -> Reason:
        return reason(f"completed-{code}", by_script=job.exit_status == 0, step=step, derived=derived)

    if finding.verdict == "failed":
        if step_failed or not _only_symptoms(finding):
            return because(finding, note("status-hides"))
        return _acquitted(finding, note("no-root"))
    if step_failed and case.timeline.finished is None:
        found = replace(finding, verdict="failed", cause=EXIT_CODE, confidence="low")
        return because(found, note("untold"))
    return _acquitted(finding, note("no-step-failed")) if finding.verdict == "unknown" else finding


def _acquitted(finding: Finding, why: Reason) -> Finding:
    return replace(finding, verdict="no-failure", root=None, cause=None, reasons=(why,))


# ── Slurm calls it failed ──


def _without_success(finding: Finding) -> Finding:
    """What shows that nothing failed does not count any longer."""
    return finding if finding.verdict == "failed" else replace(finding, reasons=())


def _failed(finding: Finding, state: str | None, job: JobRecord, case: Case) -> Finding:
    worst = next((s for s in job.work_steps if s.state == "OUT_OF_MEMORY"), None)
    state = _sharper(state, worst, job)
    if state in case.knowledge.cause_of_state:
        return _state_speaks(finding, state, worst, job, case)
    if _only_an_ending(finding, case) and (left := left_by_warning(job, case.reports)) is not None:
        return _ended_by_warning(finding, job, left)
    if job.running_children:
        return _signalled(finding, job, case)
    stopped = next((s for s in reversed(job.work_steps) if s.cancelled_by is not None), None)
    if stopped is not None and (finding.root is None or _yields(finding, finding.root, CANCELLED, case)):
        return _state_speaks(finding, "CANCELLED", stopped, job, case)
    return _failed_without_a_word(finding, state, job, case) if finding.root is None else finding


def _sharper(state: str | None, worst: Step | None, job: JobRecord) -> str | None:
    """The most specific state: a preemption or an out-of-memory step comes after others."""
    if job.preempted_at is not None and state in ("CANCELLED", "FAILED", "TIMEOUT"):
        return "PREEMPTED"
    memory = worst is not None or (job.derived is not None and job.derived.exit_class == "oom-killed")
    return "OUT_OF_MEMORY" if state in ("FAILED", "CANCELLED") and memory else state


def _failed_without_a_word(finding: Finding, state: str | None, job: JobRecord, case: Case) -> Finding:
    worst = worst_exit(job)
    cause = cause_of(worst, case.knowledge) if worst else EXIT_CODE
    if job.state not in FAILED:
        note = reason("script-ended-with", status=job.exit_status, exit=worst)
    else:
        note = reason("recorded-state", state=state, exit=job.exit or worst)
    healthy = case.timeline.finished is not None or case.timeline.last_progress is not None
    return replace(
        finding,
        verdict="failed",
        root=None,
        cascade=(),
        cause=cause,
        rule=None,
        confidence="low" if cause in (EXIT_CODE, KILLED, SIGTERM) else "medium",
        reasons=(note, *([reason("log-shows-no-error")] if healthy else ())),
    )


def _state_speaks(finding: Finding, state: str | None, step: Step | None, job: JobRecord, case: Case) -> Finding:
    """A state that names a cause: time limit, memory, node, preemption, cancellation."""
    cause = case.knowledge.cause_of_state[state or ""]
    note = reason("recorded", step=step.id if step else None, state=state)
    if cause == TIME_LIMIT:
        return _out_of_time(finding, note, case)
    if cause == CANCELLED:
        uid = step.cancelled_by if step else job.cancelled_by
        note = reason("recorded", step=step.id if step else None, state=state, uid=uid, owner=job.uid)
    elif cause == PREEMPTED and job.state != state:
        note = reason("preempted-as", state=job.state)
    root = finding.root
    if cause == HOST_OOM and step is not None and step.max_rss_task is not None:
        task = reason("largest-task", task=step.max_rss_task, node=step.max_rss_node, bytes=step.max_rss)
        finding = because(finding, task)
    if finding.cause == cause:
        return replace(because(finding, note), confidence="high")
    if root is not None and not _yields(finding, root, cause, case):
        return because(finding, reason("recorded-after" if cause == CANCELLED else "recorded-besides", said=note))
    like_oom = cause == HOST_OOM and finding.cause in case.traits["like-oom"]
    if root is not None and root.main.role != "cascade" and like_oom:  # its rank is known to have died of it
        return _named(finding, cause, "high", note)
    nodes = step.nodes if step else job.nodes
    return _replaced(finding, cause, "medium" if cause == HOST_OOM else "high", note, *nodes)


def _yields(finding: Finding, root: Incident, cause: str, case: Case) -> bool:
    """Whether the log's root is only what Slurm's state looks like from inside."""
    if root.main.role in ("cascade", "hint"):
        return True
    traits = case.traits
    if cause == HOST_OOM:
        return finding.cause in traits["like-oom"] | traits["link"]
    if cause == NODE_FAILURE:
        return finding.cause in traits["exit-only"] | traits["link"]
    return finding.cause in traits["exit-only"] or (cause == PREEMPTED and finding.cause == TIME_LIMIT)


def _signalled(finding: Finding, job: JobRecord, case: Case) -> Finding:
    """The script ended while srun still ran: somebody signalled it."""
    note = reason("script-signalled", program=job.running_children[0])
    if not _only_an_ending(finding, case) or finding.cause == CANCELLED:
        return because(finding, note)
    return _replaced(finding, SIGTERM, "low", Reason("script-signalled-by-unknown", note.values))


# ── the time limit ──


def apply_run_state(finding: Finding) -> Finding:
    """The finding of a job that ended by Slurm or a person, with how it stood then: a time limit may have ended a hang."""
    state = finding.state
    if state.began is not None:
        return _as_it_stood(finding)
    if state.kind == "hung" and (finding.cause == CANCELLED or _by_slurms_clock(finding)):
        return because(finding, reason("stood-still", state=state))
    ended_a_hang = state.kind == "hung" and finding.cause == TIME_LIMIT
    return _as_it_stood(finding) if ended_a_hang or state.kind == "finished" else finding


def _by_slurms_clock(finding: Finding) -> bool:
    """Whether Slurm's own words alone show the stall: the program's clock, or what it printed besides, does not."""
    assert finding.root is not None
    last = finding.root.main
    time = last.origin.time
    return "at" in last.captures and (time is None or time <= (finding.state.since or 0.0))


def _as_it_stood(finding: Finding) -> Finding:
    state = finding.state
    if state.began is not None:
        return because(finding, reason("no-first-step", state=state))
    if state.kind is None:
        return finding
    if state.kind == "hung":
        finding = replace(finding, cause=HANG, rule=None, confidence="medium")
    code = "made-progress" if state.kind == "progressing" else f"had-{state.kind}"
    return because(finding, reason(code, state=state))


def _out_of_time(finding: Finding, recorded: Reason, case: Case) -> Finding:
    """Slurm calls it TIMEOUT: it ran out of time, had hung, or had finished; or it had failed before."""
    root = finding.root
    before = root is not None and root.main.role in TELLING
    if before and finding.cause not in case.traits["exit-only"] | {TIME_LIMIT, HANG}:
        return because(finding, reason("idled-into-limit", recorded=recorded))
    if finding.cause == TIME_LIMIT:
        return _as_it_stood(because(finding, recorded))
    return _as_it_stood(_replaced(finding, TIME_LIMIT, "high", recorded))


def _ended_by_warning(finding: Finding, job: JobRecord, left: int) -> Finding:
    """The signal that `--signal=USR1@120` asks for ended what did not handle it."""
    came = reason(
        "warning-ended-it",
        program=next(iter(job.running_children), None),
        left=max(0, left),
        signal=job.warned_by,
        before=job.warned_before,
    )
    return _as_it_stood(_replaced(finding, TIME_LIMIT, "medium", came))


def left_by_warning(job: JobRecord, reports: Sequence[ExitReport] = ()) -> int | None:
    """Seconds left of the time limit where the job ended by the signal for which it asks before it; None where it did not."""
    if job.time_limit is None or job.elapsed is None or job.warned_before is None:
        return None
    exits = [job.exit, job.derived, *(s.exit for s in job.work_steps), *(report.exit for report in reports)]
    came = job.running_children or any(e is not None and e.signal == job.warned_by for e in exits)
    left = job.time_limit - job.elapsed
    return left if came and left <= job.warned_before + _EARLY else None
