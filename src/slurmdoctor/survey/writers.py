"""Files that several jobs wrote (`--output=train.log`): each belongs to the job that began last, as that one emptied it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from slurmdoctor.model import JobRecord
from slurmdoctor.slurm import epoch, is_named_after
from slurmdoctor.survey.rows import Item, Log

_SLACK = 5.0
"""Seconds by which the clock of a file server may differ."""
_LATE = 120.0
"""Seconds after a job's end in which its last output may still come."""


class Writers:
    """Jobs whose logs bear names that others may use wait here until all jobs are told."""

    def __init__(self) -> None:
        self._waiting: list[bytes] = []
        self._folders: set[str | None] = set()
        self._began: dict[str, list[tuple[float, str, str]]] = {}
        """File -> when each of its jobs began, how it is called, and who it is."""

    def concern(self, job: JobRecord) -> bool:
        """Whether a job that is not read itself may have written to a file of one that waits."""
        return job.work_dir in self._folders

    def note(self, job: JobRecord, files: Sequence[str]) -> bool:
        """Whether one of these files is not the job's alone by its name."""
        shared = [path for path in files if not is_named_after(path, job)]
        for path in shared:
            if job.start is not None:
                self._began.setdefault(path, []).append((job.start, job.label, _who(job)))
        return bool(shared)

    def hold(self, item: Item, job: JobRecord) -> None:
        self._folders.add(job.work_dir)
        self._waiting.append(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))

    def settled(self) -> Iterator[Item]:
        """The items that waited, without the logs that a later job has written to."""
        for packed in self._waiting:
            yield self._settled(pickle.loads(packed))
        self._waiting.clear()

    def _settled(self, item: Item) -> Item:
        job, logs, notes = item.record, [], [*item.notes]
        if job is None or job.end is None:
            return item
        for log in item.logs:
            name = log.path.rpartition("/")[2]
            later = self._later(log, job)
            if later is not None:
                notes.append(f"log {log.path} (a later job ({later}) has written to {name})")
                continue
            logs.append(log)
            if not log.ends and not is_named_after(log.path, job) and log.mtime_ns / 1e9 > epoch(job.end, 1) + _LATE:
                notes.append(f"log {log.path} (written to after the job's end: it may show another job)")
        return replace(item, logs=tuple(logs), notes=tuple(notes))

    def _later(self, log: Log, job: JobRecord) -> str | None:
        """The job that has this file now, where it is not this one."""
        if log.ends or job.end is None:  # Slurm's lines show which part is this job's
            return None
        newest = log.mtime_ns / 1e9 + _SLACK
        after = [
            (start, label)
            for start, label, who in self._began.get(log.path, ())
            if who != _who(job) and start >= job.end and epoch(start, 0) <= newest
        ]
        return max(after)[1] if after else None


def _who(job: JobRecord) -> str:
    return f"{job.cluster}:{job.raw_id or job.id}"
