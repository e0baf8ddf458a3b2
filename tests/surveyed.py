"""Datasets of made-up rows, and surveys within the tests' own process."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner
from msgspec import Struct, structs

from slurmdoctor.cli import cli
from slurmdoctor.cli.usage import in_one_line
from slurmdoctor.model import UserError
from slurmdoctor.survey.dataset import schema
from slurmdoctor.survey.pool import Chunk, Outcome, Pool, Work
from slurmdoctor.survey.rows import How, Row
from slurmdoctor.survey.work import diagnose_one

START = datetime(2026, 10, 5)
_NUMBER = count(1)


def row(cause: str | None = None, *, after: float = 0.0, hours: float = 1.0, gpus: int | None = 8, **more: Any) -> Row:
    """A job that began so many hours after START, and failed of this cause or went well."""
    number = next(_NUMBER)
    began = START + timedelta(hours=after)
    lost = gpus and gpus * hours
    usual = Row(
        key=f"lab/{number}", fingerprint=str(number), job_id=str(number), job_name=f"job{number}", user="ada", partition="gpu",
        nodes=("node01",), gpus=gpus, started=began, ended=began + timedelta(hours=hours), elapsed_s=hours * 3600, cause=cause,
        verdict="failed" if cause else "no-failure", state="FAILED" if cause else "COMPLETED", gpu_hours=lost, rules_version="r1",
        gpu_hours_lost=lost if cause else None, lost_counted="whole-run" if cause and gpus is not None else None,
    )  # fmt: skip
    return structs.replace(usual, **more)


def table(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([structs.asdict(one) for one in rows], schema=schema())


def dataset(folder: Path, rows: Iterable[Row], month: str = "2026-10") -> str:
    """A folder as `slurmdoctor survey` leaves it."""
    place = folder / "jobs" / f"month={month}" / "jobs.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows), place, compression="zstd")
    return str(folder)


def rows_of(out: Path, what: str = "key", glob: str = "jobs/*/*.parquet") -> list[tuple[Any, ...]]:
    """What a query finds in a dataset."""
    found = duckdb.sql(f"SELECT {what} FROM read_parquet('{out}/{glob}') ORDER BY ALL")
    assert found is not None
    return found.fetchall()


class Here(Pool):
    """Workers that are this process: they do their work at once."""

    workers = 1

    def __init__(self, workers: int = 1, work: Work = diagnose_one, how: How | None = None) -> None:
        self.work, self.how = work, how or How()
        self.chunks: list[Chunk] = []
        self.read: list[str] = []

    def submit(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def outcome(self, seconds: float) -> Outcome | None:
        if not self.chunks:
            return None
        chunk = self.chunks.pop(0)
        self.read += [one.key for one in chunk.items]
        return Outcome(chunk, tuple(self.work(one, self.how) for one in chunk.items))


class Ran(Struct):
    """What a command said, as its caller sees it."""

    code: int
    stdout: str
    stderr: str


def survey(*arguments: object, **environment: str | None) -> Ran:
    """`slurmdoctor survey` in this process, workers and all."""
    setting = {"COLUMNS": "90", "NO_COLOR": None, "FORCE_COLOR": None, **environment}
    with patch("slurmdoctor.survey.LocalPool", Here):
        done = CliRunner(env=setting).invoke(cli, ["survey", *map(str, arguments)], standalone_mode=False)
    error = in_one_line(done.exception) if isinstance(done.exception, click.ClickException) else done.exception
    if isinstance(error, UserError):
        return Ran(2, done.stdout, "".join(f"{line}\n" for line in error.lines))
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return Ran(done.exit_code or int(done.return_value or 0), done.stdout, done.stderr)
