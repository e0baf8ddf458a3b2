"""Where a run's own text begins in its logs: above it is what earlier runs have written to the same files.

A footer notes how the logs stand as its script begins. Without such a note the job's start tells: Slurm's lines on the
end of a job carry a time, and a file that nobody has written to since is an earlier run's.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import IO

from slurmdoctor.input import BLOCK, UnreadError, open_regular
from slurmdoctor.knowledge import literals, text as text_of
from slurmdoctor.model import WAITING, Frozen, JobRecord
from slurmdoctor.slurm.jobinfo import stamp

LONGEST_NOTE = 60_000
"""Bytes: the shell takes 64 KiB of it."""
MOST_SEARCHED = 4 << 30
"""Bytes of all logs together in which Slurm's lines are looked for: some seconds."""
_TAIL = 256
"""Bytes by which a file is known that was emptied and has grown again since."""
_SLACK = 5.0
"""Seconds by which the clock of a file server may differ."""
_LATER = 60.0
"""Seconds after a job's end in which its last output may still come, and Slurm's line on that end be written."""
_NODES_OWN = (None, "", ":/etc/localtime")
"""What TZ says where times are the node's."""
_OVERLAP = 4096
"""Bytes that two blocks have in common, so that no line of Slurm's is cut."""
_RUN_END = text_of("run-end")
_BY_SLURM = text_of("slurm-line")

File = tuple[int, int]
"""(device, inode)"""


class Note(Frozen):
    """How a file stood when the run began."""

    size: int
    tail: int | None = None
    """Checksum of the last bytes; None where only a shell looked."""


def note(paths: Iterable[str]) -> str:
    """`device:inode:size:checksum` of each file that holds something, as `noted` reads them."""
    found: dict[File, str] = {}
    length = 0
    for path in paths:
        try:
            with os.fdopen(open_regular(path), "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                key = (status.st_dev, status.st_ino)
                if status.st_size and key not in found and length < LONGEST_NOTE:
                    found[key] = f"{key[0]}:{key[1]}:{status.st_size}:{_tail(file, status.st_size)}"
                    length += len(found[key]) + 1
        except (OSError, UnreadError):
            continue
    return " ".join(found.values())


def noted(text: str) -> dict[File, Note]:
    """The note of a footer, from Python or from `stat -c %d:%i:%s`; what is none is passed over."""
    found: dict[File, Note] = {}
    for word in text[: 1 << 20].split():
        numbers = word.split(":")
        if len(numbers) in (3, 4) and all(n.isascii() and n.isdigit() and len(n) < 20 for n in numbers):
            device, inode, size, *tail = map(int, numbers)
            found[device, inode] = Note(size, tail[0] if tail else None)
    return found


def begins(paths: Iterable[str], notes: Mapping[File, Note], job: JobRecord, copies: bool = False) -> dict[str, int]:
    """Byte of each file at which this run's text begins, where that is not its first.

    `copies` are not the files that the job wrote: how old they are says nothing.
    """
    found: dict[str, int] = {}
    if job.state in WAITING:  # its start is only planned: the text is that of the run before
        return found
    left = MOST_SEARCHED
    for path in paths:
        try:
            with os.fdopen(open_regular(path), "rb", buffering=0) as file:
                at = _begin(file, path, notes, job, copies, left)
                left -= os.fstat(file.fileno()).st_size
        except (OSError, UnreadError):
            continue
        if at:
            found[path] = at
    return found


def end(path: str, job: JobRecord, begins: int, later: float | None) -> int | None:
    """Byte of the file at which this run's text ends, where a later one has written to it; None where none has.

    `later` is when the job ran again, if it did. What begins where it ends is gone: the later run has emptied the file.
    """
    if job.end is None:
        return None
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if status.st_mtime < (epoch(job.end, 1) + _LATER if later is None else epoch(later, 0)):
                return None
            if status.st_size > MOST_SEARCHED or os.environ.get("TZ") not in _NODES_OWN:
                return None
            at = _after_last_end(file, status.st_size, job.end + _SLACK) if job.start is not None else 0
            if at > begins:
                return at if at < status.st_size else None
            return begins if later is not None else None
    except (OSError, UnreadError):
        return None


def _begin(file: IO[bytes], path: str, notes: Mapping[File, Note], job: JobRecord, copies: bool, most: int) -> int:
    status = os.fstat(file.fileno())
    known = notes.get((status.st_dev, status.st_ino))
    if known is not None:
        emptied = known.size > status.st_size or known.tail not in (None, _tail(file, known.size))
        return 0 if emptied else known.size
    if job.start is None or (not job.restarts and is_named_after(path, job)):
        return 0
    if not copies and status.st_mtime < epoch(job.start, 0) - _SLACK:
        return status.st_size
    # where the job has a time zone of its own, Slurm's lines in the log are in another one than its records
    can_tell = os.environ.get("TZ") in _NODES_OWN and status.st_size <= most
    return _after_last_end(file, status.st_size, job.start) if can_tell else 0


def is_named_after(path: str, job: JobRecord) -> bool:
    """Whether the file's name holds the job's id."""
    return job.id.partition("+")[0] in os.path.basename(path)  # noqa: PTH119


def epoch(stamp: float, fold: int) -> float:
    """Slurm's local time in seconds since the epoch; in an hour that the clock repeats, the first or the second time."""
    return datetime.fromtimestamp(stamp, timezone.utc).replace(tzinfo=None, fold=fold).timestamp()


def _tail(file: IO[bytes], size: int) -> int:
    return zlib.crc32(os.pread(file.fileno(), min(size, _TAIL), max(0, size - _TAIL)))


def _after_last_end(file: IO[bytes], size: int, start: float) -> int:
    """Behind the last line by which Slurm ended a run before this time, and what else Slurm says there; 0 without one."""
    marks = literals("run-end")
    stop = size
    while stop > 0:
        first = max(0, stop - BLOCK)
        data = os.pread(file.fileno(), stop - first + _OVERLAP, first)
        if any(mark in data for mark in marks):
            ends = [
                first + found.end()
                for found in _RUN_END.finditer(data.decode("latin-1"))  # a character a byte: offsets stay
                if (at := stamp(found["at"])) is not None and epoch(at, 1) < epoch(start, 0)
            ]
            if ends:
                return _past_slurms_words(file, ends[-1])
        stop = first
    return 0


def _past_slurms_words(file: IO[bytes], at: int) -> int:
    """Past the line that this place is in, and the lines of slurmstepd and srun below it."""
    first, *below = os.pread(file.fileno(), BLOCK, at).decode("latin-1").split("\n")
    past = at + len(first) + bool(below)
    for line in itertools.takewhile(_BY_SLURM.match, below):
        past += len(line) + 1
    return past
