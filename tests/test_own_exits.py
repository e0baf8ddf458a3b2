"""How the first failing process ended: the best witness, those that differ, and what Slurm's record adds."""

import pytest

from builders import KNOWLEDGE, case, event, incident, report, timeline
from slurmdoctor.infer.exits import cause_of, could_be_own, find_exit, worst_exit
from slurmdoctor.model import (
    ExitReport,
    Finding,
    Incident,
    JobRecord,
    Origin,
    ProcessExit,
    Step,
    Suspicion,
    from_code,
    from_sacct,
    from_signal,
    reason,
)

ROOT = incident("python-error", rank=3)


def found(root: Incident, *reports: ExitReport, rank: int | None = 3, record: JobRecord | None = None) -> Finding:
    """The finding with its exit, of the root's rank."""
    finding = Finding("failed", root, root.cause, origin=Origin(rank=rank))
    return find_exit(finding, case(timeline(reports=reports), record=record))


def work(state: str, exit: str | None, id: str = "0") -> Step:
    return Step(id, state=state, exit=from_sacct(exit) if exit else None)


def test_causes_that_an_exit_alone_establishes() -> None:
    codes = {137: "killed", 139: "segfault", 134: "abort", 135: "bus-error", 143: "sigterm", 127: "command-not-found"}
    assert {code: cause_of(from_code(code), KNOWLEDGE) for code in codes} == codes
    assert cause_of(from_signal("SIGFPE"), KNOWLEDGE) == "program-error"
    assert cause_of(from_code(1), KNOWLEDGE) == "exit-code"


def test_the_first_hand_witness_is_the_best_unless_it_saw_a_sigterm() -> None:
    agent, table = report(7, 3, witness="srun"), report(1, 3, witness="table", kind="table")
    sent, own = report("Terminated", 3, witness="table", kind="table"), report(1, 3, witness="srun")
    assert found(ROOT, agent, table).exit == table.exit
    assert found(ROOT, sent, own).exit == own.exit
    assert found(ROOT, agent, report("Killed", 4)).exit_how == (reason("witness", witness="srun"),)


def test_a_jobs_1_is_pythons_own_where_a_traceback_shows_it() -> None:
    def taken(cause: str, code: int, *traceback: str) -> bool:
        root = incident(cause, rank=3, traceback=traceback)
        by_status = find_exit(Finding("failed", root, cause), case(exit_status=code))
        assert by_status.cause == cause
        by_record = found(root, record=JobRecord("1", state="FAILED", exit=from_code(code)))
        return (by_record.exit is not None) and (by_status.exit is not None)

    assert [taken("cuda-oom", 1, "x"), taken("cuda-oom", 1), taken("cuda-oom", 2, "x")] == [True, False, False]
    assert taken("exit-code", 2)


def test_who_held_up_the_others_did_not_end_as_they_did() -> None:
    suspicion = Suspicion("missing", (5,), (3,), reason("made"), "medium")
    waited = incident("collective-timeout", rank=3)

    def end(rank: int | None, *ends: ExitReport) -> ProcessExit | None:
        held_up = Finding("failed", waited, waited.cause, origin=Origin(rank=rank), suspicion=suspicion)
        return find_exit(held_up, case(timeline(reports=ends))).exit

    assert end(5, report(1, 3)) is None
    assert end(5, report(7)) == end(None, report(7, 3)) == from_code(7)


def test_tasks_of_a_step_that_was_stopped_run_on_no_longer() -> None:
    def untold(ended: int | str, *more: ExitReport) -> set[str]:
        ends = report(ended, 0, 1, 2, 4, 5, 6, 7, tasks=(0, 1, 2, 4, 5, 6, 7))
        return {why.code for why in found(ROOT, ends, *more, rank=0).reasons}

    assert untold(1) == {"never-ended"}
    assert untold("Terminated") == set()
    assert untold(1, report("Killed", 5, kind="table")) == {"never-ended"}


