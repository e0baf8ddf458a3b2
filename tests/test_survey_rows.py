"""One job in, one row out; where its cause is not known, the row has the line that its program said of its end."""

import gzip
import random
import time
from datetime import datetime, timezone
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec import structs

from builders import KNOWLEDGE
from planted_secrets import KINDS
from slurmdoctor.input.sources import Text
from slurmdoctor.model import JobRecord, SearchResult
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.ranks.labels import labels_of, learn_formats
from slurmdoctor.readers.last_words import find_ending
from slurmdoctor.survey.rows import How, Item, Log, Row, fingerprint
from slurmdoctor.survey.work import diagnose_one

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
DEMO = Path(__file__).parent / "fixtures/demo-cascade/slurm-6.out"


def item_of(*logs: Path, record: JobRecord | None = None, read: bool = True) -> Item:
    stamps = tuple(Log(str(path), 1, path.stat().st_size if path.exists() else 0, 1) for path in logs)
    return Item("lab/6/1", "6", logs=stamps, record=record, read=read)


def row_of(
    folder: Path, log: str | bytes, record: JobRecord | None = None, begins: int = 0, name: str = "slurm-6.out"
) -> Row:
    """The row of a job with this log."""
    path = folder / name
    path.write_bytes(log if isinstance(log, bytes) else log.encode())
    job = item_of(path, record=record)
    return diagnose_one(structs.replace(job, logs=(structs.replace(job.logs[0], begins=begins),)), How(time_limit=5))


def test_a_row_holds_the_verdict_the_line_that_proves_it_and_what_the_log_tells_of_its_hours() -> None:
    row = diagnose_one(item_of(DEMO), How())
    assert (row.verdict, row.cause, row.rank, row.node) == ("failed", "disk-full", 5, "gpu-a2")
    assert "No space left on device" in str(row.evidence)
    assert (row.evidence_line, (row.fix or "")[:10]) == (22, "Free space")
    assert (row.gpus, row.gpus_known_by, row.started is None, row.ended is None) == (8, "log", False, False)
    assert row.gpu_hours == pytest.approx(8 * (row.elapsed_s or 0) / 3600)


def test_what_slurm_knows_counts_the_gpu_hours() -> None:
    record = JobRecord("6", state="FAILED", gpus=8, elapsed=1800, start=0.0, end=1800.0, user="ada", partition="gpu")
    row = diagnose_one(item_of(DEMO, record=record), How())
    assert (row.gpus_known_by, row.gpu_hours, row.gpu_hours_lost) == ("sacct", 4.0, 4.0)
    assert (row.user, row.partition, row.state) == ("ada", "gpu", "FAILED")


@pytest.mark.parametrize(
    ("lines", "elapsed"),
    [
        ("2026-05-12 10:00:00 INFO step 1\n", None),
        ("2026-05-12 10:00:00 INFO step 1\n2026-05-12 10:00:00 INFO step 2\n", None),
        ("0: [2026-05-12 10:00:00] step 1\n0: [2026-05-12 10:10:00] step 2\n", 600),
        ("2026-05-12 10:00:00 INFO use the model of 2025-01-01 00:00:00\n2026-05-12 10:10:00 INFO x\n", 600),
        ("model of 2025-01-01 00:00:00\n2026-05-12 10:00:00 INFO x\n2026-05-12 10:10:00 INFO x\n", 600),
        ("job started at 2026-05-12 10:00:00\njob ended at 2026-05-12 11:00:00\n", 3600),
        ("2025-01-01 00:00:00 model\n2026-05-12 10:00:00 INFO x\n", None),
    ],
)
def test_a_run_lasts_from_its_lines_first_time_to_their_last(tmp_path: Path, lines: str, elapsed: int | None) -> None:
    row = row_of(tmp_path, f"world size 8, 8 GPUs\n{lines}" + OOM)
    assert row.elapsed_s == elapsed
    assert (row.gpu_hours is None) == (row.gpus is None or elapsed is None)


