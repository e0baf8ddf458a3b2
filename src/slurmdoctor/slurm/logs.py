"""From Slurm's file name patterns to the files that a job wrote.

sbatch(1) and srun(1), "filename pattern": `%j`, `%A_%a`, `%t`... `scontrol show job` expands some of them, sacct none.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from slurmdoctor.model import JobRecord

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
            missing.append(f"log {pattern} ({_why(pattern, job)})")
    # one file by two names is one; a link stays what it is, for who opens it asks whose it is
    unique = {os.path.realpath(f): os.path.abspath(f) for f in reversed(files)}  # noqa: PTH100 - resolves no links
    return list(unique.values())[::-1][:MOST_FILES], missing


def default(job: JobRecord) -> list[str]:
    """Where sbatch writes to if nobody tells it."""
    return ["slurm-%A_%a.out" if job.array_task is not None else "slurm-%j.out"] if job.work_dir else []


def _why(pattern: str, job: JobRecord) -> str:
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
