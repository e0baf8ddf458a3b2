"""The time limit: a job that ran out of time, that had hung, that had finished, or that did not hear the warning. Pure."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import ProcessExit
from slurmdoctor.slurm.record import JobInfo, Step
from slurmdoctor.slurm.weights import BARE, only_noise, put, span
from slurmdoctor.timeline.order import Timeline

SHORTEST_HANG = 120.0
"""Seconds without a step that are never called a hang, however fast the steps were."""


def out_of_time(finding: Finding, story: Timeline, job: JobInfo, state: str, step: Step | None) -> None:
    """A job that ran out of time, that had hung, that had finished: three verdicts."""
    root = finding.root
    strong = (
        finding.verdict == "failed"
        and root is not None
        and root.main.role in ("root", "confirmation", "either")
        and finding.cause not in ("time-limit", "hang", *BARE)
    )
    said = f"Slurm calls {f'step {step.id}' if step else 'the job'} {state}"
    if strong:
        finding.reasons.append(
            f"{said}: it only idled into its limit after the failure, and a longer one would not have helped"
        )
        return
    kind, words = last_sign(story, job)
    if finding.cause != "time-limit" or finding.verdict != "failed":
        put(finding, "time-limit", said, False, "high", job, step)
    else:
        finding.reasons.append(said)
    if kind == "hung":
        finding.cause, finding.confidence, finding.rule = "hang", "medium", None
        words += "; a longer limit would not have helped"
    if words:  # better told than the log alone could
        finding.reasons[:] = [*(r for r in finding.reasons if r[:24] != words[:24]), words]


def last_sign(story: Timeline, job: JobInfo) -> tuple[str | None, str]:
    """`progressing`, `hung`, `finished` or None (not known), and the words that say so."""
    end = end_of(job)
    done, last = story.finished, story.last_progress
    if done is not None and (last is None or done.order > last.order):
        when = done.line.origin.time
        idle = (
            f", {span(end - when)} before the end"
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
        every = span(median(pauses)) if pauses else "while"
        return (
            "hung",
            f"no step for the last {span(gap)}{step}, where steps had come every {every}",
        )
    return (
        "progressing",
        f"the last step{step} came {span(max(0.0, gap))} before the end: it made progress, and only ran out of time",
    )


def end_of(job: JobInfo) -> float | None:
    if job.start is not None and job.elapsed is not None:
        return job.start + job.elapsed  # EndTime is a forecast while the job runs
    return job.end


def warning_killed(job: JobInfo, finding: Finding) -> bool:
    """Whether the signal that `--signal=USR1@120` asks for ended what did not handle it."""
    bare = finding.verdict != "failed" or only_noise(finding) or finding.cause in BARE
    return bare and by_warning(job, finding.exit)


def by_warning(job: JobInfo, death: ProcessExit | None = None) -> bool:
    left = job.time_limit - job.elapsed if job.time_limit is not None and job.elapsed is not None else None
    # Slurm sends the signal up to a minute early
    if left is None or job.warned_before is None or left > job.warned_before + 90:
        return False
    if job.exit_status is not None and job.running_children:
        return True
    deaths = (job.exit, job.derived, death, *(s.exit for s in job.work_steps))
    return any(d is not None and d.signal == job.warned_by for d in deaths)


def warned(finding: Finding, story: Timeline, job: JobInfo) -> None:
    assert job.time_limit is not None
    assert job.elapsed is not None
    left = span(max(0, job.time_limit - job.elapsed))
    children = job.running_children
    if children:
        said = (
            f"the script was ended by a signal while its {children[0]} was still running, {left} before its time limit"
        )
        said += f": --signal asks for {job.warned_by} {job.warned_before} s before it"
    else:
        said = f"{job.warned_by} came {left} before the time limit, as --signal asks, and nothing handled it"
    put(finding, "time-limit", said, False, "medium", job, None)
    kind, words = last_sign(story, job)
    if kind == "hung":
        finding.cause = "hang"
    if words:
        finding.reasons.append(words)
