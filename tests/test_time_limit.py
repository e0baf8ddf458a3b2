"""The time limit: what it ended, what had failed before it, and the signal that warns of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import BEFORE, beside, failed, incident, job, report, timeline, work
from slurmdoctor import diagnose
from slurmdoctor.infer.slurm_record import apply_run_state, warning_came
from slurmdoctor.model import Finding, JobRecord, RunState, from_code, from_signal, reason

RAISED = incident("cuda-error", at=5, rank=3)
VICTIM = incident("peer-lost", "cascade", at=9, rank=1)


def codes(finding: Finding) -> list[str]:
    return [why.code for why in finding.reasons]


LIMIT = reason("recorded", step=None, state="TIMEOUT")


def test_a_timeout_is_the_limit_as_the_job_stood() -> None:
    states = {None: ("time-limit", []), "finished": ("time-limit", ["had-finished"])}
    states |= {"progressing": ("time-limit", ["made-progress"]), "hung": ("hang", ["had-hung"])}
    for kind, (cause, more) in states.items():
        run = RunState(kind)  # type: ignore[arg-type]
        got = beside(failed(VICTIM), job("TIMEOUT"), state=run)
        assert (got.cause, codes(got), got.rule) == (cause, ["recorded", "before", *more], None)
        assert got.confidence == ("medium" if kind == "hung" else "high")
        assert not more or got.reasons[-1].values == {"state": run}


def test_a_timeout_confirms_the_limits_own_line() -> None:
    got = beside(failed(incident("time-limit"), confidence="low"), job("TIMEOUT"))
    assert (got.reasons, got.rule, got.root is not None) == ((BEFORE, LIMIT), "some/rule", True)
    hung = beside(failed(incident("time-limit")), job("TIMEOUT"), state=RunState("hung"))
    assert (hung.cause, hung.rule, codes(hung)) == ("hang", None, ["before", "recorded", "had-hung"])


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


@pytest.mark.parametrize("role", ["root", "either", "confirmation"])
def test_a_job_that_failed_before_idled_into_its_limit(role: str) -> None:
    got = beside(failed(incident("cuda-error", role)), job("TIMEOUT"), state=RunState("hung"))  # type: ignore[arg-type]
    assert (got.cause, got.reasons) == ("cuda-error", (BEFORE, reason("idled-into-limit", recorded=LIMIT)))


@pytest.mark.parametrize(
    "finding",
    [
        failed(None), failed(incident("cuda-error", "hint")), failed(incident("cuda-error", "cascade")),
        failed(incident("killed")), failed(RAISED, "hang"), Finding("no-failure", RAISED, "cuda-error"),
    ],
)  # fmt: skip
def test_what_the_limit_looks_like_is_no_failure_before_it(finding: Finding) -> None:
    got = beside(finding, job("TIMEOUT"))
    assert (got.verdict, got.cause, got.confidence) == ("failed", "time-limit", "high")


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


def test_a_warning_that_nobody_handled_is_the_limit() -> None:
    got = beside(failed(VICTIM), warned(), state=RunState("finished"))
    came = reason("warning-ended-it", program=None, left=110, signal="SIGUSR1", before=120)
    assert (got.cause, got.confidence, got.rule) == ("time-limit", "medium", None)
    assert got.reasons == (came, BEFORE, reason("had-finished", state=RunState("finished")))
    behind = beside(Finding(), warned(elapsed=3700, exit_status=0, running_children=("srun", "tee")))
    assert (behind.reasons[0].values["left"], behind.reasons[0].values["program"]) == (0, "srun")
    assert beside(failed(RAISED), warned()).cause == "cuda-error"
    assert beside(failed(incident("abort")), warned()).cause == "time-limit"
    reported = timeline(reports=(report("User defined signal 1", 1),))
    assert beside(Finding(), warned(exit=from_code(138)), reported).cause == "time-limit"
