"""Mistakes of a batch script bear on the causes that they bring about, and only where the job ended so."""

from typing import Any

import pytest

from builders import case, incident
from slurmdoctor.infer.evidence import apply_script
from slurmdoctor.model import Finding, ScriptEvidence, ScriptMistake, reason

BEFORE = reason("before")


def mistake(check: str, *causes: str, level: str = "warning", line: int = 4) -> ScriptMistake:
    return ScriptMistake(check, level, line, f"{check} says", "why", "fix", causes=frozenset(causes))


def applied(
    cause: str | None, *mistakes: ScriptMistake, verdict: str = "failed", rule: str | None = None, **facts: Any
) -> Finding:
    root = incident(cause) if cause else None
    finding = Finding(verdict, root, cause, rule, facts=facts, reasons=(BEFORE,), confidence="low")  # type: ignore[arg-type]
    return apply_script(finding, ScriptEvidence("job.sbatch", {}, mistakes), case())


def checks(found: Finding) -> list[str]:
    return [m.check for m in found.mistakes]


def test_a_mistake_that_brings_the_cause_about_is_named_with_its_line() -> None:
    one, other = mistake("gpus-unset", "gpu-oom"), mistake("port", "address-in-use")
    found = applied("gpu-oom", other, one)
    says = reason("script-says", script="job.sbatch", line=4, says="gpus-unset says")
    assert (found.mistakes, found.hiding, found.script, found.reasons) == ((one,), (), "job.sbatch", (BEFORE, says))
    assert found.confidence == "low"


def test_without_a_failure_or_a_mistake_of_its_cause_nothing_changes() -> None:
    one = mistake("gpus-unset", "gpu-oom")
    for found in (applied("gpu-oom", one, verdict="no-failure"), applied(None, one), applied("cuda-error", one)):
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


def test_mistakes_of_the_limit_count_by_how_the_job_ended() -> None:
    names = ("signal-not-handled", "signal-window-short", "background-left", "after-exec", "other")
    every = [mistake(name, "time-limit") for name in names]

    def bearing(**facts: Any) -> set[str]:
        return {name for one in every for name in checks(applied("time-limit", one, **facts))}

    assert bearing() == {"signal-window-short", "other"}
    assert bearing(signalled=True) == {"signal-not-handled", "other"}
    assert bearing(ended="finished") == {"signal-window-short", "background-left", "after-exec", "other"}
    assert bearing(ended="hung") == {"signal-window-short", "other"}
