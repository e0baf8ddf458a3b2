"""`slurmdoctor survey run`: what its users see, what is kept when it is stopped, and datasets without names."""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmdoctor.cli.survey import SurveyBar, in_words
from slurmdoctor.survey import pseudonyms
from slurmdoctor.survey.dataset import progress_of
from slurmdoctor.survey.runs import Tally
from surveyed import rows_of, survey
from tables import table

FIXTURES = Path(__file__).parent / "fixtures"
OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    for number in range(3):  # the job's id is 471 and the number
        (folder / f"run{number}").mkdir(parents=True)
        shutil.copy(FIXTURES / "demo-cascade/slurm-6.out", folder / f"run{number}/slurm-471{number}.out")
    return folder


def test_it_ends_with_what_was_done_where_it_is_and_what_to_do_next(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (logs / "train.py").write_text("x\n")
    done = survey(logs, "--out", out)
    assert (done.code, done.stderr) == (0, "")
    told, left, *where = done.stdout.splitlines()
    assert told == "3 jobs, 3 of them failed; 3 read"
    assert left.startswith(f"left out: 1 file is no log by its name, as {logs}/train.py; ")
    assert where == [f"rows: {out}/jobs", f"next: slurmdoctor survey report {out}"]
    assert rows_of(out, "job_id, cause, rank") == [(f"471{number}", "disk-full", 5) for number in range(3)]
    assert survey("run", logs, "--out", out).stdout.startswith("3 jobs unchanged since the last run\n")


def test_a_dataset_among_the_logs_is_not_taken_for_one(logs: Path) -> None:
    assert survey(logs, "--out", logs / "survey").code == 0
    workers = logs / "survey/.run/workers"
    workers.mkdir()
    (workers / "dask-worker-1.out").write_text("distributed.worker - ERROR - RuntimeError: gone\n")
    assert survey(logs, "--out", logs / "survey").stdout.startswith("3 jobs unchanged")


def test_a_log_that_cannot_be_read_is_a_row_and_no_failure_of_the_run(logs: Path, tmp_path: Path) -> None:
    (logs / "run1/slurm-4711.out").write_bytes(b"\x1f\x8b\x08 cut off")
    assert "; 1 could not be read\nnot read, the first: " in survey(logs, "--out", tmp_path / "out").stdout
    assert rows_of(tmp_path / "out", "read, verdict") == [("error", "unknown"), ("yes", "failed"), ("yes", "failed")]


@pytest.mark.parametrize(("args", "told"), table("survey_calls")["wrong-runs"])
def test_a_wrong_call_is_one_line_and_leaves_nothing_behind(
    logs: Path, tmp_path: Path, args: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    out = tmp_path / "out"
    done = survey(*(one.replace("LOGS", str(logs)).replace("OUT", str(out)) for one in args))
    assert (done.code, done.stdout, done.stderr.count("\n"), out.exists()) == (2, "", 1, False)
    assert told in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("name", "after"), [("SIGTERM", 1.5), ("SIGINT", 0.3)])
def test_a_run_that_is_stopped_keeps_what_is_done(tmp_path: Path, name: str, after: float) -> None:
    out, logs = tmp_path / "out", tmp_path / "logs"
    logs.mkdir()
    for number in range(3000):  # no machine reads them before the signal comes
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
        assert done == (len(rows_of(out)) if done else 0)
        mark = progress_of(out / ".run")
        assert not done or (mark is not None and (mark.there, mark.finished) == (done, False))


@pytest.mark.parametrize(
    ("tally", "words"),
    [
        (Tally(found=500, done=20, bytes_found=2_000_000_000, bytes_done=100_000_000), "20 of 500 jobs found so far, 100.0 MB of 2.0 GB"),
        (Tally(found=600, unchanged=100, done=250, bytes_found=64_000, bytes_done=32_000, listed=True, workers=2), "250 of 500 jobs, 32.0 kB of 64.0 kB, 100 unchanged"),
        (Tally(found=5, listed=True), "0 of 5 jobs, 0 bytes of 0 bytes, no worker yet"),
    ],
)  # fmt: skip
def test_how_far_it_is_is_said_in_jobs_and_bytes(tally: Tally, words: str) -> None:
    assert in_words(tally) == words


def test_a_pipe_is_told_once_that_nobody_reads_and_a_terminal_has_a_bar_after_a_second_and_nothing_is_left_of_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    passed = [100.0]
    monkeypatch.setattr("slurmdoctor.cli.survey.time.monotonic", lambda: sum(passed))
    bar = SurveyBar()
    for _ in range(20):
        passed.append(10)
        bar.update(Tally(found=100, listed=True, workers=0))
    assert capsys.readouterr().err.count("slurmdoctor: no worker has been there for 60 s") == 1

    monkeypatch.setattr("slurmdoctor.cli.survey.on_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with SurveyBar() as bar:
        bar.update(Tally(found=100, listed=True, workers=2))
        assert capsys.readouterr().err == ""
        passed.append(2)
        bar.update(Tally(found=100, done=20, listed=True, workers=2))
    shown = capsys.readouterr().err
    assert ("20 of 100 jobs" in shown, shown.endswith("\x1b[2K")) == (True, True)


NAMES = ("quillon", "vexley", "brackwater", "zorblatt")
NAMED = (
    "[rank0]: loading /lustre/quillon/vexley/a.bin on brackwater017\n"
    "[rank0]: FileNotFoundError: [Errno 2] No such file or directory: '/lustre/quillon/vexley/a.bin'\n"
    "srun: error: brackwater017: task 0: Exited with exit code 1\n"
)


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of three jobs; names are in the folder, in the files' names, and in the lines."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "quillon" / "runs"
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"zorblatt-{4711 + number}.out").write_text(NAMED if number else "zorblatt cannot find its tape\n")
    return folder


def test_no_file_of_the_dataset_holds_a_name_and_a_second_run_reads_what_changed(named: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert survey(named, "--out", out, "--anonymize").code == 0
    said = repr(rows_of(out, "*")).casefold()
    files = [file for file in out.rglob("*") if file.is_file()]
    raw = b"".join(file.read_bytes() for file in files).decode("latin-1").casefold()
    raw += " ".join(str(file.relative_to(tmp_path)) for file in files).casefold()
    assert [name for name in NAMES if name in said or name in raw] == []
    assert pseudonyms.own_key().hex() not in raw
    # one owner of all logs is no user
    assert rows_of(out, 'count(*), count(DISTINCT key), count(DISTINCT "user"), count(cause)') == [(3, 3, 0, 2)]
    (named / "zorblatt-4711.out").write_text("now it can\n")
    assert "; 1 read; 2 jobs unchanged" in survey(named, "--out", out, "--anonymize").stdout
    assert "add --anonymize, or name another folder" in survey(named, "--out", out).stderr
    pseudonyms.key_place().unlink()
    assert "another key" in survey(named, "--out", out, "--anonymize").stderr
    assert rows_of(out, "count(*)") == [(3,)]


def test_names_are_never_joined_by_pseudonyms_and_without_a_key_nothing_is_written(named: Path, tmp_path: Path) -> None:
    assert survey(named, "--out", tmp_path / "out").code == 0
    assert "holds rows with names" in survey(named, "--out", tmp_path / "out", "--anonymize").stderr
    pseudonyms.key_place().write_text("nonsense")
    pseudonyms.key_place().chmod(0o644)
    assert "others may read" in survey(named, "--out", tmp_path / "new", "--anonymize").stderr
    assert not (tmp_path / "new").exists()
    pseudonyms.key_place().unlink()
    for shard in ("1/2", "2/2"):  # shards of one run share their pseudonyms
        assert survey(named, "--out", tmp_path / "shards", "--anonymize", "--shard", shard).code == 0
    assert rows_of(tmp_path / "shards", "count(*), count(DISTINCT node)", "*/jobs/*/*.parquet") == [(3, 1)]
