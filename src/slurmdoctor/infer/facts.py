"""Facts of the job by name: what the log, Slurm's record and the script tell beside the failure, for fixes and JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, because_first
from slurmdoctor.infer.exits import never_ended
from slurmdoctor.infer.silence import finished_before
from slurmdoctor.infer.slurm_record import left_by_warning, state_of
from slurmdoctor.infer.waiting_ranks import world_size
from slurmdoctor.model import (
    EXIT_CODE,
    HANG,
    LIMITS,
    Finding,
    JobRecord,
    MemoryReading,
    Observations,
    RunState,
    ScriptEvidence,
    SignalHit,
    Timeline,
    facts_of,
    format_time,
    number,
    plain,
    ranges,
    reason,
    span,
)

_JOB_IN_NAME = r"(?:^|/)(?:slurm-(\d+(?:_\d+)?)\.(?:out|err|log)|(\d+)(?:_\d+){1,2}_log\.(?:out|err))(?:\.\w+)?$"
"""Slurm's default file name, also an array task's; submitit's `JOB_TASK_log.out`."""
_SAMPLED = 4
"""Slurm samples memory: a peak below the n-th part of what was asked for missed how the process grew."""
_MARGIN = 1.1
"""Share of the needed time that a new limit should have."""
_EMERGENCY = "emergency_save"
"""The fact of a save that a signal brought about."""
_SHOWN = 60
"""Characters of a line that a fix quotes."""
_EQUAL = 0.9
"""The least share of the fullest GPU's memory that each of them uses where all were as full."""


def collect_facts(finding: Finding, case: Case, script: ScriptEvidence | None = None) -> Finding:
    """The finding with all facts of the job by name, and a note where a part of its GPUs was left out."""
    facts = _of_the_log(case, world_size(case.observed, finding.record))
    if finding.earlier:
        facts["earlier"] = [{"cause": one.cause, "rank": one.rank} for one in finding.earlier]
    by_slurm = {finding.cause, finding.root and finding.root.cause} & case.traits["ends-stalled"]
    if by_slurm or (finding.cause == HANG and finding.state.kind is not None):
        facts |= _how_it_ended(finding, case.timeline)
    if (done := _trained(finding, case)) is not None:
        facts |= {"trained": _words_of(done), **_known(spared=_each_nodes_first(case))}
    if finding.work is not None:
        facts |= {"busy": finding.work.kind, "busy_with": finding.work.text}
    if finding.timeout is not None:
        facts["busy_limit_min"] = round(finding.timeout / 60)
    facts |= _of_memory(finding.origin.rank, case.observed.memory, facts)
    if finding.record is not None:
        facts |= _of_the_record(finding.record, case.timeline, finding.state)
    if script is not None:
        facts |= {name: value for name, value in script.facts.items() if facts.get(name) is None}
    return _with_launch_note(replace(finding, facts=facts | _warning(facts, finding.record)), case.observed)


def _warning(facts: Mapping[str, Any], record: JobRecord | None) -> dict[str, Any]:
    """The warning that Slurm sends before the limit, by the script or by Slurm's record where the log does not show it."""
    spec, seconds = facts.get("signal_to"), facts.get("signal_seconds")
    if spec is None:
        spec, seconds = facts.get("signal_spec"), facts.get("signal_window")
    if spec is None and record is not None:
        spec, seconds = record.warned_by, record.warned_before
    if not seconds:
        return {}
    given = facts.get("signal_given") or f"--signal={spec}@{seconds}"
    return {"signal_window": seconds, "signal_spec": str(spec).replace("SIG", ""), "signal_given": given}


def _with_launch_note(finding: Finding, observed: Observations) -> Finding:
    """A note where the log's world size is a part of the GPUs that its batch script counted."""
    world, total = observed.numbers.get("world_size"), finding.facts.get("total_gpus")
    if not isinstance(total, int) or world is None or not 0 < world < total or total % world:
        return finding
    note = reason("launch-size", world=world, total=total, nodes=finding.facts["nodes"])
    return replace(finding, notes=(note,))


def _known(**facts: Any) -> dict[str, Any]:
    """The facts whose value is known."""
    return {name: value for name, value in facts.items() if value is not None}


