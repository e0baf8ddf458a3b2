"""One job in, one row out."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from msgspec import structs

from slurmdoctor.model import JobRecord
from slurmdoctor.survey.rows import How, Item, Log, Row, fingerprint
from slurmdoctor.survey.work import diagnose_one

FIXTURES = Path(__file__).parent / "fixtures"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
DEMO = FIXTURES / "demo-cascade" / "slurm-6.out"


def item_of(*logs: Path, record: JobRecord | None = None, read: bool = True) -> Item:
    stamps = tuple(Log(str(path), 1, path.stat().st_size if path.exists() else 0, 1) for path in logs)
    return Item("lab/6/1", "6", logs=stamps, record=record, read=read)


def test_a_row_holds_the_verdict_and_the_line_that_proves_it() -> None:
    row = diagnose_one(item_of(DEMO), How())
    assert (row.verdict, row.cause, row.rank, row.node) == ("failed", "disk-full", 5, "gpu-a2")
    assert row.evidence is not None
    assert "No space left on device" in row.evidence
    assert row.evidence_line == 22
    assert row.fix is not None
    assert row.fix.startswith("Free space")


def test_what_slurm_knows_counts_the_gpu_hours() -> None:
    record = JobRecord("6", state="FAILED", gpus=8, elapsed=1800, start=0.0, end=1800.0, user="ada", partition="gpu")
    row = diagnose_one(item_of(DEMO, record=record), How())
    assert (row.gpus_known_by, row.gpu_hours, row.gpu_hours_lost) == ("sacct", 4.0, 4.0)
    assert (row.user, row.partition, row.state) == ("ada", "gpu", "FAILED")


def test_without_slurm_the_log_tells_the_hours_a_gpu_a_rank() -> None:
    row = diagnose_one(item_of(DEMO), How())
    assert (row.gpus, row.gpus_known_by) == (8, "log")
    assert row.started is not None
    assert row.ended is not None
    assert row.elapsed_s is not None
    assert row.gpu_hours == pytest.approx(8 * row.elapsed_s / 3600)


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
    log = tmp_path / "slurm-6.out"
    log.write_text(f"world size 8, 8 GPUs\n{lines}" + OOM)
    row = diagnose_one(item_of(log), How())
    assert row.elapsed_s == elapsed
    assert (row.gpu_hours is None) == (row.gpus is None or elapsed is None)


@pytest.mark.parametrize(
    "line",
    [
        "worker: " + "^" * 4000,
        "=" * 8000,
        "\0" * 105_000,
        "[" * 4000 + " 2026-05-12",
        "\n" * 8000,
        "\r" + "\u2588" * 300_000,
        "INFO " * 2000,
        "a: | " * 2000,
    ],
    ids=["carets", "ruler", "nuls", "brackets", "empty", "bar", "levels", "labels"],
)
def test_no_line_makes_a_survey_slow(tmp_path: Path, line: str) -> None:
    log = tmp_path / "slurm-6.out"
    log.write_text(f"2026-05-12 10:00:00 INFO x\n{line}\n{OOM}")
    start = time.process_time()
    row = diagnose_one(item_of(log), How(time_limit=5))
    assert (row.read, row.cause, time.process_time() - start < 5) == ("yes", "cuda-oom", True)


@pytest.mark.parametrize(
    ("says", "gpus"),
    [("", None), ("GPU available: False", None), ("NCCL version 2.21.5", 4), ("0: 4 GPUs on this node", 4)],
)
def test_a_rank_is_a_gpu_only_where_gpus_are_at_work(tmp_path: Path, says: str, gpus: int | None) -> None:
    log = tmp_path / "slurm-6.out"
    ranks = "".join(f"{rank}: starting rank {rank} of 4\n" for rank in range(4))
    log.write_text(f"{says}\n{ranks}world_size=4\n3: forrtl: severe (174): SIGSEGV, segmentation fault occurred\n")
    row = diagnose_one(item_of(log), How())
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
    log = tmp_path / "slurm-6.out"
    log.write_text(f"2026-05-12 10:00:01 INFO Starting\n{saved}2026-05-12 10:59:59 INFO x\n" + OOM)
    end = datetime(2026, 5, 12, 11, tzinfo=timezone.utc).timestamp()
    record = JobRecord("6", state="FAILED", gpus=8, elapsed=3600, start=end - 3600, end=end)
    row = diagnose_one(item_of(log, record=record), How())
    assert (row.verdict, row.lost_counted) == ("failed", counted)
    assert row.gpu_hours_lost == pytest.approx(lost)


def test_a_job_that_was_not_asked_for_is_a_row_whose_logs_are_not_opened(tmp_path: Path) -> None:
    row = diagnose_one(
        item_of(tmp_path / "gone.out", record=JobRecord("7", state="COMPLETED", gpus=1, elapsed=60), read=False), How()
    )
    assert (row.read, row.verdict, row.cause) == ("not-asked", "no-failure", None)


def test_a_log_that_is_gone_is_a_row_that_says_so(tmp_path: Path) -> None:
    row = diagnose_one(item_of(tmp_path / "gone.out"), How())
    assert row.read == "error"
    assert "gone.out" in (row.error or "")


def test_a_job_without_any_log_is_judged_by_what_slurm_says() -> None:
    row = diagnose_one(item_of(record=JobRecord("7", state="TIMEOUT", elapsed=60)), How())
    assert (row.read, row.verdict, row.cause) == ("no-log", "failed", "time-limit")


def test_a_reader_that_breaks_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RecursionError("too deep")

    monkeypatch.setattr("slurmdoctor.survey.work.diagnose", broken)
    row = diagnose_one(item_of(DEMO), How())
    assert (row.read, row.verdict, row.error) == ("error", "unknown", "RecursionError: too deep")


@pytest.mark.parametrize("change", ["size", "mtime_ns", "inode", "begins"])
def test_a_fingerprint_changes_with_each_log(change: str) -> None:
    before = item_of(DEMO)
    log = structs.replace(before.logs[0], **{change: 99})
    assert fingerprint(before, How()) != fingerprint(structs.replace(before, logs=(log,)), How())


def test_a_fingerprint_changes_with_the_rules_and_the_record() -> None:
    before = item_of(DEMO, record=JobRecord("6", state="RUNNING"))
    assert fingerprint(before, How()) != fingerprint(before, How(rules_version="2"))
    assert fingerprint(before, How()) != fingerprint(
        structs.replace(before, record=JobRecord("6", state="FAILED")), How()
    )


def test_every_column_says_what_it_means() -> None:
    from msgspec.inspect import Metadata, StructType, type_info

    info = type_info(Row)
    assert isinstance(info, StructType)
    told = [f.name for f in info.fields if isinstance(f.type, Metadata) and (f.type.extra_json_schema or {})]
    assert told == [f.name for f in info.fields]
