"""The dataset on disk: a Parquet file a month, which readers always find whole, and beside them the folder of the run that writes it.

Rows come into the run's journal, in files that a crash leaves whole. From there they are merged into the months: each month's file is
made anew and replaced at once. Done again, a merge changes nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import cache
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, BinaryIO, get_args, get_type_hints

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import MsgspecError, json
from msgspec.structs import asdict
from pyarrow.dataset import dataset

from slurmdoctor.model import Frozen, UserError
from slurmdoctor.survey.rows import SCHEMA_VERSION, Row

UNKNOWN = "unknown"
"""The month of jobs whose end is not known."""
_MARK = "survey.json"
"""It marks a folder as a dataset of ours."""
_PROGRESS = "progress.json"
_SUFFIX = ".rows"
"""Of the journal's files. Not .parquet: a pattern that names all Parquet files of the dataset must not find a row twice."""
_SHARDS = "shard-{}-of-{}"
_GROUP = 16_384
"""Rows that are read and written together."""
_ROWS, _SECONDS = 500, 5.0
"""Rows are in the journal after so many, or so long: what a crash may cost."""
_MOST = 50_000
"""Rows of the journal that are merged at once, in memory."""
_LARGEST = 2**63
_VERSION = b"slurmdoctor.schema_version"
_ARROW = {
    int: pa.int64(),
    int | None: pa.int64(),
    float | None: pa.float64(),
    datetime | None: pa.timestamp("us"),
    tuple[str, ...]: pa.list_(pa.string()),
}
"""Of the columns' types those that are no text."""


# ── columns ──


@cache
def schema() -> Any:
    """The schema of every file of the dataset: the fields of `Row`, each of which says what it means."""
    fields = []
    for name, annotated in get_type_hints(Row, include_extras=True).items():
        kind, meaning = get_args(annotated)
        fields.append(pa.field(name, _ARROW.get(kind, pa.string()), metadata={"description": meaning}))
    return pa.schema(fields, metadata={_VERSION: str(SCHEMA_VERSION)})


def table_of(rows: Sequence[Row]) -> Any:
    """The rows in the form of the files. What a column cannot hold is null, and text that is no Unicode is escaped."""
    fitting = [{name: _fit(value) for name, value in asdict(row).items()} for row in rows]
    return pa.Table.from_pylist(fitting, schema())


def _fit(value: Any) -> Any:
    if isinstance(value, str):
        return stored(value)
    if isinstance(value, tuple):
        return [stored(text) for text in value]
    return None if isinstance(value, int) and not -_LARGEST <= value < _LARGEST else value


def stored(text: str) -> str:
    """A text as the dataset holds it."""
    return text.encode("utf-8", "backslashreplace").decode()


# ── files ──


class DamagedError(Exception):
    """A file of the dataset that cannot be read."""

    def __init__(self, path: Path, error: Exception) -> None:
        super().__init__(str(error))
        self.path, self.error = path, error


def batches(path: Path, names: Sequence[str] | None = None) -> Iterator[Any]:
    """A file's rows, a part after the other: these columns, or all those of today. Raises a UserError where a newer slurmdoctor wrote it."""
    try:
        found = pq.read_schema(path)
        version = (found.metadata or {}).get(_VERSION, b"0")
        if not version.isdigit() or int(version) > SCHEMA_VERSION or set(found.names) - set(schema().names):
            raise UserError(f"{path} was written by a newer slurmdoctor", "update slurmdoctor, or name another --out")
        source = dataset(str(path), schema(), format="parquet")
        yield from source.to_batches(columns=names, batch_size=_GROUP)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(path, error) from error


@contextmanager
def replacing(path: Path, scratch: Path, first: bool = False) -> Iterator[BinaryIO]:
    """A file to write in `scratch`, on the same disk; at the end it is in the place of `path`.

    With `first`, one that is there by then stays: of several writers the first one wins.
    """
    # a pattern that names all Parquet files of the dataset must not find it
    new = scratch / f"new-{token_hex(4)}-{path.parent.name}-{path.name}.part"
    try:
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (first and _linked(new, path)):
            new.replace(path)
        _settle(path.parent)
    except OSError as error:
        raise _unwritten(error, path) from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _linked(new: Path, path: Path) -> bool:
    """Whether a file is at `path` now, which was never replaced. Not every file system has links."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def _unwritten(error: OSError, path: Path) -> UserError:
    """The system's error as a line that says what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    mend = "make room there" if full else "check the folder, and that you may write there"
    return UserError(
        f"cannot write {path}: {error.strerror or error}",
        f"{mend}; the same command again goes on from what is written",
    )


