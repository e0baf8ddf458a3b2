"""What Slurm's record does to a finding of the log (confirms it, replaces it, or stands besides it), and the time limit and its warning."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, incident, report, timeline
from slurmdoctor import diagnose
from slurmdoctor.infer.slurm_record import apply_record, apply_run_state, script_status, state_of, warning_came
from slurmdoctor.model import (
    Finding,
    Incident,
    JobRecord,
    Origin,
    ProcessExit,
    RunState,
    Step,
    Suspicion,
    Timeline,
    from_code,
    from_sacct,
    from_signal,
    reason,
)

BEFORE = reason("before")


def job(state: str | None = None, **fields: Any) -> JobRecord:
    """Slurm's record of job 42."""
    return JobRecord("42", state=state, **fields)


def work(state: str, exit: str = "1:0", id: str = "0", **more: Any) -> Step:
    """A step that ran a program, with its exit as sacct shows it."""
    return Step(id, state=state, exit=from_sacct(exit), **more)


def failed(root: Incident | None, cause: str | None = None, **more: Any) -> Finding:
    """A finding of the log alone, with the reason BEFORE."""
    fields = {"reasons": (BEFORE,), "rule": "some/rule", **more}
    return Finding("failed", root, cause or (root.cause if root else "exit-code"), **fields)


def beside(finding: Finding, record: JobRecord, log: Timeline | None = None, state: RunState | None = None) -> Finding:
    """The finding with what Slurm's record does to it."""
    return apply_record(finding, record, state or RunState(), case(log))


def codes(finding: Finding) -> list[str]:
    return [why.code for why in finding.reasons]


RAISED = incident("cuda-error", at=5, rank=3)
VICTIM = incident("peer-lost", role="cascade", at=9, rank=1)


# ── the state ──


def test_a_footers_status_stands_for_a_state_that_slurm_has_not_recorded_yet() -> None:
    assert state_of(job("FAILED", exit_status=0)) == "FAILED"
    assert state_of(job("RUNNING")) == "RUNNING"
    for state in (None, "RUNNING"):
        assert state_of(job(state, exit_status=0)) == "COMPLETED"
        assert state_of(job(state, exit_status=0, running_children=("srun",))) == "FAILED"
        assert state_of(job(state, exit_status=1)) == "FAILED"
    assert state_of(job("COMPLETING", exit_status=0)) is None
    assert state_of(job("COMPLETING", exit_status=0, reason="TimeLimit")) == "TIMEOUT"


def test_the_scripts_own_status_counts_where_slurm_says_that_it_failed() -> None:
    assert script_status(job("COMPLETED", exit=from_code(3))) is None
    assert script_status(job("FAILED", exit=from_code(3))) == 3
    assert script_status(job("FAILED", exit=from_code(0))) == 1
    assert script_status(job("FAILED")) == script_status(job("FAILED", exit=from_signal("SIGTERM"))) == 1


# ── Slurm calls it completed ──


# ── a state that names a cause ──


@pytest.mark.parametrize(
    ("state", "cause", "role", "replaced"),
    [
        ("OUT_OF_MEMORY", "segfault", "root", True),
        ("OUT_OF_MEMORY", "gpu-oom", "root", False),
        ("OUT_OF_MEMORY", "peer-lost", "either", True),
        ("OUT_OF_MEMORY", "gpu-oom", "hint", True),
        ("OUT_OF_MEMORY", "gpu-oom", "cascade", True),
        ("NODE_FAIL", "killed", "root", True),
        ("NODE_FAIL", "segfault", "root", False),
        ("NODE_FAIL", "nccl-transport", "root", True),
        ("PREEMPTED", "time-limit", "root", True),
        ("PREEMPTED", "sigterm", "root", True),
        ("PREEMPTED", "nccl-transport", "root", False),
        ("CANCELLED", "sigterm", "root", True),
        ("CANCELLED", "time-limit", "root", False),
        ("CANCELLED", "segfault", "root", False),
    ],
)
def test_a_state_replaces_what_it_looks_like_from_inside(state: str, cause: str, role: str, replaced: bool) -> None:
    got = beside(failed(incident(cause, role=role)), job(state))
    assert (got.cause != cause) is replaced


def test_a_replaced_root_is_a_victim_and_nobody_is_named() -> None:
    same, other = incident("node-failure", role="cascade", at=20), incident("x", role="cascade", at=30)
    finding = failed(
        VICTIM, cascade=(same, other), suspicion=Suspicion("missing", (3,), (), BEFORE, "low"), origin=Origin(rank=1),
        reasons=(BEFORE,), how=(BEFORE,),
    )  # fmt: skip
    got = beside(finding, job("NODE_FAIL", nodes=("gpu07",)))
    assert (got.verdict, got.cause, got.rule, got.confidence) == ("failed", "node-failure", None, "high")
    assert (got.root, got.suspicion, got.origin, got.cascade) == (None, None, Origin(), (VICTIM, other))
    assert got.how == (reason("record-names-no-process"),)
    assert got.reasons == (reason("recorded", step=None, state="NODE_FAIL"), BEFORE)


