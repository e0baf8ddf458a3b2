"""A job's logs by their names, and the log that was written last: what sbatch, launchers and people call them."""

from __future__ import annotations

import glob
import os
import re
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from slurmdoctor.input import files_of, is_log, named, of_folder, split_jobs
from slurmdoctor.model import UserError

BELOW = ("logs", "log", "slurm_logs", "slurm-logs", "slurm", "out", "output", "outputs", "job_logs", "report")
"""Folders in which people keep their logs."""
_MOST = 200_000
"""Entries of a folder that are looked at."""
OURS = re.compile(r"slurmdoctor[-.].*")
"""Verdicts that slurmdoctor itself wrote beside logs."""
_LOG = re.compile(
    r"(?:.*\.(?:log|out|err|txt|stdout|stderr)|slurm-[0-9_]+|.*\.[oe][0-9_]+)(?:\.(?:gz|xz|zst|bz2))?", re.I
)

_DIGITS = re.compile(r"\d+")
_WHOLE = re.compile(r"(?<=\D)\d+(?=\D)")
_LETTER = re.compile(r"\[([*?[])\]|(\*)|(.)", re.DOTALL)

Entry = tuple[str, str, bool]
"""(path, name, whether it is a folder)"""


class Shelves:
    """The folders in which logs are known by their names, each listed once: thousands of jobs may keep theirs in one."""

    def __init__(self, here: Sequence[str] = (".",)) -> None:
        self.here = tuple(here)
        self._folders: dict[str, Folder] = {}
        self._listed: dict[str | None, dict[str, list[Entry]]] = {}
        """By each number in an entry's name."""
        self._named: dict[tuple[str, str | None], dict[int | None, list[str]]] = {}

    def there(self, pattern: str) -> list[str]:
        """The files that a pattern of `logs.expand` names, as far as they can be read."""
        folder, name = os.path.split(pattern)
        above, pieces = _pieces(folder), _pieces(name)
        if len(above) > 1:
            found = sorted(glob.iglob(pattern))  # noqa: PTH207 - a whole path as a pattern
        elif len(pieces) == 1:
            found = [os.path.join(*above, *pieces)]  # noqa: PTH118 - thousands
        else:
            if above[0] not in self._folders:
                self._folders[above[0]] = Folder(above[0])
            found = [os.path.join(above[0], one) for one in self._folders[above[0]].matching(pieces)]  # noqa: PTH118
        return [file for file in found if _can_be_read(file)]

    def named(self, number: str, work_dir: str | None = None) -> dict[int | None, list[str]]:
        """The logs that are named after a job, by its array task (None: the job's own); also those in its own folder.

        The number is taken whole: 471 is not 4711.
        """
        if (number, work_dir) not in self._named:
            self._named[number, work_dir] = self._search(number, work_dir)
        return self._named[number, work_dir]

    def _search(self, number: str, work_dir: str | None) -> dict[int | None, list[str]]:
        if work_dir not in self._listed:
            self._listed[work_dir] = _by_number(entries([*filter(None, [work_dir]), *self.here]))
        found: dict[int | None, list[str]] = {}
        for path, name, is_folder in self._listed[work_dir].get(number, ()):
            read = of_folder(path) if is_folder else named(path)
            own = next((one for one in (read.id, *read.numbers) if one is not None and one.digits == number), None)
            if own is None or OURS.fullmatch(name) or not (is_folder or _LOG.fullmatch(name)):
                continue
            files = _inside(path) if is_folder else [path]
            found.setdefault(own.task if own.joint == "_" else None, []).extend(files)
        return {task: _once(files) for task, files in found.items() if files}


class Folder:
    """The names in a folder, listed once."""

    def __init__(self, path: str) -> None:
        try:
            self._names = sorted(os.listdir(path or "."))[:_MOST]  # noqa: PTH208 - names
        except OSError:
            self._names = []
        self._by_number: dict[str, list[str]] = {}
        for name in self._names:
            for number in set(_DIGITS.findall(name)):
                self._by_number.setdefault(number, []).append(name)

    def matching(self, pieces: Sequence[str]) -> list[str]:
        """The names that hold these pieces in this order, with anything between them; looked for among as few as possible."""
        matches = re.compile(".*".join(map(re.escape, pieces)), re.DOTALL).fullmatch
        first = bisect_left(self._names, pieces[0])
        few: Sequence[str] = self._names[first : bisect_left(self._names, f"{pieces[0]}\U0010ffff", first)]
        # a number at the edge of a piece may be part of a longer one
        for number in {number for piece in pieces for number in _WHOLE.findall(piece)}:
            few = min(few, self._by_number.get(number, []), key=len)
        return [name for name in few if matches(name) and (pieces[0] or not name.startswith("."))]


