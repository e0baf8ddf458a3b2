"""Joins what Slurm knows of a job with what its log says: one verdict from all witnesses. Pure.

Slurm's word is weighed, not obeyed. A log that names a root keeps it; Slurm's states replace what is only a victim's
cry or a bare exit code; and where the two do not agree, the reasons say so. `weigh` works on the Finding, `attest` on
the Diagnosis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median
from typing import Any

from slurmdoctor.exits import Death, from_code
from slurmdoctor.finding import Finding, Incident
from slurmdoctor.model import Confidence, Diagnosis, Evidence, FirstFailure, Origin, Retry, Role
from slurmdoctor.slurm.jobinfo import FAILED, RUNNING, WAITING, JobInfo, Quote, Step
from slurmdoctor.timeline import Timeline

_CAUSE_OF_STATE: Mapping[str, str] = {
    "OUT_OF_MEMORY": "host-oom",
    "TIMEOUT": "time-limit",
    "DEADLINE": "time-limit",
    "NODE_FAIL": "node-failure",
    "BOOT_FAIL": "node-failure",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
}
_BARE = frozenset({"exit-code", "killed", "sigterm", "abort", "cancelled"})
"""What an ending alone establishes: Slurm knows better who ended it."""
_OF_MEMORY = frozenset({*_BARE, "data-worker", "bus-error", "segfault"})
"""What a process may look like that the kernel killed for memory."""
_LINKS = frozenset(
    {
        "collective-timeout",
        "nccl-transport",
        "nccl-id-timeout",
        "peer-lost",
        "rendezvous-timeout",
        "gloo-connect",
        "host-unreachable",
    }
)
"""What the others see when a process or a node goes."""
_BLAMES_NODE = frozenset(
    {"node-failure", "gpu-fault", *_LINKS, "nccl-init", "hang", "storage-io", "exit-code", "killed"}
)
"""Causes for which a node that Slurm calls bad is a witness, and not a coincidence."""

_ENDINGS = frozenset({"exit-code", "killed", "sigterm", "segfault", "bus-error", "abort", "command-not-found"})
"""Causes that are the exit itself."""

_OF_THE_LOG_ALONE = re.compile(
    r"^(?:steps to the end|the program says|first error|first in the file)|follows? from it$"
)
"""Reasons for a root that Slurm's word has replaced."""
SHORTEST_HANG = 120.0
"""Seconds without a step that are never called a hang, however fast the steps were."""


def exit_status(job: JobInfo) -> int | None:
    """The script's own status, where Slurm says that it failed: then an error that others survived counts after all."""
    if job.state != "FAILED":
        return None
    return (job.exit.code if job.exit is not None else None) or 1


def weigh(finding: Finding, story: Timeline, job: JobInfo) -> None:
    """Let Slurm's record confirm, replace or contradict what the log alone led to."""
    state = _state(job)
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


def _state(job: JobInfo) -> str | None:
    """The job's state; in a footer the script's own end, which Slurm has not booked yet."""
    if job.exit_status is None or job.state not in (None, "RUNNING", "COMPLETING"):
        return job.state
    if job.state == "COMPLETING":  # Slurm is ending it: its log has the line that says why
        return "TIMEOUT" if job.reason == "TimeLimit" else None
    return "COMPLETED" if job.exit_status == 0 and not job.running_children else "FAILED"


# ── it ended well, says Slurm ────────────────────────────────────────────────────────────────


def _completed(finding: Finding, story: Timeline, job: JobInfo) -> None:
    last = job.work_steps[-1] if job.work_steps else None
    if last is not None and last.failed and last.state is not None and last.state in _CAUSE_OF_STATE:
        # the script went on after the step's end: its 0 says nothing of the step
        finding.reasons.append(f"Slurm calls the job COMPLETED, but its last step {last.id} {last.state}")
        _state_speaks(finding, story, job, last.state, last)
        return
    step_failed = last.failed if last else job.derived is not None and job.derived.exit_class != "ok"
    if finding.verdict == "failed":
        if not step_failed and not job.running_children and _only_noise(finding):
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


def _only_noise(finding: Finding) -> bool:
    return (
        finding.root is None
        or finding.root.main.role in ("cascade", "either", "hint")
        or finding.cause in ("exit-code", "sigterm")
    )


def _acquit(finding: Finding, reason: str) -> None:
    finding.verdict, finding.root, finding.cause = "no-failure", None, None
    finding.reasons[:] = [reason]


# ── it failed, says Slurm ────────────────────────────────────────────────────────────────────