@pytest.mark.parametrize(
    "line",
    ["worker: " + "^" * 4000, "=" * 8000, "\0" * 105_000, "[" * 4000 + " 2026-05-12", "\n" * 8000, "\r" + "\u2588" * 300_000, "INFO " * 2000, "a: | " * 2000],
    ids=["carets", "ruler", "nuls", "brackets", "empty", "bar", "levels", "labels"],
)  # fmt: skip
def test_no_line_makes_a_survey_slow(tmp_path: Path, line: str) -> None:
    start = time.process_time()
    row = row_of(tmp_path, f"2026-05-12 10:00:00 INFO x\n{line}\n{OOM}")
    assert (row.read, row.cause, time.process_time() - start < 5) == ("yes", "cuda-oom", True)


@pytest.mark.parametrize(
    ("says", "gpus"),
    [("", None), ("GPU available: False", None), ("NCCL version 2.21.5", 4), ("0: 4 GPUs on this node", 4)],
)
def test_a_rank_is_a_gpu_only_where_gpus_are_at_work(tmp_path: Path, says: str, gpus: int | None) -> None:
    ranks = "".join(f"{rank}: starting rank {rank} of 4\n" for rank in range(4))
    end = "world_size=4\n3: forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
    row = row_of(tmp_path, f"{says}\n{ranks}{end}")
    assert (row.world_size, row.gpus) == (4, gpus)


@pytest.mark.parametrize(
    ("saved", "counted", "lost"),
    [
        ("2026-05-12 10:50:00 INFO saved checkpoint at step 500\n", "since-checkpoint", 8 * 600 / 3600),
        ("2026-05-12 09:50:00 INFO saved checkpoint at step 500\n", "whole-run", 8.0),  # the job before this one
        ("INFO saved checkpoint at step 500\n", "whole-run", 8.0),
    ],
)
def test_a_failure_costs_what_was_computed_since_the_newest_checkpoint(
    tmp_path: Path, saved: str, counted: str, lost: float
) -> None:
    end = datetime(2026, 5, 12, 11, tzinfo=timezone.utc).timestamp()
    record = JobRecord("6", state="FAILED", gpus=8, elapsed=3600, start=end - 3600, end=end)
    log = f"2026-05-12 10:00:01 INFO Starting\n{saved}2026-05-12 10:59:59 INFO x\n{OOM}"
    row = row_of(tmp_path, log, record=record)
    assert (row.verdict, row.lost_counted) == ("failed", counted)
    assert row.gpu_hours_lost == pytest.approx(lost)


def test_whatever_cannot_be_read_is_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone.out"
    completed = item_of(gone, record=JobRecord("7", state="COMPLETED", gpus=1, elapsed=60), read=False)
    limit = item_of(record=JobRecord("7", state="TIMEOUT", elapsed=60))
    found = [diagnose_one(job, How()) for job in (completed, item_of(gone), limit)]
    assert [(row.read, row.verdict, row.cause) for row in found] == [
        ("not-asked", "no-failure", None), ("error", "unknown", None), ("no-log", "failed", "time-limit"),
    ]  # fmt: skip
    assert "gone.out" in (found[1].error or "")

    monkeypatch.setattr("slurmdoctor.survey.work.diagnose", Mock(side_effect=RecursionError("too deep")))
    row = diagnose_one(item_of(DEMO), How())
    assert (row.read, row.verdict, row.error) == ("error", "unknown", "RecursionError: too deep")


def test_a_fingerprint_changes_with_each_log_the_rules_and_the_record() -> None:
    before = item_of(DEMO, record=JobRecord("6", state="RUNNING"))
    changed = [structs.replace(before.logs[0], **{field: 99}) for field in ("size", "mtime_ns", "inode", "begins")]
    others = [fingerprint(structs.replace(before, logs=(log,)), How()) for log in changed]
    others += [fingerprint(before, How(rules_version="2"))]
    others += [fingerprint(structs.replace(before, record=JobRecord("6", state="FAILED")), How())]
    assert len({fingerprint(before, How()), *others}) == 7


