"""The line of a job whose cause is not known: what its program said of its end, and not what the launcher or Slurm said after it."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from builders import KNOWLEDGE
from planted_secrets import KINDS
from slurmdoctor.input.sources import Text
from slurmdoctor.model import SearchResult
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.ranks.labels import labels_of, learn_formats
from slurmdoctor.readers.last_words import find_ending
from slurmdoctor.survey.rows import How, Item, Log
from slurmdoctor.survey.work import diagnose_one

WORK = "".join(f"step {n} loss 2.{n}\n" for n in range(30))
SAYS = "solver: could not settle the mesh of part 17"
SRUN = "srun: error: node07: task 3: Exited with exit code 3\nslurmstepd: error: *** STEP 4711.0 ON node07 CANCELLED AT 2026-11-20T12:01:09 ***\n"
TABLE = (
    "============================================================\ntrain.py FAILED\n-----\nFailures:\n  <NO_OTHER_FAILURES>\n-----\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_08:08:01\n  host      : node07\n  rank      : 3 (local_rank: 3)\n"
    "  exitcode  : 3 (pid: 4012)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
)


def words(*logs: str) -> str | None:
    labels = KNOWLEDGE.once(labels_of)
    sources = [Text.source(log, name=str(number)) for number, log in enumerate(logs)]
    assert all(list(source.blocks()) or not source.size for source in sources)  # what was not searched has no end
    lines = Excerpts(sources, SearchResult((), (), lambda line: []), labels, learn_formats(sources, labels))
    telling = find_ending([], lines, KNOWLEDGE).telling
    return telling.text if telling else None


def of(folder: Path, log: bytes, begins: int = 0, name: str = "job-4711.out") -> str | None:
    """The last line of a job with this log."""
    path = folder / name
    path.write_bytes(log)
    logs = [Log(str(path), size=len(log), begins=begins)]
    return diagnose_one(Item("a", logs=tuple(logs)), How()).last_line


@pytest.mark.parametrize(
    "behind",
    [
        "",
        SRUN,
        TABLE,
        "\n\n=====\n",
        "real\t0m3.1s\nuser\t0m2.0s\n",
        "W1121 09:18:04.1 4012 api.py:10] closing\n",
        "step 30 loss 2.0\n",
    ],
)
def test_what_launchers_scripts_and_slurm_print_behind_it_is_passed_over(behind: str) -> None:
    assert words(f"{WORK}{SAYS}\n{behind}") == SAYS


@pytest.mark.parametrize("label", ["[rank3]: ", "3: ", "[2026-11-21 09:24:45,123] [ERROR] "])
def test_it_is_shown_without_labels(label: str) -> None:
    assert words("".join(f"{label}{line}\n" for line in (*["reading part 17"] * 9, SAYS))) == SAYS


def test_of_several_logs_the_complaint_nearest_to_its_log_s_end_counts() -> None:
    assert words(f"{SAYS}\nbye\nbye now\n", "cannot open part 3\n", "all parts read\n") == "cannot open part 3"


def test_without_a_complaint_it_is_the_last_line_that_is_no_noise() -> None:
    assert words(f"{WORK}mesh of part 17 has 0 cells\n{SRUN}") == "mesh of part 17 has 0 cells"


@pytest.mark.parametrize(
    "log", ["", "\n \n", WORK, f"{SAYS}\n{WORK}", SRUN, "using 4 GPUs\n" + WORK, "\ufffd\ufffderror\ufffd\n"]
)
def test_where_nothing_tells_of_an_end_there_is_none(log: str) -> None:
    """What stands above the work was no end of it."""
    assert words(log) is None


def test_it_is_the_exception_where_one_names_no_known_cause(tmp_path: Path) -> None:
    trace = b"Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    x[\"a\"]\nKeyError: 'a'\nTry '--help' on error.\n"
    assert of(tmp_path, trace + SRUN.encode()) == "KeyError: 'a'"


def test_behind_an_exit_alone_it_is_the_program_s_own_line(tmp_path: Path) -> None:
    assert of(tmp_path, f"reading\n{SAYS}\n{SRUN.splitlines()[0]}\n".encode()) == SAYS


@pytest.mark.parametrize(
    "log",
    [
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        b"step 1 loss 2.1\nTraining completed.\n",
    ],
)
def test_a_known_cause_and_a_healthy_job_have_none(tmp_path: Path, log: bytes) -> None:
    assert of(tmp_path, log) is None


def test_of_a_requeued_job_s_log_only_its_own_run_counts(tmp_path: Path) -> None:
    earlier = f"{SAYS}\n".encode()
    assert of(tmp_path, earlier + b"mesh is read\n", begins=len(earlier)) == "mesh is read"


def test_a_compressed_log_is_read_to_its_end(tmp_path: Path) -> None:
    log = b"reading part\n" * 9000 + f"{SAYS}\n".encode()
    assert of(tmp_path, gzip.compress(log), name="a.out.gz") == SAYS


def test_secrets_and_controls_are_not_kept(tmp_path: Path) -> None:
    name, make = KINDS["github"]
    secret = make(random.Random(3))
    line = of(tmp_path, f"\x1b[31msolver: could not log in with {name}={secret}\x1b]0;x\x07\n".encode())
    assert line is not None
    assert secret not in line
    assert line.isprintable()


def test_the_row_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "a.out"
    path.write_text(f"{SAYS}\n")
    assert diagnose_one(Item("a", logs=(Log(str(path), size=len(SAYS) + 1),)), How()).last_line == SAYS
