"""Gathers what there is of a job: its record from Slurm or from saved files, its script, its logs. Reads files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.input import Source, Text, open_regular
from slurmdoctor.model import JobRecord, UserError
from slurmdoctor.slurm import jobinfo, own_text, query
from slurmdoctor.slurm.logs import LogIndex, logs_of
from slurmdoctor.slurm.script import Script, signal_request

LARGEST = 64 * 1024 * 1024
"""Bytes; no record of Slurm and no script is larger."""


class Job(Struct):
    """What `diagnose` needs of a job."""

    logs: list[str] | list[Source] = field(default_factory=list)
    record: JobRecord | None = None
    script: Script | None = None
    begins: Mapping[str, int] = field(default_factory=dict)
    """Byte of each log at which this run's text begins, where that is not its first."""

    def write_beside_log(self, text: str) -> None:
        """Write the verdict into the folder of the job's own log."""
        record = self.record
        assert record is not None
        log = record.found.files[0] if record.found else os.path.join(record.work_dir or "", record.std_out or "")  # noqa: PTH118
        folder = Path(log).parent
        if not (record.found or log.startswith("/")) or not folder.is_dir():
            raise UserError(f"the folder of job {record.id}'s log is not known here", "leave --beside-log out")
        place = folder / f"slurmdoctor-{record.id}.txt"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW  # a link there could lead to any file of the user
        with os.fdopen(os.open(place, flags, 0o640), "w", encoding="utf-8") as file:
            file.write(text)


def warned(record: JobRecord, script: Script | None) -> JobRecord:
    """The record, with the signal for which the script asks before its time limit."""
    asked = signal_request(script.directives) if script is not None else None
    if asked is None:
        return record
    return replace(record, warned_by=f"SIG{asked.signal}", warned_before=asked.seconds)


def gather(paths: Sequence[str], *, job_id: str | None = None, **beside: Any) -> Job:
    """The one job, as `gather_all` does: of an array the task that failed worst. Raises UserError where nothing was found."""
    return gather_all([job_id], paths, tasks=False, **beside)[0][0]


def gather_all(
    ids: Sequence[str | None],
    paths: Sequence[str] = (),
    *,
    tasks: bool = True,
    slurm_info: Sequence[str] = (),
    script: str | None = None,
    exit_status: int | None = None,
    here: Sequence[str] = (".",),
) -> tuple[list[Job], list[UserError]]:
    """The jobs of these ids, of an array each of its `tasks`; and of which nothing was found. Raises that where it is all.

    With an id but no paths, its logs are looked for: `here` are folders in which their names tell.
    """
    found: list[Job] = []
    absent: list[UserError] = []
    index = LogIndex(here)
    for job_id in ids:
        records = [_recorded(slurm_info, job_id)] if slurm_info else _records(job_id, index, tasks)
        read = _script(script, job_id, records[0])
        for record in records:
            try:
                own = record and replace(record, exit_status=exit_status)
                found.append(_gathered(paths, job_id, own, read, index))
            except UserError as error:
                absent.append(error)
    if absent and not found:
        raise absent[0]
    return found, absent


def _records(job_id: str | None, index: LogIndex, tasks: bool) -> Sequence[JobRecord | None]:
    """The job's record; of an array those of its tasks, as Slurm knows them or else as files are named after them."""
    if job_id is None or not tasks or not job_id.isdigit():
        return [query.job(job_id) if job_id else None]
    records = query.tasks(job_id)
    if records[0].sources:
        return records
    numbers = sorted(task for task in index.named(job_id) if task is not None)
    return [
        replace(records[0], id=f"{job_id}_{task}", array_job=job_id, array_task=task) for task in numbers
    ] or records


def _gathered(
    paths: Sequence[str], job_id: str | None, record: JobRecord | None, script: Script | None, index: LogIndex
) -> Job:
    if record is None:
        return Job(list(paths) or ["-"], None, script)
    files = list(paths)
    if job_id and not paths:
        files, record = logs_of(record, script, index)
        # what Slurm knows of the path, the user has said
        own = [f for f in files if record.uid in (None, os.geteuid(), os.stat(f).st_uid)]  # noqa: PTH116
        if len(own) < len(files):
            record = replace(record, missing=(*record.missing, "logs that are not files of the job's user"))
        files = own
    return described(record, script, files or ([] if job_id else ["-"]), copies=bool(paths))


def described(
    record: JobRecord, script: Script | None, files: list[str], before: str = "", copies: bool = False
) -> Job:
    """The job with its logs: those that it wrote, or copies. `before` is a footer's note of how they stood when it began."""
    record = warned(record, script)
    begins = own_text.begins(filter(os.path.isfile, files), own_text.noted(before), record, copies)
    return Job(files or [Text.source("", name="no log")], record, script, begins)


def saved(files: Sequence[str]) -> list[tuple[str, str]]:
    """The texts of scontrol and sacct that people saved, each with its name."""
    texts = [(name, read_text(name)) for name in files]
    for name, text in texts:
        if not jobinfo.looks_like_slurm(text):
            raise UserError(
                f"{name} holds no output of scontrol or sacct",
                "save what they print: scontrol show job ID; sacct -j ID, or sacct --json -j ID",
            )
    return texts


def _recorded(files: Sequence[str], job_id: str | None) -> JobRecord:
    record = jobinfo.read(saved(files), job_id)
    if record is None:
        raise UserError(
            f"no job {job_id or ''} in {', '.join(files)}".replace("  ", " "), "check the id, or leave it out"
        )
    return record


def _script(file: str | None, job_id: str | None, record: JobRecord | None) -> Script | None:
    from slurmdoctor.slurm.script import parse_beside

    if file is not None:
        return parse_beside(read_text(file, whole=False), file)
    if not (job_id and record and record.sources) or (text := query.script(job_id)) is None:
        return None
    command = (record.command or "").partition(" ")[0]
    return parse_beside(text, Path(command).name or f"batch script of job {job_id}")


def read_text(name: str, whole: bool = True) -> str:
    """A small text file, or one line on why not. Of a script (not `whole`) the beginning is enough."""
    try:
        if Path(name).is_fifo() and not os.path.realpath(name).startswith("/proc/"):
            raise UserError(f"{name} is a pipe, which may never end", "name a file")
        # a shell's <(sacct -j 4711) is no file
        with open(open_regular(name) if os.path.isfile(name) else name, "rb") as file:  # noqa: PTH113, PTH123
            text = file.read(LARGEST + 1)
    except OSError as error:
        raise UserError(f"{name} cannot be read ({error.strerror})", "check its name and its permissions") from None
    if whole and len(text) > LARGEST:
        raise UserError(f"{name} is larger than {LARGEST >> 20} MiB", "name the right file")
    return text.decode("utf-8", "replace")
