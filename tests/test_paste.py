"""A paste gives the same cause as the log that it was made of; a log that is no paste is never touched."""

import time
from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, strategies as st

from slurmdoctor import diagnose
from slurmdoctor.input import paste
from slurmdoctor.input.paste import LIMIT, LineStarts, Row
from slurmdoctor.knowledge import folders, load
from wrap_pastes import WAYS, cause, logs, tail

EACH = 4
"""Cases a way."""
KNOWLEDGE = load(folders(()), examples=False)


def undo(text: str) -> paste.Undone:
    return paste.undo(text, KNOWLEDGE)


def joined(rows: list[Row]) -> list[Row] | None:
    return paste.joined(rows, LineStarts(KNOWLEDGE))


@cache
def small() -> list[tuple[str, str, list[str]]]:
    return [case for case in logs() if len(case[1]) < 16 * 1024]


@pytest.mark.parametrize("way", sorted({*WAYS, "tail"}))
def test_the_same_cause_as_unwrapped(way: str) -> None:
    """Each way takes other cases."""
    step = len(small()) // EACH
    chosen = small()[sorted([*WAYS, "tail"]).index(way) % step :: step]
    pasted = {name: tail(text, words) if way == "tail" else WAYS[way](text) for name, text, words in chosen}
    wrong = [name for name, text, _ in chosen if cause(pasted[name]) != cause(text)]
    assert len(wrong) <= 1, wrong


def test_a_log_is_not_touched() -> None:
    assert {name: done for name, text, _ in logs() if (done := undo(text).done)} == {}


LOG = """\
[rank0]: Traceback (most recent call last):
[rank0]:   File "/srv/train.py", line 12, in <module>
[rank0]:     main(args)
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB
srun: error: gpu-02: task 0: Exited with exit code 1"""

WORDS = {
    "fence": "fences", "fence-unclosed": "fences", "fence-tilde": "fences", "quote": "quotation", "html": "entities",
    "indent": "indentation", "cat-n": "line numbers", "less-N": "line numbers", "grep-n": "line numbers",
    "bat": "line numbers",
    "wrap-80": "hard-wrapped", "one-line-escaped": "line ends", "nbsp": "blanks",
}  # fmt: skip


@pytest.mark.parametrize("way", WORDS)
def test_the_log_is_back_and_the_coverage_says_how(way: str) -> None:
    undone = undo(WAYS[way](LOG))
    back = [line for line in undone.text.split("\n") if line.strip()]
    assert [line.strip() for line in back if "My job" not in line] == [line.strip() for line in LOG.split("\n")]
    found = diagnose(WAYS[way](LOG) + "\n")
    assert found.cause.id == "cuda-oom"
    assert any(WORDS[way] in done for done in undone.done)
    assert len(found.coverage.notes) == 1


def test_lines_keep_the_numbers_of_the_paste() -> None:
    found = diagnose("My job died:\n\n```\n" + LOG + "\n```\n")
    assert found.first_failure.line == 7
    found = diagnose(WAYS["wrap-80"](LOG) + "\n")
    assert found.first_failure.text is not None
    assert found.first_failure.text.endswith("79.11 GiB")


NO_PASTES = {
    "megatron's own quotation marks": "> building train, validation, and test datasets ...\n> finished\n" + LOG,
    "srun's labels": "\n".join(f"{n}: step {n}" for n in range(8)),
    "two short lines": "0: torch.OutOfMemoryError: CUDA out of memory\n1: torch.OutOfMemoryError: CUDA out of memory",
    "a table": "\n".join(f"{n:5d}  {n * 7:8d}" for n in (3, 9, 4, 12, 40)),
    "an equal width": "\n".join(f"[rank{n}]: " + "x" * 70 + f" step {n}" for n in range(9)),
    "sentences of one width": "a" * 79 + ".\nB" + "b" * 78 + ".\nC" + "c" * 78 + ".",
    "one long line": "x" * 5000,
    "times of day": "12:01:03 step 1\n12:01:04 step 2\n12:02:05 step 3",
    "an entity among brackets": 'File "a.py", in <module>\nget(<Url https://x/?a=1&amp;b=2&amp;c=3>)',
    "a small shell script": "set -e\nexport A=1\n" + LOG,
}