def _failed(finding: Finding, story: Timeline, job: JobInfo, state: str) -> None:
    if job.preempted_at is not None and state in ("CANCELLED", "FAILED", "TIMEOUT"):
        state = "PREEMPTED"
    worst = next((s for s in job.work_steps if s.state == "OUT_OF_MEMORY"), None)
    memory = worst is not None or (job.derived is not None and job.derived.exit_class == "oom-killed")
    if state in ("FAILED", "CANCELLED") and memory:
        state = "OUT_OF_MEMORY"
    if state in _CAUSE_OF_STATE:
        _state_speaks(finding, story, job, state, worst)
        return
    if _warning_killed(job, finding):
        _warned(finding, story, job)
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
    cause = _CAUSE_OF_STATE[state]
    if cause == "time-limit":
        _out_of_time(finding, story, job, state, step)
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
            and finding.cause in (_OF_MEMORY if cause == "host-oom" else ())
            and root.main.role != "cascade"
        )
        _put(finding, cause, said, keep, "high" if cause != "host-oom" or keep else "medium", job, step)
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
        return finding.cause in _OF_MEMORY or finding.cause in _LINKS
    if cause == "node-failure":
        return finding.cause in _BARE or finding.cause in _LINKS
    if cause == "preempted":
        return finding.cause in _BARE or finding.cause in ("time-limit",)
    return finding.cause in _BARE


def _by_whom(uid: int | None, job: JobInfo) -> str:
    if uid is None:
        return ""
    if uid == job.uid:
        return f", by the job's own user (uid {uid})"
    return ", by root: an administrator, or a program of the site" if uid == 0 else f", by another user (uid {uid})"


def _put(
    finding: Finding, cause: str, reason: str, keep: bool, confidence: Confidence, job: JobInfo, step: Step | None
) -> None:
    """Slurm's word becomes the cause; a rank that is known to have died of it stays."""
    if not keep:
        if finding.root is not None:
            finding.cascade = (finding.root, *finding.cascade)
        finding.root, finding.suspicion, finding.alike = None, None, ()
        nodes = step.nodes if step and step.nodes else job.nodes
        if cause == "node-failure":
            bad = tuple(job.bad_nodes)
            finding.origin = Origin(node=bad[0] if len(bad) == 1 else None)
        else:
            finding.origin = Origin(node=nodes[0] if len(nodes) == 1 and cause == "host-oom" else None)
        finding.how = "Slurm's record says so; the log does not name the process"
        finding.death, finding.death_how = None, None
    finding.verdict, finding.cause, finding.rule, finding.confidence = "failed", cause, None, confidence
    finding.cascade = tuple(i for i in finding.cascade if i.cause != cause)
    finding.reasons[:] = [
        reason,
        *(r for r in finding.reasons if keep or not _OF_THE_LOG_ALONE.search(r)),
    ]


# ── the time limit ───────────────────────────────────────────────────────────────────────────


def _out_of_time(finding: Finding, story: Timeline, job: JobInfo, state: str, step: Step | None) -> None:
    """A job that ran out of time, that had hung, that had finished: three verdicts."""
    root = finding.root
    strong = (
        finding.verdict == "failed"
        and root is not None
        and root.main.role in ("root", "confirmation", "either")
        and finding.cause not in ("time-limit", "hang", *_BARE)
    )
    said = f"Slurm calls {f'step {step.id}' if step else 'the job'} {state}"
    if strong:
        finding.reasons.append(
            f"{said}: it only idled into its limit after the failure, and a longer one would not have helped"
        )
        return
    kind, words = last_sign(story, job)
    if finding.cause != "time-limit" or finding.verdict != "failed":
        _put(finding, "time-limit", said, False, "high", job, step)
    else:
        finding.reasons.append(said)
    if kind == "hung":
        finding.cause, finding.confidence, finding.rule = "hang", "medium", None
        words += "; a longer limit would not have helped"
    if words:  # better told than the log alone could
        finding.reasons[:] = [*(r for r in finding.reasons if r[:24] != words[:24]), words]


def last_sign(story: Timeline, job: JobInfo) -> tuple[str | None, str]:
    """`progressing`, `hung`, `finished` or None (not known), and the words that say so."""
    end = _end(job)
    done, last = story.finished, story.last_progress
    if done is not None and (last is None or done.order > last.order):
        when = done.line.origin.time
        idle = (
            f", {_span(end - when)} before the end"
            if when is not None and end is not None and 0 <= end - when < 30 * 86400
            else ""
        )
        return (
            "finished",
            f"the program had finished{idle}; what ran on was the script itself, or a process in its background",
        )
    if last is None:
        return None, ""
    if last.step is not None and last.step == last.steps:
        return (
            "finished",
            f"the last of {last.steps} steps was made; what ran on was the script, or a process in its background",
        )
    times = sorted({p.time for p in story.progress if p.time is not None})
    if last.time is None or end is None or not times:
        return None, ""
    gap = end - times[-1]
    if gap < -60 or (job.start is not None and times[-1] < job.start - 60):
        return None, ""  # another clock, or another job's lines
    pauses = [b - a for a, b in pairwise(times)]
    usual = (
        max(SHORTEST_HANG, 3 * max(pauses), 10 * median(pauses)) if pauses else max(900.0, 0.25 * (job.elapsed or 0))
    )
    step = f" (step {last.step})" if last.step is not None else ""
    if gap > usual:
        every = _span(median(pauses)) if pauses else "while"
        return (
            "hung",
            f"no step for the last {_span(gap)}{step}, where steps had come every {every}",
        )
    return (
        "progressing",
        f"the last step{step} came {_span(max(0.0, gap))} before the end: it made progress, and only ran out of time",
    )


