"""The journal: rows as they come, in files that a crash leaves whole, until they are merged into the months."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from slurmdoctor.survey.columns import batch_of
from slurmdoctor.survey.dataset import Dataset
from slurmdoctor.survey.files import replacing
from slurmdoctor.survey.rows import Row

_ROWS = 500
_SECONDS = 5.0
"""Rows are on disk after so many, or so long: what a crash may cost."""
_SUFFIX = ".rows"
"""Not .parquet: a pattern that names all Parquet files of the dataset must not find a row twice."""


class Journal:
    """Takes rows, and writes them every few hundred or few seconds."""

    def __init__(self, data: Dataset) -> None:
        self._data = data
        self._rows: list[Row] = []
        self._written = time.monotonic()
        self._next = max((int(path.stem) for path in files(data)), default=0) + 1

    def add(self, rows: list[Row]) -> None:
        self._rows += rows
        self.flush(_ROWS if time.monotonic() - self._written < _SECONDS else 1)

    def flush(self, least: int = 1) -> None:
        """Write the rows, if they are so many."""
        if len(self._rows) >= least:
            path = self._data.journal / f"{self._next:08d}{_SUFFIX}"
            with replacing(path, self._data.run) as file:
                pq.write_table(pa.Table.from_batches([batch_of(self._rows)]), file, compression="zstd")
            # a Ctrl-C above or here loses no row: to write one twice does no harm
            self._next += 1
            self._rows = []
            self._written = time.monotonic()


def files(data: Dataset) -> list[Path]:
    """The journal's files, the oldest first."""
    return sorted(path for path in data.journal.glob(f"*{_SUFFIX}") if path.stem.isdigit())
