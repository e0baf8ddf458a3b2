"""`slurmdoctor diagnose` alone, at a terminal: it reads the newest job's log here, and says which."""

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from slurmdoctor.model import UserError
from slurmdoctor.slurm.logs import newest

TOOL = str(Path(sys.executable).with_name("slurmdoctor"))
NOW = 1_800_000_000.0
KEY = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"train.py\", line 5, in <module>\n[rank3]: KeyError: 'lr'\n"
OOM = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def put(folder: Path, name: str, age: float, text: str = OOM, now: float = NOW) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (now - age, now - age))


def at_a_terminal(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command with a terminal as its standard input."""
    ours, its = pty.openpty()
    try:
        return subprocess.run(
            [TOOL, "diagnose", *words], cwd=folder, stdin=its, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(ours)
        os.close(its)


@pytest.mark.parametrize(
    ("files", "log"),
    [
        ({"slurm-1.out": 90, "slurm-2.out": 60}, "slurm-2.out"),
        ({"slurm-2.out": 60, "logs/slurm-3.out": 30}, "logs/slurm-3.out"),
        ({"slurm-2.out": 60, "debug.log": 5}, "slurm-2.out"),
        ({"slurm-6.out": 9000, "train-731842.log": 3600}, "train-731842.log"),
        ({"run.log": 60, "notes.txt": 5, "train.py": 1, "results/x.out": 1}, "run.log"),
        ({"train.o4711": 60, "a.out": 5, "slurmdoctor-4711.out": 5, "slurm.conf": 1}, "train.o4711"),
    ],
)
def test_which_log_is_the_newest(tmp_path: Path, files: dict[str, float], log: str) -> None:
    for name, age in files.items():
        put(tmp_path, name, age)
    found = newest(str(tmp_path), NOW)
    assert found.log == str(tmp_path / log)
    assert found.age == files[log]


def test_other_jobs_logs_without_an_id_are_left_alone(tmp_path: Path) -> None:
    for number, name in enumerate(("exp_a.out", "exp_b.out", "baseline.out")):
        put(tmp_path, name, 100 * number)
    assert newest(str(tmp_path), NOW).files == (str(tmp_path / "exp_a.out"),)


def test_a_log_that_holds_nothing_yet_is_not_what_is_asked_for(tmp_path: Path) -> None:
    put(tmp_path, "slurm-1.out", 60)
    put(tmp_path, "slurm-2.out", 5, "")
    assert newest(str(tmp_path), NOW).log.endswith("slurm-1.out")


def test_without_a_log_one_line_says_what_to_do(tmp_path: Path) -> None:
    put(tmp_path, "train.py", 5)
    with pytest.raises(UserError, match="no log of a job is in"):
        newest(str(tmp_path))
    done = at_a_terminal(tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "slurmdoctor diagnose slurm-4711.out" in done.stderr


def test_it_says_which_one_it_reads(tmp_path: Path) -> None:
    put(tmp_path, "slurm-1.out", 90_000, now=time.time())
    put(tmp_path, "slurm-2.out", 40_000, "step 1 loss 2.0\n", now=time.time())
    put(tmp_path, "slurm-2.err", 40_010, KEY, now=time.time())
    done = at_a_terminal(tmp_path, "--exit-code")
    assert done.stderr == (
        "reading slurm-2.out and slurm-2.err, the newest job's log here (11 h ago); name another to read that\n"
    )
    assert "slurm-2.err:3" in done.stdout
    assert done.returncode == 1


def test_a_pipe_is_read_as_ever(tmp_path: Path) -> None:
    put(tmp_path, "slurm-1.out", 60)
    done = subprocess.run([TOOL, "diagnose"], cwd=tmp_path, input=KEY, capture_output=True, text=True, timeout=60)
    assert "KeyError" in done.stdout
    assert done.stderr == ""
