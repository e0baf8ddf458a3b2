"""Lines of new words that mean what hundreds before them meant are counted with them, and a failure among them is still found."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmdoctor.pipeline import diagnose
from slurmdoctor.search import reader
from slurmdoctor.search.reader import Outcomes, likeness
from slurmdoctor.search.tally import Tally

OOM = "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has 79.1 GiB in all\n"


def watched(monkeypatch: pytest.MonkeyPatch, method: str) -> list[bytes]:
    """Every line that a method of the reader is called with."""
    lines: list[bytes] = []
    call = getattr(reader.Reader, method)

    def noted(self: reader.Reader, line: bytes, *rest: Any) -> Any:
        lines.append(line)
        return call(self, line, *rest)

    monkeypatch.setattr(reader.Reader, method, noted)
    return lines


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Every line whose meaning was asked for."""
    return watched(monkeypatch, "_learn_asked")


def _words(count: int) -> Iterator[str]:
    dice = random.Random(7)
    return ("".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=9)) for _ in range(count))


def test_of_lines_that_mean_the_same_some_hundreds_are_asked(tmp_path: Path, asked: list[bytes]) -> None:
    log = tmp_path / "job.log"
    log.write_text("".join(f"[rank3]: ValueError: {word} is not in the vocabulary\n" for word in _words(3000)))
    found = diagnose(log)
    assert len(asked) < 1.2 * reader.TAKEN
    assert "repeated lines were counted together with the hundreds like them" in str(found.coverage.notes)


def test_a_known_failure_amid_thousands_of_other_errors_is_the_cause(tmp_path: Path) -> None:
    lines = [f"ValueError: {word} is not in the vocabulary, skipped\n" for word in _words(3000)]
    log = tmp_path / "job.log"
    log.write_text("".join([*lines[:2000], OOM, *lines[2000:]]))
    found = diagnose(log)
    assert (found.cause.id, found.first_failure.line) == ("cuda-oom", 2001)


@pytest.mark.slow
def test_near_a_logs_end_no_line_is_thrown_away_unasked(tmp_path: Path, asked: list[bytes]) -> None:
    log = tmp_path / "job.log"
    refused = [f"retry of {word}: no ValueError: here\n" for word in _words(reader.REFUSED + 8_000)]
    last = "".join(refused[-100:])
    log.write_text("".join(refused))
    diagnose(log)
    assert len(asked) < len(refused)
    assert {line.decode() + "\n" for line in asked} >= set(last.splitlines(keepends=True))


def test_a_line_that_comes_again_and_again_is_soon_known_by_its_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "job.log"
    new = [f"ValueError: {word} is gone\n" for word in _words(600)]
    log.write_text("".join(new) + "ValueError: the same is gone\n" * 3000)
    learnt = watched(monkeypatch, "_learn")
    diagnose(log)
    assert sum(b"the same" in line for line in learnt) < 20


def test_one_line_that_means_something_else_begins_the_count_anew() -> None:
    known, taken = Outcomes(), Tally(4)
    known.belongs(taken, [7])
    key = likeness([7], b"0: ValueError: x", 3)
    for _ in range(reader.TAKEN - 1):
        known.learn(key, taken)
    known.learn(key, None)
    for _ in range(reader.TAKEN - 1):
        known.learn(key, taken)
    assert known.settled(key, near_end=False) is None
    known.learn(key, taken)
    settled = known.settled(key, near_end=False)
    assert (settled and settled.tally) is taken


def test_lines_are_alike_by_their_matchers_and_the_ends_of_their_first_words() -> None:
    raised = likeness([7], b"12: ValueError: 'a'", 4)
    assert raised == likeness([7], b"345: KeyError: 'b'", 5)
    assert raised != likeness([7], b"12: cannot parse x: KeyError: 'b'", 4)
    assert raised != likeness([7, 9], b"12: ValueError: 'a'", 4)
