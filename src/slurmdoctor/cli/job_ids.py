"""Words of the command line that are jobs' ids, and what is said of how their logs were found."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from slurmdoctor.cli.say import in_line, say
from slurmdoctor.model import Diagnosis, UserError

if TYPE_CHECKING:
    from slurmdoctor.slurm import Job

_ID = re.compile(r"[0-9]{1,18}(?:_[0-9]{1,9}|\+[0-9]{1,4})?(?:\.(?:[0-9]{1,9}|batch|extern|interactive))?")


def job_ids(words: Sequence[str]) -> tuple[str, ...]:
    """The jobs that are named by their ids; none where the words name files. A file of that name is a file."""
    ids: list[str] = []
    paths: list[str] = []
    for word in words:
        parts = word.split(",")
        if all(map(_ID.fullmatch, parts)) and not os.path.lexists(word):
            ids += parts
        else:
            paths.append(word)
    if ids and paths:
        other = "- is standard input" if paths[0] == "-" else f"{in_line(paths[0])} names files"
        raise UserError(
            f"{ids[0]} is a job's id, and {other}",
            f"name jobs or logs; --job {ids[0]} reads these logs with Slurm's record of that job",
        )
    return tuple(dict.fromkeys(ids))


def jobs_of(
    paths: Sequence[str],
    job_id: str | None,
    slurm_info: Sequence[str],
    script: str | None,
    exit_status: int | None,
) -> Sequence[Job | None]:
    """The jobs to read; None is the one of the paths, where nothing but its logs is to be read."""
    ids = () if job_id else job_ids(paths)
    if not (ids or job_id or slurm_info or script):
        return [None]
    from slurmdoctor.slurm import gather, gather_all  # a log alone does not wait for what reads Slurm

    if not ids:
        return [gather(paths, job_id=job_id, slurm_info=slurm_info, script=script, exit_status=exit_status)]
    jobs, absent = gather_all(ids, slurm_info=slurm_info, script=script, exit_status=exit_status)
    for wrong in absent:
        say(f"slurmdoctor: {wrong}", err=True)
    return jobs


def known_of(job: Job | None) -> dict[str, Any]:
    """What is known of a job beside its logs, as arguments of `diagnose`."""
    return {"record": job.record, "script": job.script, "begins": job.begins} if job is not None else {}


def tell_how_found(job: Job | None, found: Diagnosis, report: str) -> None:
    """Say on standard error how the job's logs were found, where that is an inference and the report had no room for it."""
    if job is None or job.record is None or job.record.found is None:
        return
    from slurmdoctor.report import how_found

    note = how_found(job.record, job.record.found)
    if "".join(note.split()) not in "".join(report.split()):
        say(f"slurmdoctor: {note}", err=True)


def tell_how_all_were_found(jobs: Iterable[Job | None]) -> None:
    """Say once how the logs of several jobs were found: their rows have no room for it."""
    from slurmdoctor.report import how_found

    told = [how_found(job.record, job.record.found) for job in jobs if job and job.record and job.record.found]
    if told:
        more = f"; the logs of {len(told) - 1:,} more jobs too were not named by Slurm" if len(told) > 1 else ""
        say(f"slurmdoctor: {told[0]}{more}", err=True)
