"""What Slurm's record does to a finding of the log: it confirms it, replaces it, or stands besides it."""

from __future__ import annotations

import pytest

from builders import BEFORE, KNOWLEDGE, beside, failed, finish, incident, job, step, timeline, work
from slurmdoctor.infer.slurm_record import SlurmView, script_status, state_of
from slurmdoctor.model import (
    Finding,
    Incident,
    JobRecord,
    Origin,
    ProcessExit,
    Reason,
    RunState,
    Suspicion,
    from_code,
    from_sacct,
    from_signal,
    reason,
)


def codes(finding: Finding) -> list[str]:
    return [why.code for why in finding.reasons]


RAISED = incident("cuda-error", at=5, rank=3)
VICTIM = incident("peer-lost", "cascade", at=9, rank=1)


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


def test_a_waiting_or_running_job_has_its_finding_with_a_reason() -> None:
    finding = failed(RAISED)
    waiting = beside(finding, job("PENDING", reason="Resources"))
    assert waiting.reasons == (BEFORE, reason("not-started", why="Resources"))
    assert beside(finding, job("RUNNING")).reasons == (BEFORE, reason("still-running"))
    assert waiting.record == job("PENDING", reason="Resources")
    unknown = beside(finding, job("SOMETHING_NEW"))
    assert (unknown.reasons, unknown.cause) == ((BEFORE,), "cuda-error")


# ── Slurm calls it completed ──


def test_completed_hides_a_root_of_the_log() -> None:
    got = beside(failed(RAISED), job("COMPLETED"))
    values = {"by_script": False, "step": None, "derived": None}
    assert (got.verdict, got.cause) == ("failed", "cuda-error")
    assert got.reasons == (BEFORE, Reason("completed-status-hides", values))


@pytest.mark.parametrize(
    "root",
    [None, VICTIM, incident("x", "either"), incident("x", "hint"), incident("exit-code"), incident("sigterm")],
)
def test_completed_acquits_where_the_log_has_only_symptoms(root: Incident | None) -> None:
    got = beside(failed(root), job("COMPLETED"))
    values = {"by_script": False, "step": None, "derived": None}
    assert (got.verdict, got.root, got.cause) == ("no-failure", None, None)
    assert got.reasons == (Reason("completed-no-root", values),)
    assert beside(failed(root), job("COMPLETED", derived=from_code(2))).verdict == "failed"
    assert beside(failed(root), job("COMPLETED", steps=(work("FAILED"),))).verdict == "failed"
    assert beside(failed(root), job("COMPLETED", running_children=("srun",))).verdict == "failed"


def test_a_step_that_failed_speaks_where_the_log_does_not() -> None:
    last = work("FAILED", "3:0")
    record = job("COMPLETED", steps=(work("COMPLETED", "0:0"), last, work("COMPLETED", "0:0", "batch")))
    for finding in (Finding(), Finding("no-failure", reasons=(BEFORE,))):
        got = beside(finding, record)
        assert (got.verdict, got.cause, got.confidence) == ("failed", "exit-code", "low")
        values = {"by_script": False, "step": ("0", "FAILED", from_code(3)), "derived": None}
        assert got.reasons[-1] == Reason("completed-untold", values)
    assert beside(Finding("no-failure"), record, timeline(finished=finish(at=9))) == Finding(
        "no-failure", record=record
    )


def test_the_derived_exit_speaks_where_there_are_no_steps() -> None:
    derived = from_code(137)
    got = beside(Finding(), job("COMPLETED", derived=derived))
    assert got.reasons == (Reason("completed-untold", {"by_script": False, "step": None, "derived": derived}),)
    both = beside(failed(RAISED), job("COMPLETED", derived=derived, steps=(work("FAILED"),)))
    assert both.reasons[-1].values["derived"] is None
    done = beside(failed(RAISED), job("COMPLETED", derived=derived, steps=(work("COMPLETED", "0:0"),)))
    assert (done.reasons[-1].values["step"], done.reasons[-1].values["derived"]) == (None, derived)
    fine = beside(failed(RAISED), job("COMPLETED", derived=from_code(0)))
    assert fine.reasons[-1].values["derived"] is None


def test_completed_without_a_failed_step_ends_the_doubt() -> None:
    got = beside(Finding(reasons=(BEFORE,)), job("COMPLETED", derived=from_code(0)))
    values = {"by_script": False, "step": None, "derived": None}
    assert (got.verdict, got.reasons) == ("no-failure", (Reason("completed-no-step-failed", values),))
    record = job("COMPLETED")
    assert beside(Finding("no-failure", reasons=(BEFORE,)), record).reasons == (BEFORE,)
    by_script = beside(failed(RAISED), job("RUNNING", exit_status=0)).reasons[-1]
    assert by_script.values["by_script"] is True
    assert beside(failed(RAISED), job("COMPLETED", exit_status=0)).reasons[-1].values["by_script"] is False