def _end(job: JobInfo) -> float | None:
    if job.start is not None and job.elapsed is not None:
        return job.start + job.elapsed  # EndTime is a forecast while the job runs
    return job.end


def _warning_killed(job: JobInfo, finding: Finding) -> bool:
    """Whether the signal that `--signal=USR1@120` asks for ended what did not handle it."""
    bare = finding.verdict != "failed" or _only_noise(finding) or finding.cause in _BARE
    return bare and _by_warning(job, finding.death)


def _by_warning(job: JobInfo, death: Death | None = None) -> bool:
    left = job.time_limit - job.elapsed if job.time_limit is not None and job.elapsed is not None else None
    # Slurm sends the signal up to a minute early
    if left is None or job.warned_before is None or left > job.warned_before + 90:
        return False
    if job.exit_status is not None and job.running_children:
        return True
    deaths = (job.exit, job.derived, death, *(s.exit for s in job.work_steps))
    return any(d is not None and d.signal == job.warned_by for d in deaths)


def _warned(finding: Finding, story: Timeline, job: JobInfo) -> None:
    assert job.time_limit is not None
    assert job.elapsed is not None
    left = _span(max(0, job.time_limit - job.elapsed))
    children = job.running_children
    if children:
        said = (
            f"the script was ended by a signal while its {children[0]} was still running, {left} before its time limit"
        )
        said += f": --signal asks for {job.warned_by} {job.warned_before} s before it"
    else:
        said = f"{job.warned_by} came {left} before the time limit, as --signal asks, and nothing handled it"
    _put(finding, "time-limit", said, False, "medium", job, None)
    kind, words = last_sign(story, job)
    if kind == "hung":
        finding.cause = "hang"
    if words:
        finding.reasons.append(words)


def _signalled(finding: Finding, job: JobInfo) -> None:
    """The script ended while srun still ran: somebody signalled it."""
    said = f"the script was ended by a signal: its {job.running_children[0]} was still running"
    bare = finding.verdict != "failed" or _only_noise(finding) or finding.cause in _BARE
    if not bare or finding.cause == "cancelled":
        finding.reasons.append(said)
        return
    _put(finding, "sigterm", f"{said}; who sent it is not known", False, "low", job, None)


# ── how it ended ─────────────────────────────────────────────────────────────────────────────


def _worst_death(job: JobInfo) -> Death | None:
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
    own = finding.death
    if own is None:
        _take_ending(finding, job, steps, booked)
    elif own.code is not None and booked is not None and booked.signal == "SIGTERM" and own.signal is None and own.code:
        finding.reasons.append(
            f"Slurm's {_shown(booked)} hides the first exit, {own.code}: it is the highest of all tasks"
        )


def _take_ending(finding: Finding, job: JobInfo, steps: Sequence[Step], booked: Death | None) -> None:
    if booked is None:
        return
    who = f"sacct on step {steps[-1].id}" if steps else "Slurm on the job"
    if not steps and job.exit_status is not None and not job.ended:
        who = "the script's own status"
    if finding.cause in ("time-limit", "cancelled", "preempted", "node-failure", "hang"):
        return
    if finding.cause == "host-oom":
        finding.death, finding.death_how = Death(None, "SIGKILL", "oom-killed"), who
    elif finding.root is None or finding.cause in _ENDINGS or (finding.root.main.traceback and booked.code == 1):
        finding.death, finding.death_how = booked, who


def _shown(death: Death | None) -> str:
    if death is None:
        return "exit not told"
    return (
        f"exit {death.code}" if death.signal is None else f"{death.signal}" + (f", {death.code}" if death.code else "")
    )


# ── the Diagnosis ────────────────────────────────────────────────────────────────────────────