def test_one_signal_by_its_name_and_by_its_code_is_no_difference() -> None:
    best, other = report(137, 3, kind="table", witness="table"), report("Killed", 3)
    assert found(incident("killed", rank=3), best, other).reasons == ()
    two = found(incident("killed", rank=3), best, report(1, 3))
    assert [why.code for why in two.reasons] == ["witnesses-differ"]
    codes = found(ROOT, report(1, 3, witness="a"), report(2, 3, witness="b"))
    assert [why.code for why in codes.reasons] == ["witnesses-differ"]


def test_without_a_report_of_the_rank_one_that_fits_the_root_is_taken() -> None:
    together = found(ROOT, report("Terminated", 1), report(1, 5, witness="srun"), report(1, 6, witness="b"))
    assert (together.exit, together.exit_how) == (from_code(1), (reason("witness", witness="srun"),))
    several = found(ROOT, report(1, 5), report(4, 6))
    assert (several.exit, several.exit_how) == (from_code(1), (reason("witness-of-several", witness="srun"),))


def test_an_ending_that_does_not_fit_is_taken_unless_a_launcher_or_slurm_made_it() -> None:
    root = incident("cuda-error", rank=3)
    got = found(root, report("Terminated", 1), report("Killed", 2), report("Aborted", 4, witness="mpirun"))
    assert (got.exit, got.exit_how) == (from_signal("SIGABRT"), (reason("witness", witness="mpirun"),))
    assert found(root, report("Terminated", 1), report("Killed", 2)).exit is None
    assert found(incident("time-limit"), report("Aborted", 4)).exit is None


def test_a_signal_that_a_crash_handler_caught_is_the_exit() -> None:
    crash = event("segfault", at=5, caught=from_signal("SIGSEGV"))
    got = found(Incident(event("segfault"), (event("segfault"), crash)), rank=None)
    assert (got.exit, got.exit_how) == (from_signal("SIGSEGV"), (reason("crash-handler"),))


def test_endings_that_fit_a_cause() -> None:
    endings = ("Killed", "Out Of Memory", "Segmentation fault", "Aborted", 137, 1, 0)
    fit = {
        cause: [ended for ended in endings if could_be_own(report(ended), incident(cause), KNOWLEDGE)]
        for cause in ("host-oom", "segfault", "python-error")
    }
    assert fit == {
        "host-oom": ["Killed", "Out Of Memory", 137, 1],
        "segfault": ["Segmentation fault"],
        "python-error": [1],
    }


@pytest.mark.parametrize(
    ("code", "means"), [(2, "not-found"), (13, "not-executable"), (127, "not-found"), (5, "other")]
)
def test_sruns_errno_of_a_program_that_could_not_be_started(code: int, means: str) -> None:
    got = found(incident("command-not-found", report=report(code, 0)), report(code, 0), rank=0)
    assert got.exit == ProcessExit(code, None, means)  # type: ignore[arg-type]


def test_the_worst_exit_is_the_last_failed_steps_then_the_scripts_then_the_jobs() -> None:
    two = (work("FAILED", "3:0"), work("FAILED", "4:0", "1"), work("COMPLETED", "0:0", "2"))
    batch = work("FAILED", "9:0", "batch")
    assert worst_exit(JobRecord("1", steps=(*two, batch), exit_status=5)) == from_code(4)
    unnamed = (work("FAILED", "0:0"), work("FAILED", None))
    assert worst_exit(JobRecord("1", steps=unnamed, exit_status=5)) == from_code(5)
    assert worst_exit(JobRecord("1", exit_status=0, exit=from_code(0), derived=from_code(6))) == from_code(6)
    assert worst_exit(JobRecord("1", exit=from_code(7), derived=from_code(6))) == from_code(7)
    assert worst_exit(JobRecord("1", exit=from_code(0))) is None


@pytest.mark.parametrize(("own", "hidden"), [(1, True), (143, False)])
def test_slurms_record_hides_an_exit_that_is_not_its_own(own: int, hidden: bool) -> None:
    got = found(ROOT, report(own, 3), record=JobRecord("1", exit=from_sacct("0:15")))
    assert ("record-hides-exit" in [why.code for why in got.reasons]) is hidden
