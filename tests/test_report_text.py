"""The terminal report, as someone reads it at 3 a.m."""

import io
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from builders import event
from report_examples import ALL_ALIKE, CUDA_OOM, EXAMPLES, EXIT_CODE, NO_FAILURE, SILENT, UNKNOWN
from slurmdoctor import diagnose
from slurmdoctor.model import (
    Coverage,
    Diagnosis,
    Evidence,
    Exit,
    Extent,
    FirstFailure,
    Remedy,
    RunState,
    from_code,
    reason,
)
from slurmdoctor.report import text_report as text
from slurmdoctor.report.reasons import sentence
from slurmdoctor.report.terminal import cells, look
from slurmdoctor.report.wording import Row, headline, others
from tables import table
from test_report_goldens import TextFile


@pytest.mark.parametrize("name", EXAMPLES)
def test_at_80_columns(name: str, snapshot: SnapshotAssertion) -> None:
    assert text.render_text(EXAMPLES[name], width=80, colour=False) == snapshot(extension_class=TextFile)


def test_at_120_columns(snapshot: SnapshotAssertion) -> None:
    assert text.render_text(CUDA_OOM, width=120, colour=False) == snapshot(extension_class=TextFile)


def assert_fits(shown: str, width: int) -> None:
    lines = shown.splitlines()
    assert len(lines) <= text.LIMIT
    assert width < 40 or max(map(cells, lines)) <= width


@pytest.mark.parametrize("name", EXAMPLES)
def test_fits(name: str) -> None:
    for width in (40, 60, 80, 120, 200):
        assert_fits(text.render_text(EXAMPLES[name], width=width, colour=False), width)


def test_context_shows_the_traceback() -> None:
    shown = text.render_text(CUDA_OOM, width=80, colour=False, context=100)
    for line in CUDA_OOM.first_failure.traceback if CUDA_OOM.first_failure else ():
        assert line.split()[0] in shown
    assert "  fix  " in shown
    assert "pretrain_gpt.py" not in text.render_text(CUDA_OOM, width=80, colour=False, context=2)


def test_ranks_shows_how_each_stands() -> None:
    *_, first, rest = text.render_text(CUDA_OOM, width=80, colour=False, ranks=True).splitlines()
    assert (first.split()[:2], rest.split()[:2]) == (["first", "13"], ["collateral", "0-12,14-63"])
    assert rest.endswith("job.log:48300")


