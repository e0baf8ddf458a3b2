"""Only this run's text counts: what an earlier run has left in the same log is no word of this one."""

import os
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from slurmdoctor.cli import hook
from slurmdoctor.input.opening import open_sources
from slurmdoctor.input.sources import BLOCK
from slurmdoctor.model import Deadline, JobRecord, reason
from slurmdoctor.pipeline import diagnose
from slurmdoctor.report.reasons import sentence
from slurmdoctor.slurm import own_text
from slurmdoctor.slurm.job_evidence import gather

TOOL = str(Path(sys.executable).with_name("slurmdoctor"))
OOM = "step 12 loss 2.1\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
KEY = "[rank1]: Traceback (most recent call last):\n[rank1]: KeyError: 'lr'\n"
START = datetime(2026, 11, 20, 12, 0, tzinfo=timezone.utc)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("TZ", raising=False)
    made = tmp_path / "a folder"
    made.mkdir()
    return made


def run(folder: Path, body: str, log: str = "train log.out", err: str | None = None, **more: str) -> int:
    """One run of a job whose output is appended to `log`, without a Slurm that answers."""
    script = folder / "job.sh"
    script.write_text(f"#!/bin/bash\n{hook.script('footer', command=TOOL)}\n{body}\n")
    env = {k: v for k, v in os.environ.items() if not k.startswith("SLURM")}
    for name in ("scontrol", "sacct"):
        (folder / name).write_text("#!/bin/sh\nexit 1\n")
        (folder / name).chmod(0o755)
    env |= {"SLURM_JOB_ID": "42", "PATH": f"{folder}:/usr/bin:/bin", **more}
    with (folder / log).open("ab") as out, (folder / (err or log)).open("ab") as errors:
        done = subprocess.run(["bash", str(script)], env=env, cwd=folder, stdout=out, stderr=errors, timeout=60)
    return done.returncode


def said(path: Path, before: str) -> str:
    """What a run has added to a log."""
    text = path.read_text()
    assert text.startswith(before)
    return text[len(before) :]


def test_a_rerun_that_fails_is_told_by_its_own_cause_and_line(folder: Path) -> None:
    log = folder / "train log.out"
    log.write_text(OOM)
    assert run(folder, f"cat <<'E'\n{KEY}E\nexit 1") == 1
    words = said(log, OOM)
    assert "out of memory" not in words
    for told in ("python-error", "train log.out:4", "skipped the output of an earlier run: lines 1-2"):
        assert told in words


def test_a_rerun_that_went_well_is_silent_in_both_of_its_files(folder: Path) -> None:
    (folder / "job.err").write_text(OOM)
    assert run(folder, "echo fine", log="job.out", err="job.err") == 0
    assert (folder / "job.err").read_text() == OOM


def test_a_log_that_was_moved_away_is_still_the_same(folder: Path) -> None:
    log = folder / "train log.out"
    log.write_text(OOM)
    assert run(folder, f"mv 'train log.out' 'old log.1'\ncat <<'E'\n{KEY}E\nexit 1") == 1
    words = said(folder / "old log.1", OOM)
    assert ("python-error" in words, "old log.1:4" in words) == (True, True)


def test_the_log_of_a_step_counts_from_where_this_run_found_it(folder: Path) -> None:
    (folder / "srun").write_text("#!/bin/sh\necho fine >> 'step 0.log'\n")
    (folder / "srun").chmod(0o755)
    (folder / "step 0.log").write_text(OOM)
    (folder / "train log.out").write_text("Job 42 begins\n")
    assert run(folder, "srun --output='step %t.log' --open-mode=append python train.py\nexit 3") == 3
    words = (folder / "train log.out").read_text()
    assert ("exited with 3" in words, "out of memory" in words) == (True, False)


# ── without a footer's note ──


def record(**more: object) -> JobRecord:
    return JobRecord("42", start=START.timestamp(), **more)  # type: ignore[arg-type]


def mark(minutes: int) -> str:
    at = f"{START + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%S}"
    return f"slurmstepd: error: *** JOB 42 ON node07 CANCELLED AT {at} DUE TO JOB REQUEUE ***\nsrun: error: node07: task 0: Killed\n"


