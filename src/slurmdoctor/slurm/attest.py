"""What Slurm's record adds to a diagnosis: facts for the fixes, its own lines as evidence, the nodes to leave out. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slurmdoctor.model import Diagnosis, Evidence, FirstFailure, Retry
from slurmdoctor.slurm.limit import by_warning, end_of, last_sign
from slurmdoctor.slurm.record import FAILED, RUNNING, WAITING, JobInfo, Quote
from slurmdoctor.slurm.weights import CAUSE_OF_STATE, LINKS, state_of
from slurmdoctor.timeline.order import Timeline

_BLAMES_NODE = frozenset(
    {"node-failure", "gpu-fault", *LINKS, "nccl-init", "hang", "storage-io", "exit-code", "killed"}
)
"""Causes for which a node that Slurm calls bad is a witness, and not a coincidence."""


def facts(job: JobInfo, story: Timeline) -> dict[str, Any]:
    """What fixes may use: sizes, limits, and how the job stood when it ended."""
    kind, _ = last_sign(story, job)
    last = story.last_progress
    end = end_of(job)
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
        "ended": kind if (job.state in ("TIMEOUT", "DEADLINE") or job.running_children or by_warning(job)) else None,
        "idle_min": round((end - last.time) / 60)
        if kind == "hung" and last and last.time is not None and end
        else None,
        "req_mem_gib": round(job.req_mem / 2**30, 1) if job.req_mem else None,
        "max_rss_gib": _measured(job),
        "restarts": job.restarts or None,
        "script": job.command.split()[0].rpartition("/")[2] if job.command else None,
        "signalled": True if by_warning(job) else None,
        "script_ended": 0 if state_of(job) == "COMPLETED" else None,
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
        if who not in job.sources and not any(m.startswith(who) for m in job.missing)
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
        job.state not in CAUSE_OF_STATE
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
