"""Where each rank stands in a failure: a rank stands in one group, with the reason and a line that shows it."""

from typing import Any

from builders import case, failed, incident, line, observed, report, timeline
from slurmdoctor.infer.evidence import group_ranks
from slurmdoctor.model import (
    ExitReport,
    Finding,
    Incident,
    Observations,
    ProcessExit,
    RankStanding,
    StackDump,
    Suspicion,
    reason,
)


def stood(
    finding: Finding, seen: Observations | None = None, reports: tuple[ExitReport, ...] = ()
) -> tuple[RankStanding, ...]:
    return group_ranks(finding, case(timeline((), reports), seen))


def first() -> Finding:
    """Rank 3 ran out of memory first."""
    root = incident("cuda-oom", 3, 10.0, 30)
    return failed(root, how=(reason("made"),), origin=root.main.origin)


THIRD = RankStanding("first", (3,), (reason("made"),), (0, 30))


def test_a_bad_exit_shows_that_a_rank_ended_and_a_good_one_nothing() -> None:
    reports = (
        report(1, 5, at=90),
        report(-15, 6, 7, at=91, source=1),
        report(-15, 8, at=92),
        report(1, 9, at=93, witness="mpirun"),
        report(0, 2, at=94),
    )
    one, term = ProcessExit(1, None, "unknown"), ProcessExit(None, "SIGTERM", "unknown")
    assert stood(first(), reports=reports) == (
        THIRD,
        RankStanding("collateral", (5,), (reason("ended-without-error", exit=one, witness="srun"),), (0, 90)),
        RankStanding("collateral", (6, 7, 8), (reason("ended-without-error", exit=term, witness="srun"),), (1, 91)),
        RankStanding("collateral", (9,), (reason("ended-without-error", exit=one, witness="mpirun"),), (0, 93)),
    )


def suspected(kind: Any, ranks: tuple[int, ...], root: Incident | None = None, **more: Any) -> Finding:
    suspicion = Suspicion(kind, ranks, (0, 1), reason("made"), "low", **more)
    return failed(root or incident("collective-timeout", 0, 10.0, 5), suspicion=suspicion)


def test_a_suspect_stands_with_the_line_that_shows_it() -> None:
    def place(finding: Finding, seen: Observations | None = None, *reports: ExitReport) -> tuple[int, int] | None:
        suspect, *_ = stood(finding, seen, reports)
        assert (suspect.standing, suspect.ranks, suspect.why) == ("suspect", (6, 7), (reason("made"),))
        return suspect.place

    two = suspected("missing", (6, 7))
    assert place(two) is None
    words = observed(last_words={6: line("loading", source=2, at=70)})
    assert place(two, words) == (2, 70)
    assert place(two, observed(last_words={7: line("loading", source=2, at=70)})) is None
    assert place(two, None, report(1, 5, at=80), report(1, 7, at=90)) == (0, 90)
    assert place(two, words, report(1, 7, at=90)) == (2, 70)
    own = suspected("behind", (6, 7), incident("collective-timeout", 7, 10.0, 5))
    assert place(own, words) == (0, 5)


def test_where_stacks_show_it_the_others_wait() -> None:
    dumps = {r: StackDump(r, "wait (a.py:1)", line("dump", source=1, at=100 + r), "wait (a.py)") for r in (0, 1, 6)}
    seen = observed(dumps=dumps, last_words={6: line("loading", source=2, at=70)})
    found = stood(suspected("behind", (6,), stands_in="read (a.py:9)"), seen)
    assert found == (
        RankStanding("suspect", (6,), (reason("made"),), (1, 106)),
        RankStanding("waiting", (0, 1), (reason("stacks-show-waiting"),), (1, 100)),
    )
    by_numbers = stood(suspected("behind", (6,)), seen)
    assert by_numbers[0].place == (2, 70)
    assert by_numbers[1].why == (reason("waited-for-others", cause="collective-timeout"),)
    assert stood(suspected("behind", (9,), stands_in="read (a.py:9)"), seen)[0].place is None
