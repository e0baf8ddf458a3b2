"""How the first failing process ended: the best witness, those that differ, and what Slurm's record adds."""

from __future__ import annotations

from typing import Any

import pytest

from builders import KNOWLEDGE, case, event, incident, report, timeline
from slurmdoctor.infer.exits import cause_of, could_be_own, find_exit, first_reported, reported_first, worst_exit
from slurmdoctor.model import (
    ExitReport,
    Finding,
    Incident,
    JobRecord,
    Origin,
    ProcessExit,
    Step,
    from_code,
    from_sacct,
    from_signal,
    reason,
)

OF_HOST_OOM = ProcessExit(None, "SIGKILL", "oom-killed")


def failed(root: Incident | None, rank: int | None = None, **more: Any) -> Finding:
    cause = root.cause if root is not None else "exit-code"
    return Finding("failed", root, more.pop("cause", cause), origin=Origin(rank=rank), **more)


def found(finding: Finding, *reports: ExitReport, record: JobRecord | None = None) -> Finding:
    return find_exit(finding, case(timeline(reports=reports), record=record))


def work(state: str, exit: str | None, id: str = "0") -> Step:
    return Step(id, state=state, exit=from_sacct(exit) if exit else None)


def test_causes_that_an_exit_alone_establishes() -> None:
    codes = {137: "killed", 139: "segfault", 134: "abort", 135: "bus-error", 143: "sigterm", 127: "command-not-found"}
    assert {code: cause_of(from_code(code), KNOWLEDGE) for code in codes} == codes
    assert cause_of(from_signal("SIGFPE"), KNOWLEDGE) == "segfault"
    assert cause_of(from_code(1), KNOWLEDGE) == "exit-code"


def test_the_steps_code_is_the_worst_that_srun_reports() -> None:
    reports = (report(3, 0), report(15, 1), report(77, 2, kind="table"), report("Killed", 3))
    assert found(failed(incident("python-error")), *reports).step_code == 15
    assert found(failed(incident("python-error"))).step_code is None


def test_a_rank_that_printed_nothing_has_the_exit_of_its_report() -> None:
    own = report("Killed", 3)
    got = found(failed(incident("killed", report=own), rank=3), report(1, 3, witness="torchelastic", kind="table"), own)
    assert (got.exit, got.exit_how) == (own.exit, (reason("witness", witness="srun"),))


def test_the_first_hand_witness_is_the_best_unless_it_saw_a_sigterm() -> None:
    agent, table = report(7, 3, witness="srun"), report(1, 3, witness="table", kind="table")
    sent, own = report("Terminated", 3, witness="table", kind="table"), report(1, 3, witness="srun")
    root = incident("python-error", rank=3)
    assert found(failed(root, 3), agent, table).exit == table.exit
    assert found(failed(root, 3), sent, own).exit == own.exit
    assert found(failed(root, 3), agent, report("Killed", 4)).exit_how == (reason("witness", witness="srun"),)


def test_witnesses_of_one_process_that_differ_are_shown() -> None:
    best, other, same = report(1, 3, kind="table", witness="table"), report("Killed", 3), report(1, 3, witness="mpirun")
    got = found(failed(incident("python-error", rank=3), 3), best, other, same)
    differ = reason("witnesses-differ", rank=3, witness="table", exit=best.exit, others={"srun": other.exit})
    assert got.reasons == (differ,)


def test_one_signal_by_its_name_and_by_its_code_is_no_difference() -> None:
    best, other = report(137, 3, kind="table", witness="table"), report("Killed", 3)
    assert found(failed(incident("killed", rank=3), 3), best, other).reasons == ()
    two = found(failed(incident("killed", rank=3), 3), best, report(1, 3))
    assert [why.code for why in two.reasons] == ["witnesses-differ"]
    codes = found(failed(incident("python-error", rank=3), 3), report(1, 3, witness="a"), report(2, 3, witness="b"))
    assert [why.code for why in codes.reasons] == ["witnesses-differ"]


def test_reasons_that_were_there_stay() -> None:
    before = (reason("before"),)
    reports = (report(1, 3, witness="a"), report(2, 3, witness="b"))
    got = found(failed(incident("python-error", rank=3), 3, reasons=before), *reports)
    assert [why.code for why in got.reasons] == ["before", "witnesses-differ"]