# ── what the log tells ───────────────────────────────────────────────────────────────────────


def _of_the_log(case: Case, world: int | None) -> dict[str, Any]:
    facts = facts_of(case.observed.signals)
    node_of, steps = case.rank_map.node_of, case.timeline.progress
    facts["world_size"] = world
    if not isinstance(facts.get("nodes"), int):
        # where some ranks' nodes are not known, there may be more
        nodes = set(node_of.values()) if world is None or len(node_of) >= world else ()
        facts["nodes"] = len(nodes) or None
    facts["launcher"] = case.observed.started_by
    facts.setdefault("framework", None)
    if "job_id" not in facts and (job_id := _job_id([file.name for file in case.observed.files])):
        facts["job_id"] = plain(job_id)
    facts["attempts"] = case.timeline.attempts
    facts["last_step"] = next((p.step for p in reversed(steps) if p.step is not None), None)
    return facts | _of_restarts(case.timeline, case.observed) | _of_checkpoints(case.timeline, case.observed)


def _job_id(names: Sequence[str]) -> str | None:
    """The job whose name the files bear, where they agree on one."""
    found = {m[1] or m[2] for name in names if any(map(str.isdigit, name)) and (m := re.search(_JOB_IN_NAME, name))}
    return found.pop() if len(found) == 1 else None


# ── how the job ended ────────────────────────────────────────────────────────────────────────


def _how_it_ended(finding: Finding, timeline: Timeline) -> dict[str, Any]:
    """`ended`, and since when no step came."""
    state, last = finding.state, finding.root.main if finding.root is not None else None
    dated = last is None or last.origin.dated
    facts: dict[str, Any] = {"ended": state.kind, "no_step": state.began and state.began[:_SHOWN]}
    if state.kind == "hung" and state.idle is not None:
        facts |= {"idle_min": round(state.idle / 60), "idle": span(state.idle)}
        facts["stalled_since"] = format_time(state.since, dated)
    times = [time for step in timeline.progress if (time := step.shown_time) is not None]
    if state.kind == "progressing" and state.since is not None and state.idle is not None:
        facts["elapsed_h"] = round((state.since + state.idle - min(times)) / 3600, 1)
    if state.kind is None:
        facts["last_step_at"] = format_time(times[-1], dated) if times else None
        if finding.record is not None and finding.record.elapsed is not None:
            facts["elapsed_h"] = round(finding.record.elapsed / 3600, 1)
    return _known(**facts)


def note_after_training(finding: Finding, case: Case) -> Finding:
    """The finding, with a reason where the training had ended before the failure, or where nothing was trained at all."""
    if finding.verdict == "no-failure":
        return _nothing_trained(finding, case)
    done = _trained(finding, case)
    return finding if done is None else because_first(finding, reason("trained", text=_words_of(done)))


def _trained(finding: Finding, case: Case) -> SignalHit | None:
    """The program's word that it had completed, above an exit that nothing else explains."""
    if finding.cause != EXIT_CODE or finding.root is None:
        return None
    done = finished_before(finding.root, case)
    return done if done is not None and done.by_program else None


def _words_of(done: SignalHit) -> str:
    return done.line.text.strip()[:_SHOWN]


def _each_nodes_first(case: Case) -> str | None:
    """The tasks of which no bad end is reported, where each is the lowest of a node whose other tasks all ended with 1."""
    steps = [report for report in case.reports if report.kind == "step" and report.tasks]
    left = never_ended(case)
    lowest = {min(report.tasks) - 1 for report in steps if report.exit.code == 1}
    return ranges(left) if left and len(lowest) == len(steps) and set(left) == lowest else None


def _nothing_trained(finding: Finding, case: Case) -> Finding:
    """A run that loaded a checkpoint and was done at once had nothing left to train."""
    done = case.timeline.finished
    loaded = [m for m in case.observed.signals if m.signal.kind == "resumed"]
    if done is None or not loaded or loaded[-1].line.source != done.line.source:
        return finding
    last = loaded[-1]
    trained = any(step.order > last.order for step in case.timeline.progress)
    if trained or not 0 <= done.line.offset - last.line.end <= LIMITS.few_words:
        return finding
    captured = next((m.captures for m in reversed(loaded) if m.captures.get("path")), last.captures)
    step = number(captured["step"]) if captured.get("step") else None
    return because_first(finding, reason("nothing-trained", path=captured.get("path"), step=step))


