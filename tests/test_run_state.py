"""Whether a job stood still at its end, had finished, or made steps: limits on either side."""

from typing import Any

import pytest

from builders import event, finish, step, timeline
from slurmdoctor.model import JobRecord, RunState, Timeline
from slurmdoctor.timeline.ordering import end_of, run_state


def steps(*times: float, of: int | None = None, **more: Any) -> Timeline:
    return timeline(progress=[step(n, time, of) for n, time in enumerate(times, 1)], **more)


def record(**fields: Any) -> JobRecord:
    return JobRecord("42", **fields)


def test_the_end_is_start_and_elapsed_then_end_then_the_last_line() -> None:
    last = event("cancelled", time=70.0)
    assert end_of(record(start=100.0, elapsed=50, end=900.0), last) == 150.0
    assert end_of(record(start=100.0, end=900.0), last) == 900.0
    assert end_of(record(elapsed=50, end=900.0), last) == 900.0
    assert end_of(record(start=100.0), last) == 70.0
    assert end_of(None, last) == 70.0
    assert end_of(None, None) is None


def test_a_line_without_a_stamp_ends_the_job_when_it_says_so_itself() -> None:
    told = {"at": "1970-01-01T00:02:00"}
    assert end_of(None, event("cancelled", time=70.0, bound=True, captures=told)) == 120.0
    assert end_of(None, event("cancelled", captures=told)) == 120.0
    assert end_of(None, event("cancelled", time=70.0, bound=True)) is None
    assert end_of(None, event("cancelled", captures={"at": "Unknown"})) is None


@pytest.mark.parametrize(
    ("idle", "kind"),
    [
        (26 * 3600.0, "hung"),
        (4000.0, "hung"),
        (7200.0, None),
        (5.5 * 3600 + 40, None),
        (3600.0 - 30, None),
        (20.0, "progressing"),
    ],
)
def test_what_may_be_two_time_zones_is_no_stall(idle: float, kind: str | None) -> None:
    assert run_state(steps(10.0, 20.0, 30.0, 40.0, 50.0), 50.0 + idle).kind == kind


def test_a_finish_after_the_last_step_is_a_finish_with_its_idle_time() -> None:
    done = steps(10.0, 20.0, finished=finish(at=9, time=30.0))
    assert run_state(done, 90.0) == RunState("finished", idle=60.0)
    assert run_state(done, 30.0) == RunState("finished", idle=0.0)
    assert run_state(timeline(finished=finish(at=9, time=30.0)), 31.0) == RunState("finished", idle=1.0)


def test_steps_after_a_finish_take_it_back() -> None:
    later = timeline(progress=[step(n, n * 10.0) for n in range(1, 6)], finished=finish(at=3, time=30.0))
    assert run_state(later, 60.0).kind == "progressing"
    same_place = timeline(progress=[step(5, 50.0, at=5)], finished=finish(at=5, time=50.0))
    assert run_state(same_place, 60.0).kind is None


def test_the_last_of_all_steps_is_a_finish() -> None:
    assert run_state(steps(10.0, 20.0, of=2), None) == RunState("finished", step=2)
    assert run_state(timeline(progress=[step(None, 10.0)]), 20.0) == RunState()
    assert run_state(timeline(), 20.0) == RunState()


def test_a_state_has_its_times_and_the_last_step() -> None:
    found = run_state(steps(0.0, 10.0, 20.0, 40.0), 1040.0)
    assert found == RunState("hung", idle=1000.0, since=40.0, pause=10.0, step=4)
    assert run_state(steps(40.0), 50.0, record(elapsed=50)) == RunState("progressing", 10.0, 40.0, None, 1)


@pytest.mark.parametrize(
    ("end", "kind"), [(None, None), (20.0, None), (930.0, None), (931.0, "hung"), (30.0 + 3600, None)]
)
def test_without_a_first_step_the_time_since_the_loop_began_tells(end: float | None, kind: str | None) -> None:
    began = timeline(began=finish(at=9, time=30.0, text="Starting training"))
    found = run_state(began, end)
    assert (found.kind, (found.idle or 0.0) >= 0.0) == (kind, True)
    assert run_state(began, end and 30.0 + 3600, record(elapsed=9)).kind == (end and "hung")


def test_steps_of_another_clock_prove_nothing() -> None:
    times = (1000.0, 1010.0, 1020.0, 1030.0)
    assert run_state(steps(*times), 970.0) == RunState("progressing", 0.0, 1030.0, 10.0, 4)
    assert run_state(steps(*times), 969.0) == RunState()
    assert run_state(steps(*times), 1040.0, record(start=1090.0)).kind == "progressing"
    assert run_state(steps(*times), 1040.0, record(start=1091.0)) == RunState()
