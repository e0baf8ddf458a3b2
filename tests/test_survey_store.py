"""A survey's dataset: a row a job, whatever happens while it is written."""

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest
from msgspec import convert, structs

from slurmdoctor.model import UserError
from slurmdoctor.survey.dataset import open_dataset, schema
from slurmdoctor.survey.pool import LocalPool, Pool, Waiting
from slurmdoctor.survey.rows import How, Item, Log, Row, fingerprint
from slurmdoctor.survey.runs import Tally, run
from surveyed import Here, rows_of as rows

HOW = How()


def item(number: int, size: int = 100, ended: str = "2026-11-03") -> Item:
    """Its name is the day of its end: `quick` reads nothing."""
    return Item(f"job{number}", str(number), ended, logs=(Log(f"/scratch/demo/{number}.out", number, size),))


def quick(item: Item, how: How) -> Row:
    ended = datetime.fromisoformat(item.name) if item.name else None
    return Row(key=item.key, fingerprint=fingerprint(item, how), ended=ended, bytes=item.size, verdict="failed")


def survey(out: Path, items: Iterable[Item], crew: Pool | None = None, shard: tuple[int, int] | None = None) -> Tally:
    tally = Tally()
    with open_dataset(out, shard) as data:
        run(data, items, HOW, lambda: crew or Here(work=quick), shard=shard, tally=tally)
    return tally


def test_a_month_is_a_file_and_every_column_says_what_it_means(tmp_path: Path) -> None:
    survey(tmp_path, [item(1), item(2, ended="2026-10-31"), item(3, ended="")])
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("jobs/*/*"))
    assert files == [f"jobs/month={month}/jobs.parquet" for month in ("2026-10", "2026-11", "unknown")]
    found = pq.read_schema(tmp_path / files[0])
    assert found.names == list(Row.__struct_fields__)
    assert [field.metadata[b"description"] for field in found] == [field.metadata[b"description"] for field in schema()]


def test_a_row_comes_back_as_it_went_in(tmp_path: Path) -> None:
    survey(tmp_path / "odd", [item(1)], Here(work=lambda *_: Row(key="k", fingerprint="f", rank=10**30)))
    assert rows(tmp_path / "odd", "key, rank") == [("k", None)]  # what no column holds
    full = Row(key="k", fingerprint="f", nodes=("node07",), gpus=8, ended=datetime(2026, 11, 3, 4), gpu_hours=1.5)
    survey(tmp_path / "out", [item(1)], Here(work=lambda *_: full))
    (read,) = pq.ParquetFile(tmp_path / "out/jobs/month=2026-11/jobs.parquet").read().to_pylist()
    assert convert(read, Row) == full


@pytest.mark.parametrize("odd", ["a\udcff", "\ud800", "a\x00b", "\x1b[31m"])
def test_text_that_is_no_unicode_is_stored_escaped(tmp_path: Path, odd: str) -> None:
    one = structs.replace(item(1), key=f"{odd}1", logs=(Log(f"/scratch/demo/{odd}", size=9),))
    assert survey(tmp_path, [one]).done == 1
    assert survey(tmp_path, [one]).unchanged == 1


def test_only_its_maker_may_read_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    survey(out, map(item, range(9)))
    assert {stat.S_IMODE(path.stat().st_mode) for path in (out, *out.rglob("*"))} == {0o700, 0o600}


def test_a_second_run_reads_what_is_new_or_has_changed(tmp_path: Path) -> None:
    survey(tmp_path, map(item, range(9)))
    crew = Here(work=quick)
    tally = survey(tmp_path, [*map(item, range(8)), item(8, size=999), item(9)], crew)
    assert sorted(crew.read) == ["job8", "job9"]
    assert (tally.done, tally.unchanged) == (2, 8)
    assert rows(tmp_path, "count(*), count(DISTINCT key), max(bytes)") == [(10, 10, 999)]


def test_a_row_that_moves_to_another_month_leaves_the_old_one(tmp_path: Path) -> None:
    survey(tmp_path, [item(1), item(2), item(3, ended="")])
    survey(tmp_path, [item(1, ended="2026-12-01", size=7), item(2), item(3, size=7)])
    assert rows(tmp_path, "key, month") == [("job1", "2026-12"), ("job2", "2026-11"), ("job3", "2026-11")]
    assert not (tmp_path / "jobs/month=unknown").exists()