WORK = "".join(f"step {n} loss 2.{n}\n" for n in range(30))
SAYS = "solver: could not settle the mesh of part 17"
SRUN = "srun: error: node07: task 3: Exited with exit code 3\nslurmstepd: error: *** STEP 4711.0 ON node07 CANCELLED AT 2026-11-20T12:01:09 ***\n"
TABLE = (
    "============================================================\ntrain.py FAILED\n-----\nFailures:\n  <NO_OTHER_FAILURES>\n-----\n"
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_08:08:01\n  host      : node07\n  rank      : 3 (local_rank: 3)\n"
    "  exitcode  : 3 (pid: 4012)\n  error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
)
LABELLED = [*["reading part 17"] * 9, SAYS]


@pytest.mark.parametrize(
    ("logs", "line"),
    [
        *(
            ([f"{WORK}{SAYS}\n{behind}"], SAYS)
            for behind in ("", SRUN, TABLE, "\n\n=====\n", "real\t0m3.1s\nuser\t0m2.0s\n", "W1121 09:18:04.1 4012 api.py:10] closing\n", "step 30 loss 2.0\n")
        ),
        *((["".join(f"{label}{one}\n" for one in LABELLED)], SAYS) for label in ("[rank3]: ", "3: ", "[2026-11-21 09:24:45,123] [ERROR] ")),
        ([f"{SAYS}\nbye\nbye now\n", "cannot open part 3\n", "all parts read\n"], "cannot open part 3"),  # the complaint nearest to its log's end
        ([f"{WORK}mesh of part 17 has 0 cells\n{SRUN}"], "mesh of part 17 has 0 cells"),  # without one, what is no noise
        *(([log], None) for log in ("", "\n \n", WORK, f"{SAYS}\n{WORK}", SRUN, "using 4 GPUs\n" + WORK, "\ufffd\ufffderror\ufffd\n")),
    ],
)  # fmt: skip
def test_a_program_s_own_last_words_are_told_where_it_said_any(logs: list[str], line: str | None) -> None:
    labels = KNOWLEDGE.once(labels_of)
    sources = [Text.source(log, name=str(number)) for number, log in enumerate(logs)]
    assert all(list(source.blocks()) or not source.size for source in sources)  # what was not searched has no end
    lines = Excerpts(sources, SearchResult((), (), lambda line: []), labels, learn_formats(sources, labels))
    telling = find_ending((), lines, KNOWLEDGE).telling
    assert (telling.text if telling else None) == line


TRACE = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    x[\"a\"]\nKeyError: 'a'\nTry '--help' on error.\n"


@pytest.mark.parametrize(
    ("log", "begins", "name", "line"),
    [
        (f"{SAYS}\n", 0, "a.out", SAYS),
        (TRACE + SRUN, 0, "a.out", "KeyError: 'a'"),  # the exception, where one names no known cause
        (f"reading\n{SAYS}\n{SRUN.splitlines()[0]}\n", 0, "a.out", SAYS),
        (OOM, 0, "a.out", None),
        (f"step 1 loss 2.1\n{SAYS}\nTraining completed.\n", 0, "a.out", None),
        (f"{SAYS}\nmesh is read\n", len(SAYS) + 1, "a.out", "mesh is read"),  # the run of a requeued job
        (gzip.compress(b"reading part\n" * 9000 + f"{SAYS}\n".encode()), 0, "a.out.gz", SAYS),
    ],
)
def test_a_row_has_the_last_line_of_its_own_run(
    tmp_path: Path, log: str | bytes, begins: int, name: str, line: str | None
) -> None:
    assert row_of(tmp_path, log, begins=begins, name=name).last_line == line


def test_secrets_and_controls_are_not_kept(tmp_path: Path) -> None:
    name, make = KINDS["github"]
    secret = make(random.Random(3))
    line = row_of(tmp_path, f"\x1b[31msolver: could not log in with {name}={secret}\x1b]0;x\x07\n").last_line or ""
    assert (line.startswith("solver"), secret in line, line.isprintable()) == (True, False, True)