def test_a_last_step_whose_state_names_a_cause_names_it_though_the_job_completed() -> None:
    record = job("COMPLETED", steps=(work("OUT_OF_MEMORY", "0:125", nodes=("gpu08",)),), nodes=("gpu07", "gpu08"))
    got = beside(failed(VICTIM), record)
    assert (got.cause, got.root, got.cascade, got.origin.node) == ("host-oom", None, (VICTIM,), "gpu08")
    assert got.reasons == (
        reason("recorded", step="0", state="OUT_OF_MEMORY"),
        BEFORE,
        reason("completed-but-last-step", step="0", state="OUT_OF_MEMORY"),
    )


# ── a state that names a cause ──


def test_a_state_confirms_its_cause() -> None:
    got = beside(failed(incident("host-oom", "confirmation"), confidence="low"), job("OUT_OF_MEMORY"))
    assert (got.confidence, got.rule) == ("high", "some/rule")
    assert got.reasons == (BEFORE, reason("recorded", step=None, state="OUT_OF_MEMORY"))


def test_a_state_stands_besides_a_root_that_it_does_not_explain() -> None:
    said = reason("recorded", step=None, state="NODE_FAIL")
    got = beside(failed(RAISED), job("NODE_FAIL"))
    assert (got.cause, got.reasons) == ("cuda-error", (BEFORE, reason("recorded-besides", said=said)))
    after = beside(failed(RAISED), job("CANCELLED", cancelled_by=7, uid=8))
    by = reason("recorded", step=None, state="CANCELLED", uid=7, owner=8)
    assert (after.cause, after.reasons) == ("cuda-error", (BEFORE, reason("recorded-after", said=by)))


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
    got = beside(failed(incident(cause, role)), job(state))  # type: ignore[arg-type]
    assert (got.cause != cause) is replaced


def test_a_replaced_root_is_a_victim_and_nobody_is_named() -> None:
    same, other = incident("node-failure", "cascade", at=20), incident("x", "cascade", at=30)
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
    victim = beside(failed(incident("killed", "cascade", rank=3)), record)
    assert (victim.root, victim.confidence) == (None, "medium")
    lost = beside(failed(incident("peer-lost", "either", rank=3)), record)
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


def test_a_failed_job_keeps_the_logs_root() -> None:
    finding = failed(RAISED)
    assert beside(finding, job("FAILED")).reasons == (BEFORE,)


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


def test_a_log_that_shows_work_and_no_error_is_said_so() -> None:
    for log in (timeline(progress=[step(4)]), timeline(finished=finish(at=9))):
        assert codes(beside(Finding(), job("FAILED"), log)) == ["recorded-state", "log-shows-no-error"]


def test_a_footers_status_is_named_as_the_scripts() -> None:
    got = beside(Finding(), job("RUNNING", exit_status=3))
    assert got.reasons == (reason("script-ended-with", status=3, exit=from_code(3)),)
    ended = beside(Finding(), job("FAILED", exit_status=3))
    assert ended.reasons == (reason("recorded-state", state="FAILED", exit=from_code(3)),)


def test_a_step_that_somebody_cancelled_explains_a_sigterm() -> None:
    steps = (
        work("CANCELLED", "0:15", "0", cancelled_by=1),
        work("CANCELLED", "0:15", "1", cancelled_by=7),
        work("FAILED", "1:0", "2"),
    )
    record = job("FAILED", steps=steps, uid=8, cancelled_by=9)
    for finding in (failed(incident("sigterm")), failed(None), Finding("no-failure", reasons=(BEFORE,))):
        got = beside(finding, record)
        assert got.cause == "cancelled"
        assert got.reasons[0] == reason("recorded", step="1", state="CANCELLED", uid=7, owner=8)
    assert beside(failed(RAISED), record).cause == "cuda-error"


def test_a_script_that_ended_before_srun_was_signalled() -> None:
    record = job("RUNNING", exit_status=143, running_children=("srun", "tee"))
    signalled = reason("script-signalled", program="srun")
    kept = beside(failed(RAISED), record)
    assert (kept.cause, kept.reasons) == ("cuda-error", (BEFORE, signalled))
    cancelled = beside(failed(incident("cancelled")), record)
    assert (cancelled.cause, cancelled.reasons) == ("cancelled", (BEFORE, signalled))
    unknown = beside(failed(incident("killed")), record)
    assert (unknown.cause, unknown.confidence) == ("sigterm", "low")
    assert unknown.reasons == (reason("script-signalled-by-unknown", program="srun"), BEFORE)
    assert codes(beside(Finding(), record)) == ["script-signalled-by-unknown"]
    assert codes(beside(failed(RAISED), job("FAILED", running_children=("srun",)))) == ["before"]


def test_only_an_ending_is_a_symptom_or_an_exit_that_tells_nothing() -> None:
    view = SlurmView(job(), timeline(), RunState(), KNOWLEDGE)
    for finding in (
        Finding("no-failure", RAISED, "cuda-error"),
        failed(None),
        failed(VICTIM),
        failed(incident("killed")),
    ):
        assert view.only_an_ending(finding)
    assert not view.only_an_ending(failed(RAISED))
