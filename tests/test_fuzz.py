"""Damaged logs: an answer or a reason, valid JSON, and one result by the C and by the Python twin (`tests/fuzz.py`)."""

import subprocess
import sys
from pathlib import Path

import pytest

import fuzz
from slurmdoctor.matching import engine
from slurmdoctor.report import chat
from slurmdoctor.search.tally import Tally


@pytest.mark.slow
def test_no_damaged_log_makes_it_fall() -> None:
    assert fuzz.run(seed=2, numbers=range(1500)) == []


def test_what_the_fuzzer_found_does_not_come_back() -> None:
    """A label that holds the learner's mark, a finish without a stamp, a number of 5,000 digits, a million ranks; a tag without its name, a line whose event was dropped."""
    assert fuzz.run(seed=23, numbers=[4992, 7286, 33103, 34761, 11553]) == []
    assert fuzz.run(seed=24, numbers=[22411]) == []
    assert fuzz.run(seed=25, numbers=[13513]) == []


@pytest.mark.parametrize(
    "which", [["--seed", "2"], ["--seed", "26", "--only", "8245"]], ids=["some", "a pipe of 4,000"]
)
def test_no_damaged_script_makes_lint_fall(which: list[str], tmp_path: Path) -> None:
    # in a process of its own: what these tests hold already is not lint's
    command = [sys.executable, fuzz.__file__, "--scripts", "40", *which]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_log_is_made_again_from_its_number() -> None:
    assert fuzz.made(1, 7) == fuzz.made(1, 7)
    assert all(0 < len(data) <= fuzz.LARGEST for number in range(50) for data in fuzz.made(1, number))


def test_the_fuzzer_sees_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "slack_message", lambda found: str(1 / 0))
    assert [(n, wrong.partition(":")[0]) for n, wrong in fuzz.run(1, [3])] == [(3, "ZeroDivisionError")]


@pytest.mark.skipif(engine.native is None, reason="the loop was not compiled here")
def test_the_fuzzer_sees_twins_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Tally.add
    monkeypatch.setattr(Tally, "add", lambda self, label, place: right(self, label, place + 1))
    fell = fuzz.run(1, range(4))
    assert fell
    assert all("by Python" in wrong for _, wrong in fell)
