"""The journal's rows go into the months: each month's file is made anew and replaced at once. Done again, it changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slurmdoctor.survey.columns import conform, schema
from slurmdoctor.survey.dataset import DamagedError, Dataset, batches, length
from slurmdoctor.survey.files import replacing, settle
from slurmdoctor.survey.journal import files

_GROUP = 16_384
"""Rows that are written, and stay in memory, together."""
_MOST = 200_000
"""Rows of the journal that are merged at once."""
_AT_ONCE = 32
"""Months that are written at once: each is an open file."""
UNKNOWN = "unknown"
"""The month of jobs whose end is not known."""


def merge(data: Dataset) -> None:
    """Publish the journal. No reader ever finds a row twice: a row that changes its month first leaves the old one."""
    while files(data):
        try:
            _merge(data, _share(files(data)))
        except DamagedError as damaged:
            data.set_aside(damaged)


def _share(journal: Sequence[Path]) -> Sequence[Path]:
    """The oldest files, up to so many rows: what is merged at once is in memory by its keys."""
    rows = 0
    for number, path in enumerate(journal):
        rows += length(path)
        if rows > _MOST and number:
            return journal[:number]
    return journal


def _merge(data: Dataset, journal: Sequence[Path]) -> None:
    heads = _heads(journal)
    if heads is not None:
        new = heads.filter(heads["newest"])
        for month, path in data.months().items():
            kept = _without(path, new.filter(pc.not_equal(new["month"], month))["key"])
            if not pc.all(kept).as_py():
                _rewrite(data, path, kept)
        months = sorted(pc.unique(new["month"]).to_pylist())
        for first in range(0, len(months), _AT_ONCE):
            _add(data, journal, months[first : first + _AT_ONCE], heads)
    for path in journal:
        path.unlink()
    settle(data.journal)


def _heads(journal: Sequence[Path]) -> Any:
    """Key and month of each of these rows, in order, and whether it is the newest of its key; None without rows."""
    parts = [batch for path in journal for batch in batches(path, ["key", "ended"])]
    if not parts:
        return None
    read = pa.Table.from_batches(parts)
    months = pc.fill_null(pc.strftime(read["ended"], format="%Y-%m"), UNKNOWN)
    at = pa.array(range(read.num_rows), pa.int64())
    heads = pa.table({"key": read["key"], "month": months, "at": at})
    newest = heads.group_by("key").aggregate([("at", "max")])["at_max"]
    return heads.append_column("newest", pc.is_in(at, value_set=newest.combine_chunks()))


def _without(path: Path, keys: Any) -> Any:
    """Which rows of a file stay when those with these keys leave."""
    held = pa.chunked_array([batch["key"] for batch in batches(path, ["key"])], pa.string())
    return pc.invert(pc.is_in(held, value_set=keys.combine_chunks()))


def _rewrite(data: Dataset, path: Path, kept: Any) -> None:
    """Write a month anew, with the rows that stay."""
    if not pc.any(kept).as_py():
        path.unlink()
        with suppress(OSError):
            path.parent.rmdir()
        return
    with replacing(path, data.run) as file:
        writer = _Writer(file)
        for batch in _those(path, kept):
            writer.add(batch)
        writer.close()


def _add(data: Dataset, journal: Sequence[Path], months: Sequence[str], heads: Any) -> None:
    """Write these months anew: what they held, but for the rows that are replaced, and the journal's newest rows."""
    with ExitStack() as stack:
        writers = []
        for month in months:
            path = data.month(month)
            here = pc.and_(heads["newest"], pc.equal(heads["month"], month))
            writer = _Writer(stack.enter_context(replacing(path, data.run)))
            writers.append((writer, here))
            if path.exists():
                for batch in _those(path, _without(path, heads.filter(here)["key"])):
                    writer.add(batch)
        at = 0
        for batch in chain.from_iterable(map(batches, journal)):
            for writer, here in writers:
                writer.add(_part(batch, here, at))
            at += batch.num_rows
        for writer, _ in writers:
            writer.close()


def _those(path: Path, kept: Any) -> Iterator[Any]:
    """The rows of a file that stay."""
    at = 0
    for batch in batches(path):
        yield _part(batch, kept, at)
        at += batch.num_rows


def _part(batch: Any, wanted: Any, at: int) -> Any:
    """The rows of a batch that are wanted; it begins at one place of the whole."""
    return conform(batch).filter(wanted.slice(at, batch.num_rows).combine_chunks())


class _Writer:
    """Writes batches as row groups of one size."""

    def __init__(self, file: BinaryIO) -> None:
        self._writer = pq.ParquetWriter(file, schema(), compression="zstd")
        self._waiting: list[Any] = []
        self._rows = 0

    def add(self, batch: Any) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows += batch.num_rows
            if self._rows >= _GROUP:
                self._write()

    def close(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, schema()))
            self._waiting, self._rows = [], 0