def test_memory_names_the_only_node_of_the_step_or_of_the_job() -> None:
    def node(record: JobRecord) -> str | None:
        return beside(failed(None), record).origin.node

    killed = work("OUT_OF_MEMORY", "0:125", nodes=("gpu08",))
    assert node(job("OUT_OF_MEMORY", nodes=("gpu07",))) == "gpu07"
    assert node(job("OUT_OF_MEMORY", nodes=("gpu07", "gpu08"))) is None
    assert node(job("OUT_OF_MEMORY", nodes=("gpu07",), steps=(killed,))) == "gpu08"
    assert node(job("OUT_OF_MEMORY", nodes=("gpu07",), steps=(work("OUT_OF_MEMORY"),))) == "gpu07"


def test_memory_keeps_a_rank_that_died_as_the_kernel_kills() -> None:
    killed = incident("killed", rank=3)
    record = job("OUT_OF_MEMORY", nodes=("gpu07",))
    got = beside(failed(killed, origin=Origin(rank=3), how=(BEFORE,), cascade=(VICTIM,)), record)
    assert (got.cause, got.root, got.origin, got.confidence) == ("host-oom", killed, Origin(rank=3), "high")
    assert (got.how, got.cascade, got.rule) == ((BEFORE,), (VICTIM,), None)
    victim = beside(failed(incident("killed", role="cascade", rank=3)), record)
    assert (victim.root, victim.confidence) == (None, "medium")
    lost = beside(failed(incident("peer-lost", role="either", rank=3)), record)
    assert (lost.root, lost.confidence) == (None, "medium")


def test_a_step_out_of_memory_or_a_preemption_stands_behind_other_states() -> None:
    memory = (work("FAILED"), work("OUT_OF_MEMORY", "0:125", "1", nodes=("gpu08",)), work("FAILED", "1:0", "2"))
    derived: ProcessExit | None = from_sacct("0:125")
    for state in ("FAILED", "CANCELLED"):
        stepped = beside(failed(None), job(state, steps=memory))
        assert (stepped.cause, stepped.origin.node) == ("host-oom", "gpu08")
        assert stepped.reasons[0] == reason("recorded", step="1", state="OUT_OF_MEMORY")
        assert beside(failed(None), job(state, derived=derived)).cause == "host-oom"
    assert beside(failed(None), job("TIMEOUT", steps=memory)).cause == "time-limit"
    assert beside(failed(None), job("NODE_FAIL", derived=derived)).cause == "node-failure"
    assert beside(failed(None), job("FAILED", derived=from_code(2))).cause != "host-oom"
    for state in ("CANCELLED", "FAILED", "TIMEOUT"):
        preempted = beside(failed(None), job(state, preempted_at=9.0))
        assert (preempted.cause, preempted.reasons[0]) == ("preempted", reason("preempted-as", state=state))
    assert beside(failed(None), job("NODE_FAIL", preempted_at=9.0)).cause == "node-failure"
    own = beside(failed(None), job("PREEMPTED", preempted_at=9.0))
    assert own.reasons[0] == reason("recorded", step=None, state="PREEMPTED")


# ── a state that names none ──


def test_a_failed_job_without_a_root_has_the_cause_of_its_exit() -> None:
    for finding in (failed(None, cascade=(VICTIM,)), Finding(), Finding("no-failure", RAISED, reasons=(BEFORE,))):
        got = beside(finding, job("FAILED", exit=from_signal("SIGSEGV")))
        assert (got.verdict, got.cause, got.confidence, got.root) == ("failed", "segfault", "medium", None)
        assert (got.cascade, got.rule) == ((), None)
        assert got.reasons == (reason("recorded-state", state="FAILED", exit=from_signal("SIGSEGV")),)
    for signal, cause in (("SIGKILL", "killed"), ("SIGTERM", "sigterm")):
        got = beside(Finding(), job("FAILED", exit=from_signal(signal)))
        assert (got.cause, got.confidence) == (cause, "low")
    bare = beside(Finding(), job("LAUNCH_FAILED"))
    assert (bare.cause, bare.confidence) == ("exit-code", "low")
    assert bare.reasons == (reason("recorded-state", state="LAUNCH_FAILED", exit=None),)
    stepped = beside(Finding(), job("FAILED", steps=(work("FAILED", "4:0"),)))
    assert stepped.reasons == (reason("recorded-state", state="FAILED", exit=from_code(4)),)
    both = beside(Finding(), job("FAILED", exit=from_code(1), steps=(work("FAILED", "4:0"),)))
    assert both.reasons == (reason("recorded-state", state="FAILED", exit=from_code(1)),)


