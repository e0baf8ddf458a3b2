"""Whether a job failed: events that it survived, exits that count, and what came after its finish."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, event, finish, incident, report, step, timeline
from slurmdoctor.infer.outcome import decide_whether_failed, live_events, unresolved_exits
from slurmdoctor.model import Finding, Incident, Progress, reason

DEAD, GONE_ON = event("python-error", at=30), event("storage-io", at=10, survived=True)
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
    assert parted(progress=[step(8, steps=9)]) == "failed"
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
    assert told(step(4), cut=True) == ("unknown", ("cut-short",))


def test_in_another_file_the_clock_tells_what_came_after_a_finish() -> None:
    done = finish(at=50, time=100.0)
    assert verdict(incident("x", at=60, source=1, time=99.0), finished=done) == "no-failure"
    assert verdict(incident("x", at=40, source=1, time=100.0), finished=done) == "failed"
    assert verdict(incident("x", at=40, source=1), finished=done) == "failed"
    assert verdict(incident("x", at=40, source=1, time=9.0), finished=finish(at=50)) == "failed"
