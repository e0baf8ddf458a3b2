"""The log files of a job: where Slurm, its command line or its script says, or by their names; and the log that was written last.

sbatch(1) and srun(1), "filename pattern": `%j`, `%A_%a`, `%t`... `scontrol show job` expands some of them, sacct none.
"""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from slurmdoctor.input import files_of, is_log, named, of_folder, split_jobs
from slurmdoctor.model import GONE, WAITING, FoundLogs, Frozen, JobRecord, UserError
from slurmdoctor.slurm import query
from slurmdoctor.slurm.script import Directive, Script, step_outputs, submitted

MOST_FILES = 20_000
"""A log a task, on the largest jobs there are."""
BELOW = ("logs", "log", "slurm_logs", "slurm-logs", "slurm", "out", "output", "outputs", "job_logs", "report")
"""Folders in which people keep their logs."""
_MOST = 200_000
"""Entries of a folder that are looked at."""
OURS = re.compile(r"slurmdoctor[-.].*")
"""Verdicts that slurmdoctor itself wrote beside logs."""
How = Literal["name", "submit-line", "script", "comment"]


# ── Slurm's patterns ──

ANY = "\0"
"""In a path: what the record does not tell, any text."""
_SPECIAL = re.compile(r"%([0-9]{0,9})([%AabJjNnstux])")
_WIDEST = 10
"""Digits to which Slurm fills a number up, for any pattern."""


def expand(pattern: str, job: JobRecord, ident: str | None = None) -> str:
    """The path with `%j` and others from the job's record filled in; the rest (`%t`, `%N`) is `ANY`."""
    if "\\" in pattern:  # a backslash turns the patterns off
        return pattern.replace("\\", "")
    own = ident or _raw(job)
    known = {"%": "%", "A": job.array_job or own, "j": own, "J": own, "x": job.name, "u": job.user}
    if job.array_task is not None:
        known |= {"a": str(job.array_task), "b": str(job.array_task % 10)}

    def fill(found: re.Match[str]) -> str:
        width, letter = found.groups()
        value = known.get(letter) or ANY
        return value.zfill(min(int(width), _WIDEST)) if width and value.isdigit() else value

    return _SPECIAL.sub(fill, pattern)


def _raw(job: JobRecord) -> str:
    """What `%j` means: of an array's task a number of its own, which no other job has."""
    if job.raw_id is None and job.array_task is not None and "_" in job.id:
        return "(unknown)"
    return job.raw_id or re.split(r"[_+.]", job.id)[0]


def _default(job: JobRecord) -> str | None:
    """Where sbatch writes to if nobody tells it."""
    if not job.work_dir:
        return None
    return "slurm-%j.out" if job.array_task is None else "slurm-%A_%a.out"


def find(job: JobRecord, more: Iterable[str] = (), index: LogIndex | None = None) -> tuple[list[str], list[str]]:
    """The job's log files, and the patterns for which there is none.

    `more` are patterns that the script gives its steps (`srun --output=log-%t`).
    """
    index = index or LogIndex(())
    files: list[str] = []
    missing: list[str] = []
    patterns = [p for p in (job.std_out or _default(job), job.std_err) if p]
    # a step of another component of a het job writes that component's id; the script runs in the first one
    idents = [None, *job.het_ids, *([job.id.partition("+")[0]] if "+" in job.id else [])]
    for pattern in dict.fromkeys([*patterns, *more]):
        if pattern.startswith("/dev/"):
            continue
        places = dict.fromkeys(os.path.join(job.work_dir or "", expand(pattern, job, one)) for one in idents)  # noqa: PTH118
        here = [file for place in places for file in index.there(place)]
        files += here
        if not here and pattern in patterns:
            missing.append(f"log {pattern} ({_why_not(pattern, job)})")
    # one file by two names is one; a link stays what it is, for who opens it asks whose it is
    unique = {os.path.realpath(f): os.path.abspath(f) for f in reversed(files)}  # noqa: PTH100 - resolves no links
    return list(unique.values())[::-1][:MOST_FILES], missing


def _why_not(pattern: str, job: JobRecord) -> str:
    folder = os.path.dirname(os.path.join(job.work_dir or "", pattern))  # noqa: PTH118, PTH120
    missing = "%" not in folder and not os.path.isdir(folder)  # noqa: PTH112 - never raises
    return f"no folder {folder} on this machine" if missing else "not there, or not readable"


