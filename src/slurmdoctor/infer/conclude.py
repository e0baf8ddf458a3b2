"""Timeline → finding: the root, separated from its cascade, and the first failing rank. Pure, in named steps.

Each step takes what the steps before concluded, and returns it with its own conclusion and reasons. What a later step needs
is a field of the finding, never a reason.
"""

from __future__ import annotations

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, because, because_first
from slurmdoctor.infer.confidence import of_a_part, rate_confidence
from slurmdoctor.infer.evidence import apply_script, blame_nodes, choose_evidence, group_ranks
from slurmdoctor.infer.exits import find_exit
from slurmdoctor.infer.facts import collect_facts, note_after_training
from slurmdoctor.infer.first_rank import measure_extent, name_first_rank
from slurmdoctor.infer.outcome import decide_whether_failed, gather_incidents, live_events, silent_exits
from slurmdoctor.infer.roots import choose_root, name_nearer, what_stalled
from slurmdoctor.infer.silence import explain_wait, find_suspect, note_who_joined
from slurmdoctor.infer.slurm_record import apply_record, apply_run_state, quote_record, script_status
from slurmdoctor.model import (
    EarlierAttempt,
    Finding,
    JobRecord,
    Knowledge,
    Observations,
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
    failed: bool = False,
) -> Finding:
    """Find the root cause and who was first, and the same in a few words of the attempts before.

    `exit_status` is the job's own, `record` is what Slurm knows of the job, and `script` what its batch script says.
    `failed`: whoever asks knows that the job failed.
    """
    if exit_status is None and record is not None:
        exit_status = script_status(record)
    case = Case(timeline, observed, knowledge, record, exit_status, failed)
    finding = _attempt(case)
    finding = finding if observed.complete else of_a_part(finding)
    finding = _with_earlier(note_after_training(finding, case), case)
    root = finding.root
    if root is not None and root.main.stack_of:
        finding = because(finding, reason("crash-stack", thread=root.main.stack_of, traceback=root.main.traceback))
    known = None if root is None else observed.in_good_run.get(root.main.hit.place)
    if known is not None:
        finding = because(finding, reason("in-good-run" if known else "not-in-good-run"))
    finding = collect_facts(finding, case, script)
    if script is not None:
        finding = apply_script(finding, script, case)
    finding = blame_nodes(quote_record(finding, case), case)
    finding = replace(finding, standings=group_ranks(finding, case))
    return choose_evidence(finding, case)


def _with_earlier(finding: Finding, case: Case) -> Finding:
    """The finding with the attempts that failed before."""
    before = [_attempt(Case(one, case.observed, case.knowledge)) for one in case.timeline.earlier]
    earlier = tuple(EarlierAttempt(f.cause, f.origin.rank) for f in before if f.verdict == "failed")
    if earlier and finding.verdict == "failed":
        finding = because(finding, reason("earlier-attempts", attempt=case.timeline.attempts, earlier=earlier))
    return replace(finding, earlier=earlier)


def _attempt(case: Case) -> Finding:
    """The finding on one attempt."""
    live, survived = live_events(case)
    incidents = gather_incidents(live, case)
    silent = silent_exits(case, incidents)
    finding = decide_whether_failed(case, incidents, silent)
    if survived:
        finding = because_first(finding, reason("survived", count=survived))
    if finding.verdict == "failed":
        finding = find_suspect(choose_root(finding, [*incidents, *silent], case), case)
    last = finding.root.main if finding.root is not None else None
    state = run_state(case.timeline, end_of(case.record, last), case.record)
    finding = what_stalled(replace(finding, state=state), case)
    if case.record is not None:
        finding = apply_record(finding, case.record, case)
    elif finding.cause in case.traits["ends-stalled"]:
        finding = apply_run_state(finding)
    if finding.verdict != "failed":
        return note_who_joined(finding, case)
    finding = explain_wait(name_first_rank(finding, incidents, case), case)
    finding = measure_extent(find_exit(finding, case), case)
    return rate_confidence(name_nearer(finding, case), case)
