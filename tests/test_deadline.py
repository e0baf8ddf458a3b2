"""What `--time-limit` promises, by a clock that goes forward each time it is asked."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurmdoctor import diagnose
from slurmdoctor.cli import cli
from slurmdoctor.input.opening import open_sources
from slurmdoctor.input.sources import BLOCK, Source
from slurmdoctor.input.streams import Spool, Streamed
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import Deadline, Diagnosis
from slurmdoctor.pipeline import examine
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.readers import assembly
from slurmdoctor.report import render, text_report as text

KNOWLEDGE = load(folders(()), examples=False)
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity\n"
KEY = "[rank1]: KeyError: 'weight'\n"
QUIET = "2026-11-20 12:00:01 loader opened a shard of the data set without any trouble\n"
STEP = "iteration 100/ 5000 | elapsed time per iteration (ms): 812.4 | lm loss: 2.31E+00 |\n"
LIMIT = 100.0
HEADS, TAILS, AGAIN = 0.65 * LIMIT, 0.85 * LIMIT, LIMIT
"""Moments at which the reading from the front is over, that of the ends too, and all."""


def clock(*moments: tuple[int, float]) -> Callable[[], float]:
    """(asks, moment): so many askings are told the moment; the last one stays."""

    def told() -> Iterator[float]:
        for asks, moment in moments[:-1]:
            for _ in range(asks):
                yield moment
        while True:
            yield moments[-1][1]

    asked = told()
    return lambda: next(asked)


def read(sources: list[Source], *moments: tuple[int, float], jobs: int = 1) -> Diagnosis:
    try:
        return examine(sources, KNOWLEDGE, jobs=jobs, deadline=Deadline(LIMIT, 0.0, clock(*moments)))
    finally:
        for source in sources:
            source.close()


def quiet(megabytes: int) -> str:
    return QUIET * (megabytes * 1024 * 1024 // len(QUIET))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 MB: steps, an error that nobody may see in the midst of it, and the failure at the end."""
    path = tmp_path_factory.mktemp("job") / "job.log"
    path.write_text(STEP + quiet(8) + KEY + quiet(12) + OOM)
    return path


FOUR_BLOCKS = ((5, 0.0), (1, HEADS))
"""One asking before the first block, and one before each."""


def test_the_head_and_the_end_are_read_and_behind_the_midst_no_line_has_a_number(log: Path) -> None:
    found = read(open_sources([log]).sources, *FOUR_BLOCKS)
    assert (found.cause.id, found.cause.confidence) == ("cuda-oom", "medium")
    assert "KeyError" not in str(found)
    assert found.coverage.notes == ("stopped reading after the limit of 100 s: read 2.4 MB of 21.0 MB",)
    assert found.coverage.bytes == pytest.approx(4 * BLOCK * 7 / 6, abs=1000)
    assert read(open_sources([log]).sources, (2, 0.0), (1, AGAIN)).cause.id == "cuda-oom"  # the start took all the time
    assert found.first_failure.line is None
    assert {item.line for item in found.evidence} == {None}
    forms = [render(found, form) for form in ("json", "markdown", "slack")]
    for shown in (text.render_text(found, width=200, colour=False), *forms):
        assert ("job.log" in shown, "None" in shown, f"{log}:" in shown) == (True, False, False)