def test_a_job_that_is_listed_twice_is_one_row_and_one_that_is_no_longer_found_stays(tmp_path: Path) -> None:
    survey(tmp_path, [item(1), item(1), item(1, size=5)])
    assert rows(tmp_path) == [("job1",)]
    survey(tmp_path, [item(2)], Here(work=lambda i, h: structs.replace(quick(i, h), read="error", error="denied")))
    assert rows(tmp_path) == [("job1",), ("job2",)]
    assert survey(tmp_path, [item(2)]).done == 1, "what could not be read is tried again"


def test_a_run_that_is_stopped_while_it_writes_keeps_all_that_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = pq.write_table

    def stopped_once(*_: Any, **how: Any) -> None:
        monkeypatch.setattr("slurmdoctor.survey.dataset.pq.write_table", write)
        raise KeyboardInterrupt

    monkeypatch.setattr("slurmdoctor.survey.dataset._ROWS", 1)
    monkeypatch.setattr("slurmdoctor.survey.dataset.pq.write_table", stopped_once)
    tally = Tally()
    with open_dataset(tmp_path) as data, pytest.raises(KeyboardInterrupt):
        run(data, map(item, range(9)), HOW, lambda: Here(work=quick), tally=tally)
    assert 0 < tally.done == len(rows(tmp_path))


@pytest.mark.slow
def test_a_large_journal_is_merged_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmdoctor.survey.dataset._ROWS", 1)
    monkeypatch.setattr("slurmdoctor.survey.dataset._MOST", 20)

    days = ("2026-08-01", "2026-09-01", "2026-10-01", "2026-11-01", "")
    survey(tmp_path, [item(n, ended=days[n % 5]) for n in range(60)])
    survey(tmp_path, [item(n, size=7, ended=days[n % 4]) for n in range(60)])
    assert rows(tmp_path, "count(*), count(DISTINCT key), min(bytes), max(bytes)") == [(60, 60, 7, 7)]
    assert {month for (month,) in rows(tmp_path, "month")} == {day[:7] for day in days if day}


def test_shards_share_the_jobs_and_one_folder(tmp_path: Path) -> None:
    for k in (1, 2, 3):
        survey(tmp_path, map(item, range(60)), shard=(k, 3))
    assert rows(tmp_path, "count(*), count(DISTINCT key)", "shard-*/jobs/*/*.parquet") == [(60, 60)]
    for other in ((1, 4), None):
        with pytest.raises(UserError, match="holds shards of 3: go on with --shard K/3"):
            survey(tmp_path, [], shard=other)


@pytest.mark.parametrize("attempt", range(4))
def test_shards_that_start_at_once_all_join(tmp_path: Path, attempt: int) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(8)

    def open_at_once(number: int) -> None:
        barrier.wait(20)
        with open_dataset(tmp_path / "new", (number, 8)):
            pass

    shards = [context.Process(target=open_at_once, args=(number,)) for number in range(1, 9)]
    for shard in shards:
        shard.start()
    for shard in shards:
        shard.join(30)
    assert [shard.exitcode for shard in shards] == [0] * 8
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {"survey.json", *(f"shard-{number}-of-8" for number in range(1, 9))}


@pytest.mark.parametrize(("workers", "size"), [(2, 5_000_000), (64, 5_000_000), (1_000, 64_000_000)])
def test_a_chunk_is_small_where_few_read_so_that_a_kill_costs_seconds(workers: int, size: int) -> None:
    waiting = Waiting()
    for number in range(workers * 4 * 2):
        waiting.add(item(number, size=size // 2))
    assert waiting.pop(workers).size == size


def test_a_folder_of_other_things_and_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(UserError, match="holds other things than a survey"):
        survey(tmp_path, [])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with open_dataset(tmp_path / "new"), pytest.raises(UserError, match="another run is writing"):
        survey(tmp_path / "new", [])


def test_an_older_dataset_goes_on_and_a_newer_one_is_refused(tmp_path: Path) -> None:
    survey(tmp_path, [item(1)])
    path = tmp_path / "jobs/month=2026-11/jobs.parquet"
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["notes"]), path)
    survey(tmp_path, [item(2)])
    assert rows(tmp_path, "key, notes") == [("job1", None), ("job2", [])]
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.append_column("of_tomorrow", table["key"]), path)
    with pytest.raises(UserError, match="newer slurmdoctor"):
        survey(tmp_path, [item(1)])


