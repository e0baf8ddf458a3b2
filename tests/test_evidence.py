"""What proves a finding: its lines, where each rank stands, and the mistakes of the batch script that bring its cause about."""

from typing import Any

import pytest

from builders import case, event, failed, incident, line, observed, report, timeline
from slurmdoctor.infer.evidence import apply_script, blame_nodes, choose_evidence, group_ranks
from slurmdoctor.model import (
    CollectiveStatus,
    ExitReport,
    Finding,
    Incident,
    JobRecord,
    Observations,
    Origin,
    ProcessExit,
    RankStanding,
    ScriptEvidence,
    ScriptMistake,
    StackDump,
    Suspicion,
    parse_time,
    reason,
)

MADE, BEFORE = (reason("made"),), reason("before")


def places(root: Incident, **more: Any) -> list[int]:
    """Where the chosen lines stand."""
    log = case(timeline(collectives=more.pop("collectives", ())))
    return [one.hit.offset for one in choose_evidence(failed(root, **more), log).evidence]


def test_a_line_is_shown_once_and_eight_are_enough() -> None:
    main = event("gpu-fault", at=10)
    root = Incident(main, (*(event("gpu-fault", at=at) for at in (11, 10, 11, 12, 13, 14, 15, 16, 17, 18)), main))
    assert places(root) == [10, 11, 12, 13, 14, 15, 16, 17]
    assert len(places(Incident(main, (main, event("gpu-fault", at=10, source=1))))) == 2


def test_beside_a_suspect_a_rank_is_shown_that_waits_for_it() -> None:
    root = incident("python-error", at=10, rank=3)
    waits = tuple(incident("collective-timeout", role="either", at=at, rank=at) for at in (20, 21, 22))
    collectives = tuple(
        CollectiveStatus(1, "0", 1, order=order, seq=7, op=op)
        for order, op in ((20, None), (21, "ALLREDUCE"), (22, "ALLREDUCE"))
    )
    suspicion = Suspicion("missing", (3,), (), reason("did-not-wait"), "medium")
    assert places(root, same=waits, collectives=collectives, suspicion=suspicion) == [10, 21]
    assert places(root, same=waits, collectives=collectives) == [10]


def stood(
    finding: Finding, seen: Observations | None = None, reports: tuple[ExitReport, ...] = ()
) -> tuple[RankStanding, ...]:
    return group_ranks(finding, case(timeline((), reports), seen))


def test_a_bad_exit_shows_that_a_rank_ended_and_a_good_one_nothing() -> None:
    root = incident("cuda-oom", 3, 10.0, 30)
    reports = (
        report(1, 5, at=90),
        report(-15, 6, 7, at=91, source=1),
        report(-15, 8, at=92),
        report(1, 9, at=93, witness="mpirun"),
        report(0, 2, at=94),
    )
    one, term = ProcessExit(1, None, "unknown"), ProcessExit(None, "SIGTERM", "unknown")
    assert stood(failed(root, how=MADE, origin=root.main.origin), reports=reports) == (
        RankStanding("first", (3,), MADE, (0, 30)),
        RankStanding("collateral", (5,), (reason("ended-without-error", exit=one, witness="srun"),), (0, 90)),
        RankStanding("collateral", (6, 7, 8), (reason("ended-without-error", exit=term, witness="srun"),), (1, 91)),
        RankStanding("collateral", (9,), (reason("ended-without-error", exit=one, witness="mpirun"),), (0, 93)),
    )


def suspected(kind: Any, ranks: tuple[int, ...], root: Incident | None = None, **more: Any) -> Finding:
    suspicion = Suspicion(kind, ranks, (0, 1), reason("made"), "low", **more)
    return failed(root or incident("collective-timeout", 0, 10.0, 5), suspicion=suspicion)


LAST_WORDS = {6: line("loading", source=2, at=70)}


def test_a_suspect_stands_with_the_line_that_shows_it() -> None:
    def place(finding: Finding, seen: Observations | None = None, *reports: ExitReport) -> tuple[int, int] | None:
        suspect, *_ = stood(finding, seen, reports)
        assert (suspect.standing, suspect.ranks, suspect.why) == ("suspect", (6, 7), MADE)
        return suspect.place

    two, words = suspected("missing", (6, 7)), observed(last_words=LAST_WORDS)
    assert place(two) is None
    assert place(two, words) == (2, 70)
    assert place(two, observed(last_words={7: LAST_WORDS[6]})) is None
    assert place(two, None, report(1, 5, at=80), report(1, 7, at=90)) == (0, 90)
    assert place(two, words, report(1, 7, at=90)) == (2, 70)
    own = suspected("behind", (6, 7), incident("collective-timeout", 7, 10.0, 5))
    assert place(own, words) == (0, 5)


def test_where_stacks_show_it_the_others_wait() -> None:
    dumps = {r: StackDump(r, "wait (a.py:1)", line("dump", source=1, at=100 + r), "wait (a.py)") for r in (0, 1, 6)}
    seen = observed(dumps=dumps, last_words=LAST_WORDS)
    assert stood(suspected("behind", (6,), stuck_in="read (a.py:9)"), seen) == (
        RankStanding("suspect", (6,), MADE, (1, 106)),
        RankStanding("waiting", (0, 1), (reason("stacks-show-waiting"),), (1, 100)),
    )
    suspect, others = stood(suspected("behind", (6,)), seen)
    assert (suspect.place, others.why) == ((2, 70), (reason("waited-for-others", cause="collective-timeout"),))
    assert stood(suspected("behind", (9,), stuck_in="read (a.py:9)"), seen)[0].place is None