# ── checkpoints and restarts ─────────────────────────────────────────────────────────────────


def _of_checkpoints(timeline: Timeline, observed: Observations) -> dict[str, Any]:
    """The newest checkpoint, by its step, its path and the time when it was saved."""
    marks = {kind: [m for m in observed.signals if m.signal.kind == kind] for kind in ("saving", "saved", "resumed")}
    last = max((p.order for p in timeline.progress), default=-1)
    # a program that tells only that it begins to save, and goes on, has saved; what was loaded is there, too
    went_on = [m for m in marks["saving"] if m.order < last and not marks["saved"]]
    there = sorted([*marks["saved"], *went_on, *marks["resumed"]], key=lambda mark: mark.order, reverse=True)
    found: dict[str, Any] = {}
    newest = next((m.captures for m in there if "step" in m.captures or "path" in m.captures), None)
    if newest is not None:
        step, path = newest.get("step"), newest.get("path")
        found["checkpoint_step"] = number(step) if step else None
        found["checkpoint"] = path or f"step {number(step or '0')}"
    saved = next((m.line.origin for m in there if m.signal.kind != "resumed"), None)
    if saved is not None and saved.dated:
        found["checkpoint_time"] = format_time(saved.time)
    # a save after a failure or a signal may be cut off by the end that follows
    begun, ended = marks["saving"][-1:], max((m.order for m in marks["saved"]), default=-1)
    if begun and max(last, ended) < begun[0].order < min((e.order for e in observed.events), default=0):
        found["save_open"] = begun[0].line.text[:_SHOWN]
    emergency = max((m.order for m in observed.signals if m.signal.id == _EMERGENCY), default=None)
    if emergency is not None and ended > emergency:
        found["emergency_saved"] = "yes"
    return _known(**found)


def _of_restarts(timeline: Timeline, observed: Observations) -> dict[str, Any]:
    """How often the job was started anew, how many steps it gained since the first time, and where it began the last time."""
    begins = [m for m in observed.signals if m.signal.kind == "attempt" and m.captures.get("restart")]
    counted = max((number(m.captures["restart"]) for m in begins), default=0)
    requeues = [e.order for e in observed.events if e.ends_job and e.role != "hint"]
    runs = _runs(timeline, observed, sorted({*requeues, *(m.order for m in begins)}))
    restarts = counted or (len(runs) - 1 if requeues else 0)
    if restarts < 1:
        return {}
    facts: dict[str, Any] = {"restarts": restarts}
    if len(runs) > 1:
        (_, first_end), (last_begin, last_end) = runs[0], runs[-1]
        again = len(runs) > 2 and last_begin <= runs[1][0]  # each from the same checkpoint, however far it came
        facts["gained"] = 0 if again else max(0, max(end for _, end in runs[1:]) - first_end)
        facts["begins_at"], facts["came_to"] = last_begin, last_end
    return facts