# ── all places in which a log may be ──


def logs_of(job: JobRecord, script: Script | None, index: LogIndex) -> tuple[list[str], JobRecord]:
    """The job's log files, and its record with how they were found and what is not there."""
    files: list[str] = []
    missing: list[str] = []
    steps = step_outputs(script) if script is not None else []
    if job.std_out or job.std_err:
        files, missing = find(job, steps, index)
        if files or (job.state in WAITING and not job.restarts):  # what waits has written nothing yet
            return files, replace(job, missing=(*job.missing, *(missing if files else ())))
    for how, found in _inferred(job, script, steps, index):
        if found:
            return found, replace(job, found=FoundLogs(_why(job), how, tuple(found)))
    if job.sources:
        return [], replace(job, missing=(*job.missing, *(missing or ["log (Slurm does not say where it is)"])))
    raise UserError(_nowhere(job, index.here), "name its log files, or run this where Slurm's commands work")


def _inferred(
    job: JobRecord, script: Script | None, steps: list[str], index: LogIndex
) -> Iterator[tuple[How, list[str]]]:
    """Where the logs may be, the surest place first."""
    if job.std_out is None:
        yield "submit-line", _given(job, submitted(job.submit_line or "")[0], steps, index)
        if script is not None:
            yield "script", _given(job, script.directives, steps, index)
        if re.fullmatch(r"/\S+\.(?:out|err|log)", job.comment or ""):  # some sites keep the path there
            yield "comment", find(replace(job, std_out=job.comment, std_err=None), steps, index)[0]
        if job.work_dir:
            yield "name", find(replace(job, std_err=None), steps, index)[0]
    yield "name", _by_name(job, index)


def _given(job: JobRecord, directives: Sequence[Directive], steps: list[str], index: LogIndex) -> list[str]:
    """The files that --output and --error name; of several the last counts."""
    last = {directive.name: directive.value for directive in directives}
    out, err = last.get("output"), last.get("error")
    if not out and not err:
        return []
    return find(replace(job, std_out=out, std_err=err), steps, index)[0]


def _by_name(job: JobRecord, index: LogIndex) -> list[str]:
    """The files that are named after the job: an array's task by its own name, or by the number that `%j` gave it."""
    found = re.match(r"(\d+)(?:_(\d{1,15}))?", job.label)
    number, task = found.groups() if found else (job.id, None)
    files = index.named(number, job.work_dir).get(int(task) if task else None, [])
    own = job.raw_id or job.id
    if job.array_task is not None and own != job.array_job and own.isdigit():
        files = [*files, *index.named(own, job.work_dir).get(None, [])]
    return list(dict.fromkeys(files))


def _why(job: JobRecord) -> Literal["unreachable", "gone", "silent", "elsewhere"]:
    if job.sources:
        return "elsewhere" if job.std_out else "silent"
    return "gone" if query.is_gone(job) else "unreachable"


def _nowhere(job: JobRecord, here: Sequence[str]) -> str:
    why = GONE if query.is_gone(job) else "Slurm is not reachable from here"
    places = ", ".join(os.path.abspath(folder) for folder in here)  # noqa: PTH100 - without links resolved: as people know it
    looked = f", and no file in {places} or its {', '.join(BELOW[:3])} ... folders is named after it" if places else ""
    return f"no log of job {job.id} was found: {why}{looked}"


# ── folders of logs ──

_LOG = re.compile(
    r"(?:.*\.(?:log|out|err|txt|stdout|stderr)|slurm-[0-9_]+|.*\.[oe][0-9_]+)(?:\.(?:gz|xz|zst|bz2))?", re.I
)
_DIGITS = re.compile(r"\d+")
_WHOLE = re.compile(rf"(?<![\d{ANY}])\d+(?![\d{ANY}])")
"""Numbers of a name that are whole: at the edge of any text they may go on."""


class Entry(Frozen):
    """What lies in a folder."""

    path: str
    name: str
    is_folder: bool