def _damaged_inside(data: bytes) -> bytes:
    column = pq.ParquetFile(BytesIO(data)).metadata.row_group(0).column(0)
    begin: int = column.dictionary_page_offset or column.data_page_offset
    size: int = column.total_compressed_size
    return data[:begin] + b"\xff" * size + data[begin + size :]


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:400], lambda data: data[:-1], _damaged_inside])
def test_a_damaged_month_or_journal_is_set_aside_and_read_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    survey(tmp_path, [item(1), item(2, ended="2026-10-01")])
    path = tmp_path / "jobs/month=2026-11/jobs.parquet"
    path.write_bytes(damage(path.read_bytes()))
    (tmp_path / ".run/journal/00000001.rows").write_bytes(b"PAR1 cut off")
    with open_dataset(tmp_path) as data:
        run(data, [item(1), item(2)], HOW, lambda: Here(work=quick), tally=Tally())
    assert ["damaged" in note for note in data.notes] == [True, True]
    assert "month=2026-11/jobs.parquet is damaged and was moved to" in data.notes[1]
    assert rows(tmp_path, glob="**/*.parquet") == [("job1",), ("job2",)]


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5, 8, 13])
def test_a_disk_that_fills_at_any_moment_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    survey(tmp_path, [item(1), item(2, ended="2026-10-01")])
    left = iter(range(after))
    real = os.fsync

    def full(handle: int) -> None:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr("slurmdoctor.survey.dataset.os.fsync", full)
    monkeypatch.setattr("slurmdoctor.survey.dataset._ROWS", 1)
    items = [item(1, ended="2026-12-01", size=5), *(item(n) for n in range(2, 9))]
    with pytest.raises(UserError, match="No space left on device: make room there"):
        survey(tmp_path, items)
    assert len(rows(tmp_path)) == len(set(rows(tmp_path))) >= 1
    monkeypatch.setattr("slurmdoctor.survey.dataset.os.fsync", real)
    survey(tmp_path, items)
    assert rows(tmp_path) == [(f"job{n}",) for n in range(1, 9)]


def test_no_pattern_finds_a_file_that_is_being_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    survey(tmp_path, [item(1)])
    seen: list[int] = []
    count = Mock(side_effect=lambda handle: seen.append(len(rows(tmp_path, glob="**/*.parquet"))))
    monkeypatch.setattr("slurmdoctor.survey.dataset.os.fsync", count)
    survey(tmp_path, [item(2)])
    assert seen == [1, 1, 1, 2, 2]  # a file and its folder: the journal, the month; then the emptied journal


KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = {paths!r}
from slurmdoctor.survey.pool import LocalPool
from test_survey_store import HOW, item, slow, survey
if __name__ == "__main__":
    survey(Path(sys.argv[1]), map(item, range(1500)), LocalPool(2, slow, HOW))
"""


def slow(item: Item, how: How) -> Row:
    time.sleep(0.002)
    return quick(item, how)


def test_a_run_that_is_killed_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = tmp_path / "run.py"
    script.write_text(KILLED.format(paths=[str(Path(__file__).parent)]))
    survey(out, [item(0)])
    with subprocess.Popen([sys.executable, script, out], stderr=subprocess.DEVNULL, start_new_session=True) as process:
        while not list((out / ".run/journal").glob("*.rows")) and process.poll() is None:
            time.sleep(0.01)
        process.kill()
    assert rows(out) == [("job0",)]
    assert survey(out, map(item, range(1500))).unchanged > 1
    assert rows(out, "count(*), count(DISTINCT key)") == [(1500, 1500)]
    end = time.monotonic() + 10
    with suppress(ProcessLookupError):
        while time.monotonic() < end:
            os.killpg(process.pid, 0)
            time.sleep(0.1)
    with pytest.raises(ProcessLookupError):  # the workers have ended with the run
        os.killpg(process.pid, 0)


def deadly(item: Item, how: How) -> Row:
    if item.key == "job7":
        os.kill(os.getpid(), signal.SIGKILL)
    if item.key == "job8":
        os._exit(3)
    if item.key == "job9":
        time.sleep(600)
    return quick(item, how)


@pytest.mark.slow
def test_a_job_that_kills_its_reader_is_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how = structs.replace(HOW, time_limit=0.5)
    monkeypatch.setattr("slurmdoctor.survey.pool.MARGIN", 0.5)
    tally = survey(tmp_path, map(item, range(40)), LocalPool(2, deadly, how))
    assert (tally.done, tally.read["error"]) == (40, 3)
    assert rows(tmp_path, "count(*), count(DISTINCT key)") == [(40, 40)]
    assert [r for r in rows(tmp_path, "key, error") if r[1]] == [
        ("job7", "its reader was killed by signal 9 (SIGKILL)"),
        ("job8", "its reader exited with status 3"),
        ("job9", "its reader did not answer within 1 s, and was ended"),
    ]
