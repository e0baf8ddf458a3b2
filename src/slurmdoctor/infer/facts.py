"""Facts of the job by name: what the log, Slurm's record and the script tell beside the failure, for fixes and JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.infer.after_training import after_training_facts
from slurmdoctor.infer.checkpoints import checkpoint_facts, restart_facts
from slurmdoctor.infer.members import world_size
from slurmdoctor.infer.memory import memory_facts
from slurmdoctor.infer.slurm_evidence import state_of
from slurmdoctor.infer.stood import stood
from slurmdoctor.infer.time_limit import warning_came
from slurmdoctor.model import (
    GPU_MEMORY,
    HANG,
    Finding,
    JobRecord,
    Knowledge,
    Observations,
    RunState,
    ScriptEvidence,
    Timeline,
)

_JOB_IN_NAME = r"(?:^|/)(?:slurm-(\d+(?:_\d+)?)\.(?:out|err|log)|(\d+)(?:_\d+){1,2}_log\.(?:out|err))(?:\.\w+)?$"
"""Slurm's default file name, also an array task's; submitit's `JOB_TASK_log.out`."""
_SAMPLED = 4
"""Slurm samples memory: a peak below the n-th part of what was asked for missed how the process grew."""
_MARGIN = 1.1
"""Share of the needed time that a new limit should have."""


def collect_facts(
    finding: Finding,
    timeline: Timeline,
    observed: Observations,
    knowledge: Knowledge,
    state: RunState,
    script: ScriptEvidence | None,
) -> dict[str, Any]:
    """All facts of the job by name."""
    facts = _of_the_log(timeline, observed, world_size(observed, finding.record))
    if finding.earlier:
        facts["earlier"] = [{"cause": one.cause, "rank": one.rank} for one in finding.earlier]
    by_slurm = {finding.cause, finding.root and finding.root.cause} & knowledge.traits["ends-stalled"]
    if by_slurm or (finding.cause == HANG and state.kind is not None):
        facts |= stood(finding, timeline, state)
    facts |= after_training_facts(finding, timeline)
    facts |= _busy(finding) | memory_facts(finding.origin.rank, observed.memory, facts)
    if finding.record is not None:
        facts |= _of_the_record(finding.record, timeline, state)
    if script is not None:
        facts |= {name: value for name, value in script.facts.items() if facts.get(name) is None}
    return facts | _warning(facts, finding.record)


def _warning(facts: Mapping[str, Any], record: JobRecord | None) -> dict[str, Any]:
    """The warning that Slurm sends before the limit, by the script or by Slurm's record where the log does not show it."""
    spec, seconds = facts.get("signal_to"), facts.get("signal_seconds")
    if spec is None:
        spec, seconds = facts.get("signal_spec"), facts.get("signal_window")
    if spec is None and record is not None:
        spec, seconds = record.warned_by, record.warned_before
    if not spec or not seconds:
        return {}
    given = facts.get("signal_given") or f"--signal={spec}@{seconds}"
    return {"signal_window": seconds, "signal_spec": str(spec).replace("SIG", ""), "signal_given": given}


# ── what the log tells ───────────────────────────────────────────────────────────────────────


def _of_the_log(timeline: Timeline, observed: Observations, world: int | None) -> dict[str, Any]:
    """The first line that tells a fact counts: what is printed later may be a child's or a default."""
    facts: dict[str, Any] = {}
    for mark in observed.signals:
        if mark.signal.kind != "fact":
            continue
        name = mark.signal.id.partition("/")[0]
        if name == GPU_MEMORY:
            continue
        if mark.signal.value is not None:
            facts.setdefault(name, mark.signal.value)
        for key, value in mark.captures.items():
            facts.setdefault(name if key == "value" else key, _plain(value))
    rank_map = observed.rank_map
    facts["world_size"] = world
    if not isinstance(facts.get("nodes"), int):
        # where some ranks' nodes are not known, there may be more
        nodes = set(rank_map.node_of.values()) if world is None or len(rank_map.node_of) >= world else ()
        facts["nodes"] = len(nodes) or None
    facts["launcher"] = observed.started_by
    facts.setdefault("framework", None)
    if "job_id" not in facts and (job_id := _job_id([file.name for file in observed.files])):
        facts["job_id"] = _plain(job_id)
    facts["attempts"] = timeline.attempts
    facts["last_step"] = next((p.step for p in reversed(timeline.progress) if p.step is not None), None)
    return facts | restart_facts(timeline, observed) | checkpoint_facts(timeline, observed)


