"""The batch script of a job, where it lies on this disk: asking Slurm for each would be a call a job."""

from __future__ import annotations

import os
import re
import shlex
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from slurmdoctor.input import UnreadError, open_regular
from slurmdoctor.model import JobRecord
from slurmdoctor.slurm import epoch
from slurmdoctor.slurm.script import Script, options, parse_beside, read

_LARGEST = 1 << 20
"""Bytes; a script is smaller."""
_SLACK = 60.0
"""Seconds by which the clock of a file server may differ."""
_OUTPUT_OF_A_STEP = re.compile(r"^(?!#).*\bsrun\b.*\s(?:-[oe]|--output|--error)", re.M)


class OnDisk(Struct, frozen=True):
    """The file that a job was submitted from."""

    path: str
    script: Script
    own: bool
    """Whether it is as it was then. What was changed since tells where its logs are, and no more."""


def script_of(job: JobRecord) -> OnDisk | None:
    """The script that the job's command line names, in its working folder; None where nothing there looks like one."""
    name = _named(job.submit_line or "")
    if name is None or job.work_dir is None:
        return None
    path = os.path.join(job.work_dir, name)  # noqa: PTH118 - of thousands
    try:
        status = os.stat(path)  # noqa: PTH116
        script = _read(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except (OSError, ValueError, UnreadError):
        return None
    if script is None:
        return None
    own = job.submitted is not None and status.st_mtime <= epoch(job.submitted, 1) + _SLACK
    return OnDisk(path, script if own else Script(script.name, "", directives=script.directives), own)


def _named(line: str) -> str | None:
    """`job.sh` of `sbatch -N2 job.sh 8 fast`."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if not words or words[0].rpartition("/")[2] != "sbatch":
        return None
    given, at = options(words[1:], 0)
    if any(option.name in ("wrap", "chdir") for option in given):
        return None
    return words[at + 1] if at + 1 < len(words) else None


@lru_cache(maxsize=1024)
def _read(path: str, inode: int, size: int, mtime_ns: int) -> Script | None:
    if not 0 < size <= _LARGEST:
        return None
    with os.fdopen(open_regular(path), "rb") as file:
        data = file.read(_LARGEST)
    if not data.startswith(b"#!"):
        return None
    text = data.decode("utf-8", "replace")
    name = Path(path).name
    if _OUTPUT_OF_A_STEP.search(text):
        script = parse_beside(text, name)
        if not script.fault:  # one that cannot be parsed still says where its log is
            return script
    return Script(name, text, directives=tuple(read(text)[0]))