def _settle(folder: Path) -> None:
    """Let the disk have the names in a folder. Not every file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ── how far a run came ──


class Progress(Frozen):
    """How far the newest run of a dataset came: the run keeps it in a small file, and reports read it."""

    found: int
    """Jobs;"""
    there: int
    """of these have a row,"""
    listed: bool
    """and whether all jobs were found."""
    finished: bool


def progress_of(folder: Path) -> Progress | None:
    """What the run that keeps its files in this folder came to."""
    try:
        return json.decode((folder / _PROGRESS).read_bytes(), type=Progress)
    except (OSError, MsgspecError):
        return None


def write_progress(folder: Path, progress: Progress) -> None:
    """Keep how far a run is. Rows are what must be written, and their error is reported: this one's is not."""
    new = folder / f"new-{_PROGRESS}"
    with suppress(OSError):
        new.write_bytes(json.encode(progress))
        new.replace(folder / _PROGRESS)


def digest_of(*names: str | None) -> bytes:
    """16 bytes for what is known of a job: its key and fingerprint, or, where it was read, its key, `read` and its state."""
    return blake2b(stored("\0".join(map(str, names))).encode(), digest_size=16).digest()


# ── the dataset ──


class Dataset:
    """A dataset (or a shard of one) that this process alone may write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / ".run"
        self.journal = self.run / "journal"
        self.notes: list[str] = []
        """What the user should hear: files that were set aside."""
        self._rows: list[Row] = []
        self._written = time.monotonic()

    def months(self) -> dict[str, Path]:
        """Month -> its file."""
        return {
            path.parent.name.partition("=")[2]: path for path in sorted(self.folder.glob("jobs/month=*/jobs.parquet"))
        }

    def files(self) -> list[Path]:
        """The journal's files, the oldest first."""
        return sorted(path for path in self.journal.glob(f"*{_SUFFIX}") if path.stem.isdigit())

    def add(self, rows: Sequence[Row]) -> None:
        """Take rows; they are written every few hundred or few seconds."""
        self._rows += rows
        self.flush(_ROWS if time.monotonic() - self._written < _SECONDS else 1)

    def flush(self, least: int = 1) -> None:
        """Write the rows into the journal, if they are so many."""
        if len(self._rows) >= least:
            number = max((int(path.stem) for path in self.files()), default=0) + 1
            with replacing(self.journal / f"{number:08d}{_SUFFIX}", self.run) as file:
                pq.write_table(table_of(self._rows), file, compression="zstd")
            # a Ctrl-C above or here loses no row: to write one twice does no harm
            self._rows = []
            self._written = time.monotonic()

    def known(self) -> set[bytes]:
        """The jobs whose rows are there. A row that tells of an error is made anew, for the error may have gone."""
        known: set[bytes] = set()
        for path in self.months().values():
            try:
                for batch in batches(path, ["key", "fingerprint", "read", "state"]):
                    for key, fingerprint, read, state in zip(*(one.to_pylist() for one in batch.columns), strict=True):
                        if read != "error":
                            known.add(digest_of(key, fingerprint))
                        if read == "yes":
                            known.add(digest_of(key, "read", state))
            except DamagedError as error:
                self._set_aside(error)
        return known

    def merge(self) -> None:
        """Publish the journal. No reader ever finds a row twice: a row that changes its month first leaves the old one."""
        while files := self.files():
            try:
                self._merge(files)
            except DamagedError as damaged:
                self._set_aside(damaged)

    def _merge(self, files: Sequence[Path]) -> None:
        """Merge the oldest files, up to so many rows."""
        parts: list[Any] = []
        merged = []
        for path in files:
            parts += batches(path)
            merged.append(path)
            if sum(part.num_rows for part in parts) >= _MOST:
                break
        new = pa.Table.from_batches(parts, schema())
        newest = {key: at for at, key in enumerate(new["key"].to_pylist())}
        new = new.take(list(newest.values()))
        months = pc.fill_null(pc.strftime(new["ended"], format="%Y-%m"), UNKNOWN)
        for month in self.months():
            self._rewrite(month, new.filter(pc.not_equal(months, month))["key"], None)
        for month in sorted(pc.unique(months).to_pylist()):
            here = new.filter(pc.equal(months, month))
            self._rewrite(month, here["key"], here)
        for path in merged:
            path.unlink()
        _settle(self.journal)

    def _rewrite(self, month: str, leaving: Any, more: Any) -> None:
        """Write a month anew: without the rows of these keys, and with more of them."""
        path, keys = self.folder / "jobs" / f"month={month}" / "jobs.parquet", leaving.combine_chunks()

        def staying(batch: Any) -> Any:
            return pc.invert(pc.is_in(batch["key"], value_set=keys))

        old = list(map(staying, batches(path, ["key"]))) if path.exists() else []
        if more is None and all(pc.all(one).as_py() for one in old):
            return
        if more is None and not any(pc.any(one).as_py() for one in old):
            path.unlink()
            with suppress(OSError):
                path.parent.rmdir()
            return
        with replacing(path, self.run) as file, pq.ParquetWriter(file, schema(), compression="zstd") as writer:
            for batch in batches(path) if old else ():
                writer.write_batch(batch.filter(staying(batch)))
            if more is not None:
                writer.write_table(more, _GROUP)

    def _set_aside(self, damaged: DamagedError) -> None:
        """Keep a damaged file where it is in nobody's way."""
        path = damaged.path
        if isinstance(damaged.error, PermissionError) or not path.exists():
            raise UserError(f"cannot read {path}: {damaged}", "run as the user who made the dataset") from damaged
        place = self.run / "damaged"
        place.mkdir(exist_ok=True)
        target = place / f"{len(list(place.iterdir())) + 1}-{path.parent.name}-{path.name}.damaged"
        path.rename(target)
        self.notes.append(f"{path} is damaged and was moved to {target}; its jobs are read again")


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
            raise _unwritten(error, Path(error.filename or folder)) from error
        _alone(lock, folder)
        for left in data.run.glob("new-*"):
            left.unlink(missing_ok=True)
        yield data


