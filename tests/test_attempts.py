"""Where a log is cut into attempts, whether a rank went on, in what order events came, and whether the job stood still at its end."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import event, finish, line, observed, report, step as made_step, timeline
from slurmdoctor.model import (
    LIMITS,
    CollectiveStatus,
    Event,
    ExitReport,
    JobRecord,
    LogFile,
    Observations,
    Origin,
    Progress,
    RunState,
    Signal,
    SignalHit,
    Timeline,
    reason,
)
from slurmdoctor.readers.survival import made_steps
from slurmdoctor.timeline.attempts import END, Attempts, find
from slurmdoctor.timeline.ordering import end_of, order, run_state


def step(
    order: int, rank: int | None = None, number: int | None = 1, time: float | None = None, **more: Any
) -> Progress:
    source = more.pop("source", 0)
    return Progress(source, order, order, rank, more.pop("label", b""), number, None, time)


def mark(kind: Any, order: int, source: int = 0, **captures: str) -> SignalHit:
    return SignalHit(Signal(kind, kind, ("made",), "made"), line("made", source=source, at=order), order, captures)


def seen(
    *events: Event,
    reports: tuple[ExitReport, ...] = (),
    marks: tuple[SignalHit, ...] = (),
    steps: tuple[Progress, ...] = (),
    size: int = 10_000,
) -> Observations:
    files = (LogFile("a.log", size, 100),)
    return replace(observed(reports=reports, signals=marks, progress=steps, files=files), events=events)


def cut(*events: Event, **more: Any) -> Attempts:
    return find(events, seen(*events, **more))


def error(order: int, **more: Any) -> Event:
    return event("cuda-oom", 1, 10.0, order, **more)


def test_the_last_attempt_that_failed_is_the_verdicts() -> None:
    marks = (mark("attempt", 1000), mark("attempt", 5000))
    assert cut(error(100), error(9000), marks=marks) == Attempts((5000, END), ((0, 1000),), 2)
    assert cut(error(100), error(2000), error(9000), marks=marks) == Attempts((5000, END), ((0, 1000), (1000, 5000)), 3)
    assert cut(error(9000), reports=(report(1, 1, at=500),), marks=marks) == Attempts((5000, END), ((0, 1000),), 2)
    hint = event("storage-io", 1, 1.0, 500, role="hint")
    assert cut(hint, error(9000), marks=marks) == Attempts((5000, END), (), 1)
    assert cut(marks=marks) == Attempts((5000, END), (), 3)


def test_what_stands_at_a_cut_belongs_to_the_attempt_that_begins_there() -> None:
    marks = (mark("attempt", 1000), mark("attempt", 0))
    assert cut(error(9000), marks=marks[:1], steps=(step(500),)) == Attempts((1000, END), (), 2), "only steps before it"
    assert cut(error(1000), marks=marks) == Attempts((1000, END), (), 1)
    assert cut(error(999), error(1000), marks=marks) == Attempts((1000, END), ((0, 1000),), 2)


def test_at_most_eight_earlier_attempts_are_kept() -> None:
    marks = tuple(mark("attempt", 1000 * n) for n in range(1, 10))
    found = cut(*(error(1000 * n + 1) for n in range(10)), marks=marks, size=9_500)
    assert (found.count, len(found.earlier), found.earlier[0]) == (10, 8, (1000, 2000))


def test_another_jobs_id_in_one_file_is_another_attempt() -> None:
    def ids(*places: tuple[int, str, int]) -> tuple[SignalHit, ...]:
        return tuple(mark("attempt", order, source, job=job) for order, job, source in places)

    assert cut(error(100), error(9000), marks=ids((0, "7", 0), (1000, "7", 0), (5000, "8", 0))).last == (5000, END)
    assert cut(error(100), error(9000), marks=ids((0, "7", 0), (5000, "8", 1))).last == (0, END)
    marks = (*ids((0, "7", 0), (5000, "7", 0)), mark("attempt", 1000))
    assert cut(error(100), error(9000), marks=marks).last == (1000, END), (
        "one that names none leaves the last one's name"
    )
    marks = ids((0, "7", 0), (1000, "8", 0), (2000, "8", 0), (3000, "7", 0))
    assert cut(error(100), error(1500), error(9000), marks=marks) == Attempts((3000, END), ((0, 1000), (1000, 3000)), 3)


def test_what_ends_the_job_cuts_where_the_log_goes_on() -> None:
    end = event("node-failure", None, 1.0, 1000, ends_job=True)
    assert cut(end, error(9000), steps=(step(2000),)) == Attempts((1001, END), ((0, 1001),), 2)
    assert cut(end, error(9000), marks=(mark("finished", 2000),)).last == (1001, END)
    assert cut(end, error(9000), steps=(step(500),)).last == (0, END)
    assert cut(end, error(9000), steps=(step(2000, source=1),)).last == (0, END)
    assert cut(replace(end, role="hint"), error(9000), steps=(step(2000),)).last == (0, END)


def agent(order: int, label: bytes = b"", kind: Any = "agent", source: int = 0) -> ExitReport:
    return report(1, 1, at=order, kind=kind, line=line("made", source=source, at=order, label=label))


def test_torchruns_agent_fails_once_an_attempt() -> None:
    assert cut(reports=(agent(1000), agent(5000))) == Attempts((1001, END), ((0, 1001),), 2)
    assert cut(reports=(agent(1000, b"0:"), agent(5000, b"1:"))).last == (0, END)
    assert cut(reports=(agent(1000), agent(5000, source=1))).last == (0, END)
    of_processes = [replace(agent(at), line=line(at=at, origin=Origin(pid=pid))) for at, pid in ((1000, 7), (5000, 8))]
    assert cut(reports=(of_processes[0], of_processes[1])).last == (0, END)
    assert cut(reports=(agent(1000), agent(3000, kind="table"), agent(5000))).last == (0, END)
    assert cut(reports=(agent(1000), agent(3000, kind="launcher"), agent(5000))).last == (1001, END)


def test_steps_after_a_lone_agents_last_failure_are_another_attempt() -> None:
    assert cut(reports=(agent(1000),), steps=(step(2000),)).last == (1001, END)
    assert cut(reports=(agent(1000),), steps=(step(500),)).last == (0, END)
    assert cut(reports=(agent(1000, b"0:"), agent(1001, b"1:")), steps=(step(2000),)).last == (0, END)


@pytest.mark.parametrize(
    ("failed", "steps", "went_on"),
    [
        (error(100), [step(200, 1)], True),
        (error(100), [step(50, 1)], False),
        (error(100), [step(100, 1)], False),
        (error(100), [step(200, 1, time=10.0)], False),
        (error(100), [step(200, 1, time=10.1)], True),
        (error(100), [step(200, 1, source=1)], False),
        (error(100), [step(200, 2)], False),
        (error(100), [step(200 + n, 2, n) for n in range(3)], False),
        (error(100), [step(200 + n, 2, n) for n in range(4)], True),
        (error(100), [step(200 + n, 2, 7) for n in range(4)], False),
        (error(100), [step(200 + n, n + 2, 7) for n in range(4)], True),
        (error(100, label=b"a:"), [step(200, label=b"a:")], True),
        (error(100, label=b"a:"), [step(200, label=b"b:")], False),
        (event("cuda-oom", None, None, 100), [step(200)], False),
        (event("cuda-oom", None, None, 100), [step(200, number=n) for n in range(2)], True),
        (event("cuda-oom", None, None, 100), [step(200), step(201)], False),
        (event("cuda-oom", None, None, 100, label=b"a:"), [step(200 + n, number=n) for n in range(3)], False),
        (event("cuda-oom", 0, None, 100), [step(200, 0)], True),
    ],
)
def test_a_later_step_shows_that_a_rank_went_on(failed: Event, steps: list[Progress], went_on: bool) -> None:
    assert made_steps(failed, [step for step in steps if step.source == failed.hit.source]) is went_on


def at(time: float | None, order: int, dated: bool = True, **more: Any) -> Event:
    made = event("cuda-oom", 1, time, order, **more)
    return replace(made, origin=replace(made.origin, dated=dated and time is not None))


def test_stamps_order_events_and_those_without_take_the_last_one_of_their_file() -> None:
    found = order(seen(at(50.0, 100), at(None, 200), at(20.0, 300), at(None, 50, source=1)))
    assert found.order == "timestamps"
    assert found.keys == {50: (20.0, 50), 100: (50.0, 100), 200: (50.0, 200), 300: (20.0, 300)}
    assert [e.order for e in found.events] == [50, 300, 100, 200]


def test_few_stamps_or_two_kinds_do_not_order() -> None:
    few = order(seen(at(50.0, 300), at(None, 200), at(None, 100)))
    assert (few.order, few.keys) == ("file", {100: (0.0, 100), 200: (0.0, 200), 300: (0.0, 300)})
    assert order(seen(at(50.0, 300), at(None, 200))).order == "timestamps"
    assert order(seen(at(50.0, 300), at(20.0, 200, dated=False))).order == "file"
    assert order(seen(at(50.0, 300, dated=False), at(20.0, 200, dated=False))).order == "timestamps"
    only_hints = order(seen(at(50.0, 300, role="hint")))
    assert (only_hints.order, only_hints.keys) == ("unknown", {300: (0.0, 300)})


def test_the_timeline_holds_the_last_attempt_and_the_earlier_ones_apart() -> None:
    marks = (mark("attempt", 1000), mark("survived", 120), mark("finished", 50), mark("finished", 60))
    early = [at(1.0, 100, survived=True), at(1.0, 110), at(2.0, 500, survived=True)]
    waits = tuple(CollectiveStatus(1, "0", 1, 2.0, at, 7, "ALLREDUCE") for at in (300, 5500))
    reports = (report(1, 1, at=600), report(1, 1, at=6000))
    steps = (step(40), step(45))
    both = replace(seen(*early, at(3.0, 5000), reports=reports, marks=marks, steps=steps), collectives=waits)
    found = order(both)
    assert ([e.order for e in found.events], found.reports, found.attempts) == ([5000], reports[1:], 2)
    assert found.collectives == waits[1:]
    (before,) = found.earlier
    assert [(e.order, e.survived) for e in before.events] == [(100, True), (110, False), (500, False)]
    assert before.reports == reports[:1]
    assert found.finished == marks[3]
    assert (found.last_progress, found.progress, found.notes) == (steps[1], steps, ())


def clocks(ahead: float, count: int = 3, jitter: float = 0.0) -> Observations:
    """Rank 1 on node b prints the same steps as rank 0 on node a, its clock `ahead`."""
    steps = [
        step(100 * n + rank, rank, n, 10.0 * n + (ahead + jitter * n if rank else 0.0))
        for n in range(1, count + 1)
        for rank in (0, 1)
    ]
    steps.append(step(9000, 0, 99, 990.0))
    events = (event("cuda-oom", 0, 50.0, 9500, node="a"), event("cuda-oom", 1, 48.0 + ahead, 9600, node="b"))
    known = replace(observed().rank_map, node_of={0: "a", 1: "b"})
    return replace(seen(*events, steps=tuple(steps)), rank_map=known)


@pytest.mark.parametrize(
    ("ahead", "count", "jitter", "aligned"),
    [
        (300.0, 3, 0.0, True),
        (-300.0, 3, 0.0, True),
        (3.0, 3, 0.0, True),
        # near; hardly compared; slow
        (2.9, 3, 0.0, False),
        (300.0, 2, 0.0, False),
        (300.0, 3, 1.1, False),
    ],
)
def test_a_clock_is_aligned_where_three_steps_agree(ahead: float, count: int, jitter: float, aligned: bool) -> None:
    found = order(clocks(ahead, count, jitter))
    note = reason("clocks-differ", name="b", seconds=ahead, reference="a", steps=3)
    assert found.notes == ((note,) if aligned else ())
    assert (found.keys[9500][0], found.keys[9600][0]) == (50.0, 48.0 if aligned else 48.0 + ahead)


def test_a_step_printed_twice_and_events_without_stamps_show_no_clock() -> None:
    made = clocks(300.0)
    twice = replace(made, progress=(*made.progress, step(9001, 1, 2, 999.0)))
    unstamped = tuple(replace(e, origin=Origin(rank=e.origin.rank, node=e.origin.node)) for e in made.events)
    assert order(twice).notes == order(replace(made, events=unstamped)).notes == ()


def begin(order: int, source: int = 0, name: str = "start", **captures: str) -> SignalHit:
    begun = mark("start", order, source, **captures)
    return replace(begun, signal=replace(begun.signal, id=name))


def test_what_begins_again_after_an_end_is_another_attempt() -> None:
    assert cut(error(100), error(9000), marks=(begin(0), begin(5000))) == Attempts((5000, END), ((0, 5000),), 2)
    assert cut(error(9000), reports=(report(1, 1, at=100),), marks=(begin(0), begin(5000))).last == (5000, END)
    # nothing ended between; it had not begun before; another sign; another file
    assert cut(error(6000), error(9000), marks=(begin(0), begin(5000))).last == (0, END)
    assert cut(error(100), error(9000), marks=(begin(5000),)).last == (0, END)
    assert cut(error(100), error(9000), marks=(begin(0, name="other"), begin(5000))).last == (0, END)
    assert cut(error(100), error(9000), marks=(begin(0, source=1), begin(5000))).last == (0, END)
    assert cut(error(100, retried=True), error(9000), marks=(begin(0), begin(5000))).last == (0, END)
    assert cut(error(100, role="hint"), error(9000), marks=(begin(0), begin(5000))).last == (0, END)


def test_what_several_processes_print_as_they_begin_is_no_sign_where_it_stands_twice_before_an_end() -> None:
    first, again, later = (begin(order, once="Namespace(") for order in (0, 10, 5000))
    assert cut(error(100), error(9000), marks=(first, later)).last == (5000, END)
    assert cut(error(100), error(9000), marks=(first, again, later)).last == (0, END)
    launched = (begin(0), begin(10), begin(5000))
    assert cut(error(100), error(9000), marks=launched).last == (5000, END), "what a launcher prints again is a start"


def ended(order: int, task: int = 0, node: str = "n1") -> ExitReport:
    return report(1, task, at=order, kind="step", node=node, tasks=(task,))


def test_a_task_that_ends_twice_ended_in_two_steps() -> None:
    assert cut(error(100), error(900), reports=(ended(200), ended(1000))).last == (201, END)
    assert cut(error(100), error(900), reports=(ended(200), ended(201, 1), ended(1000))).last == (202, END)
    again = (ended(200), ended(201, 1), ended(1000), ended(1200, 1))
    assert cut(error(100), error(900), error(1100), reports=again) == Attempts((202, END), ((0, 202),), 2)
    # no words that end a program between; of another witness; both spoke before; another task; another node
    for between in (error(900, retried=True), error(900, role="hint")):
        assert cut(error(100), between, reports=(ended(200), ended(1000))).last == (0, END)
    others = (replace(ended(200), kind="launcher"), replace(ended(1000), kind="launcher"))
    assert cut(error(100), error(900), reports=others).last == (0, END)
    assert cut(error(100), error(150), reports=(ended(200), ended(1000))).last == (0, END)
    assert cut(error(100), error(900), reports=(ended(200), ended(1000, 1))).last == (0, END)
    assert cut(error(100), error(900), reports=(ended(200), ended(1000, node="n2"))).last == (0, END)


def stepped(*times: float, of: int | None = None, **more: Any) -> Timeline:
    return timeline(progress=[made_step(n, time, of) for n, time in enumerate(times, 1)], **more)


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
    captures = {"at": "1970-01-01T00:02:00"}
    assert end_of(None, event("cancelled", time=70.0, bound=True, captures=captures)) == 120.0
    assert end_of(None, event("cancelled", captures=captures)) == 120.0
    assert end_of(None, event("cancelled", time=70.0, bound=True)) is None
    assert end_of(None, event("cancelled", captures={"at": "Unknown"})) is None


@pytest.mark.parametrize(
    ("idle", "kind"),
    [(93_600.0, "hung"), (4000.0, "hung"), (7200.0, None), (19_840.0, None), (3570.0, None), (20.0, "progressing")],
)
def test_what_may_be_two_time_zones_is_no_stall(idle: float, kind: str | None) -> None:
    assert run_state(stepped(10.0, 20.0, 30.0, 40.0, 50.0), 50.0 + idle).kind == kind


def test_a_finish_after_the_last_step_is_a_finish_with_its_idle_time() -> None:
    done = stepped(10.0, 20.0, finished=finish(at=9, time=30.0))
    assert run_state(done, 90.0) == RunState("finished", idle=60.0)
    assert run_state(done, 30.0) == RunState("finished", idle=0.0)
    assert run_state(timeline(finished=finish(at=9, time=30.0)), 31.0) == RunState("finished", idle=1.0)
    for end in (29.0, None, 30.0 + LIMITS.longest_job):
        assert run_state(done, end) == RunState("finished")
    assert run_state(stepped(10.0, 20.0, finished=finish(at=9)), 90.0) == RunState("finished")


def test_who_says_that_it_finished_is_rather_the_program_and_where_the_loop_began_is_told_if_no_word_followed() -> None:
    by_program, by_script = finish(at=10), mark("finished", 20, said="done")
    assert order(seen(marks=(by_program, by_script))).finished == by_program
    assert order(seen(marks=(by_script, by_script))).finished == by_script

    def began(*events: Event, marks: tuple[SignalHit, ...] = (), steps: tuple[Progress, ...] = ()) -> int | None:
        found = order(seen(*events, marks=(mark("begun", 1000), *marks), steps=steps)).began
        return found.order if found else None

    assert began() is None, "much was printed after it"
    assert began(error(1200)) == began(error(1200), steps=(step(500),)) == 1000
    assert began(error(1200), steps=(step(1100),)) is None
    assert began(error(900)) is began(error(1200, source=1)) is None
    assert began(error(1200), error(9000), marks=(mark("attempt", 5000),)) is None, "of an earlier attempt"


def test_steps_after_a_finish_take_it_back() -> None:
    later = timeline(progress=[made_step(n, n * 10.0) for n in range(1, 6)], finished=finish(at=3, time=30.0))
    assert run_state(later, 60.0).kind == "progressing"
    same_place = timeline(progress=[made_step(5, 50.0, at=5)], finished=finish(at=5, time=50.0))
    assert run_state(same_place, 60.0).kind is None


def test_the_last_of_all_steps_is_a_finish() -> None:
    assert run_state(stepped(10.0, 20.0, of=2), None) == RunState("finished", step=2)
    assert run_state(timeline(progress=[made_step(None, 10.0)]), 20.0) == RunState()
    assert run_state(timeline(), 20.0) == RunState()


def test_a_state_has_its_times_and_the_last_step() -> None:
    found = run_state(stepped(0.0, 10.0, 20.0, 40.0), 1040.0)
    assert found == RunState("hung", idle=1000.0, since=40.0, pause=10.0, step=4)
    assert run_state(stepped(40.0), 50.0, record(elapsed=50)) == RunState("progressing", 10.0, 40.0, None, 1)


@pytest.mark.parametrize(
    ("end", "kind"), [(None, None), (20.0, None), (930.0, None), (931.0, "hung"), (30.0 + 3600, None)]
)
def test_without_a_first_step_the_time_since_the_loop_began_tells(end: float | None, kind: str | None) -> None:
    began = timeline(began=finish(at=9, time=30.0, text="Starting training"))
    found = run_state(began, end)
    assert (found.kind, (found.idle or 0.0) >= 0.0) == (kind, True)
    assert run_state(began, 29.0, record(elapsed=9)).idle is None, "another clock"
    assert run_state(began, end and 30.0 + 3600, record(elapsed=9)).kind == (end and "hung")


def test_steps_of_another_clock_prove_nothing() -> None:
    times = (1000.0, 1010.0, 1020.0, 1030.0)
    assert run_state(stepped(*times), 970.0) == RunState("progressing", 0.0, 1030.0, 10.0, 4)
    assert run_state(stepped(*times), 969.0) == RunState()
    assert run_state(stepped(*times), 1040.0, record(start=1090.0)).kind == "progressing"
    assert run_state(stepped(*times), 1040.0, record(start=1091.0)) == RunState()
