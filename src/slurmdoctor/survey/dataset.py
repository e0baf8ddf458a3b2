"""The dataset on disk: a Parquet file a month, which readers always find whole, and beside them the run's own folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from slurmdoctor.model import UserError
from slurmdoctor.survey.columns import check
from slurmdoctor.survey.files import is_unfinished, replacing, unwritten
from slurmdoctor.survey.known import Known
from slurmdoctor.survey.rows import SCHEMA_VERSION

MARK = "survey.json"
"""It marks a folder as a dataset of ours."""
_PSEUDONYMS = "pseudonyms"
_RUN = ".run"
_ROWS = 16_384
"""Rows that are in memory together."""
_SHARDS = "shard-{}-of-{}"


class DamagedError(Exception):
    """A file of the dataset that cannot be read."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(str(error))
        self.path, self.error = path, error


class Dataset:
    """A dataset (or a shard of one) that this process alone may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / _RUN
        self.journal = self.run / "journal"
        self.notes: list[str] = []
        """What the user should hear: files that were set aside."""

    def months(self) -> dict[str, Path]:
        """Month -> its file."""
        return {
            path.parent.name.partition("=")[2]: path for path in sorted(self.folder.glob("jobs/month=*/jobs.parquet"))
        }

    def month(self, name: str) -> Path:
        return self.folder / "jobs" / f"month={name}" / "jobs.parquet"

    def known(self) -> Known:
        """The jobs whose rows are there. A row that tells of an error is made anew, for the error may have gone."""
        known = Known()
        for path in self.months().values():
            try:
                for batch in batches(path, ["key", "fingerprint", "read", "state"]):
                    for key, fingerprint, read, state in zip(
                        *(column.to_pylist() for column in batch.columns), strict=True
                    ):
                        if read != "error":
                            known.add(key, fingerprint)
                        if read == "yes":
                            known.add_read(key, state)
            except DamagedError as error:
                self.set_aside(error)
        return known

    def set_aside(self, damaged: DamagedError) -> None:
        """Keep a damaged file where it is in nobody's way."""
        path = damaged.path
        if isinstance(damaged.error, PermissionError) or not path.exists():
            raise UserError(f"cannot read {path}: {damaged}", "run as the user who made the dataset") from damaged
        place = self.run / "damaged"
        place.mkdir(exist_ok=True)
        target = place / f"{len(list(place.iterdir())) + 1}-{path.parent.name}-{path.name}.damaged"
        path.rename(target)
        self.notes.append(f"{path} is damaged and was moved to {target}; its jobs are read again")


def batches(path: Path, names: Sequence[str] | None = None) -> Iterator[Any]:
    """A file's columns of these names, a part of its rows after the other. Raises a UserError where a newer slurmdoctor wrote it."""
    try:
        with pq.ParquetFile(path) as file:
            check(file.schema_arrow, str(path))
            yield from file.iter_batches(_ROWS, columns=names)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(path, error) from error


def length(path: Path) -> int:
    """How many rows a file has."""
    try:
        return int(pq.read_metadata(path).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(path, error) from error


@contextmanager
def open_dataset(
    folder: Path, shard: tuple[int, int] | None = None, pseudonyms: str | None = None
) -> Iterator[Dataset]:
    """The dataset in a folder, which is made where there is none; no other run may write it meanwhile.

    `pseudonyms` says by which key names were replaced: no dataset holds rows of two keys, or names beside pseudonyms.
    """
    data = Dataset(folder / _SHARDS.format(*shard) if shard else folder)
    with ExitStack() as end:
        end.callback(os.umask, os.umask(0o077))  # the rows quote logs that only their owners may read
        try:
            _claim(folder, shard, pseudonyms)
            data.journal.mkdir(parents=True, exist_ok=True)
            lock = end.enter_context((data.run / "lock").open("ab"))
        except OSError as error:
            raise unwritten(error, Path(error.filename or folder)) from error
        _alone(lock, folder)
        for left in data.run.glob("new-*"):
            left.unlink(missing_ok=True)
        yield data


def _claim(folder: Path, shard: tuple[int, int] | None, pseudonyms: str | None) -> None:
    """Make sure that the folder is ours, or can be. Shards that start at once all do this: the first one's mark holds for all."""
    mark = folder / MARK
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file", "name a folder for the dataset")
    folder.mkdir(parents=True, exist_ok=True)
    # listed before the mark is looked for: whoever made something of ours there has put the mark there first
    strange = any(not is_unfinished(path.name) for path in folder.iterdir())
    if not mark.is_file():
        if strange:
            raise UserError(f"--out {folder} holds other things than a survey", "name a new or an empty folder")
        with replacing(mark, folder, first=True) as file:
            names = {_PSEUDONYMS: pseudonyms} if pseudonyms else {}
            said = {"slurmdoctor": "survey", "schema_version": SCHEMA_VERSION, **names}
            file.write(json.dumps(said).encode() + b"\n")
    _same_names(folder, _same_version(mark).get(_PSEUDONYMS), pseudonyms)
    others = {path.name.rpartition("-")[2] for path in folder.glob("shard-*-of-*")}
    if others and (shard is None or others != {str(shard[1])}):
        wanted = "--shard K/" + "/".join(sorted(others))
        raise UserError(
            f"--out {folder} holds shards of {', '.join(sorted(others))}",
            f"go on with {wanted}, or name another folder",
        )
    if shard is not None and (folder / "jobs").exists():
        raise UserError(f"--out {folder} holds a survey without shards", "leave --shard out, or name another folder")


def _same_names(folder: Path, there: str | None, wanted: str | None) -> None:
    if there == wanted:
        return
    if there is None:
        raise UserError(f"--out {folder} holds rows with names", "name another folder for rows with pseudonyms")
    if wanted is None:
        raise UserError(f"--out {folder} holds rows with pseudonyms", "add --anonymize, or name another folder")
    raise UserError(
        f"the pseudonyms in --out {folder} were made with another key",
        "go on as the user who made it, or name another folder",
    )


def _same_version(mark: Path) -> dict[str, Any]:
    """What the mark says, of a version that is known."""
    try:
        said: dict[str, Any] = json.loads(mark.read_bytes())
        version = said["schema_version"]
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{mark} is not what slurmdoctor wrote", "delete it if the folder is a survey, and name the folder again"
        ) from None
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{mark.parent} was written by a newer slurmdoctor", "update slurmdoctor, or name another --out"
        )
    return said


def _alone(lock: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"another run is writing to {folder}", "wait for its end, or name another --out") from None
    except OSError:  # a file system without locks
        pass
