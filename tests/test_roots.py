"""The root is the earliest incident that no other one explains; what follows from it, and what stays a rival."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, event, failed, incident, report, step, timeline
from cases import codes, values
from slurmdoctor.infer.roots import choose_root, unexplained, what_stalled
from slurmdoctor.model import STEP_CANCELLED, ExitReport, Finding, Incident, Order, Progress, RunState


def chosen(*incidents: Incident, order: Order = "timestamps", reports: tuple[ExitReport, ...] = ()) -> Finding:
    return choose_root(failed(None), incidents, case(timeline(incidents, reports, order)))


def left(*incidents: Incident, order: Order = "timestamps") -> list[str]:
    """The causes of these incidents that no other one of them explains."""
    return [i.cause for i in unexplained(incidents, incidents, case(timeline(incidents, (), order)))]


def test_the_finding_holds_the_root_and_all_others_apart() -> None:
    root = incident("cuda-oom", 3, 10.0, 300)
    twin = incident("cuda-oom", 5, 11.0, 400)
    rival = incident("file-not-found", 1, 12.0, 500)
    victim = incident("peer-lost", 2, 15.0, 600)
    found = failed(root, rule="cuda-oom/test", same=(twin,), rivals=(rival,), cascade=(rival, victim), reasons=())
    assert chosen(root, twin, rival, victim) == found
    assert chosen() == failed(None, cause="exit-code")


BOUND = incident("peer-lost", 2, 5.0, 2, bound=True)


@pytest.mark.parametrize(
    ("one", "other", "causes"),
    [
        # a root explains what comes after it, and nothing that was clearly earlier; a confirmation may come late
        (incident("cuda-oom", 3, 10.0, 1), incident("peer-lost", 2, 12.0, 2), ["cuda-oom"]),
        (incident("cuda-oom", 3, 11.0, 1), incident("peer-lost", 2, 10.0, 2), ["cuda-oom"]),
        (incident("cuda-oom", 3, 12.0, 1), incident("peer-lost", 2, 10.0, 2), ["cuda-oom", "peer-lost"]),
        (incident("host-oom", 3, 99.0, 9, role="confirmation"), incident("peer-lost", 2, 10.0, 2), ["host-oom"]),
        # a cause explains only what its file lists, and never itself
        (incident("cuda-oom", 3, 10.0, 1), incident("file-not-found", 2, 12.0, 2), ["cuda-oom", "file-not-found"]),
        (incident("time-limit", 3, 10.0, 1), incident("time-limit", 2, 12.0, 2), ["time-limit", "time-limit"]),
        # a symptom explains no root, and what may be either none too
        (incident("peer-lost", 3, 10.0, 1), incident("abort", 2, 12.0, 2, role="root"), ["peer-lost", "abort"]),
        (incident("peer-lost", 3, 10.0, 1), incident("abort", 2, 12.0, 2, role="cascade"), ["peer-lost"]),
        (incident("hang", 3, 10.0, 1, role="either"), incident("abort", 2, 12.0, 2, role="root"), ["hang", "abort"]),
        (incident("hang", 3, 10.0, 1, role="either"), incident("abort", 2, 12.0, 2, role="either"), ["hang"]),
        # of two that explain each other the earlier one does
        (incident("exit-code", 2, 10.5, 2, role="root"), incident("sigterm", 3, 10.0, 1, role="root"), ["sigterm"]),
        # an error clearly after Slurm's end does not explain it
        (incident("disk-full", 3, 15.0, 20), incident("time-limit", 0, 10.0, 10), ["disk-full", "time-limit"]),
        # a lower bound shows no early time
        (incident("cuda-oom", 3, 10.0, 1), BOUND, ["cuda-oom"]),
        (incident("cuda-oom", 3, 10.0, 3), BOUND, ["cuda-oom", "peer-lost"]),
    ],
)
def test_what_one_incident_explains_of_another(one: Incident, other: Incident, causes: list[str]) -> None:
    assert left(one, other) == causes


@pytest.mark.parametrize(
    ("other", "explained"),
    [
        (incident("killed", 2, None, 5, role="root"), False),
        (incident("killed", 2, None, 15, role="root"), True),
        (incident("killed", 2, None, 5, role="root", source=1), True),
        (incident("killed", 2, None, 5, role="cascade"), True),
    ],
)
def test_without_stamps_the_file_orders_roots(other: Incident, explained: bool) -> None:
    assert ("killed" in left(incident("cuda-oom", 3, None, 10), other, order="file")) is not explained


@pytest.mark.parametrize(
    ("role", "at", "more", "explains"),
    [
        ("root", 5, {}, True),
        ("confirmation", 5, {}, True),
        ("either", 5, {}, False),
        ("root", 15, {}, False),
        ("root", 15, {"source": 1}, True),
        ("confirmation", 15, {"source": 1}, True),
        ("root", 15, {"source": 1, "report": report(1)}, False),
    ],
)
def test_what_failed_before_slurm_ended_the_job_explains_the_end(
    role: Any, at: int, more: dict[str, Any], explains: bool
) -> None:
    end = incident("time-limit", None, None, 10, role="cascade")
    found = left(incident("file-not-found", 3, None, at, role=role, **more), end, order="file")
    assert found == ["file-not-found", "time-limit"][: 1 if explains else 2]


def test_where_a_clock_orders_two_files_the_place_decides_within_a_tick() -> None:
    end, other = (
        incident("time-limit", None, 10.0, 10, role="cascade"),
        incident("file-not-found", 3, 10.5, 15, source=1),
    )
    assert left(other, end) == ["file-not-found", "time-limit"]


ENDED = incident("time-limit", None, None, 900, role="cascade")


@pytest.mark.parametrize(
    ("before", "cause"),
    [
        (incident("nccl-transport", 3, None, 500, role="either"), "nccl-transport"),
        (incident("peer-lost", 3, None, 500, role="cascade"), "time-limit"),
        (incident("abort", 3, None, 500, role="either"), "time-limit"),  # how processes end that somebody ends
        (incident("nccl-transport", 3, None, 950, role="either"), "time-limit"),  # below the end
        (incident("nccl-transport", 3, None, 100, role="either"), "time-limit"),  # above the last step
        (incident("nccl-transport", 3, 70.0, 500, role="either", source=1), "time-limit"),  # in another file
    ],
)
def test_an_error_below_the_last_step_of_a_stalled_job_is_its_root(before: Incident, cause: str) -> None:
    log = timeline([before, ENDED], progress=[step(7, 60.0, at=200)])
    found = what_stalled(failed(ENDED, cascade=(before,), state=RunState("hung")), case(log))
    assert found.cause == cause


def test_of_steps_in_another_file_the_clock_tells_what_came_below() -> None:
    def cause(time: float | None, state: RunState, *steps: Progress) -> str | None:
        before = incident("nccl-transport", 3, time, 500, role="either")
        stalled = failed(ENDED, cascade=(before,), state=state)
        return what_stalled(stalled, case(timeline([before, ENDED], progress=steps))).cause

    last, hung = replace(step(7, 60.0, at=200), source=1), RunState("hung")
    assert [cause(time, hung, last) for time in (50.0, 70.0, None)] == ["time-limit", "nccl-transport", "time-limit"]
    assert cause(70.0, RunState(began="loading"), last) == cause(None, RunState()) == "nccl-transport"
    assert cause(70.0, RunState("progressing"), last) == "time-limit"


def test_where_each_is_explained_none_is_left_out() -> None:
    first, second = incident("cuda-oom", 3, 10.0, 1), incident("peer-lost", 2, 12.0, 2)
    assert unexplained([second], [first], case(timeline([first, second]))) == [second]


def test_a_root_stands_before_what_may_be_either_and_before_symptoms() -> None:
    symptom = incident("peer-lost", 1, 5.0, 1)
    wait = incident("collective-timeout", 2, 6.0, 2)
    root = incident("file-not-found", 3, 9.0, 3)
    assert chosen(symptom, wait, root).root == root
    assert chosen(symptom, wait).root == wait
    assert chosen(symptom, incident("sigterm", 2, 1.0, 0)).root == symptom


def test_a_silent_exit_comes_before_symptoms_of_ranks_that_printed() -> None:
    symptom = incident("peer-lost", 1, 5.0, 1)
    silent = incident("exit-code", 4, 8.0, 2, report=report(3, 4))
    assert chosen(symptom, silent).root == silent
    assert chosen(incident("peer-lost", None, 5.0, 1), silent).root != silent
    assert chosen(symptom, incident("exit-code", None, 8.0, 2, report=report(3))).root == symptom
    wait = incident("collective-timeout", 2, 6.0, 3)
    assert chosen(symptom, silent, wait).root == wait
    assert chosen(symptom, silent, incident("file-not-found", 3, 9.0, 4)).cause == "file-not-found"


def test_an_exit_of_its_own_comes_before_sigterm_and_that_before_other_exits() -> None:
    term = incident("sigterm", 1, 5.0, 1)
    told = incident("exit-code", None, 8.0, 2, report=report(3))
    assert chosen(term, told).root == told
    assert chosen(term, incident("exit-code", None, 8.0, 2)).root == term


def test_a_cancelled_step_after_an_exit_only_follows() -> None:
    def cancelled(source: int = 0) -> Incident:
        return incident("slurm-step", None, None, 50, role="cascade", rule=STEP_CANCELLED, source=source)

    victim = incident("peer-lost", 1, None, 60)
    assert chosen(cancelled(), victim, order="file").root == cancelled()
    assert chosen(cancelled(), victim, order="file", reports=(report(3, at=40),)).root == victim
    assert chosen(cancelled(), victim, order="file", reports=(report(3, at=55),)).root == cancelled()
    assert chosen(cancelled(), victim, order="file", reports=(report(3, at=40, source=1),)).root == cancelled()
    assert chosen(cancelled(), victim, order="file", reports=(report(-15, at=40),)).root == cancelled()
    # in two files without a clock, a rank's own words tell more
    assert chosen(cancelled(1), victim, order="file").root == victim


def test_an_error_after_the_ranks_own_timeout_is_a_consequence() -> None:
    wait = incident("collective-timeout", 3, 10.0, 1)
    late, other = incident("cuda-oom", 3, 15.0, 2), incident("cuda-oom", 4, 15.0, 3)
    found = chosen(wait, late)
    assert (found.root, values(found.reasons, "after-own-wait")) == (wait, {"causes": ("cuda-oom",)})
    assert chosen(wait, incident("collective-timeout", 3, 15.0, 2, role="root")).reasons == (), "one of its own cause"
    assert chosen(wait, other).root == other
    unlabelled = incident("collective-timeout", None, 10.0, 1), incident("cuda-oom", None, 15.0, 2)
    assert chosen(*unlabelled).cause == "cuda-oom"


def test_an_error_before_the_ranks_own_timeout_is_a_root() -> None:
    error = incident("cuda-oom", 3, 15.0, 1)
    assert chosen(error, incident("collective-timeout", 3, 20.0, 2)).root == error
    for at, cause in ((15.0, "cuda-oom"), (15.5, "collective-timeout")):
        error = incident("cuda-oom", 3, at, 5, source=1)
        assert chosen(error, incident("collective-timeout", 3, 14.0, 2)).cause == cause


def test_a_ranks_first_timeout_counts() -> None:
    first, second = incident("collective-timeout", 3, 10.0, 1), incident("collective-timeout", 3, 30.0, 9)
    error = incident("cuda-oom", 3, 20.0, 5)
    assert chosen(first, second, error).root == chosen(second, first, error).root == first


@pytest.mark.parametrize("cause", ["time-limit", "node-failure", "hang"])
def test_what_the_system_does_may_come_late(cause: str) -> None:
    assert chosen(incident("collective-timeout", 3, 10.0, 1), incident(cause, 3, 15.0, 2, role="root")).cause == cause


def hinted(*hints: object, root: Incident | None) -> Finding:
    incidents = [root] if root is not None else []
    return choose_root(failed(None), incidents, case(timeline(incidents, events=hints)))


def test_an_exit_that_tells_nothing_takes_the_last_hint_of_its_rank() -> None:
    exit = incident("exit-code", 4, 8.0, 900, report=report(3, 4))
    early = event("storage-io", 4, 5.0, 100, role="hint")
    late = event("nccl-init", None, 6.0, 200, role="hint")
    other = event("cuda-oom", 2, 7.0, 300, role="hint")
    found = hinted(early, late, other, root=exit)
    assert found.root is not None
    assert (found.cause, found.rule, found.root.report) == ("nccl-init", "nccl-init/test", exit.report)
    assert found.root.main.origin.rank == 4
    assert codes(found.reasons) == {"last-telling-line"}
    assert found.root.events == (found.root.main,)
    generic = event("python-error", 4, 7.0, 400, role="hint")
    assert hinted(early, generic, root=exit).cause == "storage-io"


def test_a_hint_without_a_label_is_of_the_rank_and_node_that_the_report_names() -> None:
    exit = incident("exit-code", 0, 8.0, 900, node="n1", report=report(2, 0))
    found = hinted(event("file-not-found", None, None, 100, role="hint"), root=exit)
    assert found.root is not None
    assert (found.root.main.origin.rank, found.root.main.origin.node) == (0, "n1")


def test_without_any_incident_a_hint_names_the_root() -> None:
    hint, labelled = event("storage-io", None, 5.0, 100, role="hint"), event("storage-io", 4, 5.0, 100, role="hint")
    found = hinted(hint, root=None)
    assert found.root is not None
    assert (found.cause, found.root.report) == ("storage-io", None)
    assert hinted(labelled, root=None).root is None
    assert hinted(labelled, root=incident("peer-lost", 4, 6.0, 9)).cause == "peer-lost"


def test_a_generic_cause_gives_way_within_a_tick() -> None:
    generic = incident("python-error", 1, 10.0, 1)
    assert chosen(generic, incident("file-not-found", 2, 10.9, 2)).cause == "file-not-found"
    assert chosen(generic, incident("file-not-found", 2, 11.1, 2)).cause == "python-error"
    assert chosen(generic, incident("file-not-found", 2, 10.0, 2), order="file").cause == "python-error"


def test_an_exit_that_its_witness_calls_first_is_first() -> None:
    one = incident("exit-code", 1, 8.0, 1, report=report(1, 1, time=8.0))
    first = incident("exit-code", 2, 8.0, 2, report=report(1, 2, time=8.0, first=True))
    told = (report(1, 1, time=8.0), report(1, 2, time=8.0, first=True))
    assert chosen(one, first, reports=told).root == first
    assert chosen(one, first, reports=(*told, report(1, 7, time=7.0, first=True))).root == one


def test_what_the_file_shows_above_a_lower_bound_was_first() -> None:
    bound = incident("file-not-found", 1, 5.0, 300, bound=True)
    timed = incident("cuda-oom", 2, 9.0, 200)
    timed_later = incident("address-in-use", 2, 10.0, 100)
    also_bound = incident("storage-io", 4, 8.0, 50, bound=True, role="root")
    assert chosen(bound, timed, timed_later).root == timed
    assert chosen(bound, timed, also_bound).root == timed
    assert chosen(bound, also_bound).root == also_bound
    assert chosen(bound, incident("cuda-oom", 2, 9.0, 400)).root == bound
    assert chosen(bound, incident("cuda-oom", 2, 9.0, 200, source=1)).root == bound
    assert [i.cause for i in chosen(bound, timed, also_bound).rivals] == ["file-not-found", "storage-io"]
