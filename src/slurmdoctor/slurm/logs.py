"""The log files of a job: where Slurm, its command line or its script says, or by their names; and the log that was written last.

sbatch(1) and srun(1), "filename pattern": `%j`, `%A_%a`, `%t`... `scontrol show job` expands some of them, sacct none.
"""

from __future__ import annotations

import glob
import os
import re
import shlex
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.input import files_of, is_log, named, of_folder, split_jobs
from slurmdoctor.model import GONE, WAITING, FoundLogs, JobRecord, UserError
from slurmdoctor.slurm import query
from slurmdoctor.slurm.jobinfo import label
from slurmdoctor.slurm.script import Directive, Script, options, step_outputs

MOST_FILES = 20_000
"""A log a task, on the largest jobs there are."""
There = Callable[[str], list[str]]
_SPECIAL = re.compile(r"%([0-9]{0,9})([%AabJjNnstux])")
_WIDEST = 10
"""Digits to which Slurm fills a number up, whatever the pattern asks for."""


def expand(pattern: str, job: JobRecord, ident: str | None = None) -> str:
    """The pattern as a glob: `%j` and others from the job's record are filled in, the rest (`%t`, `%N`) is `*`."""
    own = ident or _raw(job)
    known = {
        "A": job.array_job or own, "j": own, "J": own, "x": job.name, "u": job.user,
        "a": None if job.array_task is None else str(job.array_task),
        "b": None if job.array_task is None else str(job.array_task % 10),
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        width, letter = found.groups()
        if letter == "%":
            return "%"
        value = known.get(letter)
        if value is None:
            return "*"
        return glob.escape(value.zfill(min(int(width), _WIDEST)) if width and value.isdigit() else value)

    if "\\" in pattern:  # a backslash turns the patterns off
        return glob.escape(pattern.replace("\\", ""))
    pieces: list[str] = []
    at = 0
    for found in _SPECIAL.finditer(pattern):
        pieces += [glob.escape(pattern[at : found.start()]), fill(found)]
        at = found.end()
    return "".join([*pieces, glob.escape(pattern[at:])])


def on_disk(pattern: str) -> list[str]:
    """The files that a pattern of `expand` names, as far as they can be read."""
    try:
        found = glob.iglob(pattern)  # noqa: PTH207 - a whole path as a pattern
        return sorted(file for file in found if Path(file).is_file() and os.access(file, os.R_OK))
    except OSError:
        return []


def find(job: JobRecord, more: Iterable[str] = (), there: There = on_disk) -> tuple[list[str], list[str]]:
    """The job's log files, and the patterns for which there is none.

    `more` are patterns that the script gives its steps (`srun --output=log-%t`); `there` tells the files of a pattern.
    """
    files: list[str] = []
    missing: list[str] = []
    patterns = [p for p in (job.std_out, job.std_err) if p] or default(job)
    for pattern in dict.fromkeys([*patterns, *more]):
        if pattern == "/dev/null" or pattern.startswith("/dev/"):
            continue
        # a step of another component of a het job writes that component's id
        globs = dict.fromkeys(
            [expand(pattern, job), *(expand(pattern, job, ident) for ident in (*job.het_ids, *_leader(job)))]
        )
        here = [f for one in globs for f in there(os.path.join(job.work_dir or "", one))]  # noqa: PTH118 - a pattern, not a path
        files += here
        if not here and pattern in patterns:
            missing.append(f"log {pattern} ({_why_not(pattern, job)})")
    # one file by two names is one; a link stays what it is, for who opens it asks whose it is
    unique = {os.path.realpath(f): os.path.abspath(f) for f in reversed(files)}  # noqa: PTH100 - resolves no links
    return list(unique.values())[::-1][:MOST_FILES], missing


def default(job: JobRecord) -> list[str]:
    """Where sbatch writes to if nobody tells it."""
    return ["slurm-%A_%a.out" if job.array_task is not None else "slurm-%j.out"] if job.work_dir else []


def _why_not(pattern: str, job: JobRecord) -> str:
    folder = Path(os.path.join(job.work_dir or "", pattern)).parent  # noqa: PTH118
    try:
        if "%" not in str(folder) and not folder.is_dir():
            return f"no folder {folder} on this machine"
    except OSError as error:
        return f"{error.strerror}"
    return "not there, or not readable"


def _raw(job: JobRecord) -> str:
    """What `%j` stands for: of an array's task a number of its own, which no other job has."""
    if job.raw_id is None and job.array_task is not None and "_" in job.id:
        return "(unknown)"
    return job.raw_id or re.split(r"[_+.]", job.id)[0]


def _leader(job: JobRecord) -> list[str]:
    """The id of a het job's first component, in which the script runs."""
    return [job.id.partition("+")[0]] if "+" in job.id else []


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
        """The files that a pattern of `expand` names, as far as they can be read."""
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


How = Literal["name", "submit-line", "script", "comment"]
_OUTPUT = re.compile(r" --(?P<name>output|error)[= ](?P<value>(?:(?! -)[^\n]){1,1000})")
_MOST_WORDS = 12
"""Of a name with blanks."""
_LOG_IN_COMMENT = re.compile(r"(?<!\S)[^\s/]*(/\S+\.(?:out|err|log))(?=$|[\s,;\"'])")


def logs_of(job: JobRecord, script: Script | None, shelves: Shelves) -> tuple[list[str], JobRecord]:
    """The job's log files, and its record with how they were found and what is not there."""
    files: list[str] = []
    missing: list[str] = []
    steps = step_outputs(script) if script is not None else []
    if job.std_out or job.std_err:
        files, missing = find(job, steps, shelves.there)
        if files or (job.state in WAITING and not job.restarts):  # what waits has written nothing yet
            return files, replace(job, missing=(*job.missing, *(missing if files else ())))
    for how, found in _inferred(job, script, steps, shelves):
        if found:
            return found, replace(job, found=FoundLogs(_why(job), how, tuple(found)))
    if job.sources:
        return [], replace(job, missing=(*job.missing, *(missing or ["log (Slurm does not say where it is)"])))
    raise UserError(_nowhere(job, shelves.here), "name its log files, or run this where Slurm's commands work")


def _inferred(
    job: JobRecord, script: Script | None, steps: list[str], shelves: Shelves
) -> Iterator[tuple[How, list[str]]]:
    """Where the logs may be, the surest place first."""
    if job.std_out is None:
        yield "submit-line", _given(job, _submitted(job.submit_line or ""), steps, shelves)
        yield "submit-line", _unquoted(job, steps, shelves)
        if script is not None:
            yield "script", _given(job, script.directives, steps, shelves)
        yield "comment", _given_paths(job, _LOG_IN_COMMENT.findall(job.comment or ""), shelves)
        if job.work_dir:
            yield "name", find(replace(job, std_out=None, std_err=None), steps, shelves.there)[0]
    yield "name", by_name(job, shelves)


def by_name(job: JobRecord, shelves: Shelves) -> list[str]:
    """The files that are named after the job: an array's task by its own name, or by the number that `%j` gave it."""
    task = job.array_task if job.array_task is not None else _task(job.id)
    files = shelves.named(re.split(r"[_+.]", label(job))[0], job.work_dir).get(task, [])
    own = job.raw_id or job.id
    if job.array_task is not None and own != job.array_job and own.isdigit():
        files = [*files, *shelves.named(own, job.work_dir).get(None, [])]
    return list(dict.fromkeys(files))


def _task(ident: str) -> int | None:
    found = re.match(r"\d+_(\d{1,15})", ident)
    return int(found[1]) if found else None


def _given(job: JobRecord, directives: Sequence[Directive], steps: list[str], shelves: Shelves) -> list[str]:
    """The files that --output and --error name; of several the last counts."""
    last = {directive.name: directive.value for directive in directives}
    out, err = last.get("output"), last.get("error")
    if not out and not err:
        return []
    told = replace(job, std_out=out or next(iter(default(job)), None), std_err=err)
    return find(told, steps, shelves.there)[0]


def _given_paths(job: JobRecord, paths: Sequence[str], shelves: Shelves) -> list[str]:
    return [file for path in paths for file in find(replace(job, std_out=path, std_err=None), (), shelves.there)[0]]


def _submitted(line: str) -> list[Directive]:
    """The options of `sbatch -o out.log job.sh`; what stands behind the script is the script's."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    return options(words[1:], 0)[0]


def _unquoted(job: JobRecord, steps: list[str], shelves: Shelves) -> list[str]:
    """The files of a name with blanks, of whose words sacct shows no quotes: `sbatch --output=log %a [%A].txt job.sh`."""
    for found in _OUTPUT.finditer(job.submit_line or ""):
        words = found["value"].split(" ")[:_MOST_WORDS]
        for count in range(2, len(words) + 1):
            option = Directive(found["name"], " ".join(words[:count]), 0)
            if files := _given(job, [option], steps, shelves):
                return files
    return []


def _why(job: JobRecord) -> Literal["unreachable", "gone", "silent", "elsewhere"]:
    if job.sources:
        return "elsewhere" if job.std_out else "silent"
    return "gone" if query.is_gone(job) else "unreachable"


def _nowhere(job: JobRecord, here: Sequence[str]) -> str:
    why = GONE if query.is_gone(job) else "Slurm is not reachable from here"
    places = ", ".join(os.path.abspath(folder) for folder in here)  # noqa: PTH100 - without links resolved: as people know it
    looked = f", and no file in {places} or its {', '.join(BELOW[:3])} ... folders is named after it" if places else ""
    return f"no log of job {job.id} was found: {why}{looked}"