@pytest.mark.parametrize("text", NO_PASTES.values(), ids=list(NO_PASTES))
def test_what_is_no_paste(text: str) -> None:
    assert undo(text).text == text


def test_what_is_longer_than_a_paste_is_a_log() -> None:
    assert [bool(undo("> a\n" * lines).done) for lines in (20_000, 20_001)] == [True, False]
    assert diagnose("> " * (LIMIT // 2)).coverage.notes != diagnose("> " * (LIMIT // 2) + ">").coverage.notes


def test_a_wrap_of_one_line_is_believed_only_where_something_is_torn() -> None:
    for line in (
        "slurmstepd: error: *** STEP 88121.0 ON pool0-00017 CANCELLED AT 2026-01-20T03:11:09 DUE TO TIME LIMIT ***",
        "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate (2.00 gigabytes of 79.11)",
        "[rank3]: FileNotFoundError: no such file or directory is here at all that has 'name of shard'",
    ):
        assert joined(list(enumerate([line[:80], line[80:]], 1))) == [(1, line)]
    assert joined([(1, "w" * 80), (2, "next step")]) is None


def _bar(n: int) -> str:
    return f"Epoch {n // 700}: {n % 100:3d}%|{'█' * (n % 10):10}| {n}/9000 [{n // 600:02d}:{n % 60:02d}<12:{n % 60:02d}, {9 / (n + 1):.2f}it/s]"


LONG_LOGS = {
    "bars": "\n".join(_bar(n) for n in range(3000)),
    "dicts": "\n".join(f"{{'loss': {3 / (n + 1):.4f}, 'grad_norm': {n % 7}, 'epoch': {n / 100}}}" for n in range(3000)),
    "stamps": "\n".join(f"[2026-11-20 12:{n % 60:02d}:07] INFO {n} loader -> 'a' & 'b' | c" for n in range(3000)),
    "marked code": "Traceback\n"
    + "\n".join(f'    x{n} = a["b{n % 9}"]\n    ~~~~~^^^^^ 12:{n % 60:02d}:09' for n in range(1500)),
}


@pytest.mark.parametrize("text", LONG_LOGS.values(), ids=list(LONG_LOGS))
def test_a_long_log_without_signs_is_soon_let_be(text: str) -> None:
    began = time.process_time()
    assert undo(text).done == ()
    assert time.process_time() - began < 2


class Counted:
    """Lets lines begin nowhere, or everywhere, and counts those that it is asked about."""

    def __init__(self, fresh: bool) -> None:
        self.fresh = fresh
        self.asked = 0

    def believed_by(self, lines: object) -> Callable[[str], bool]:
        return self.begins

    def begins(self, line: str) -> bool:
        self.asked += 1
        return self.fresh


@pytest.mark.parametrize(("fresh", "widths", "most"), [(True, "one", 210), (False, "one", 3000), (False, "bars", 0)])
def test_wraps_are_sought_in_a_sample_and_no_line_is_asked_about_twice(fresh: bool, widths: str, most: int) -> None:
    short = (lambda n: n % 20 and 3 + n % 3) if widths == "bars" else lambda n: 0
    rows = [(n, f"{n:08d} " + "w" * (90 - short(n))) for n in range(3000)]
    starts = Counted(fresh)
    paste.joined(rows, starts)  # type: ignore[arg-type]
    assert starts.asked <= most


PIECES = st.sampled_from(
    ["```", "~~~", "> ", "&lt;", "&amp;", "$ ", "12\t", "  7 ", "10:05 AM", "Ada  ", "[10:05 AM] ", "Traceback (most recent call last):",
     '  File "a.py", line 3, in f', "KeyError: 'x'", "[rank3]: ", "srun: error: n1: task 3: Killed", "\n", "\n", "\\n", " ", "`", "\r", "\0",
     "=" * 40, "\u200b", "\u00a0", "“", "<https://a|b>", "0: ", "1: ", "x" * 80]
)  # fmt: skip


@given(st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=60).map("".join))
def test_any_text_is_undone_without_a_fall(text: str) -> None:
    undone = undo(text)
    if undone.done:
        assert len(undone.numbers) == len(undone.text.split("\n"))
        assert all(1 <= n <= text.count("\n") + 1 for n in undone.numbers)
        assert list(undone.numbers) == sorted(undone.numbers)
    else:
        assert undone.text == text
