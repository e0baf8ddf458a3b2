"""Datasets of made-up rows, for the tests of what a survey answers."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

from slurmdoctor.survey.rows import Row

START = datetime(2026, 10, 5)
_NUMBER = count(1)
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), datetime: pa.timestamp("us")}


def row(cause: str | None = None, *, after: float = 0.0, hours: float = 1.0, gpus: int | None = 8, **more: Any) -> Row:
    """A job that began so many hours after START, and failed of this cause or went well."""
    number = next(_NUMBER)
    began = START + timedelta(hours=after)
    known: dict[str, Any] = {
        "key": f"lab/{number}",
        "fingerprint": str(number),
        "job_id": str(number),
        "job_name": f"job{number}",
        "user": "ada",
        "partition": "gpu",
        "nodes": ("node01",),
        "gpus": gpus,
        "started": began,
        "ended": began + timedelta(hours=hours),
        "elapsed_s": hours * 3600,
        "verdict": "failed" if cause else "no-failure",
        "state": "FAILED" if cause else "COMPLETED",
        "cause": cause,
        "gpu_hours": None if gpus is None else gpus * hours,
        "rules_version": "r1",
    }
    if cause:
        known |= {"gpu_hours_lost": known["gpu_hours"], "lost_counted": "whole-run" if gpus is not None else None}
    return Row(**{**known, **more})


def schema() -> pa.Schema:
    def of(hint: Any) -> pa.DataType:
        if get_origin(hint) is tuple:
            return pa.list_(pa.string())
        return next((_TYPES[one] for one in (hint, *get_args(hint)) if one in _TYPES), pa.string())

    return pa.schema([(name, of(hint)) for name, hint in get_type_hints(Row).items()])


def table(rows: Iterable[Row]) -> pa.Table:
    return pa.Table.from_pylist([structs.asdict(one) for one in rows], schema=schema())


def dataset(folder: Path, rows: Iterable[Row], month: str = "2026-10") -> str:
    """A folder as `slurmdoctor survey` leaves it."""
    place = folder / "jobs" / f"month={month}" / "jobs.parquet"
    place.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table(rows), place, compression="zstd")
    return str(folder)
