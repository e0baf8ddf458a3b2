"""Runs one diagnosis in a process of its own, with limits on its time, its memory and the files that it may read.

`python -m slurmdoctor.cli.sandbox` reads a question as JSON on standard input and writes the answer as JSON. The server
kills the process when its time is over, so a slow pattern or disk cannot block it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from slurmdoctor.input import Source, Text, UnreadError, files_of, picked
from slurmdoctor.model import Deadline, JobFiles, UserError
from slurmdoctor.pipeline import diagnose, jobs_of, not_read
from slurmdoctor.report import Diagnosis, redact, render_jobs
from slurmdoctor.slurm import gather

MOST_TEXT = 10 * 1024 * 1024
"""Characters of a pasted text."""
TOO_LONG = (
    f"the text is longer than {MOST_TEXT >> 20} MiB: send its first and last 4 MiB, for the cause is mostly in one of them and "
    "the rest repeats; or use diagnose_path"
)
MOST_FILES = 10_000
_MEMORY = 4 << 30
"""Bytes of address space: far above what a diagnosis needs, far below what hurts a login node."""
_TO_BEGIN = 0.5
"""Share of the time after which no other job is begun."""


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """`{"report": ..., "markdown": ...}`, or `{"error": ...}` with one line that says why not."""
    how = {
        "rules": question.get("rules", ()),
        "redact": question.get("redact", "default"),
        "time_limit": question.get("time_limit"),
        "rank_timelines": False,
    }
    allowed = [Path(folder) for folder in question.get("allowed", ())]
    try:
        found = _found(question, allowed, how)
        if len(found) == 1:
            return {"report": found[0].to_dict(), "markdown": found[0].to_markdown()}
        # a list of the jobs, and as the report that of the first that failed
        first = next((one for one in found if one.failed), found[0])
        jobs = [
            {"job": one.to_dict()["job"], "verdict": one.verdict, "cause": one.cause.id, "headline": one.headline}
            for one in found
        ]
        return {"report": {**first.to_dict(), "jobs": jobs}, "markdown": render_jobs(found, "markdown")}
    except UserError as error:
        return {"error": redact(str(error), how["redact"])}
    except (MemoryError, RecursionError) as error:
        return {"error": f"too much for one question ({type(error).__name__}): send less of the log"}
    except Exception as error:
        return {"error": f"internal error, {type(error).__name__}: please report it"}


def _found(question: dict[str, Any], allowed: Sequence[Path], how: dict[str, Any]) -> list[Diagnosis]:
    """The verdict on a text or a job; for a path those on the newest of its jobs, oldest first, as far as the time goes."""
    status, failed = question.get("exit_status"), bool(question.get("failed"))
    if "text" in question:
        if len(question["text"]) > MOST_TEXT:
            raise UserError(TOO_LONG)
        return [diagnose([Text.source(question["text"], "paste")], exit_status=status, failed=failed, **how)]
    if "path" not in question:
        return [_of_job(question["job_id"], allowed, how)]
    files, outside = files_at(question["path"], allowed)
    jobs, wanted = jobs_of(files), question.get("of_job")
    jobs = picked(jobs, wanted) if wanted else jobs
    if len(jobs) == 1:
        log: JobFiles | list[str] = jobs[0] if wanted else files
        return [_noted(diagnose(log, exit_status=status, failed=failed, **how), outside)]
    if status is not None:
        raise UserError(f"an exit status is of one job, and these files are of {len(jobs):,}", "name one with of_job")
    deadline = Deadline.after(how["time_limit"])
    found: list[Diagnosis] = []
    for one in reversed(jobs):
        if found and deadline.passed(_TO_BEGIN):
            break
        try:
            found.append(diagnose(one, **how))
        except UnreadError as error:
            found.append(not_read(one, error, how["redact"]))
    return found[::-1]


def _of_job(job_id: str, allowed: Sequence[Path], how: dict[str, Any]) -> Diagnosis:
    job = gather([], job_id=job_id, here=[str(folder) for folder in allowed])
    # the paths come from Slurm, which knows those of every user's jobs
    logs: list[str | Source] = [log for log in job.logs if not isinstance(log, str) or is_under(log, allowed)]
    outside = len(job.logs) - len(logs)
    if outside and job.record is not None:  # how they were found would name them
        job.record = replace(job.record, found=None)
    logs = logs or [Text.source("", "no log")]
    found = diagnose(logs, record=job.record, script=job.script, **how)
    return _noted(found, outside)


def files_at(given: str, allowed: Sequence[Path]) -> tuple[list[str], int]:
    """The log files that a path names, and how many of its folder lead outside of the allowed folders.

    A path outside gives the same error whether it exists or not.
    """
    if not allowed:
        raise UserError(
            "no folder is open to this server", "start it with --allow DIR, or send the text to diagnose_text"
        )
    if "\0" in given:
        raise UserError("the path holds a NUL", "send the path as it is written")
    inside = [folder / given for folder in allowed if is_under(folder / given, allowed)]
    if not inside:
        shown = ", ".join(map(str, allowed))
        raise UserError(f"{given} is outside of the folders that this server may read", f"those are {shown}")
    path = next((path for path in inside if path.exists()), None)
    if path is None:
        raise UserError(f"no such file: {given}", "name a log file, or a folder of logs")
    files = files_of(str(path))
    if len(files) > MOST_FILES:
        raise UserError(f"{given} holds more than {MOST_FILES} logs", "name the folder of one job")
    # a pipe waits for a writer, and a device may never end
    kept = [file for file in files if is_under(file, allowed) and os.path.isfile(file)]  # noqa: PTH113
    if not kept:
        raise UserError(f"{given} holds no log file that this server may read", "name a log file")
    return kept, len(files) - len(kept)


def is_under(path: str | Path, allowed: Sequence[Path]) -> bool:
    """Whether what the path leads to, through all links and `..`, lies in an allowed folder."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in allowed)


def _noted(found: Diagnosis, outside: int) -> Diagnosis:
    if not outside:
        return found
    note = f"{outside} log file{'s' * (outside > 1)} outside of the folders that this server may read"
    return replace(found, coverage=replace(found.coverage, missing=(*found.coverage.missing, note)))


def _limit(seconds: float) -> None:
    import resource

    for kind, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, max(1, int(seconds) * 8))):
        with suppress(OSError, ValueError):  # macOS refuses some of them
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    question = json.loads(sys.stdin.buffer.read())
    _limit(question.get("seconds", 60))
    wire, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no part of the answer
    wire.write(json.dumps(answer(question)))
    wire.flush()


if __name__ == "__main__":
    main()