def test_the_limit_holds_within_a_line(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(OOM.replace("\n", " ") * 40_000)
    found = read(open_sources([path]).sources, (20, 0.0), (1, HEADS))
    (note,) = (note for note in found.coverage.notes if "limit" in note)
    assert note.startswith("stopped reading after the limit of 100 s: read ")
    assert found.coverage.bytes < 300_000 < path.stat().st_size


def test_what_was_not_read_is_not_called_healthy(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text(STEP + quiet(20) + STEP.replace(" 100/", " 5000/"))
    assert read(open_sources([path]).sources, (1, 0.0)).verdict == "no-failure"
    found = read(open_sources([path]).sources, *FOUR_BLOCKS)
    assert found.verdict == "unknown"
    assert "only part of the log was read" in found.reasons[0]


def test_a_limit_that_is_not_met_changes_nothing(log: Path) -> None:
    assert diagnose([log], time_limit=3600) == diagnose([log])


def test_a_limit_that_is_met_behind_the_last_byte_was_not_met(tmp_path: Path) -> None:
    """The rest is shorter than the end that is read in any case: it is read, and its lines have their numbers."""
    path = tmp_path / "job.log"
    path.write_text(STEP + quiet(2) + OOM)
    found = read(open_sources([path]).sources, *FOUR_BLOCKS)
    assert found == read(open_sources([path]).sources, (1, 0.0))
    assert found.coverage.notes == ()


def test_each_process_stops(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmdoctor.search.scanner.WORTH", 1024 * 1024)
    found = read(open_sources([log]).sources, *FOUR_BLOCKS, jobs=2)
    assert (found.cause.id, found.first_failure.line) == ("cuda-oom", None)
    assert found.coverage.bytes < 13 * 1024 * 1024


def test_of_thousands_of_files_no_more_is_read_than_their_ends(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / f"rank_{number}.log").write_text(QUIET * 10 + (OOM if number == 150 else ""))
    sources = open_sources([tmp_path]).sources
    found = read(sources, (3, 0.0), (1, TAILS))
    assert found.verdict == "unknown"
    assert sum(source.searched > 0 for source in sources) == 1 + 8
    found = read(open_sources([tmp_path]).sources, (3, 0.0), (1, HEADS))
    assert found.cause is not None  # small files are read whole
    assert found.coverage.notes == ()


class Endless:
    """A pipe whose writer never stops."""

    def __init__(self) -> None:
        self.given = 0

    def read1(self, size: int = -1) -> bytes:
        self.given += size
        return (QUIET * (size // len(QUIET) + 1)).encode()[: size - 1] + b"\n"

    def close(self) -> None:
        pass


def test_a_pipe_without_end_is_left(capfd: pytest.CaptureFixture[str]) -> None:
    pipe = Endless()
    found = read([Source("-", None, None, Streamed("-", lambda: pipe, Spool()))], *FOUR_BLOCKS)
    assert found.verdict == "unknown"
    assert found.coverage.notes == ("stopped reading after the limit of 100 s: read 2.1 MB",)
    assert pipe.given <= 8 * BLOCK


def test_no_line_is_read_again_once_the_time_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of what the search found the first lines are read in any case; the verdict is on them."""
    monkeypatch.setattr(assembly, "_AT_LEAST", 8)
    path = tmp_path / "job.log"
    path.write_text(STEP + OOM + "".join(f"[rank{n}]: ValueError: no such key\n" for n in range(40)))
    again: list[int] = []
    line = Excerpts.line
    monkeypatch.setattr(Excerpts, "line", lambda *given: again.append(1) or line(*given))  # type: ignore[func-returns-value]
    read(open_sources([path]).sources, (1, 0.0))
    in_time = len(again)
    found = read(open_sources([path]).sources, (1, 0.0), (3, 0.0), (1, AGAIN))
    assert (found.cause.id, found.cause.confidence) == ("cuda-oom", "medium")
    assert found.coverage.notes == ("the reading time limit was reached before all relevant lines were examined",)
    assert len(again) - in_time < in_time


def test_the_command_line_has_it(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float | None] = []

    def noted(*_: object, time_limit: float | None, **__: object) -> object:
        asked.append(time_limit)
        return diagnose("a\n")

    monkeypatch.setattr("slurmdoctor.pipeline.diagnose", noted)
    for words in (["--time-limit", "30"], []):
        assert CliRunner().invoke(cli, ["diagnose", *words, str(log)]).exit_code == 0
    assert asked == [30, None]
