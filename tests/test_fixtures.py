"""Every labelled case: the cause, the first rank, its exit, the decisive line; and healthy jobs left in peace."""

import re

import pytest

from cases import Case, cases, same_ending, verdict_of

FAILED = [c for c in cases() if c.truth["failed"]]
HEALTHY = [c for c in cases() if not c.truth["failed"]]
RANKED = [c for c in FAILED if c.truth.get("rank_certain") and c.truth.get("rank") is not None]
ENDED = [c for c in FAILED if c.truth.get("exit_code") is not None]


def named(case: Case) -> str:
    return case.name


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def test_there_are_enough_cases_of_each_kind() -> None:
    assert len(FAILED) >= 40
    assert len(HEALTHY) >= 8
    assert sum(c.truth.get("made") == "run" for c in cases()) >= 40


@pytest.mark.parametrize("case", FAILED, ids=named)
def test_the_root_cause_is_named(case: Case) -> None:
    found = verdict_of(case.name)
    assert found.verdict == "failed"
    assert found.cause.id in case.accepted, found.reasons


@pytest.mark.parametrize("case", RANKED, ids=named)
def test_the_first_failing_rank_is_named(case: Case) -> None:
    first = verdict_of(case.name).first_failure
    assert first is not None
    assert first.rank == case.truth["rank"], first.how
    assert first.how


@pytest.mark.parametrize("case", ENDED, ids=named)
def test_its_own_exit_is_told(case: Case) -> None:
    ending = verdict_of(case.name).exit
    assert same_ending(case.truth["exit_code"], ending.code, ending.signal), ending


UNSHOWN = {"sysexit-accelerate-r1"}
"""Logs whose decisive sentence stands unlabelled above an exit code: a verdict quotes the code's line alone."""


@pytest.mark.parametrize("case", FAILED, ids=named)
def test_the_decisive_line_is_shown(case: Case) -> None:
    found = verdict_of(case.name)
    text = squeezed("\n".join([found.first_failure.text or "", *(e.text for e in found.evidence[:3])]))
    assert any(squeezed(e) in text for e in case.truth["evidence"]) is (case.name not in UNSHOWN), text


@pytest.mark.parametrize("case", HEALTHY, ids=named)
def test_healthy_jobs_are_left_in_peace(case: Case) -> None:
    assert verdict_of(case.name).verdict != "failed"