def test_without_a_report_of_the_rank_one_that_fits_the_root_is_taken() -> None:
    root = incident("python-error", rank=3)
    alike = found(failed(root, 3), report("Terminated", 1), report(1, 5, witness="srun"), report(1, 6, witness="b"))
    assert (alike.exit, alike.exit_how) == (from_code(1), (reason("witness", witness="srun"),))
    several = found(failed(root, 3), report(1, 5), report(4, 6))
    assert (several.exit, several.exit_how) == (from_code(1), (reason("witness-of-several", witness="srun"),))


def test_where_nobody_is_known_any_report_is_taken() -> None:
    assert found(failed(None), report("Terminated", 1)).exit == from_signal("SIGTERM")
    assert found(failed(None, rank=1), report("Terminated", 1), report(1)).exit == from_signal("SIGTERM")
    assert found(failed(None)).exit is None


def test_an_ending_that_does_not_fit_is_taken_unless_a_launcher_or_slurm_made_it() -> None:
    root = incident("cuda-error", rank=3)
    got = found(failed(root, 3), report("Terminated", 1), report("Killed", 2), report("Aborted", 4, witness="mpirun"))
    assert (got.exit, got.exit_how) == (from_signal("SIGABRT"), (reason("witness", witness="mpirun"),))
    assert found(failed(root, 3), report("Terminated", 1), report("Killed", 2)).exit is None
    assert found(failed(incident("time-limit"), 3), report("Aborted", 4)).exit is None


def test_a_signal_that_a_crash_handler_caught_is_the_exit() -> None:
    crash = event("segfault", at=5, caught=from_signal("SIGSEGV"))
    got = found(failed(Incident(event("segfault"), (event("segfault"), crash))))
    assert (got.exit, got.exit_how) == (from_signal("SIGSEGV"), (reason("crash-handler"),))


@pytest.mark.parametrize(
    ("cause", "ended", "fits"),
    [
        ("host-oom", "Killed", True),
        ("host-oom", "Out Of Memory", True),
        ("host-oom", "Segmentation fault", False),
        ("host-oom", 1, True),
        ("segfault", "Segmentation fault", True),
        ("segfault", "Aborted", False),
        ("segfault", 1, False),
        ("python-error", 1, True),
        ("python-error", 0, False),
        ("python-error", "Killed", False),
        ("python-error", 137, False),
    ],
)
def test_endings_that_fit_a_cause(cause: str, ended: int | str, fits: bool) -> None:
    assert could_be_own(report(ended), incident(cause), KNOWLEDGE) is fits


def test_who_reports_first() -> None:
    told = timeline(reports=(report(1, first=True, time=50.0), report(1, first=True, time=60.0), report(1, time=10.0)))
    first = first_reported(case(told))
    assert reported_first(report(1, time=50.0), first)
    assert not reported_first(report(1, time=50.5), first)
    assert reported_first(report(1), first)
    assert first_reported(case(timeline(reports=(report(1, first=True), report(1, time=1.0))))) is None
    assert reported_first(report(1, time=99.0), None)


@pytest.mark.parametrize(
    ("code", "means"), [(2, "not-found"), (13, "not-executable"), (127, "not-found"), (5, "other")]
)
def test_sruns_errno_of_a_program_that_could_not_be_started(code: int, means: str) -> None:
    got = found(failed(incident("command-not-found", report=report(code, 0)), 0), report(code, 0))
    assert got.exit == ProcessExit(code, None, means)  # type: ignore[arg-type]


def test_errnos_are_no_errnos_of_other_causes() -> None:
    got = found(failed(incident("python-error", report=report(2, 0)), 0))
    assert got.exit == ProcessExit(2, None, "other")
    assert found(failed(incident("command-not-found"))).exit is None


# ── Slurm's record ──


