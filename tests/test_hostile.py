"""Whatever is pasted: an answer or a reason, in bounded time and memory; never a traceback, always valid JSON and Markdown.

`python tests/hostile.py` measures ten megabytes of every kind; here all kinds are met small, and a few of them whole.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import fuzz
import hostile
from fuzz import assert_sound
from slurmdoctor import diagnose
from slurmdoctor.matching import engine
from slurmdoctor.model import UserError
from slurmdoctor.report import chat, render
from slurmdoctor.search.tally import Tally
from test_report_chat import ALLOWED, LIVE, outside_of_code, tokens

BUSY = 4 if "PYTEST_XDIST_WORKER" in os.environ or (os.getloadavg()[0] > 1.5) else 2
"""CPU time counts more on a machine that does other things besides."""


def answered(job: str | bytes) -> None:
    try:
        found = diagnose(job)
    except UserError as error:
        reason = str(error)
    else:
        assert_sound(found)
        return
    assert reason
    assert "\n" not in reason


@pytest.mark.slow
@pytest.mark.parametrize("kind", hostile.KINDS)
def test_a_paste_of_each_kind(kind: str) -> None:
    """As much as a message of a chat holds, and some more, as text and as a log in a file."""
    data = hostile.KINDS[kind]()[: 64 * 1024]
    began = time.process_time()
    answered(data)
    answered(data.decode("utf-8", "replace"))
    assert time.process_time() - began < 2 * BUSY


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["brackets-one-line", "tracebacks", "one-word", "zeros", "controls", "escapes", "srun-ranges"]
)
def test_ten_megabytes(kind: str) -> None:
    told = dict(hostile.measured(hostile.KINDS[kind]()))
    assert told["status"] in (0, 2)
    assert told["cpu"] < 2 * BUSY
    assert told["MB"] < 200


_MANY = "9" * 5000


@pytest.mark.parametrize(
    "line",
    [
        f"[rank{_MANY}]: RuntimeError: CUDA out of memory",
        f"(Worker pid={_MANY}, ip=10.0.0.1) KeyError: 'x'",
        f"srun: error: n1: task 1: Exited with exit code {_MANY}",
        f"srun: error: n1: tasks {_MANY}-{_MANY}9: Killed",
        f"failed (exitcode: {_MANY}) local_rank: {_MANY} (pid: {_MANY}) of binary: /usr/bin/python",
        f"[Rank 2] last enqueued work: {_MANY}, last completed work: {_MANY}",
        f" iteration {_MANY}/ {_MANY} | elapsed time per iteration (ms): {_MANY} | lm loss: 1\nKeyError: 1",
        f"[0]:\n  time      : 2026-11-21_08:08:01\n  rank      : {_MANY} (local_rank: {_MANY})\n  exitcode  : {_MANY} (pid: {_MANY})",
        *(f"INFO [rank 5] world_size={n}\n[rank1]: torch.OutOfMemoryError: CUDA out of memory" for n in (10**8, _MANY)),
        "[rank99999999]: torch.OutOfMemoryError: CUDA out of memory\n[rank1]: KeyError: 1",
    ],
)
def test_a_number_that_no_job_has(line: str) -> None:
    """As many ranks as a line says would be listed, and Python reads no more than some thousand digits."""
    found = diagnose(line + "\n")
    assert_sound(found)
    assert sum(len(group.ranks) for group in found.ranks) <= 10


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.text(
        st.one_of(st.sampled_from("`*_~<>[]()!@#|&$:/\\\n\r\t -+=.1aE\x1b\0\u200b\u202e\ud800"), st.characters()),
        max_size=300,
    )
)
def test_any_words_of_an_exception(said: str) -> None:
    """The words of strangers, where they are quoted."""
    found = diagnose(f"[rank3]: RuntimeError: {said}\n")
    assert_sound(found)
    shown = render(found, "markdown")
    assert {token.type for token in tokens(shown)} <= ALLOWED
    assert not LIVE.search(outside_of_code(shown))


# ── damaged logs: one result by the C and by the Python twin (`tests/fuzz.py`) ──


@pytest.mark.slow
def test_no_damaged_log_makes_it_fall() -> None:
    assert fuzz.run(seed=2, numbers=range(1500)) == []


def test_what_the_fuzzer_found_does_not_come_back() -> None:
    """A label that holds the learner's mark, a finish without a stamp, a number of 5,000 digits, a million ranks; a tag without its name, a line whose event was dropped."""
    assert fuzz.run(seed=23, numbers=[4992, 7286, 33103, 34761, 11553]) == []
    assert fuzz.run(seed=24, numbers=[22411]) == []
    assert fuzz.run(seed=25, numbers=[13513]) == []


@pytest.mark.slow
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
