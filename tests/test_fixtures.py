"""Every labelled case: the cause, the first rank, its exit, the decisive line; and healthy jobs left in peace."""

import re

import pytest

from cases import Case, cases, same_ending, verdict_of

CASES = pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
UNSHOWN = {"sysexit-accelerate-r1"}
"""Logs whose decisive sentence stands unlabelled above an exit code: a verdict quotes the code's line alone."""


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_there_are_enough_cases_of_each_kind() -> None:
    assert sum(case.truth["failed"] for case in cases()) >= 40
    assert sum(not case.truth["failed"] for case in cases()) >= 8
    assert sum(case.truth.get("made") == "run" for case in cases()) >= 40


@CASES
def test_the_root_cause_is_named_and_healthy_jobs_are_left_in_peace(case: Case) -> None:
    found = verdict_of(case.name)
    assert (found.verdict == "failed") is case.truth["failed"], found.reasons
    assert not case.truth["failed"] or found.cause.id in case.accepted, found.reasons


@CASES
def test_the_first_failing_rank_and_its_own_exit_are_named(case: Case) -> None:
    found, truth = verdict_of(case.name), case.truth
    if truth["failed"] and truth.get("rank_certain") and truth.get("rank") is not None:
        assert found.first_failure.rank == truth["rank"], found.first_failure.how
        assert found.first_failure.how
    if truth["failed"] and truth.get("exit_code") is not None:
        assert same_ending(truth["exit_code"], found.exit.code, found.exit.signal), found.exit


@pytest.mark.parametrize("case", [case for case in cases() if case.truth["failed"]], ids=lambda case: case.name)
def test_the_decisive_line_is_shown(case: Case) -> None:
    found = verdict_of(case.name)
    text = squeezed("\n".join([found.first_failure.text or "", *(e.text for e in found.evidence[:3])]))
    assert any(squeezed(e) in text for e in case.truth["evidence"]) is (case.name not in UNSHOWN), text