class _Mark(Frozen, omit_defaults=True):
    """What marks a dataset."""

    slurmdoctor: str
    schema_version: int
    pseudonyms: str | None = None


def _claim(folder: Path, shard: tuple[int, int] | None, pseudonyms: str | None) -> None:
    """Make sure that the folder is ours, or can be. Shards that start at once all do this: the first one's mark holds for all."""
    path = folder / _MARK
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file", "name a folder for the dataset")
    folder.mkdir(parents=True, exist_ok=True)
    # listed before the mark is looked for: whoever made something of ours there has put the mark there first
    strange = any(not (one.name.startswith("new-") and one.name.endswith(".part")) for one in folder.iterdir())
    if not path.is_file():
        if strange:
            raise UserError(f"--out {folder} holds other things than a survey", "name a new or an empty folder")
        with replacing(path, folder, first=True) as file:
            file.write(json.encode(_Mark("survey", SCHEMA_VERSION, pseudonyms)) + b"\n")
    try:
        mark = json.decode(path.read_bytes(), type=_Mark)
    except MsgspecError:
        raise UserError(f"{path} is not what slurmdoctor wrote", "delete it if the folder is a survey, and name the folder again") from None  # fmt: skip
    if mark.schema_version > SCHEMA_VERSION:
        raise UserError(f"{folder} was written by a newer slurmdoctor", "update slurmdoctor, or name another --out")
    if mark.pseudonyms != pseudonyms:
        there = "pseudonyms of another key" if pseudonyms else "pseudonyms"
        mend = "go on as the user who made it" if pseudonyms else "add --anonymize"
        if mark.pseudonyms is None:
            there, mend = "names", "leave --anonymize out"
        raise UserError(f"--out {folder} holds rows with {there}", f"{mend}, or name another folder")
    others = {one.name.rpartition("-")[2] for one in folder.glob("shard-*-of-*")}
    if others and (shard is None or others != {str(shard[1])}):
        there, wanted = ", ".join(sorted(others)), "--shard K/" + "/".join(sorted(others))
        raise UserError(f"--out {folder} holds shards of {there}", f"go on with {wanted}, or name another folder")
    if shard is not None and (folder / "jobs").exists():
        raise UserError(f"--out {folder} holds a survey without shards", "leave --shard out, or name another folder")


def _alone(lock: IO[bytes], folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UserError(f"another run is writing to {folder}", "wait for its end, or name another --out") from None
    except OSError:  # a file system without locks
        pass