class LogIndex:
    """The folders in which logs are known by their names, each listed once: thousands of jobs may keep theirs in one."""

    def __init__(self, here: Sequence[str] = (".",)) -> None:
        self.here = tuple(here)
        self._listed: dict[tuple[str | None, bool], tuple[list[Entry], dict[str, list[Entry]]]] = {}
        """The entries of a folder (and those below it, in which logs are kept), and those with a number in their names by that."""
        self._named: dict[tuple[str, str | None], dict[int | None, list[str]]] = {}

    def _entries(self, folder: str | None, below: bool) -> tuple[list[Entry], dict[str, list[Entry]]]:
        if (folder, below) not in self._listed:
            found = list(_entries([*filter(None, [folder]), *self.here])) if below else list(_in_folder(folder or "."))
            by_number: dict[str, list[Entry]] = {}
            for entry in found:
                for number in set(_DIGITS.findall(entry.name)):
                    by_number.setdefault(number, []).append(entry)
            self._listed[folder, below] = found, by_number
        return self._listed[folder, below]

    def there(self, path: str) -> list[str]:
        """The files at a path of `expand`, as far as they can be read."""
        folder, name = os.path.split(path)
        if ANY in folder:
            found = sorted(glob.iglob(glob.escape(path).replace(ANY, "*")))  # noqa: PTH207 - a whole path as a pattern
        elif ANY not in name:
            found = [path]
        else:
            matches = re.compile(".*".join(map(re.escape, name.split(ANY))), re.DOTALL).fullmatch
            few, by_number = self._entries(folder, below=False)
            for number in _WHOLE.findall(name):
                few = min(few, by_number.get(number, []), key=len)
            hidden = "." if name.startswith(ANY) else ANY
            names = (one.name for one in few if matches(one.name) and not one.name.startswith(hidden))
            found = [os.path.join(folder, one) for one in names]  # noqa: PTH118 - thousands
        return [file for file in found if os.path.isfile(file) and os.access(file, os.R_OK)]  # noqa: PTH113 - thousands

    def named(self, number: str, work_dir: str | None = None) -> dict[int | None, list[str]]:
        """The logs that are named after a job, by its array task (None: the job's own); also those in its own folder.

        The number is taken whole: 471 is not 4711.
        """
        if (number, work_dir) not in self._named:
            self._named[number, work_dir] = self._search(number, work_dir)
        return self._named[number, work_dir]

    def _search(self, number: str, work_dir: str | None) -> dict[int | None, list[str]]:
        found: dict[int | None, list[str]] = {}
        for entry in self._entries(work_dir, below=True)[1].get(number, ()):
            read = of_folder(entry.path) if entry.is_folder else named(entry.path)
            own = next((one for one in (read.id, *read.numbers) if one is not None and one.digits == number), None)
            if own is None or OURS.fullmatch(entry.name) or not (entry.is_folder or _LOG.fullmatch(entry.name)):
                continue
            with suppress(UserError):
                files = files_of(entry.path) if entry.is_folder else [entry.path]
                found.setdefault(own.task if own.joint == "_" else None, []).extend(files)
        # without links to others of them
        return {
            task: list({os.path.realpath(file): file for file in reversed(files)}.values())[::-1]
            for task, files in found.items()
            if files
        }


def _entries(folders: Iterable[str]) -> Iterator[Entry]:
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
                yield Entry(os.path.normpath(entry.path), entry.name, is_folder)
        except OSError:
            continue


# ── the newest log ──

_JOBS_OWN = re.compile(r"(?!a\.out$).*\.(?:out|err)(?:\.(?:gz|xz|zst|bz2))?", re.I)
_OF_ANY = re.compile(r".*\.(?:log|stdout|stderr)", re.I)


class Newest(Frozen):
    """The log that was written last."""

    log: str
    age: float
    """Seconds since then."""
    files: tuple[str, ...]
    """It, and what else is the same job's."""


def newest(folder: str = ".", now: float | None = None) -> Newest:
    """The newest log of a job here: one with an id or Slurm's endings, else any; what holds nothing counts last. Raises UserError."""
    found: dict[str, tuple[bool, bool, float]] = {}
    for entry in _entries([folder]):
        path, name = entry.path, entry.name
        of_a_job = _JOBS_OWN.fullmatch(name) is not None or is_log(name)
        if entry.is_folder or OURS.fullmatch(name) or not (of_a_job or _OF_ANY.fullmatch(name)):
            continue
        of_a_job = of_a_job or split_jobs([path])[0].id is not None
        with suppress(OSError):
            status = Path(path).stat()
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
