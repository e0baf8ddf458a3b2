"""Gathers what there is of a job: its record from Slurm or from saved files, its script, its logs. Reads files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.input.sources import Source, Text
from slurmdoctor.model import UserError
from slurmdoctor.model.exits import signal_name
from slurmdoctor.model.record import JobRecord
from slurmdoctor.slurm import jobinfo, logs, own_text, query
from slurmdoctor.slurm.script.directives import signal_request
from slurmdoctor.slurm.script.model import Script

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
        if record is None:
            raise UserError("--beside-log needs --job", "give the job's id")
        folder = Path(os.path.join(record.work_dir or "", record.std_out or "")).parent  # noqa: PTH118
        if not record.work_dir or not folder.is_dir():
            raise UserError(f"the folder of job {record.id}'s log is not known here", "leave --beside-log out")
        place = folder / f"slurmdoctor-{record.id}.txt"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW  # a link there could lead to any file of the user
        with os.fdopen(os.open(place, flags, 0o640), "w", encoding="utf-8") as file:
            file.write(text)


def warned(record: JobRecord, script: Script | None) -> JobRecord:
    """The record, with the signal for which the script asks before its time limit."""
    asked = signal_request(script.directives) if script is not None else None
    if asked is None or asked.seconds is None:
        return record
    signal = signal_name(int(asked.signal)) if asked.signal.isdigit() else f"SIG{asked.signal}"
    return replace(record, warned_by=signal, warned_before=asked.seconds)


def gather(
    paths: Sequence[str],
    *,
    job_id: str | None = None,
    slurm_info: Sequence[str] = (),
    script: str | None = None,
    exit_status: int | None = None,
) -> Job:
    """The job. With an id but no paths, the logs are those that its record names."""
    job = Job(logs=list(paths))
    if slurm_info:
        job.record = _recorded(slurm_info, job_id)
    elif job_id:
        job.record = query.job(job_id)
    job.script = _script(script, job_id, job.record)
    if job.record is None:
        job.logs = job.logs or ["-"]
        return job
    if exit_status is not None:
        job.record = replace(job.record, exit_status=exit_status)
    with contextlib.suppress(Exception):  # a script that cannot be read must not cost the verdict
        job.record = warned(job.record, job.script)
    if not paths and job_id:
        job.logs, missing = _logs(job.record, job.script)
        job.begins = own_text.begins((log for log in job.logs if isinstance(log, str)), {}, job.record)
        job.record = replace(job.record, missing=(*job.record.missing, *missing))
    elif paths:
        job.begins = own_text.begins(filter(os.path.isfile, paths), {}, job.record, copies=True)
    else:
        job.logs = ["-"]
    return job


def _logs(record: JobRecord, script: Script | None) -> tuple[list[str] | list[Source], list[str]]:
    found, missing = logs.find(record, _step_outputs(script))
    if found:
        return found, missing
    if not record.sources:
        why = "; ".join(record.missing) or "no answer"
        raise UserError(
            f"Slurm has no record of job {record.id} ({why})",
            "name the log files, or run this where Slurm's commands work",
        )
    return [Text.source("", name="no log")], missing or ["log (Slurm does not say where it is)"]


def _step_outputs(script: Script | None) -> list[str]:
    """Files that the script gives its steps."""
    if script is None:
        return []
    from slurmdoctor.slurm.script.steps import step_outputs

    return step_outputs(script)


def _recorded(files: Sequence[str], job_id: str | None) -> JobRecord:
    texts = [(name, read_text(name)) for name in files]
    for name, text in texts:
        if not jobinfo.looks_like_slurm(text):
            raise UserError(
                f"{name} holds no output of scontrol or sacct", "save it with: scontrol show job ID; sacct -j ID"
            )
    record = jobinfo.read(texts, job_id)
    if record is None:
        raise UserError(
            f"no job {job_id or ''} in {', '.join(files)}".replace("  ", " "), "check the id, or leave --job out"
        )
    return record


def _script(file: str | None, job_id: str | None, record: JobRecord | None) -> Script | None:
    from slurmdoctor.slurm.script.parse import parse

    if file is not None:
        return parse(read_text(file), file)
    text = query.script(job_id) if job_id else None
    if text is None:
        return None
    with contextlib.suppress(Exception):  # nobody named it: a script that cannot be read must not cost the verdict
        known = record.command.split()[0] if record and record.command else ""
        return parse(text, Path(known).name or f"batch script of job {job_id}")
    return None


def read_text(name: str) -> str:
    """A small text file, or one line on why not."""
    path = Path(name)
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{name} is larger than {LARGEST >> 20} MiB", "name the right file")
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise UserError(f"{name} cannot be read ({error.strerror})", "check its name and its permissions") from None
