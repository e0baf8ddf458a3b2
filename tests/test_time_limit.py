"""The time limit: what it ended, what had failed before it, and the signal that warns of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from builders import BEFORE, failed, incident, job, report, timeline, work
from slurmdoctor import diagnose
from slurmdoctor.infer.slurm_record import apply_run_state, warning_came
from slurmdoctor.model import Finding, JobRecord, RunState, from_code, from_signal, reason

RAISED = incident("cuda-error", at=5, rank=3)
VICTIM = incident("peer-lost", "cascade", at=9, rank=1)


def codes(finding: Finding) -> list[str]:
    return [why.code for why in finding.reasons]


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