def test_nodes_that_slurm_reports_by_the_next_day_are_blamed_where_the_cause_may_be_theirs() -> None:
    def blamed(cause: str, day: int, node: str | None = "n2", end: str = "2026-11-20T12:00:00") -> str:
        bad = {"n1": f"DRAIN bad GPU [root@2026-11-{day}T10:00:00]"}
        record = JobRecord("4", end=parse_time(end), bad_nodes=bad)
        finding = failed(incident(cause, node=node), record=record, origin=Origin(node=node))
        return ",".join(blame_nodes(finding, case()).exclude)

    assert [blamed("gpu-fault", day) for day in (20, 21, 22)] == ["n2,n1", "n2,n1", "n2"]
    assert blamed("gpu-fault", 22, end="Unknown") == "n2,n1"
    assert (blamed("collective-timeout", 20), blamed("python-error", 20, None)) == ("n1", "")


def mistake(check: str, *causes: str, level: str = "warning", line: int = 4) -> ScriptMistake:
    return ScriptMistake(check, level, line, f"{check} says", "why", "fix", causes=frozenset(causes))


def applied(
    cause: str, *mistakes: ScriptMistake, verdict: str = "failed", rule: str | None = None, **facts: Any
) -> Finding:
    root = incident(cause)
    finding = Finding(verdict, root, cause, rule, facts=facts, reasons=(BEFORE,), confidence="low")  # type: ignore[arg-type]
    return apply_script(finding, ScriptEvidence("job.sbatch", {}, mistakes), case())


def checks(found: Finding) -> list[str]:
    return [m.check for m in found.mistakes]


def test_a_mistake_that_brings_the_cause_about_is_named_with_its_line() -> None:
    one, other = mistake("gpus-unset", "gpu-oom"), mistake("port", "address-in-use")
    found = applied("gpu-oom", other, one)
    says = reason("script-says", script="job.sbatch", line=4, says="gpus-unset says")
    assert (found.mistakes, found.hiding, found.script, found.reasons) == ((one,), (), "job.sbatch", (BEFORE, says))
    for found in (applied("gpu-oom", one, verdict="no-failure"), applied("cuda-error", one)):
        assert (found.mistakes, found.script, found.reasons) == ((), None, (BEFORE,))


def test_two_mistakes_are_enough_and_a_note_counts_least() -> None:
    note, *three = mistake("n", "gpu-oom", level="note"), *(mistake(name, "gpu-oom") for name in ("a", "b", "c"))
    found = applied("gpu-oom", note, *three)
    assert checks(found) == ["a", "b"]
    assert [why.values["says"] for why in found.reasons[1:]] == ["a says", "b says"]
    assert checks(applied("gpu-oom", note, three[0])) == ["a", "n"]


def test_a_mistake_may_bring_about_one_kind_of_a_cause_alone() -> None:
    one = mistake("gloo", "collective-timeout/gloo")
    assert checks(applied("collective-timeout", one, rule="collective-timeout/gloo")) == ["gloo"]
    assert checks(applied("collective-timeout", one, rule="collective-timeout/watchdog")) == []


def test_only_an_error_of_the_script_proves_a_cause_that_scripts_prove() -> None:
    assert applied("address-in-use", mistake("port", "address-in-use", level="error")).confidence == "high"
    assert applied("address-in-use", mistake("port", "address-in-use")).confidence == "low"
    assert applied("gpu-oom", mistake("gpus", "gpu-oom", level="error")).confidence == "low"


@pytest.mark.parametrize("check", ["exit-status-in-pipe", "exit-status-lost"])
def test_what_hides_an_exit_status_counts_where_the_script_ended_well(check: str) -> None:
    one, other = mistake(check, "x"), mistake("other", "x")
    found = applied("python-error", other, one, mistake(check, line=9), script_ended=0)
    says = reason("script-says", script="job.sbatch", line=4, says=f"{check} says")
    assert (found.mistakes, found.hiding, found.reasons) == ((), (one,), (BEFORE, says))
    assert applied("python-error", one).hiding == applied("python-error", one, script_ended=1).hiding == ()


@pytest.mark.parametrize(
    ("facts", "bearing"),
    [
        ({}, {"signal-window-short", "other"}),
        ({"signalled": True}, {"signal-not-handled", "other"}),
        ({"ended": "finished"}, {"signal-window-short", "background-left", "after-exec", "other"}),
        ({"ended": "hung"}, {"signal-window-short", "other"}),
    ],
)
def test_mistakes_of_the_limit_count_by_how_the_job_ended(facts: dict[str, Any], bearing: set[str]) -> None:
    names = ("signal-not-handled", "signal-window-short", "background-left", "after-exec", "other")
    every = [mistake(name, "time-limit") for name in names]
    assert {name for one in every for name in checks(applied("time-limit", one, **facts))} == bearing
