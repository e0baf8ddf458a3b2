"""Processes that printed nothing of their end: which exit reports are incidents of their own, and in which role."""

import pytest

from builders import case, event, incident, report, timeline
from slurmdoctor.infer.outcome import silent_exits
from slurmdoctor.model import NOT_STOPPED, TASK_FAILED, Event, ExitReport, Incident, Observations, Origin, RankMap


def found(*reports: ExitReport, beside: tuple[Incident, ...] = (), rank_map: RankMap | None = None) -> list[Incident]:
    return silent_exits(case(timeline(reports=reports), Observations((), (), (), (), rank_map or RankMap())), beside)


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
    own = report(
        1, 3, at=70, source=1, witness="torchelastic table", local_rank=1, node="gpu01", pid=55, time=9.0,
        rank_basis="task",
    )  # fmt: skip
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


def test_all_events_of_an_incident_speak_for_their_ranks() -> None:
    first = incident("cuda-error", rank=3)
    both = Incident(first.main, (first.main, incident("cuda-error", rank=4).main))
    assert roles(report(1, 3, 4), beside=(both,)) == []


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
    stopped = report("Terminated", 0, 2, 3, at=10, tasks=(0, 2, 3), node="gpu01")
    log = case(timeline(events=[stop], reports=(stopped,)))
    assert [i.main.origin.rank for i in silent_exits(log, ()) if i.main.rule == NOT_STOPPED] == [1]
    spoke = (incident("cuda-error", rank=1),)
    assert [i for i in silent_exits(log, spoke) if i.main.rule == NOT_STOPPED] == []