def _runs(timeline: Timeline, observed: Observations, cuts: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last step of each run in which steps were made; the first is what it resumed from, where the log shows it."""
    resumed = [m for m in observed.signals if m.signal.kind == "resumed" and m.captures.get("step")]
    found: list[tuple[int, int]] = []
    for start, end in pairwise([0, *cuts, 1 << 62]):
        steps = [p.step for p in timeline.progress if p.step is not None and start <= p.order < end]
        if steps:
            captured = [number(m.captures["step"]) for m in resumed if start <= m.order < end]
            found.append((min([*captured, *steps]), max(steps)))
    return found


# ── GPU memory ───────────────────────────────────────────────────────────────────────────────


def _of_memory(rank: int | None, readings: Sequence[MemoryReading], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The failing rank's last reading and its peak. Another rank's says nothing of this one, unless all GPUs were as full."""
    alone = facts.get("world_size") in (None, 1)
    own = [r for r in readings if _rank_of(r, facts) == rank and (rank is not None or (alone and r.gpu is None))]
    used = [reading.used or 0 for reading in readings if reading.rank is None]
    equal = len(used) == len(readings) > 0 and min(used) >= _EQUAL * max(used)
    found = _of_readings(own or (readings if equal else ()), readings)
    return found | ({"memory_elsewhere": True} if equal and not own else {})


def _rank_of(reading: MemoryReading, facts: Mapping[str, Any]) -> int | None:
    """The rank that a reading is about, also where its line names node and GPU."""
    each, world, nodes = (facts.get(name) for name in ("gpus_per_node", "world_size", "nodes"))
    if each is None and isinstance(world, int) and isinstance(nodes, int):
        each = world // nodes
    if reading.gpu is None or not isinstance(each, int):
        return reading.rank
    return reading.gpu[0] * each + reading.gpu[1]


def _of_readings(own: Sequence[MemoryReading], readings: Sequence[MemoryReading]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if last := next((reading for reading in reversed(own) if reading.used and reading.text), None):
        facts |= {"memory": last.text, "memory_gib": last.used, "memory_of_gib": last.total, "memory_step": last.step}
        facts["memory_before_gib"] = last.before
    peaks = [reading.peak for reading in own if reading.peak]
    others = [(reading.peak, reading.rank) for reading in readings if reading.peak and reading.rank is not None]
    if peaks:
        facts["peak_gib"] = max(peaks)
    elif others:
        facts["other_peak_gib"], facts["peak_rank"] = max(others, key=lambda one: one[0])
    return {name: round(fact, 1) if isinstance(fact, float) else fact for name, fact in _known(**facts).items()}


# ── what Slurm's record tells ────────────────────────────────────────────────────────────────


def _of_the_record(job: JobRecord, timeline: Timeline, state: RunState) -> dict[str, Any]:
    """Sizes, limits, and how the job stood when it ended."""
    by_warning = left_by_warning(job) is not None
    ended_by_slurm = job.state in ("TIMEOUT", "DEADLINE") or bool(job.running_children) or by_warning
    # whose uid Slurm recorded with the cancellation of the job, or of a step
    cancelled = (job.cancelled_by, *(step.cancelled_by for step in job.work_steps))
    by = next((uid for uid in cancelled if uid is not None), None)
    return _known(
        job_id=job.id,
        state=job.state,
        nodes=job.num_nodes or len(job.nodes) or None,
        num_tasks=job.num_tasks,
        tasks_per_node=job.tasks_per_node,
        time_limit_min=round(job.time_limit / 60) if job.time_limit else None,
        elapsed_min=round(job.elapsed / 60, 1) if job.elapsed is not None else None,
        needed_min=_needed_minutes(job, timeline, state),
        ended=state.kind if ended_by_slurm else None,
        idle_min=round(state.idle / 60) if state.kind == "hung" and state.idle is not None else None,
        req_mem_gib=round(job.req_mem / 2**30, 1) if job.req_mem else None,
        max_rss_gib=_measured_memory(job),
        restarts=job.restarts or None,
        script=job.command.split()[0].rpartition("/")[2] if job.command else None,
        signalled=True if by_warning else None,
        script_ended=0 if state_of(job) == "COMPLETED" else None,
        cancelled_by=by,
        by_owner=True if by is not None and by == job.uid else None,
    )


def _needed_minutes(job: JobRecord, timeline: Timeline, state: RunState) -> int | None:
    """The time that all steps would take at their pace so far, where that is more than the limit."""
    last = timeline.last_progress
    if state.kind != "progressing" or last is None or not last.step or not last.steps:
        return None
    if last.time is None or job.start is None or not job.time_limit:
        return None
    needed = round((last.time - job.start) * last.steps / last.step / 60 * _MARGIN)
    return needed if needed * 60 > job.time_limit else None


def _measured_memory(job: JobRecord) -> float | None:
    """MaxRSS in GiB, where it tells of the end."""
    if not job.max_rss or (job.req_mem and job.max_rss < job.req_mem / _SAMPLED):
        return None
    return round(job.max_rss / 2**30, 1) or None
