"""`slurmdoctor collect` on a process of the test's own, with Slurm's programs and py-spy as scripts: it is read, and goes on."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cases import inside, run

JOB = "990077"
PROGRAM = """
import os
pipe = os.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] + "3.pipe"
os.mkfifo(pipe)
print("ready", flush=True)
open(pipe).read()
open(os.environ["TORCH_FR_DUMP_TEMP_FILE"] + "3", "w").write("dump")
print("asked", flush=True)
input()
print("still here", flush=True)
"""
PROGRAMS = {
    "squeue": f'echo "JOBID|NODES|NODELIST"; case "$*" in *--jobs={JOB}*) echo "{JOB}|1|cn01" ;; esac',
    "scontrol": 'echo "$*"',
    "srun": 'while [ "$1" != sh ]; do shift; done; SLURM_STEP_ID=9 SLURMD_NODENAME=cn01 exec "$@"',
    "own/py-spy": """echo "Process $3: python train.py"; echo 'Thread 1 (idle): "MainThread"'; echo "    load (train.py:3)"; sleep 0.5""",
}


@pytest.fixture
def job(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that is rank 3 of the job, whose PATH alone has py-spy."""
    (tmp_path / "own").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    own = {
        "SLURM_JOB_ID": JOB,
        "SLURM_PROCID": "3",
        "SLURM_STEP_ID": "0",
        "PATH": f"{tmp_path / 'own'}:{os.environ['PATH']}",
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": f"{tmp_path}/pipe",
        "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/trace_",
    }
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, env=own, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
        child.kill()


def collect(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    with inside(folder):
        return run("collect", *words, PATH=f"{folder}:/usr/bin:/bin")


def test_a_job_is_read_and_goes_on(tmp_path: Path, job: "subprocess.Popen[str]") -> None:
    done = collect(tmp_path, JOB)
    assert (done.returncode, done.stderr) == (0, b"")
    found = tmp_path / f"collected-{JOB}"
    _, head, *stack = (found / "stacks-cn01.txt").read_text().splitlines()
    assert head.startswith(f"slurmdoctor collect: node cn01: rank 3, pid {job.pid}, state ")
    assert stack[2] == "    load (train.py:3)"
    assert (found / "dumps" / "trace_3").read_text() == "dump"
    assert (found / "scontrol.txt").read_text() == f"show job -d {JOB}\n"
    assert (found / "collect.log").read_text() == "cn01: 1 ranks, 0 helpers\n"
    shown, errors = job.communicate("\n")
    assert shown == "asked\nstill here\n"
    assert errors is None


def test_a_dry_run_starts_nothing_on_the_nodes(tmp_path: Path, job: "subprocess.Popen[str]") -> None:
    done = collect(tmp_path, JOB, "--dry-run")
    assert f"srun --overlap --jobid={JOB} --nodes=1" in done.stdout.decode()
    assert not (tmp_path / f"collected-{JOB}").exists()
    assert job.poll() is None


def test_what_is_there_is_not_overwritten(tmp_path: Path, job: "subprocess.Popen[str]") -> None:
    assert job.poll() is None
    done = collect(tmp_path, JOB, "-o", ".")
    assert (done.returncode, b"name a new folder with -o" in done.stderr) == (2, True)


def test_another_job_is_not_touched(tmp_path: Path, job: "subprocess.Popen[str]") -> None:
    done = collect(tmp_path, "4711")
    assert (done.returncode, b"it is not running, or not yours" in done.stderr) == (2, True)
    assert job.poll() is None
