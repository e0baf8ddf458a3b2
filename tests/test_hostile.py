"""Whatever is pasted: an answer or a reason, in bounded time and memory; never a traceback, always valid JSON and Markdown.

`python tests/hostile.py` measures ten megabytes of every kind; here all kinds are met small, and a few of them whole.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import hostile
import slurmdoctor
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import UserError
from slurmdoctor.report import render, text_report as text
from test_report_chat import ALLOWED, LIVE, assert_harmless, outside_of_code, tokens

BUSY = 4 if "PYTEST_XDIST_WORKER" in os.environ or (os.getloadavg()[0] > 1.5) else 2
"""CPU time counts more on a machine that does other things besides."""


@cache
def schema() -> dict[str, Any]:
    return dict(json.loads((Path(slurmdoctor.__file__).parent / "report" / "schema.json").read_text()))


def assert_sound(found: Diagnosis) -> None:
    """Every format can be made, is valid, and holds nothing that it must not."""
    told = json.loads(render(found, "json"))
    jsonschema.validate(told, schema())
    said = render(found, "markdown")
    assert_harmless(said, quotes="```" in said)
    message = json.loads(render(found, "slack"))
    assert len(message["text"]) <= 3000
    assert len(json.dumps(message["blocks"])) <= 12_000
    shown = text.render_text(found, width=80, colour=False, context=50, ranks=True)
    for out in (said, shown, render(found, "json")):
        out.encode()
        assert not any((ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0 for c in out)


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


def made(kind: str) -> bytes:
    """64 KiB of it."""
    if kind in ("literals", "examples"):
        return (hostile.literals if kind == "literals" else hostile.examples)(64 * 1024)
    return hostile.KINDS[kind]()[: 64 * 1024]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*hostile.KINDS, "literals", "examples"])
def test_a_paste_of_each_kind(kind: str) -> None:
    """As much as a message of a chat holds, and some more, as text and as a log in a file."""
    data = made(kind)
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


@cache
def lines() -> list[str]:
    """Lines that rules and readers take, and what makes trouble between them."""
    known = load(folders([]))
    return [
        *(line for rule in known.rules for line in rule.match),
        *(line for signal in known.signals for line in signal.match),
        "Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()", "KeyError: 'x'", "",
        "During handling of the above exception, another exception occurred:", "srun: error: n[1-4]: tasks 0-3,7: Killed",
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026-01-20T03:11:09 DUE TO TIME LIMIT ***",
        "step 7 loss 0.1", "```", "> x", "\x1b[31m", "\0", "\r", "Root Cause (first observed failure):", "[0]:",
        "  time      : 2026-11-21_08:08:01", "  rank      : 3 (local_rank: 3)", "  exitcode  : -9 (pid: 7)",
        "<!channel> @everyone [x](http://y.example) `` ``` ~~~", "9" * 400, "a" * 5000,
    ]  # fmt: skip


@st.composite
def logs(draw: st.DrawFn) -> str:
    """Lines of real shape in any order, labelled, cut, doubled and damaged."""
    every = lines()
    chosen = []
    for number in draw(st.lists(st.integers(0, len(every) - 1), max_size=25)):
        line = every[number]
        how = draw(st.integers(0, 9))
        if how == 0:
            line = line[draw(st.integers(0, len(line))) :]
        elif how == 1:
            line = line[: draw(st.integers(0, len(line)))]
        elif how == 2:
            line = (
                draw(
                    st.sampled_from(["[rank{}]: ", "{}: ", "[default{}]:", "n{}:1:2 [0] ", "2026-01-02 03:04:0{} "])
                ).format(draw(st.integers(0, 9)))
                + line
            )
        elif how == 3:
            line += draw(st.text(max_size=20))
        chosen.append(line)
    return draw(st.sampled_from(["\n", "\n", "\n", "\r\n", " ", "\n> ", "\\n"])).join(chosen) + "\n"


RELAXED = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@RELAXED
@given(logs())
def test_any_log_of_known_lines(log: str) -> None:
    answered(log)


@RELAXED
@given(st.binary(max_size=600))
def test_any_bytes(data: bytes) -> None:
    answered(data + b"\n")


@RELAXED
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
