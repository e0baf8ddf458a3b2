"""`slurmdoctor survey run`: what its users see."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from slurmdoctor.cli.survey import SurveyBar, in_words
from slurmdoctor.survey.dataset import progress_of
from slurmdoctor.survey.runs import Tally

FIXTURES = Path(__file__).parent / "fixtures"
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def survey(*args: object, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "slurmdoctor", "survey", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, preexec_fn=before)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    for number in range(3):
        place = folder / f"run{number}"  # the job's id is 471 and the number
        place.mkdir(parents=True)
        shutil.copy(FIXTURES / "demo-cascade/slurm-6.out", place / f"slurm-471{number}.out")
    return folder


def rows(out: Path, what: str) -> list[tuple[object, ...]]:
    found = duckdb.sql(f"SELECT {what} FROM '{out}/jobs/*/*.parquet' ORDER BY ALL")
    assert found is not None
    return found.fetchall()


def test_it_ends_with_what_was_done_where_it_is_and_what_to_do_next(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = survey(logs, "--out", out, "--jobs", 1)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "3 jobs, 3 of them failed; 3 read",
        f"rows: {out}/jobs",
        f"next: slurmdoctor survey report {out}",
    ]
    assert rows(out, "job_id, cause, rank") == [(f"471{number}", "disk-full", 5) for number in range(3)]
    assert survey("run", logs, "--out", out).stdout.startswith("3 jobs unchanged since the last run\n")


def test_what_is_left_out_by_its_name_is_told(logs: Path, tmp_path: Path) -> None:
    (logs / "train.py").write_text("x\n")
    done = survey(logs, "--out", tmp_path / "out", "--jobs", 1)
    assert f"left out: 1 file is no log by its name, as {logs}/train.py; " in done.stdout


def test_a_dataset_among_the_logs_is_not_taken_for_one(logs: Path) -> None:
    assert survey(logs, "--out", logs / "survey").returncode == 0
    workers = logs / "survey/.run/workers"
    workers.mkdir()
    (workers / "dask-worker-1.out").write_text("distributed.worker - ERROR - RuntimeError: gone\n")
    assert survey(logs, "--out", logs / "survey").stdout.startswith("3 jobs unchanged")


def test_a_log_that_cannot_be_read_is_a_row_and_no_failure_of_the_run(logs: Path, tmp_path: Path) -> None:
    (logs / "run1/slurm-4711.out").write_bytes(b"\x1f\x8b\x08 cut off")
    done = survey(logs, "--out", tmp_path / "out")
    assert done.returncode == 0
    assert "; 1 could not be read\nnot read, the first: " in done.stdout
    assert rows(tmp_path / "out", "read, verdict") == [("error", "unknown"), ("yes", "failed"), ("yes", "failed")]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["LOGS"], "missing option '--out'"),
        (["LOGS", "--out", "OUT", "--since", "soon"], "--since 'soon' is no time"),
        (["LOGS", "--out", "OUT", "--since", "2026-11-02", "--until", "2026-11-01"], "is not after --since"),
        (["--out", "OUT", "--since", "7d", "--slurm-info", "LOGS"], "--slurm-info is for the logs of PATHs"),
        (["LOGS/nosuch", "--out", "OUT"], "nosuch is not there"),
        (["LOGS", "--out", "LOGS"], "holds other things than a survey: name a new or an empty folder"),
        (["LOGS", "--out", "LOGS/run0/slurm-4710.out"], "is a file: name a folder"),
        (["LOGS", "--out", "/proc/nosuch"], "cannot write /proc/nosuch"),
        (["LOGS", "--out", "OUT", "--shard", "0/4"], "they are 1/N to N/N"),
        (["LOGS", "--out", "OUT", "--jobs", "2", "--dask-slurm", "2"], "--jobs and --dask-slurm name two kinds of workers"),
        (["LOGS", "--out", "OUT", "--dask-option", "queue=x"], "--dask-option is for the jobs of --dask-slurm"),
        (["LOGS", "--out", "OUT", "--dask-slurm", "1", "--dask-option", "queue"], "write NAME=VALUE"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line_and_leaves_nothing_behind(
    logs: Path, tmp_path: Path, args: list[str], told: str
) -> None:
    out = tmp_path / "out"
    done = survey(*(one.replace("LOGS", str(logs)).replace("OUT", str(out)) for one in args))
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert told in done.stderr
    assert not out.exists()


def test_a_full_disk_is_one_line_and_the_next_run_goes_on(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert survey(logs / "run0", "--out", out).returncode == 0
    full = survey(logs, "--out", out, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)))
    assert full.returncode == 2
    assert "make room there; the same command again goes on" in full.stderr
    assert len(full.stderr.splitlines()) == 1
    assert rows(out, "job_id") == [("4710",)]
    assert survey(logs, "--out", out).returncode == 0
    assert rows(out, "job_id") == [("4710",), ("4711",), ("4712",)]


@pytest.mark.parametrize(("name", "after"), [("SIGINT", 2.5), ("SIGTERM", 2.5), ("SIGINT", 0.3)])
def test_a_run_that_is_stopped_keeps_what_is_done(tmp_path: Path, name: str, after: float) -> None:
    out, logs = tmp_path / "out", tmp_path / "logs"
    logs.mkdir()
    for number in range(6000):  # no machine reads them before the signal comes
        (logs / f"slurm-{100_000 + number}.out").write_text(OOM)
    command = [sys.executable, "-m", "slurmdoctor", "survey", str(logs), "--out", str(out), "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 60
        while not (out / ".run/journal").is_dir() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(after)
        process.send_signal(signal.Signals[name])
        told, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    if told or after > 1:  # before anything is read there is nothing to tell
        assert told.splitlines()[-1] == "stopped; the same command goes on"
        done = int(told.split()[0].replace(",", ""))
        assert done == (len(rows(out, "key")) if done else 0)
        if done:
            mark = progress_of(out / ".run")
            assert mark is not None
            assert (mark.there, mark.finished) == (done, False)


# ── progress ──


def test_while_jobs_are_looked_for_that_is_said() -> None:
    tally = Tally(found=500, done=20, bytes_found=2_000_000_000, bytes_done=100_000_000)
    assert in_words(tally) == "20 of 500 jobs found so far, 100.0 MB of 2.0 GB"


def test_jobs_bytes_and_what_is_unchanged() -> None:
    tally = Tally(found=600, unchanged=100, done=250, bytes_found=64_000, bytes_done=32_000, listed=True, workers=2)
    assert in_words(tally) == "250 of 500 jobs, 32.0 kB of 64.0 kB, 100 unchanged"


def test_that_no_worker_has_come_is_told() -> None:
    assert in_words(Tally(found=5, listed=True)).endswith(", no worker yet")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("slurmdoctor.cli.survey.time.monotonic", lambda: now[0])
    return now


def test_in_a_pipe_it_is_told_once_that_nobody_reads(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("slurmdoctor.cli.survey.say", lambda text, err: seen.append(text))
    bar, tally = SurveyBar(), Tally(found=100, listed=True, workers=0)
    for _ in range(20):
        clock[0] += 10
        bar.update(tally)
    assert [one.startswith("slurmdoctor: no worker has been there for 60 s") for one in seen] == [True]


def test_a_terminal_shows_a_bar_after_a_second_and_nothing_is_left_of_it(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("slurmdoctor.cli.survey.on_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with SurveyBar() as bar:
        bar.update(Tally(found=100, listed=True, workers=2))
        assert capsys.readouterr().err == ""
        clock[0] += 2
        bar.update(Tally(found=100, done=20, listed=True, workers=2))
    shown = capsys.readouterr().err
    assert "20 of 100 jobs" in shown
    assert shown.endswith("\x1b[2K")