def _job_id(names: Sequence[str]) -> str | None:
    """The job whose name the files bear, where they agree on one."""
    found = {m[1] or m[2] for name in names if (m := re.search(_JOB_IN_NAME, name))}
    return found.pop() if len(found) == 1 else None


def _busy(finding: Finding) -> dict[str, Any]:
    """What a process was busy with while the others waited, or that all was done."""
    for told in finding.reasons:
        if told.code in ("busy-meanwhile", "busy-until-ended"):
            v = told.values
            return {"busy": v["kind"], "busy_with": v["text"], "busy_limit_min": round(v["limit"] / 60)}
        if told.code == "completed-before":
            return {"busy": "finished", "busy_with": told.values["text"]}
    return {}


def _plain(value: str) -> Any:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value


# ── what Slurm's record tells ────────────────────────────────────────────────────────────────


def _of_the_record(job: JobRecord, timeline: Timeline, state: RunState) -> dict[str, Any]:
    """Sizes, limits, and how the job stood when it ended."""
    by_warning = warning_came(job)
    ended_by_slurm = job.state in ("TIMEOUT", "DEADLINE") or bool(job.running_children) or by_warning
    found: dict[str, Any] = {
        "job_id": job.id,
        "state": job.state,
        "nodes": job.num_nodes or len(job.nodes) or None,
        "num_tasks": job.num_tasks,
        "tasks_per_node": job.tasks_per_node,
        "time_limit_min": round(job.time_limit / 60) if job.time_limit else None,
        "elapsed_min": round(job.elapsed / 60, 1) if job.elapsed is not None else None,
        "needed_min": _needed_minutes(job, timeline, state),
        "ended": state.kind if ended_by_slurm else None,
        "idle_min": round(state.idle / 60) if state.kind == "hung" and state.idle is not None else None,
        "req_mem_gib": round(job.req_mem / 2**30, 1) if job.req_mem else None,
        "max_rss_gib": _measured_memory(job),
        "restarts": job.restarts or None,
        "script": job.command.split()[0].rpartition("/")[2] if job.command else None,
        "signalled": True if by_warning else None,
        "script_ended": 0 if state_of(job) == "COMPLETED" else None,
        **_canceller(job),
    }
    return {name: value for name, value in found.items() if value is not None}


def _canceller(job: JobRecord) -> dict[str, Any]:
    """Whose uid Slurm recorded with the cancellation of the job, or of a step, and whether it is the owner's."""
    steps = (step.cancelled_by for step in job.work_steps)
    by = next((uid for uid in (job.cancelled_by, *steps) if uid is not None), None)
    return {"cancelled_by": by, "by_owner": True if by is not None and by == job.uid else None}


def _needed_minutes(job: JobRecord, timeline: Timeline, state: RunState) -> int | None:
    """The time that all steps would take at their pace so far, where that is more than the limit."""
    last = timeline.last_progress
    if state.kind != "progressing" or last is None or not last.step or not last.steps:
        return None
    if last.time is None or job.start is None:
        return None
    needed = round((last.time - job.start) * last.steps / last.step / 60 * _MARGIN)
    return needed if needed and job.time_limit and needed * 60 > job.time_limit else None


def _measured_memory(job: JobRecord) -> float | None:
    """MaxRSS in GiB, where it tells of the end."""
    if not job.max_rss or (job.req_mem and job.max_rss < job.req_mem / _SAMPLED):
        return None
    return round(job.max_rss / 2**30, 1) or None