def begin(folder: Path, text: str, notes: str = "", job: JobRecord | None = None, age: float = 0) -> int:
    log = folder / "train.log"
    log.write_text(text)
    changed = (START + timedelta(seconds=60 - age)).replace(tzinfo=None).timestamp()
    os.utime(log, (changed, changed))
    return own_text.begins([str(log)], own_text.noted(notes), job or record()).get(str(log), 0)


def test_slurms_line_on_an_earlier_end_is_where_it_begins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = OOM + mark(-9) + OOM + mark(-1)
    assert begin(folder, earlier + KEY) == len(earlier)
    assert begin(folder, earlier + KEY + mark(5)) == len(earlier), "its own end is no earlier run's"
    assert begin(folder, OOM + mark(5)) == begin(folder, OOM + mark(0) + KEY) == 0
    filler = "step loss 2.1\n" * (2 * BLOCK // 14)
    assert begin(folder, earlier + filler) == len(earlier)
    at_an_edge = earlier + "x" * (BLOCK - len(mark(-1)) // 3)
    assert begin(folder, at_an_edge) == len(earlier)
    monkeypatch.setenv("TZ", "America/Lima")
    assert begin(folder, earlier + KEY) == 0, "Slurm's lines are in another time zone than its records"


def test_a_file_that_this_run_never_touched_is_left_out(folder: Path) -> None:
    assert begin(folder, OOM, age=600) == len(OOM)
    assert begin(folder, OOM, age=60) == begin(folder, OOM, age=64) == 0, "the clock of a file server may differ"
    assert begin(folder, OOM, age=66) == len(OOM)
    assert begin(folder, OOM, age=600, job=JobRecord("42")) == 0, "without the job's start nothing is known"
    waits = record(restarts=1, state="PENDING")
    assert begin(folder, OOM + mark(-1), job=waits, age=600) == 0, "all that a waiting job has is of its last run"


def test_the_hour_that_a_clock_repeats_hides_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "EST5EDT,M3.2.0,M11.1.0")
    time.tzset()
    try:
        log = folder / "train.log"
        log.write_text(OOM)
        first_half_past_one = datetime(2026, 11, 1, 1, 30, tzinfo=timezone.utc).timestamp()
        job = JobRecord("42", start=first_half_past_one)
        second_ten_past_one = datetime(2026, 11, 1, 6, 10, tzinfo=timezone.utc).timestamp()
        os.utime(log, (second_ten_past_one, second_ten_past_one))
        assert own_text.begins([str(log)], {}, job) == {}
        os.utime(log, (second_ten_past_one - 3600, second_ten_past_one - 3600))
        assert own_text.begins([str(log)], {}, job) == {str(log): len(OOM)}
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_copied_log_beside_saved_records_is_cut_by_slurms_lines_alone(folder: Path) -> None:
    log, saved = folder / "slurm-42.out", folder / "scontrol.txt"
    log.write_text(OOM + mark(-1) + KEY)
    os.utime(log, (1, 1))
    saved.write_text(f"JobId=42 JobState=FAILED Restarts=1 ExitCode=1:0\n   StartTime={START:%Y-%m-%dT%H:%M:%S}\n")
    job = gather([str(log), "-", str(folder)], slurm_info=[str(saved)])
    assert job.begins == {str(log): len(OOM + mark(-1))}


def test_a_log_named_after_its_job_is_looked_at_only_after_a_requeue(folder: Path) -> None:
    log = folder / "slurm-42.out"
    text = OOM + mark(-1) + KEY
    log.write_text(text)
    assert own_text.begins([str(log)], {}, record(restarts=0)) == {}
    assert own_text.begins([str(log)], {}, record(restarts=1)) == {str(log): len(text) - len(KEY)}


def test_a_file_that_was_emptied_since_counts_from_its_first_byte(folder: Path) -> None:
    log = folder / "train.log"
    log.write_text(OOM)
    (folder / "empty.log").touch()
    note = own_text.note([str(log), str(log), "/nowhere", str(folder / "empty.log")])
    assert len(note.split()) == 1
    assert begin(folder, OOM + KEY, note) == len(OOM)
    of_a_shell = note.rpartition(":")[0]
    assert (begin(folder, OOM + KEY, of_a_shell), begin(folder, KEY, of_a_shell)) == (len(OOM), 0)
    assert begin(folder, KEY, note) == 0
    assert begin(folder, KEY * 9, note) == 0, "it has grown beyond its old size again"


LATER = OOM + mark(30)


@pytest.mark.parametrize(
    ("text", "begins", "ran", "later", "zone", "end"),
    [
        (LATER + KEY, 0, 30, 60, "", len(LATER)),
        (LATER, 0, 30, 60, "", None),
        (LATER + KEY, 0, None, 60, "", None),
        (LATER + KEY, 0, 30, 60, "America/Lima", None),
        (LATER + KEY, 0, 30, 62, "", None),
        (OOM + mark(-9) + KEY, len(OOM + mark(-9)), 30, 60, "", len(OOM + mark(-9))),
        (OOM + mark(-9) + KEY, len(OOM + mark(-9)), 30, None, "", None),
        (LATER + KEY, 0, 60.5, None, "", None),
        (LATER + KEY, 0, 60, None, "", len(LATER)),
        (LATER + KEY, 0, 30, 61, "", len(LATER)),
        (LATER + KEY, 0, 30, None, "", len(LATER)),
    ],
)
def test_where_a_later_run_goes_on_in_the_log(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, begins: int, ran: Any, later: Any, zone: str, end: Any
) -> None:
    """The log was last written to 61 minutes after the start; a run of so many minutes, and when the next one began."""
    begin(folder, text, age=-3600)
    monkeypatch.setenv("TZ", zone)
    done, again = (minutes and START.timestamp() + 60 * minutes for minutes in (ran, later))
    assert own_text.end(str(folder / "train.log"), replace(record(), end=done), begins, again) == end


def test_a_note_that_is_none() -> None:
    for note in ("", "x", "1:2", "1:2:3:4:5", "-1:2:3", "١:2:3", "1:2:" + "9" * 5000, "a[$(id)]:1:1"):
        assert own_text.noted(note) == {}


def test_what_is_left_out_is_counted_in_the_file_and_not_in_the_verdict(folder: Path) -> None:
    log = folder / "train.log"
    log.write_text(OOM + KEY)
    whole = diagnose([str(log)])
    own = diagnose([str(log)], begins={str(log): len(OOM)})
    assert (whole.cause.id, own.cause.id, own.first_failure.line) == ("cuda-oom", "python-error", 4)
    assert own.coverage.lines == 2
    assert own.coverage.notes == ("skipped the output of an earlier run: lines 1-2",)
    assert diagnose([str(log)], begins={str(log): 1 << 40}).verdict == "unknown"
    assert diagnose([str(log)], begins={str(log): len(OOM)}, ends={str(log): len(OOM)}).verdict == "unknown"


def test_the_lines_of_an_earlier_run_are_counted_only_while_there_is_time(folder: Path) -> None:
    log = folder / "train.log"
    log.write_text(OOM * 9000 + KEY)
    clock = iter(range(1000))
    deadline = Deadline(2.0, 0.0, lambda: float(next(clock)))
    source = open_sources([str(log)]).sources[0]
    source.leave_out(len(OOM) * 9000, deadline)
    source.close()
    assert (next(clock), source.lines_above, source.size) == (2, None, len(KEY)), "it read one block of two"


def test_the_search_for_slurms_lines_has_an_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_text, "MOST_SEARCHED", 2 * len(OOM))
    assert begin(folder, OOM + mark(-1) + OOM) == 0


def test_the_note() -> None:
    for files, lines, words in ((3, 1204, "1,204 lines in 3 files"), (2, None, "3.1 GB in 2 files")):
        said = sentence(reason("earlier-run", bytes=3_100_000_000, files=files, lines=lines))
        assert said == f"skipped the output of an earlier run: {words}"
