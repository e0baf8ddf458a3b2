"""Whether a job failed: events that it survived, exits that count, what came after its finish, and who ended without a word."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, event, finish, incident, observed, report, step, timeline
from slurmdoctor.infer.outcome import decide_whether_failed, live_events, silent_exits, unresolved_exits
from slurmdoctor.model import (
    NOT_STOPPED,
    TASK_FAILED,
    Event,
    ExitReport,
    Finding,
    Incident,
    Origin,
    Progress,
    RankMap,
    reason,
)

GONE_ON = event("storage-io", at=10, survived=True)
VICTIM = event("peer-lost", role="cascade", at=40)
HINT = event("gpu-fault", role="hint", at=15)


@pytest.mark.parametrize("role", ["root", "either", "confirmation"])
def test_what_was_survived_is_left_aside_where_something_else_may_start_a_failure(role: str) -> None:
    starts = event("python-error", role=role, at=30)
    assert live_events(case(timeline(events=[GONE_ON, starts, VICTIM]))) == ([starts, VICTIM], 1)


def test_what_was_survived_counts_where_nothing_else_is_left_of_a_job_that_ended_badly() -> None:
    assert live_events(case(timeline(events=[GONE_ON, HINT]), exit_status=1)) == ([GONE_ON, HINT], 0)
    assert live_events(case(timeline(events=[GONE_ON, HINT]))) == ([HINT], 0)
    assert live_events(case(timeline(events=[GONE_ON, HINT]), exit_status=0)) == ([HINT], 0)
    assert live_events(case(timeline(events=[GONE_ON, VICTIM]))) == ([GONE_ON, VICTIM], 0)
    assert live_events(case(timeline(events=[GONE_ON], reports=[report(1)]))) == ([GONE_ON], 0)


def test_a_finish_outweighs_victims_but_no_bad_exit_after_it() -> None:
    done = finish(at=50)
    assert live_events(case(timeline(events=[GONE_ON, VICTIM], finished=done))) == ([VICTIM], 0)
    bad = report(1, at=60)
    assert live_events(case(timeline(events=[GONE_ON, VICTIM], finished=done, reports=[bad]))) == ([GONE_ON, VICTIM], 0)


def test_exits_that_still_count() -> None:
    good, bad, killed = report(0), report(1), report("Killed")
    assert unresolved_exits(timeline(reports=[good, bad, killed])) == [bad, killed]
    other_file = report(1, source=1)
    done = finish(at=50)
    assert unresolved_exits(timeline(reports=[good, bad, killed, other_file], finished=done)) == [bad]


def test_the_exit_of_a_step_that_was_cancelled_before_another_finished_does_not_count() -> None:
    def after(at: int, rule: str = "cancelled/step") -> list[int]:
        stop = event("cancelled", at=at, rule=rule)
        reports = [report(1, at=place) for place in (10, 20, 30)]
        return [r.order for r in unresolved_exits(timeline(events=[stop], reports=reports, finished=finish(at=40)))]

    assert after(20) == [20, 30]
    assert after(40) == [10, 20, 30]
    assert after(20, "cancelled/job") == [10, 20, 30]


def verdict(*incidents: Incident, silent: tuple[Incident, ...] = (), exit_status: int | None = None, **log: Any) -> str:
    return decide_whether_failed(case(timeline(**log), exit_status=exit_status), incidents, silent).verdict


def test_exits_are_failures() -> None:
    assert verdict(reports=[report(1)], progress=[step(4)]) == "failed"
    assert verdict(reports=[report(0)], progress=[step(4)]) == "no-failure"
    silent = incident("killed", role="hint", report=report("Killed"))
    assert verdict(silent=(silent,), progress=[step(4)]) == "failed"


def test_the_jobs_own_exit_status_decides() -> None:
    zero = decide_whether_failed(case(timeline(reports=[report(1)]), exit_status=0), [incident("x", role="either")], ())
    assert zero == Finding("no-failure", reasons=(reason("exit-status-zero"),))
    assert verdict(incident("x", role="root"), exit_status=0) == "failed"
    assert verdict(incident("x", role="confirmation"), exit_status=0) == "failed"
    assert verdict(exit_status=1, finished=finish(at=9)) == "failed"


def test_a_finish_is_no_failure_but_for_what_came_after_it() -> None:
    text = "  Training completed " + "x" * 500
    found = decide_whether_failed(case(timeline(finished=finish(at=50, text=text))), (), ())
    assert found == Finding("no-failure", reasons=(reason("program-completed", text=text.strip()[:400]),))
    done = finish(at=50)
    assert verdict(incident("x", at=49), finished=done) == "no-failure"
    assert verdict(incident("x", at=50), finished=done) == "failed"
    assert verdict(incident("x", role="cascade", at=60), finished=done) == "no-failure"
    assert verdict(finished=done, reports=[report(1, at=10)]) == "failed"


def test_an_echo_of_the_script_right_below_an_error_outweighs_nothing() -> None:
    """What a program has printed but not yet written comes out as it dies, so it takes more than a buffer of text between."""
    echo = finish(at=10_000, said="Training completed")
    assert verdict(incident("x", at=9_000), finished=echo) == "failed"
    assert verdict(incident("x", at=1_000), finished=echo) == "no-failure"
    assert verdict(reports=[report("Killed", at=10)], finished=echo) == "failed"
    assert verdict(finished=echo) == "no-failure"
    logged = finish(at=10_000, said="Training completed", raw="[INFO] Training completed")
    assert verdict(incident("x", at=9_000), finished=logged) == "no-failure"


def parted(cause: str = "peer-lost", role: str = "cascade", at: int = 60, **log: Any) -> str:
    lost = incident(cause, role=role, at=at)
    return decide_whether_failed(case(timeline(**log)), [lost], ()).verdict


def test_what_ranks_say_as_they_leave_one_another_is_no_failure_once_the_work_is_done() -> None:
    assert parted(finished=finish(at=50)) == "no-failure"
    assert parted("nccl-init", "root", finished=finish(at=50)) == "no-failure"
    assert parted(progress=[step(9, steps=9)]) == "no-failure"
    # another cause; before the end; the end of a part; a bad exit
    assert parted("python-error", "root", finished=finish(at=50)) == "failed"
    assert parted(progress=[step(8, steps=9)]) == parted(progress=[step(None)]) == "failed"
    assert parted(progress=[replace(step(9, steps=9), part=True)]) == "failed"
    assert parted(finished=finish(at=50), reports=[report(1, at=70)]) == "failed"


def test_warnings_alone_are_no_failure() -> None:
    assert verdict(incident("peer-lost", role="cascade", warned=True)) == "unknown"
    assert verdict(incident("x", role="root", warned=True), progress=[step(4)]) == "no-failure"
    assert verdict(incident("peer-lost", role="cascade", warned=True), incident("y")) == "failed"


def test_steps_that_stop_before_the_last_one_prove_nothing() -> None:
    def told(*steps: Progress, cut: bool = False) -> tuple[str, tuple[str, ...]]:
        found = decide_whether_failed(case(timeline(progress=steps, cut=cut)), (), ())
        return found.verdict, tuple(reason.code for reason in found.reasons)

    assert told(step(4, steps=9)) == ("unknown", ("stopped-short",))
    assert told(step(9, steps=9)) == ("no-failure", ("steps-to-the-end",))
    # every tenth step is printed
    assert told(step(80, steps=99), step(90, steps=99)) == ("no-failure", ("steps-to-the-end",))
    unnumbered, other = step(None), replace(step(89, steps=99), source=1)
    assert told(step(80, steps=99), unnumbered, other, step(90, steps=99))[0] == "no-failure"
    assert told(step(4), cut=True) == told(step(None, steps=9), cut=True) == ("unknown", ("cut-short",))


def test_in_another_file_the_clock_tells_what_came_after_a_finish() -> None:
    done = finish(at=50, time=100.0)
    assert verdict(incident("x", at=60, source=1, time=99.0), finished=done) == "no-failure"
    assert verdict(incident("x", at=40, source=1, time=100.0), finished=done) == "failed"
    assert verdict(incident("x", at=40, source=1), finished=done) == "failed"
    assert verdict(incident("x", at=40, source=1, time=9.0), finished=finish(at=50)) == "failed"


def found(*reports: ExitReport, beside: tuple[Incident, ...] = (), rank_map: RankMap | None = None) -> list[Incident]:
    return silent_exits(case(timeline(reports=reports), observed(rank_map)), beside)


def roles(*reports: ExitReport, beside: tuple[Incident, ...] = ()) -> list[tuple[str, str]]:
    return [(i.cause, i.main.role) for i in found(*reports, beside=beside)]


@pytest.mark.parametrize(
    ("ended", "cause", "role"),
    [
        ("Terminated", "sigterm", "cascade"),
        (1, "exit-code", "cascade"),
        ("Out Of Memory", "host-oom", "confirmation"),
        ("Aborted", "abort", "either"),
        ("Killed", "killed", "root"),
        ("Segmentation fault", "segfault", "root"),
        (127, "command-not-found", "root"),
    ],
)
def test_each_ending_has_its_cause_and_role(ended: int | str, cause: str, role: str) -> None:
    assert roles(report(ended, 3)) == [(cause, role)]


def test_good_ends_and_warnings_are_no_incidents_and_hide_none_behind_them() -> None:
    reports = (report(0, 1), report("User defined signal 1", 2), report("User defined signal 2", 3), report(1, 4))
    assert roles(*reports) == [("exit-code", "cascade")]


def test_an_incident_has_all_that_the_report_tells() -> None:
    place: dict[str, Any] = {"local_rank": 1, "node": "gpu01", "pid": 55, "time": 9.0, "rank_basis": "task"}
    own = report(1, 3, at=70, source=1, witness="torchelastic table", **place)
    (one,) = found(own)
    origin = Origin(rank=3, local_rank=1, node="gpu01", pid=55, time=9.0)
    main = Event("exit-code", "cascade", "exit-code/torchelastic", origin, own.line, 70, "task", {"tasks": "3"})
    assert one == Incident(main, (main,), own)


def test_a_report_of_several_names_a_rank_only_where_one_was_silent() -> None:
    spoke = tuple(incident("peer-lost", role="cascade", rank=rank) for rank in (0, 1, 3))
    (killed,) = found(report("Killed", 0, 1, 2, 3), beside=spoke)
    assert (killed.main.origin.rank, killed.main.captures) == (2, {"tasks": "0-3"})
    (several,) = found(report("Killed", 0, 1, 2, 3))
    assert several.main.origin.rank is None
    (single,) = found(report("Killed", 3), beside=spoke)
    assert single.main.origin.rank == 3
    (unknown,) = found(report("Killed"))
    assert (unknown.main.origin.rank, unknown.main.captures) == (None, {})


def test_the_rank_map_fills_in_what_the_report_leaves_out() -> None:
    rank_map = RankMap(node_of={3: "gpu01"}, rank_of_pid={(None, 55): 7})
    (placed,) = found(report("Killed", 3), rank_map=rank_map)
    assert (placed.main.origin.node, placed.main.rank_basis) == ("gpu01", "as-written")
    (by_pid,) = found(report("Killed", pid=55), rank_map=rank_map)
    assert (by_pid.main.origin.rank, by_pid.main.rank_basis) == (7, "pid")


@pytest.mark.parametrize("ended", [1, 127, "Aborted"])
def test_a_plain_end_of_a_rank_that_spoke_is_accounted_for(ended: int | str) -> None:
    spoke = (incident("cuda-error", rank=3),)
    assert roles(report(ended, 3), report("Killed", 5), beside=spoke) == [("killed", "root")]
    assert len(roles(report(ended, 3, 4), beside=spoke)) == 1
    assert len(roles(report(ended, 4), beside=spoke)) == 1


def test_all_events_of_an_incident_count_for_their_ranks() -> None:
    first, other = event("cuda-error", 3), event("cuda-error", 4)
    assert roles(report(1, 3, 4), beside=(Incident(first, (first, other)),)) == []


@pytest.mark.parametrize("role", ["root", "either"])
def test_an_error_of_an_unknown_rank_may_be_the_one_that_ended(role: str) -> None:
    unlabelled = (incident("cuda-error", role=role),)
    assert roles(report(1, 4), report("Killed", 5), beside=unlabelled) == [("killed", "root")]
    victim = (incident("cuda-error", role="cascade"),)
    assert roles(report(1, 4), beside=victim) == [("exit-code", "cascade")]


def test_an_abort_of_an_unknown_rank_beside_a_vain_wait_tells_nothing() -> None:
    waited = (incident("collective-timeout", role="either", rank=0),)
    lost = (incident("peer-lost", role="cascade", rank=0),)
    abort, killed = report("Aborted"), report("Killed")
    assert roles(abort, killed, beside=waited) == roles(abort, killed, beside=lost) == [("killed", "root")]
    assert roles(report("Aborted", 4), beside=waited) == [("abort", "either")]
    assert roles(abort, beside=(incident("sigterm", role="cascade", rank=0),)) == [("abort", "either")]
    assert roles(abort, beside=(incident("cuda-error", rank=0),)) == [("abort", "either")]


def test_a_sigkill_after_a_first_failure_may_be_the_launchers() -> None:
    first, late, early = report(1, 1, at=20), report("Killed", 2, at=30), report("Killed", 3, at=10)
    assert roles(early, first, late) == [("killed", "root"), ("exit-code", "cascade"), ("killed", "cascade")]
    assert roles(report("Killed", 2, at=20), report("Killed", 3, at=30)) == [("killed", "root")] * 2
    assert roles(report(0, 1, at=10), report("Killed", 2, at=20)) == [("killed", "root")]
    other = report(1, 1, at=10, witness="mpirun")
    assert roles(other, report("Killed", 2, at=20)) == [("exit-code", "cascade"), ("killed", "root")]
    assert roles(report(1, 1, at=40), report(1, 2, at=10), late)[-1] == ("killed", "cascade")
    assert roles(report(1, 1, at=40), report(1, 2, at=50), late)[-1] == ("killed", "root")


def test_torchelastics_table_says_itself_what_was_first() -> None:
    def row(ended: int | str, rank: int, at: int, first: bool = False) -> ExitReport:
        return report(ended, rank, at=at, first=first, witness="table", kind="table")

    later, plain, first = row("Killed", 2, 10), row(1, 1, 20), row("Killed", 3, 30, first=True)
    assert roles(later, plain, first) == [("killed", "cascade"), ("exit-code", "cascade"), ("killed", "root")]


def test_the_task_that_slurm_did_not_stop_is_a_silent_one_only_where_it_did_not_speak() -> None:
    stop = event("sigterm", role="cascade", at=5, rule=TASK_FAILED)
    stopped = report("Terminated", 0, 2, 3, at=10, tasks=(0, 2, 3), node="gpu01", rank_basis="task")
    log = case(timeline(events=[stop], reports=(stopped,)))
    assert [i.main.origin.rank for i in silent_exits(log, ()) if i.main.rule == NOT_STOPPED] == [1]
    spoke = (incident("cuda-error", rank=1),)
    assert [i for i in silent_exits(log, spoke) if i.main.rule == NOT_STOPPED] == []
    most = (0, 1, 2, 3, 4, 7)
    two_left = timeline(events=[stop], reports=[replace(stopped, ranks=most, tasks=most)])
    assert [i for i in silent_exits(case(two_left), ()) if i.main.rule == NOT_STOPPED] == []


def test_a_box_of_a_launcher_tells_no_order() -> None:
    box = report(1, 1, at=40, kind="box")
    assert roles(report("Killed", 2, at=20), box)[0] == ("killed", "cascade")
    assert roles(report("Terminated", 1, at=10, kind="box"), report("Killed", 2, at=20))[1] == ("killed", "root")
