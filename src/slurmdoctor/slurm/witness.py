"""Joins what Slurm knows of a job with what its log says: one verdict from all witnesses. Pure.

Slurm's word is weighed, not obeyed. A log that names a root keeps it; Slurm's states replace what is only a victim's
cry or a bare exit code; and where the two do not agree, the reasons say so. `weigh` works on the Finding, `attest` on
the Diagnosis.
"""

from __future__ import annotations

from collections.abc import Sequence

from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import ProcessExit
from slurmdoctor.model.exits import from_code
from slurmdoctor.slurm.limit import out_of_time, warned, warning_killed
from slurmdoctor.slurm.record import FAILED, RUNNING, WAITING, JobInfo, Step
from slurmdoctor.slurm.weights import BARE, CAUSE_OF_STATE, LINKS, OF_MEMORY, only_noise, put, state_of
from slurmdoctor.timeline.order import Timeline

_ENDINGS = frozenset({"exit-code", "killed", "sigterm", "segfault", "bus-error", "abort", "command-not-found"})
"""Causes that are the exit itself."""


def exit_status(job: JobInfo) -> int | None:
    """The script's own status, where Slurm says that it failed: then an error that others survived counts after all."""
    if job.state != "FAILED":
        return None
    return (job.exit.code if job.exit is not None else None) or 1


def weigh(finding: Finding, story: Timeline, job: JobInfo) -> None:
    """Let Slurm's record confirm, replace or contradict what the log alone led to."""
    state = state_of(job)
    if state in WAITING and not job.ended:
        finding.reasons.append(f"the job has not started: Slurm's reason is {job.reason or 'not told'}")
    elif state in RUNNING:
        finding.reasons.append("the job is still running: this is what is known so far")
    elif state == "COMPLETED":
        _completed(finding, story, job)
    elif state in FAILED:
        _failed(finding, story, job, state)
    if finding.verdict == "failed":
        _name_ending(finding, job)


def _completed(finding: Finding, story: Timeline, job: JobInfo) -> None:
    last = job.work_steps[-1] if job.work_steps else None
    if last is not None and last.failed and last.state is not None and last.state in CAUSE_OF_STATE:
        # the script went on after the step's end: its 0 says nothing of the step
        finding.reasons.append(f"Slurm calls the job COMPLETED, but its last step {last.id} {last.state}")
        _state_speaks(finding, story, job, last.state, last)
        return
    step_failed = last.failed if last else job.derived is not None and job.derived.exit_class != "ok"
    if finding.verdict == "failed":
        if not step_failed and not job.running_children and only_noise(finding):
            _acquit(finding, f"{_well(job)}, no step failed, and the log names no root")
        else:
            finding.reasons.append(f"{_well(job)}{_hidden(last, job)}: the script's own exit status hides it")
    elif step_failed and story.finished is None:
        finding.verdict, finding.cause, finding.confidence = "failed", "exit-code", "low"
        finding.reasons.append(f"{_well(job)}{_hidden(last, job)}, and the log does not say why")
    elif finding.verdict == "unknown":
        _acquit(finding, f"{_well(job)}, and no step failed")


def _well(job: JobInfo) -> str:
    return (
        "the script ended with 0"
        if job.exit_status == 0 and job.state != "COMPLETED"
        else "Slurm calls the job COMPLETED"
    )


def _hidden(last: Step | None, job: JobInfo) -> str:
    if last is not None and last.failed:
        return f", but step {last.id} {last.state} ({_shown(last.exit)})"
    if job.derived is not None and job.derived.exit_class != "ok":
        return f", but a step ended with {_shown(job.derived)}"
    return ""


def _acquit(finding: Finding, reason: str) -> None:
    finding.verdict, finding.root, finding.cause = "no-failure", None, None
    finding.reasons[:] = [reason]


def _failed(finding: Finding, story: Timeline, job: JobInfo, state: str) -> None:
    if job.preempted_at is not None and state in ("CANCELLED", "FAILED", "TIMEOUT"):
        state = "PREEMPTED"
    worst = next((s for s in job.work_steps if s.state == "OUT_OF_MEMORY"), None)
    memory = worst is not None or (job.derived is not None and job.derived.exit_class == "oom-killed")
    if state in ("FAILED", "CANCELLED") and memory:
        state = "OUT_OF_MEMORY"
    if state in CAUSE_OF_STATE:
        _state_speaks(finding, story, job, state, worst)
        return
    if warning_killed(job, finding):
        warned(finding, story, job)
        return
    if job.exit_status is not None and job.running_children:
        _signalled(finding, job)
        return
    stopped = next((s for s in reversed(job.work_steps) if s.cancelled_by is not None), None)
    if stopped is not None and (finding.verdict != "failed" or finding.root is None or _yields(finding, "cancelled")):
        _state_speaks(finding, story, job, "CANCELLED", stopped)
        return
    death = _worst_death(job)
    if finding.verdict != "failed" or finding.root is None:
        healthy = story.finished is not None or story.last_progress is not None
        finding.verdict, finding.root, finding.cascade = "failed", None, ()
        finding.cause = death.cause if death else "exit-code"
        finding.rule = None
        finding.confidence = "low" if finding.cause in ("exit-code", "killed", "sigterm") else "medium"
        said = (
            f"the script ended with {job.exit_status}"
            if job.state not in FAILED and job.exit_status
            else f"Slurm calls the job {state}"
        )
        finding.reasons[:] = [f"{said} ({_shown(job.exit if job.state in FAILED and job.exit else death)})"]
        if healthy:
            finding.reasons.append("the log shows no error: its end, or another log, is missing")