def facts(job: JobInfo, story: Timeline) -> dict[str, Any]:
    """What fixes may use: sizes, limits, and how the job stood when it ended."""
    kind, _ = last_sign(story, job)
    last = story.last_progress
    end = _end(job)
    needed = None
    if kind == "progressing" and last and last.step and last.steps and last.time is not None and job.start is not None:
        needed = round((last.time - job.start) * last.steps / last.step / 60 * 1.1)
    found: dict[str, Any] = {
        "job_id": job.id,
        "state": job.state,
        "nodes": job.num_nodes or len(job.nodes) or None,
        "num_tasks": job.num_tasks,
        "tasks_per_node": job.tasks_per_node,
        "time_limit_min": round(job.time_limit / 60) if job.time_limit else None,
        "elapsed_min": round(job.elapsed / 60, 1) if job.elapsed is not None else None,
        "needed_min": needed if needed and job.time_limit and needed * 60 > job.time_limit else None,
        "ended": kind if (job.state in ("TIMEOUT", "DEADLINE") or job.running_children or _by_warning(job)) else None,
        "idle_min": round((end - last.time) / 60)
        if kind == "hung" and last and last.time is not None and end
        else None,
        "req_mem_gib": round(job.req_mem / 2**30, 1) if job.req_mem else None,
        "max_rss_gib": _measured(job),
        "restarts": job.restarts or None,
        "script": job.command.split()[0].rpartition("/")[2] if job.command else None,
        "signalled": True if _by_warning(job) else None,
        "script_ended": 0 if _state(job) == "COMPLETED" else None,
        "cancelled_by": job.cancelled_by,
    }
    return {key: value for key, value in found.items() if value is not None}


def _measured(job: JobInfo) -> float | None:
    """MaxRSS, where it tells of the end: a process that grew between two samples left a small one."""
    if not job.max_rss or (job.req_mem and job.max_rss < job.req_mem / 4):
        return None
    return round(job.max_rss / 2**30, 1) or None


def attest(diagnosis: Diagnosis, job: JobInfo) -> Diagnosis:
    """Add Slurm's own lines to the evidence, and the nodes that Slurm itself calls bad to the advice."""
    missing = [word for word in diagnosis.coverage.missing if word not in ("sacct", "scontrol")]
    untold = [
        who
        for who in ("sacct", "scontrol")
        if who not in job.told_by and not any(m.startswith(who) for m in job.missing)
    ]
    coverage = replace(diagnosis.coverage, missing=tuple(dict.fromkeys([*missing, *job.missing, *untold])))
    if job.siblings:
        listed = ", ".join(job.siblings[:8]) + (f" and {len(job.siblings) - 8} more" if len(job.siblings) > 8 else "")
        coverage = replace(coverage, notes=(*coverage.notes, f"also failed: {listed}"))
    diagnosis = replace(diagnosis, coverage=coverage)
    if diagnosis.verdict != "failed" or diagnosis.cause is None:
        return diagnosis
    quote = _quote(job)
    bare = (
        job.state not in _CAUSE_OF_STATE
        and diagnosis.first_failure is not None
        and diagnosis.first_failure.file is not None
    )
    if quote is not None and not bare:
        proof = Evidence(
            quote.source,
            quote.line,
            quote.text,
            None,
            None,
            None,
            f"{diagnosis.cause.id}/slurm",
            diagnosis.cause.id,
            "confirmation",
        )
        first = diagnosis.first_failure or FirstFailure()
        if first.file is None:
            node = first.node
            diagnosis = replace(
                diagnosis,
                first_failure=replace(first, file=quote.source, line=quote.line, text=quote.text, node=node),
                evidence=(proof, *diagnosis.evidence),
            )
        else:
            diagnosis = replace(diagnosis, evidence=(*diagnosis.evidence, proof))
    return _exclude(diagnosis, job)


def _quote(job: JobInfo) -> Quote | None:
    """The line of Slurm's record that says how the job, or its step, ended."""
    if job.state in RUNNING | WAITING:
        return None
    if job.preempted_at is not None and job.state in FAILED and "preempt" in job.quotes:
        return job.quotes["preempt"]
    worst = next((s for s in reversed(job.work_steps) if s.failed), None)
    if worst is not None and worst.quote is not None and job.state in ("COMPLETED", "FAILED", None):
        return worst.quote
    return job.quotes.get("state")


def _exclude(diagnosis: Diagnosis, job: JobInfo) -> Diagnosis:
    """Nodes leave the next run only where the evidence is against them."""
    if not job.bad_nodes or diagnosis.cause is None or diagnosis.cause.id not in _BLAMES_NODE:
        return diagnosis
    names = tuple(dict.fromkeys([*(diagnosis.retry.exclude_nodes if diagnosis.retry else ()), *job.bad_nodes]))
    node, words = next(iter(job.bad_nodes.items()))
    why = f"Slurm calls {node} {words}" + (f", and {len(job.bad_nodes) - 1} more" if len(job.bad_nodes) > 1 else "")
    return replace(diagnosis, retry=Retry("elsewhere", why, names))


def _span(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


__all__ = ["Incident", "Role", "attest", "facts", "last_sign", "weigh"]