def test_the_worst_exit_is_the_last_failed_steps_then_the_scripts_then_the_jobs() -> None:
    two = (work("FAILED", "3:0"), work("FAILED", "4:0", "1"), work("COMPLETED", "0:0", "2"))
    batch = work("FAILED", "9:0", "batch")
    assert worst_exit(JobRecord("1", steps=(*two, batch), exit_status=5)) == from_code(4)
    assert worst_exit(JobRecord("1", steps=(work("FAILED", "0:0"), work("FAILED", None)), exit_status=5)) == from_code(
        5
    )
    job = JobRecord("1", exit_status=0, exit=from_code(0), derived=from_code(6))
    assert worst_exit(job) == from_code(6)
    assert worst_exit(JobRecord("1", exit=from_code(7), derived=from_code(6))) == from_code(7)
    assert worst_exit(JobRecord("1", exit=from_code(0))) is None


def test_a_record_gives_the_exit_that_the_log_does_not() -> None:
    ended = JobRecord("1", state="FAILED", exit=from_code(3))
    codes = [("FAILED", "3:0", "0"), ("FAILED", "4:0", "1"), ("FAILED", "5:0", "2"), ("COMPLETED", "0:0", "3")]
    steps = JobRecord("1", state="FAILED", steps=tuple(work(*each) for each in codes))
    footer = JobRecord("1", state="RUNNING", exit_status=6)
    done = JobRecord("1", state="FAILED", exit_status=6)
    none = failed(None)
    got = [found(none, record=one) for one in (ended, steps, footer, done)]
    assert [one.exit for one in got] == [from_code(3), from_code(5), from_code(6), from_code(6)]
    assert [one.step_code for one in got] == [3, 5, 6, 6]
    hows = [reason("recorded-job"), reason("recorded-step", step="2"), reason("script-status"), reason("recorded-job")]
    assert [one.exit_how for one in got] == [(how,) for how in hows]


def test_a_record_beside_no_root_keeps_the_logs_reports_out() -> None:
    got = found(failed(None), report(9, 0), record=JobRecord("1", state="FAILED", exit=from_code(3)))
    assert (got.exit, got.step_code) == (from_code(3), 9)
    nothing = found(failed(None), record=JobRecord("1", state="FAILED"))
    assert (nothing.exit, nothing.exit_how) == (None, ())
    killed = found(failed(None), record=JobRecord("1", state="FAILED", exit=from_signal("SIGKILL")))
    assert (killed.exit, killed.step_code) == (from_signal("SIGKILL"), None)


def test_a_record_gives_a_root_its_exit_only_where_it_can_be_its_own() -> None:
    record = JobRecord("1", state="FAILED", exit=from_code(1))
    raised = incident("python-error", traceback=("ValueError: x",))
    assert found(failed(raised), record=record).exit == from_code(1)
    assert found(failed(raised), record=JobRecord("1", state="FAILED", exit=from_code(2))).exit is None
    assert found(failed(incident("python-error")), record=record).exit is None
    assert found(failed(incident("segfault")), record=record).exit == ProcessExit(1, None, "other")
    assert found(failed(incident("time-limit")), record=record).exit is None
    assert found(failed(None, cause="preempted"), record=record).exit is None


def test_out_of_memory_is_a_sigkill_whatever_the_record_shows() -> None:
    record = JobRecord("1", state="OUT_OF_MEMORY", exit=from_code(1))
    got = found(failed(incident("gpu-oom"), cause="host-oom"), record=record)
    assert (got.exit, got.exit_how) == (OF_HOST_OOM, (reason("recorded-job"),))


def test_a_recorded_sigterm_hides_the_first_exit() -> None:
    root = incident("python-error", report=report(1, 3))
    stopped = JobRecord("1", state="FAILED", exit=from_signal("SIGTERM"))
    got = found(failed(root, 3, reasons=(reason("before"),)), record=stopped)
    hides = reason("record-hides-exit", recorded=from_signal("SIGTERM"), own=1)
    assert (got.exit, got.reasons) == (from_code(1), (reason("before"), hides))
    for own, recorded in ((1, from_code(1)), ("Killed", from_signal("SIGTERM")), (137, from_signal("SIGTERM"))):
        root = incident("python-error", report=report(own, 3))
        assert found(failed(root, 3), record=JobRecord("1", state="FAILED", exit=recorded)).reasons == ()
    assert found(failed(root, 3), record=JobRecord("1", state="FAILED")).reasons == ()