def test_a_footers_status_is_named_as_the_scripts() -> None:
    got = beside(Finding(), job("RUNNING", exit_status=3))
    assert got.reasons == (reason("script-ended-with", status=3, exit=from_code(3)),)
    ended = beside(Finding(), job("FAILED", exit_status=3))
    assert ended.reasons == (reason("recorded-state", state="FAILED", exit=from_code(3)),)


LIMIT = reason("recorded", step=None, state="TIMEOUT")


STEPS = "".join(f"0: 2026-11-20 10:{m:02d}:30 iteration {m}/900 loss 1.5\n" for m in range(1, 31))
MORE = "".join(f"0: 2026-11-20 10:{m:02d}:30 iteration {m}/900 loss 1.5\n" for m in range(33, 59))
BROKEN = "10: gpu02:4711:4801 [2] NCCL WARN NET/IB: Got completion from peer 10.0.0.7<43210> with status=12 opcode=129 len=0 vendor err 129 (Recv)\n"
ENDED = "slurmstepd: error: *** JOB 42 ON gpu01 CANCELLED AT 2026-11-20T11:{}:00 DUE TO TIME LIMIT ***\n"
RECORD = JobRecord("42", state="TIMEOUT", elapsed=4620, start=1795168800.0, time_limit=4620)


@pytest.mark.parametrize("record", [None, RECORD])
@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (STEPS + BROKEN + ENDED.format(17), "nccl-transport"),
        (BROKEN + ENDED.format(17), "nccl-transport"),
        (STEPS + "10: [rank10]: torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n" + ENDED.format(17), "cuda-error"),
        (STEPS + BROKEN + MORE + ENDED.format("00"), "time-limit"),  # survived
        (STEPS + MORE + ENDED.format("00") + BROKEN, "time-limit"),  # it ended the job first
        (STEPS + MORE + BROKEN + ENDED.format("00"), "time-limit"),  # no long wait: what is ended prints so, too
    ],
)  # fmt: skip
def test_an_error_after_which_no_step_came_is_not_hidden_by_the_limit(
    log: str, cause: str, record: JobRecord | None
) -> None:
    found = diagnose(log, record=record and replace(record, elapsed=3600 if "T11:00" in log else 4620))
    assert (found.cause.id, found.first_failure.rank) == (cause, None if cause == "time-limit" else 10)
    assert (cause == "time-limit") or "time-limit" in {one.cause for one in found.cascade}


def test_without_a_record_a_stall_makes_a_limit_a_hang() -> None:
    limit, cancelled = failed(incident("time-limit")), failed(incident("cancelled"))
    hung = apply_run_state(limit, RunState("hung"))
    assert (hung.cause, hung.rule, hung.confidence) == ("hang", None, "medium")
    assert hung.reasons == (BEFORE, reason("had-hung", state=RunState("hung")))
    finished = apply_run_state(limit, RunState("finished"))
    assert (finished.cause, codes(finished)) == ("time-limit", ["before", "had-finished"])
    assert apply_run_state(limit, RunState("progressing")) == limit
    stood = apply_run_state(cancelled, RunState("hung"))
    assert (stood.cause, codes(stood)[-1:]) == (cancelled.cause, ["stood-still"])
    by_slurms_clock = apply_run_state(
        failed(incident("time-limit", captures={"at": "2026-03-01T10:00:00"})), RunState("hung")
    )
    assert (by_slurms_clock.cause, codes(by_slurms_clock)[-1:]) == ("time-limit", ["stood-still"])


# ── the warning before the limit ──


def warned(**more: Any) -> JobRecord:
    fields = {"time_limit": 3600, "elapsed": 3490, "warned_by": "SIGUSR1", "warned_before": 120}
    return job("FAILED", **{**fields, "exit": from_signal("SIGUSR1"), **more})


def test_the_warning_may_come_a_minute_and_a_half_early() -> None:
    assert warning_came(warned(elapsed=3390))
    assert not warning_came(warned(elapsed=3389))
    for unknown in ("time_limit", "elapsed", "warned_before"):
        assert not warning_came(warned(**{unknown: None}))


def test_the_warning_shows_in_any_exit_or_in_a_script_that_left_srun_behind() -> None:
    assert not warning_came(warned(exit=None))
    assert not warning_came(warned(exit=from_signal("SIGTERM")))
    assert warning_came(warned(exit=from_code(1), derived=from_signal("SIGUSR1")))
    assert warning_came(warned(exit=None, steps=(work("FAILED", "0:15"), work("FAILED", "0:10", "1"))))
    assert not warning_came(warned(exit=None), timeline())
    assert warning_came(warned(exit=None), timeline(reports=(report(1, 0), report("User defined signal 1", 1))))
    assert warning_came(warned(exit=None, exit_status=0, running_children=("srun",)))
    assert not warning_came(warned(exit=None, exit_status=0))
    assert not warning_came(warned(exit=None, running_children=("srun",)))
