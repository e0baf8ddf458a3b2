"""What Slurm's record does to a finding of the log (confirms it, replaces it, or stands besides it), and the time limit and its warning."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, incident, report
from slurmdoctor import diagnose
from slurmdoctor.infer.slurm_record import apply_record, apply_run_state, left_by_warning
from slurmdoctor.model import (
    Finding,
    Incident,
    JobRecord,
    Origin,
    RunState,
    Step,
    Suspicion,
    from_code,
    from_sacct,
    from_signal,
    reason,
)

BEFORE = reason("before")


def job(state: str | None = None, **fields: Any) -> JobRecord:
    """Slurm's record of job 42."""
    return JobRecord("42", state=state, **fields)


def failed(root: Incident | None, cause: str | None = None, **more: Any) -> Finding:
    """A finding of the log alone, with the reason BEFORE."""
    fields = {"reasons": (BEFORE,), "rule": "some/rule", **more}
    return Finding("failed", root, cause or (root.cause if root else "exit-code"), **fields)


VICTIM = incident("peer-lost", role="cascade", at=9, rank=1)


# ── a state that names a cause ──


def test_a_replaced_root_is_a_victim_and_nobody_is_named() -> None:
    same, other = incident("node-failure", role="cascade", at=20), incident("x", role="cascade", at=30)
    missing = Suspicion("missing", (3,), (), BEFORE, "low")
    finding = failed(VICTIM, cascade=(same, other), suspicion=missing, origin=Origin(rank=1), how=(BEFORE,))
    got = apply_record(finding, job("NODE_FAIL", nodes=("gpu07",)), case())
    assert (got.verdict, got.cause, got.rule, got.confidence) == ("failed", "node-failure", None, "high")
    assert (got.root, got.suspicion, got.origin, got.cascade) == (None, None, Origin(), (VICTIM, other))
    assert got.how == (reason("record-names-no-process"),)
    assert got.reasons == (reason("recorded", step=None, state="NODE_FAIL"), BEFORE)


def test_a_state_that_names_no_cause_leaves_it_to_the_exit() -> None:
    got = apply_record(failed(None, cascade=(VICTIM,)), job("FAILED", exit=from_signal("SIGSEGV")), case())
    assert (got.cause, got.confidence, got.cascade) == ("segfault", "medium", ())
    assert got.reasons == (reason("recorded-state", state="FAILED", exit=from_signal("SIGSEGV")),)


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


@pytest.mark.parametrize(
    ("cause", "kind", "captures", "then", "why"),
    [
        ("time-limit", "hung", {}, "hang", ["had-hung"]),
        ("time-limit", "finished", {}, "time-limit", ["had-finished"]),
        ("time-limit", "progressing", {}, "time-limit", []),
        ("cancelled", "hung", {}, "cancelled", ["stood-still"]),
        ("preempted", "hung", {}, "preempted", []),
        ("time-limit", "hung", {"at": "2026-03-01T10:00:00"}, "time-limit", ["stood-still"]),
    ],
)
def test_without_a_record_a_stall_makes_a_limit_a_hang(
    cause: str, kind: Any, captures: dict[str, str], then: str, why: list[str]
) -> None:
    found = apply_run_state(failed(incident(cause, captures=captures), state=RunState(kind)))
    assert (found.cause, [reason.code for reason in found.reasons]) == (then, ["before", *why])


# ── the warning before the limit ──


def warned(**more: Any) -> JobRecord:
    fields = {"time_limit": 3600, "elapsed": 3490, "warned_by": "SIGUSR1", "warned_before": 120}
    return job("FAILED", **{**fields, "exit": from_signal("SIGUSR1"), **more})


def test_the_warning_may_come_a_minute_and_a_half_early() -> None:
    assert left_by_warning(warned(elapsed=3390)) == 210
    assert left_by_warning(warned(elapsed=3389)) is None
    for unknown in ("time_limit", "elapsed", "warned_before"):
        assert left_by_warning(warned(**{unknown: None})) is None


def test_the_warning_shows_in_any_exit_or_in_a_script_that_left_srun_behind() -> None:
    assert left_by_warning(warned(exit=None)) is None
    assert left_by_warning(warned(exit=from_signal("SIGTERM"))) is None
    assert left_by_warning(warned(exit=from_code(1), derived=from_signal("SIGUSR1")))
    steps = tuple(Step(str(n), state="FAILED", exit=from_sacct(exit)) for n, exit in enumerate(("0:15", "0:10")))
    assert left_by_warning(warned(exit=None, steps=steps))
    assert left_by_warning(warned(exit=None)) is None
    assert left_by_warning(warned(exit=None), (report(1, 0), report("User defined signal 1", 1)))
    assert left_by_warning(warned(exit=None, exit_status=0, running_children=("srun",)))
    assert left_by_warning(warned(exit=None, exit_status=0)) is None