def test_colour_changes_nothing_but_colour() -> None:
    coloured = text.render_text(CUDA_OOM, width=80, colour=True)
    assert "\x1b[" in coloured
    plain = "\n".join(line.rstrip() for line in re.sub(r"\x1b\[[\d;]*m", "", coloured).splitlines())
    assert plain.strip() == text.render_text(CUDA_OOM, width=80, colour=False).strip()


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8", "no-such-codec"])
def test_every_encoding_can_take_it(encoding: str) -> None:
    shown = text.render_text(SILENT, width=80, colour=False, encoding=encoding)
    shown.encode("ascii" if encoding == "no-such-codec" else encoding)
    assert shown.startswith("✗" if encoding == "utf-8" else "x")


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "environ", "colour"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": ""}, True),
        (False, {"FORCE_COLOR": "1"}, True),
        (False, {"FORCE_COLOR": "0"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_and_width_are_the_users_to_say(terminal: bool, environ: dict[str, str], colour: bool) -> None:
    assert look(_Terminal() if terminal else io.StringIO(), environ).colour is colour
    widths = {columns: look(io.StringIO(), {**environ, "COLUMNS": columns}).width for columns in ("72", "10", "x", "")}
    assert widths == {"72": 72, "10": 40, "x": 100, "": 100}


def test_headlines() -> None:
    def told(ranks: tuple[int, ...] = (), of: int | None = None, **changes: object) -> str:
        return headline(replace(ALL_ALIKE, extent=Extent(ranks, of), **changes))

    assert told(first_failure=FirstFailure()) == "the job could not find a file"
    assert told(first_failure=FirstFailure(node="n1")) == "a process on n1 could not find a file"
    assert told(first_failure=FirstFailure(local_rank=2, node="n1")).startswith("local rank 2 on n1 could")
    assert told((0, 1, 2, 5)).startswith("ranks 0-2,5 could")
    assert told((0, 1), 2).startswith("both ranks could")
    assert told(tuple(range(0, 60, 2)), 64).startswith("30 of 64 ranks could")
    cause = EXIT_CODE.cause
    assert told((1,), cause=cause, first_failure=FirstFailure(rank=1), exit=Exit(-9, "SIGKILL", "killed")) == (
        "rank 1 was killed by SIGKILL; the log does not say why"
    )
    heading = replace(cause, id="cuda-oom", title="GPU out of memory")
    assert told((1,), cause=heading, first_failure=FirstFailure(rank=1)) == "rank 1: probably GPU out of memory"
    low = replace(ALL_ALIKE, cause=replace(ALL_ALIKE.cause, title="was stopped by SIGTERM", confidence="low"))
    assert headline(low) == "all 8 ranks were probably stopped by SIGTERM"
    assert others(replace(ALL_ALIKE, facts={"world_size": 8})) == "other ranks"
    assert others(replace(ALL_ALIKE, facts={}, coverage=Coverage())) == "other processes"
    assert headline(NO_FAILURE) == "no failure found"
    assert headline(UNKNOWN).endswith("the job failed")


hostile = st.text(st.one_of(st.sampled_from("\x1b[31m\x9b\x00\r\n\t\u202e\u2066│✗"), st.characters()), max_size=300)


@given(hostile, st.integers(1, 160))
def test_nothing_in_a_log_can_break_the_report(said: str, width: int) -> None:
    first = FirstFailure(rank=1, node=said, file=said, line=3, text=said, traceback=(said,), time=said)
    proof = (Evidence(said, 9, said, 1, said, said, said, said, "root"),)
    fixes = (Remedy(said, said), Remedy(said))
    diagnosis = replace(CUDA_OOM, first_failure=first, evidence=proof, reasons=(said,), fixes=fixes)
    shown = text.render_text(diagnosis, width=width, colour=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert_fits(shown, width)


GIVEN: dict[str, Callable[[Any], Any]] = {
    "state": lambda state: RunState(**state) if isinstance(state, dict) else state,
    "derived": lambda code: None if code is None else from_code(code),
    "step": lambda step: (*step[:2], from_code(step[2])) if isinstance(step, list) else step,
    "ended": lambda ended: [(rank, from_code(code), witness) for rank, code, witness in ended],
    "earlier": lambda causes: [event(cause) for cause in causes],
}


@pytest.mark.parametrize(("code", "values", "words"), table("reasons")["sentences"])
def test_a_reason_in_words(code: str, values: dict[str, Any], words: str) -> None:
    made = {name: GIVEN[name](value) if name in GIVEN else value for name, value in values.items()}
    assert sentence(reason(code, **made)) == words


def _made(one: Any) -> Any:
    return msgspec.convert(one, Diagnosis) if isinstance(one, dict) else one


@pytest.mark.parametrize(("found", "how", "shown"), table("reasons")["rendered"])
def test_a_report_as_it_is_printed(found: Any, how: dict[str, Any], shown: str) -> None:
    assert text.render_text(_made(found), **{"colour": False, **how}) == shown


def test_of_files_that_nobody_could_read_a_row_says_why() -> None:
    def row(verdict: Any = "unknown", files: int = 0, *notes: str) -> str:
        return Row.of(Diagnosis(verdict, coverage=Coverage(files=files, notes=notes))).headline

    assert row("unknown", 0, "a.out: denied") == "a.out: denied"
    others = [row("failed", 0, "x"), row("unknown", 1, "x"), row("unknown", 0)]
    assert others == [headline(Diagnosis(verdict)) for verdict in ("failed", "unknown", "unknown")]


def test_a_node_that_the_log_only_numbers_is_said() -> None:
    log = "[Node 0] starting\n[Node 2] Traceback (most recent call last):\n[Node 2] ValueError: bad shard\n"
    assert "a process on node 2 raised" in diagnose(log).to_text()
    assert diagnose(log).first_failure.node is None, "no name of a host, so nothing to leave out"