def _pieces(pattern: str) -> list[str]:
    """The text between the stars of a glob whose other letters are escaped."""
    found = [""]
    for escaped, star, letter in _LETTER.findall(pattern):
        if star:
            found.append("")
        else:
            found[-1] += escaped or letter
    return found


def _can_be_read(file: str) -> bool:
    try:
        return os.path.isfile(file) and os.access(file, os.R_OK)  # noqa: PTH113 - thousands
    except ValueError:  # a null byte
        return False


def _by_number(found: Iterable[Entry]) -> dict[str, list[Entry]]:
    numbers: dict[str, list[Entry]] = {}
    for entry in found:
        for number in set(_DIGITS.findall(entry[1])):
            numbers.setdefault(number, []).append(entry)
    return numbers


def _once(files: list[str]) -> list[str]:
    """The files without links to others of them."""
    return list({os.path.realpath(file): file for file in reversed(files)}.values())[::-1]


def _inside(folder: str) -> list[str]:
    try:
        return files_of(folder)
    except UserError:
        return []


def entries(folders: Iterable[str]) -> Iterator[Entry]:
    """All that lies in the folders, and in those below them in which logs are kept."""
    asked: set[str] = set()
    for folder in folders:
        for here in (folder, *(os.path.join(folder, below) for below in BELOW)):  # noqa: PTH118 - a name that people see
            real = os.path.realpath(here)
            if real not in asked:
                asked.add(real)
                yield from _in_folder(here)


def _in_folder(folder: str) -> Iterator[Entry]:
    try:
        with os.scandir(folder) as entries:
            inside = sorted((entry for entry, _ in zip(entries, range(_MOST), strict=False)), key=lambda one: one.name)
    except OSError:
        return
    for entry in inside:
        try:
            is_folder = entry.is_dir()
            if is_folder or entry.is_file():
                yield os.path.normpath(entry.path), entry.name, is_folder
        except OSError:
            continue


_JOBS_OWN = re.compile(r"(?!a\.out$).*\.(?:out|err)(?:\.(?:gz|xz|zst|bz2))?", re.I)
_OF_ANY = re.compile(r".*\.(?:log|stdout|stderr)", re.I)


class Newest(Struct, frozen=True):
    """The log that was written last."""

    log: str
    age: float
    """Seconds since then."""
    files: tuple[str, ...]
    """It, and what else is the same job's."""


def newest(folder: str = ".", now: float | None = None) -> Newest:
    """The newest log of a job here: one with an id or Slurm's endings, else any; what holds nothing counts last. Raises UserError."""
    found: dict[str, tuple[bool, bool, float]] = {}
    for path, name, is_folder in entries([folder]):
        of_a_job = _JOBS_OWN.fullmatch(name) is not None or is_log(name)
        if is_folder or OURS.fullmatch(name) or not (of_a_job or _OF_ANY.fullmatch(name)):
            continue
        of_a_job = of_a_job or split_jobs([path])[0].id is not None
        try:
            status = Path(path).stat()
        except OSError:
            continue
        if os.access(path, os.R_OK):
            found[path] = (of_a_job, status.st_size > 0, status.st_mtime)
    if not found:
        raise UserError(
            f"no log of a job is in {Path(folder).absolute()} or its {', '.join(BELOW[:3])} ... folders",
            "name the log, its folder, or the job's id, such as: slurmdoctor diagnose slurm-4711.out",
        )
    log = max(found, key=found.__getitem__)
    age = (time.time() if now is None else now) - found[log][2]
    files = next(job.files for job in split_jobs(sorted(found), survey=True) if log in job.files)
    return Newest(log, max(0.0, age), files)
