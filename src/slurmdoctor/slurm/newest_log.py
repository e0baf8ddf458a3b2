"""The log that was written last in a folder, and the others of its job: what `slurmdoctor diagnose` alone reads."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from msgspec import Struct

from slurmdoctor.input import is_log, split_jobs
from slurmdoctor.model import UserError
from slurmdoctor.slurm.named import BELOW, OURS, entries

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
