"""Timeline → finding: the root, told apart from its cascade, and the first failing rank. Pure, in named steps.

Each step is a module, takes what the steps before concluded, and returns it with its own conclusion and reasons.
"""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.infer.after_training import tell_after_training
from slurmdoctor.infer.blame import blame_nodes
from slurmdoctor.infer.busy import tell_busy
from slurmdoctor.infer.confidence import of_a_part, rate_confidence
from slurmdoctor.infer.culprits import find_silent_culprit
from slurmdoctor.infer.evidence import choose_evidence
from slurmdoctor.infer.exits import find_exit
from slurmdoctor.infer.extent import measure_extent
from slurmdoctor.infer.facts import collect_facts
from slurmdoctor.infer.first_rank import name_first_rank
from slurmdoctor.infer.incidents import gather_incidents
from slurmdoctor.infer.launch_size import launch_notes
from slurmdoctor.infer.missing_peer import tell_who_joined
from slurmdoctor.infer.outcome import decide_whether_failed, live_events, with_survived
from slurmdoctor.infer.rank_standings import stand_ranks
from slurmdoctor.infer.roots import choose_root, what_stalled
from slurmdoctor.infer.script_evidence import apply_script
from slurmdoctor.infer.silent_exits import silent_exits
from slurmdoctor.infer.slurm_evidence import apply_record, quote_record, script_status
from slurmdoctor.infer.time_limit import apply_run_state
from slurmdoctor.infer.transport import tell_transport
from slurmdoctor.model import (
    EarlierAttempt,
    Finding,
    JobRecord,
    Knowledge,
    Observations,
    RunState,
    ScriptEvidence,
    Timeline,
    reason,
)
from slurmdoctor.timeline import end_of, run_state


def infer(
    timeline: Timeline,
    observed: Observations,
    knowledge: Knowledge,
    exit_status: int | None = None,
    record: JobRecord | None = None,
    script: ScriptEvidence | None = None,
) -> Finding:
    """Find the root cause and who was first, and the same in a few words of the attempts before.

    `exit_status` is the job's own, `record` is what Slurm knows of the job, and `script` what its batch script says.
    """
    if exit_status is None and record is not None:
        exit_status = script_status(record)
    finding, state = _attempt(timeline, observed, knowledge, exit_status, record)
    finding = finding if observed.complete else of_a_part(finding)
    finding = tell_after_training(finding, timeline, observed)
    before = [_attempt(one, observed, knowledge, None, None)[0] for one in timeline.earlier]
    earlier = tuple(EarlierAttempt(f.cause, f.origin.rank) for f in before if f.verdict == "failed")
    finding = replace(finding, earlier=earlier)
    if earlier and finding.verdict == "failed":
        again = reason("earlier-attempts", attempt=timeline.attempts, earlier=earlier)
        finding = replace(finding, reasons=(*finding.reasons, again))
    root = finding.root
    if root is not None and root.main.stack_of:
        crash = reason("crash-stack", thread=root.main.stack_of, traceback=root.main.traceback)
        finding = replace(finding, reasons=(*finding.reasons, crash))
    facts = collect_facts(finding, timeline, observed, knowledge, state, script)
    told = {**facts, "told_world": observed.numbers.get("world_size")}
    finding = replace(finding, facts=facts, notes=launch_notes(told))
    if script is not None:
        finding = apply_script(finding, script, knowledge)
    finding = blame_nodes(quote_record(finding, knowledge), observed, knowledge)
    finding = replace(finding, standings=stand_ranks(finding, timeline, observed, knowledge))
    return choose_evidence(finding, timeline, observed.ending)


def _attempt(
    timeline: Timeline,
    observed: Observations,
    knowledge: Knowledge,
    exit_status: int | None,
    record: JobRecord | None,
) -> tuple[Finding, RunState]:
    """The finding on one attempt, and how the job stood when it ended."""
    live, survived = live_events(timeline, exit_status)
    incidents = gather_incidents(live, timeline, knowledge)
    silent = silent_exits(timeline, incidents, observed.rank_map, knowledge)
    finding = with_survived(
        decide_whether_failed(timeline, incidents, silent, exit_status, knowledge.traits["parting"]), survived
    )
    if finding.verdict == "failed":
        finding = choose_root(finding, timeline, [*incidents, *silent], knowledge)
        finding = find_silent_culprit(finding, timeline, observed, knowledge, record)
    last = finding.root.main if finding.root is not None else None
    state = run_state(timeline, end_of(record, last), record)
    finding = what_stalled(finding, timeline, state, knowledge)
    if record is not None:
        finding = apply_record(finding, timeline, record, state, knowledge)
    elif finding.cause in knowledge.traits["ends-stalled"]:
        finding = apply_run_state(finding, state)
    if finding.verdict != "failed":
        return tell_who_joined(finding, timeline, observed), state
    finding = name_first_rank(finding, timeline, observed, incidents, knowledge)
    finding = tell_busy(finding, timeline, observed, knowledge)
    finding = tell_transport(finding, timeline, observed, knowledge)
    finding = find_exit(finding, timeline, knowledge, record, exit_status)
    finding = measure_extent(finding, observed, knowledge, record)
    return rate_confidence(finding, timeline), state
