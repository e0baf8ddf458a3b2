"""The jobs whose logs lie in folders, as items: no call of Slurm, its saved answers where they are given."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.input import UnreadError, did_you_mean, expand, named
from slurmdoctor.model import JobFiles, JobRecord, LogNotFoundError, UserError
from slurmdoctor.pipeline import split
from slurmdoctor.slurm import begins as own_text_begins, by_name, saved
from slurmdoctor.survey.rows import ALL, Choice, Item, Log

MOST_FILES = 1_000_000
"""Files of one survey; what stands behind them in the order of the names is told, and not read."""


_ROOT = "root"
_SAMPLE = 5_000
"""Jobs whose logs' owners are looked at, to tell whether there are several."""


class Found(Struct, frozen=True):
    """The jobs of the folders."""

    jobs: Sequence[JobFiles] = ()
    skipped: Sequence[UnreadError] = ()
    """What lies in the folders and is not read, each with the reason."""
    others: Sequence[str] = ()
    """Files that are no logs by their names."""
    records: Mapping[str, JobRecord] = field(default_factory=dict)
    """By each id that a job is known by."""
    choice: Choice = ALL
    incomplete = False
    nothing = "no job of these logs is one that the options ask for"

    @property
    def notes(self) -> Sequence[str]:
        """What was left out, in one line."""
        are = "file or folder was" if len(self.skipped) == 1 else "files or folders were"
        return [f"{len(self.skipped):,} {are} left out, the first: {one}" for one in self.skipped[:1]]

    @property
    def no_logs(self) -> str | None:
        """How many files were left out by their names, with one of them."""
        if not self.others:
            return None
        are = "files are no logs by their names" if len(self.others) > 1 else "file is no log by its name"
        return f"{len(self.others):,} {are}, as {self.others[0]}; to read one, name it as a PATH"

    def __iter__(self) -> Iterator[Item]:
        several = self._several_users()
        only = next(iter(self.records.values()), None) if len(self.jobs) == 1 else None
        for job in self.jobs:
            item = _item(job, self.records.get(job.id or "", only if job.id is None else None))
            if self._counts(item):
                yield item if several and item.user != _ROOT else replace(item, user=None)

    def _several_users(self) -> bool:
        """Whether the logs are of several users; one owner may be who copied or unpacked them."""
        owners = set()
        for job in self.jobs[:: max(1, len(self.jobs) // _SAMPLE)]:
            owners.add(name_of(log_of(job.files[0])[1]))
            if len(owners - {_ROOT, None}) > 1:
                return True
        return False

    def _counts(self, item: Item) -> bool:
        """Whether the job is one of those that are asked for. It ended when its newest log was last written."""
        record, choice = item.record, self.choice
        if choice.users and ((record and record.user) or item.user) not in choice.users:
            return False
        if choice.partitions and (record is None or record.partition not in choice.partitions):
            return False
        newest = max((log.mtime_ns for log in item.logs), default=0) / 1e9
        if choice.since is not None and newest < choice.since.timestamp():
            return False
        return choice.until is None or newest < choice.until.timestamp()


def find_in_folders(paths: Sequence[str], slurm_info: Sequence[str] = (), choice: Choice = ALL) -> Found:
    """The jobs of the files that the paths name (files, folders, globs). Raises UserError where nothing is there."""
    for path in paths:
        if path == "-":
            raise UserError("a survey reads no standard input", "name the folders of the logs")
        if not os.path.lexists(path) and not any(c in path for c in "*?["):
            raise LogNotFoundError(f"{path} is not there", did_you_mean(path))
    found = expand(paths, most=MOST_FILES, each_folder=True)
    texts = saved(slurm_info)
    jobs = split(found.paths, survey=True)
    return Found(jobs, found.skipped, found.others, by_name(texts), choice)


def log_of(path: str, begins: int = 0) -> tuple[Log, int]:
    """The log with its stamp, and its owner; a log that is not there is an empty one, and -1."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of a million files
    except (OSError, ValueError):
        return Log(path), -1
    return Log(path, status.st_ino, status.st_size, status.st_mtime_ns, min(begins, status.st_size)), status.st_uid


@cache
def name_of(uid: int) -> str | None:
    """The user's name; the number of one whom this machine does not know."""
    import pwd

    if uid < 0:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def key_of(record: JobRecord) -> str:
    """The key of one run of a job: Slurm may give an id again, but not in the same second."""
    return f"{record.cluster or ''}:{record.label}@{'' if record.submitted is None else int(record.submitted)}"


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _item(job: JobFiles, record: JobRecord | None) -> Item:
    begins = own_text_begins(job.files, {}, record, copies=True) if record is not None else {}
    logs, owners = zip(*(log_of(path, begins.get(path, 0)) for path in job.files), strict=True)
    # what else a job is called, and which files without its id are its own, depends on the other jobs
    bare = (job.id or "").partition("_")[0]
    first = min(job.files, key=lambda path: (bare not in path.rpartition("/")[2], path.count("/"), path))
    folder, _, name = first.rpartition("/")
    place = _real(folder or ("/" if first.startswith("/") else "."))
    return Item(
        key=(f"{place}:{job.id}" if job.id else f"{place}/{name}") if record is None else key_of(record),
        id=job.id if record is None else record.label,
        name=_called(job),
        logs=logs,
        record=record,
        user=name_of(owners[0]),
    )


def _called(job: JobFiles) -> str | None:
    """The job's name where a file's name or its folder tells it; a log's own name with its ending is none."""
    if job.name not in {end for path in job.files for end in (path, path.rpartition("/")[2])}:
        return job.name
    bare = (job.id or "").partition("_")[0]
    numbers = [one for file in map(named, job.files) for one in (file.id, *file.numbers) if one is not None]
    told = {one.name for one in numbers if one.digits == bare} - {None}
    if len(told) == 1:
        return told.pop()
    return job.files[0].rpartition("/")[0].rpartition("/")[2] or None if job.known_by == "folder" else None
