"""The log that was written last in a folder, and the others of its job: what `slurmdoctor diagnose` alone reads."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from slurmdoctor.model import UserError
from slurmdoctor.slurm.named import BELOW, OURS, Shelves, entries

_JOBS_OWN = re.compile(r"(?!a\.out$).*\.(?:out|err|[oe][0-9_]+)(?:\.(?:gz|xz|zst|bz2))?", re.I)
"""Names that job logs have, and little else."""
_OF_ANY = re.compile(r".*\.(?:log|stdout|stderr)", re.I)
_ID = re.compile(r"(?:^|slurm-|job|[-_.]|\.[oe])(?!(?:19|20)\d{6}(?!\d))(\d{3,12})(?:_\d{1,7})?(?![0-9A-Za-z])")
"""Where a name tells a job's id; eight digits may be a date."""


class Newest(Struct, frozen=True):
    """The log that was written last."""

    log: str
    age: float
    """Seconds since then."""
    files: tuple[str, ...]
    """It, and what else is the same job's."""


def newest(folder: str = ".", now: float | None = None) -> Newest:
    """The newest log here; what is named as a job's counts first, and what holds nothing last. Raises UserError without any."""
    found: dict[str, tuple[bool, bool, float]] = {}
    for path, name, is_folder in entries([folder]):
        if is_folder or OURS.fullmatch(name) or not (_JOBS_OWN.fullmatch(name) or _OF_ANY.fullmatch(name)):
            continue
        try:
            status = Path(path).stat()
        except OSError:
            continue
        if os.access(path, os.R_OK):
            found[path] = (_JOBS_OWN.fullmatch(name) is not None, status.st_size > 0, status.st_mtime)
    if not found:
        raise UserError(
            f"no log of a job is in {Path(folder).absolute()} or its {', '.join(BELOW[:3])} ... folders",
            "name the log, its folder, or the job's id, such as: slurmdoctor diagnose slurm-4711.out",
        )
    log = max(found, key=found.__getitem__)
    age = (time.time() if now is None else now) - found[log][2]
    return Newest(log, max(0.0, age), _of_its_job(log, found, folder))


def _of_its_job(log: str, others: Iterable[str], folder: str) -> tuple[str, ...]:
    """The files that are named after the same job; without an id in its name those that differ in their ending alone."""
    shelves = Shelves([folder])
    for number in _ID.findall(log.rpartition("/")[2]):
        for files in shelves.named(number).values():
            if log in files:
                return tuple(files)
    return tuple(sorted(path for path in others if _stem(path) == _stem(log)))


def _stem(path: str) -> str:
    return re.sub(r"\.(?:out|err|log|stdout|stderr|[oe](?=[0-9_]+$))", "", path, flags=re.I)
