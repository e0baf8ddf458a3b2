"""What the corpus consists of: a line of MANIFEST.tsv for each log file, a truth for each case."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class LogFile:
    """One file of a case: `sha256` and `size` (bytes) are those of `path` in `repository` at `commit`; `file` is its name in the case's folder."""

    batch: str
    case: str
    file: str
    repository: str
    commit: str
    path: str
    sha256: str
    size: int
    licence: str


def read(folder: Path = FOLDER) -> list[LogFile]:
    """Every log file of the corpus in `folder`.

    Raises ValueError for a line that has another number of fields than the head has.
    """
    with (folder / "MANIFEST.tsv").open(encoding="utf-8", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        head = next(rows)
        return [_log_file(dict(zip(head, row, strict=True))) for row in rows]


def truth(log: LogFile, folder: Path = FOLDER) -> Path:
    """Where the truth about the log's case is."""
    return folder / log.batch / f"{log.case}.yaml"


def by_commit(logs: Sequence[LogFile]) -> dict[tuple[str, str], list[LogFile]]:
    """The logs of each repository and commit."""
    grouped: dict[tuple[str, str], list[LogFile]] = {}
    for log in logs:
        grouped.setdefault((log.repository, log.commit), []).append(log)
    return grouped


def _log_file(row: dict[str, str]) -> LogFile:
    size = row.pop("bytes")
    return LogFile(size=int(size), **row)
