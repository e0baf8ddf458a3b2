"""Finds the logs of a job: where Slurm says, where its command line or script sends them, or by their names."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec.structs import replace

from slurmdoctor.model import GONE, WAITING, FoundLogs, JobRecord, UserError
from slurmdoctor.slurm import logs, query
from slurmdoctor.slurm.jobinfo import label
from slurmdoctor.slurm.named import BELOW, Shelves
from slurmdoctor.slurm.script import Directive, Script, options, step_outputs

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
        files, missing = logs.find(job, steps, shelves.there)
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
            yield "name", logs.find(replace(job, std_out=None, std_err=None), steps, shelves.there)[0]
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
    told = replace(job, std_out=out or next(iter(logs.default(job)), None), std_err=err)
    return logs.find(told, steps, shelves.there)[0]


def _given_paths(job: JobRecord, paths: Sequence[str], shelves: Shelves) -> list[str]:
    return [
        file for path in paths for file in logs.find(replace(job, std_out=path, std_err=None), (), shelves.there)[0]
    ]


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