def _state_speaks(finding: Finding, story: Timeline, job: JobInfo, state: str, step: Step | None) -> None:
    cause = CAUSE_OF_STATE[state]
    if cause == "time-limit":
        out_of_time(finding, story, job, state, step)
        return
    who = f"step {step.id}" if step else "the job"
    said = f"Slurm calls {who} {state}"
    if cause == "cancelled":
        said += _by_whom(step.cancelled_by if step else job.cancelled_by, job)
    elif cause == "preempted" and job.state != state:
        said = f"Slurm preempted the job, and calls it {job.state}"
    root = finding.root
    if finding.verdict == "failed" and finding.cause == cause:
        finding.reasons.append(said)
        finding.confidence = "high"
        return
    if finding.verdict != "failed" or root is None or _yields(finding, cause):
        keep = (
            root is not None
            and finding.cause in (OF_MEMORY if cause == "host-oom" else ())
            and root.main.role != "cascade"
        )
        put(finding, cause, said, keep, "high" if cause != "host-oom" or keep else "medium", job, step)
        return
    if cause == "cancelled":
        finding.reasons.append(f"{said}, after the failure")
    else:
        finding.reasons.append(f"{said}, yet the log's own first failure is another: both are shown")


def _yields(finding: Finding, cause: str) -> bool:
    """Whether the log's root is only what Slurm's state looks like from inside."""
    root = finding.root
    assert root is not None
    if root.main.role in ("cascade", "hint"):
        return True
    if cause == "host-oom":
        return finding.cause in OF_MEMORY or finding.cause in LINKS
    if cause == "node-failure":
        return finding.cause in BARE or finding.cause in LINKS
    if cause == "preempted":
        return finding.cause in BARE or finding.cause in ("time-limit",)
    return finding.cause in BARE


def _by_whom(uid: int | None, job: JobInfo) -> str:
    if uid is None:
        return ""
    if uid == job.uid:
        return f", by the job's own user (uid {uid})"
    return ", by root: an administrator, or a program of the site" if uid == 0 else f", by another user (uid {uid})"


def _signalled(finding: Finding, job: JobInfo) -> None:
    """The script ended while srun still ran: somebody signalled it."""
    said = f"the script was ended by a signal: its {job.running_children[0]} was still running"
    bare = finding.verdict != "failed" or only_noise(finding) or finding.cause in BARE
    if not bare or finding.cause == "cancelled":
        finding.reasons.append(said)
        return
    put(finding, "sigterm", f"{said}; who sent it is not known", False, "low", job, None)


def _worst_death(job: JobInfo) -> ProcessExit | None:
    for step in reversed(job.work_steps):
        if step.failed and step.exit is not None and step.exit.exit_class != "ok":
            return step.exit
    if job.exit_status:
        return from_code(job.exit_status)
    for death in (job.exit, job.derived):
        if death is not None and death.exit_class != "ok":
            return death
    return None


def _name_ending(finding: Finding, job: JobInfo) -> None:
    """Fill in the exit where the log tells none, and say where Slurm's hides the first one."""
    steps = [s for s in job.work_steps if s.failed and s.exit is not None]
    booked = _worst_death(job)
    if finding.step_code is None and booked is not None and booked.code:
        finding.step_code = booked.code
    own = finding.exit
    if own is None:
        _take_ending(finding, job, steps, booked)
    elif own.code is not None and booked is not None and booked.signal == "SIGTERM" and own.signal is None and own.code:
        finding.reasons.append(
            f"Slurm's {_shown(booked)} hides the first exit, {own.code}: it is the highest of all tasks"
        )


def _take_ending(finding: Finding, job: JobInfo, steps: Sequence[Step], booked: ProcessExit | None) -> None:
    if booked is None:
        return
    who = f"sacct on step {steps[-1].id}" if steps else "Slurm on the job"
    if not steps and job.exit_status is not None and not job.ended:
        who = "the script's own status"
    if finding.cause in ("time-limit", "cancelled", "preempted", "node-failure", "hang"):
        return
    if finding.cause == "host-oom":
        finding.exit, finding.exit_how = ProcessExit(None, "SIGKILL", "oom-killed"), who
    elif finding.root is None or finding.cause in _ENDINGS or (finding.root.main.traceback and booked.code == 1):
        finding.exit, finding.exit_how = booked, who


def _shown(death: ProcessExit | None) -> str:
    if death is None:
        return "exit not told"
    return (
        f"exit {death.code}" if death.signal is None else f"{death.signal}" + (f", {death.code}" if death.code else "")
    )
