"""Runs one diagnosis in a process of its own, with limits on its time, its memory and the files that it may read.

`python -m slurmdoctor.cli.sandbox` reads a question as JSON on standard input and writes the answer as JSON. The server
kills the process when its time is over, so a slow pattern or disk cannot block it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from slurmdoctor.model import Deadline, JobFiles, UserError
from slurmdoctor.report import Diagnosis

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
_JOB = re.compile(r"[0-9]{1,12}(?:_[0-9]{1,9})?(?:\+[0-9]{1,4})?")


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """`{"report": ..., "markdown": ...}`, or `{"error": ...}` with one line that says why not."""
    try:
        found = _found(question)
        if isinstance(found, list):
            return _of_several(found)
    except UserError as error:
        from slurmdoctor.report import redact

        return {"error": redact(str(error), question.get("redact", "default"))}
    except (MemoryError, RecursionError) as error:
        return {"error": f"too much for one question ({type(error).__name__}): send less of the log"}
    except Exception as error:
        return {"error": f"internal error, {type(error).__name__}: please report it"}
    return {"report": found.to_dict(), "markdown": found.to_markdown()}


def _found(question: dict[str, Any]) -> Diagnosis | list[Diagnosis]:
    from slurmdoctor.input import Text
    from slurmdoctor.pipeline import diagnose

    how = {
        "rules": question.get("rules", ()),
        "redact": question.get("redact", "default"),
        "time_limit": question.get("time_limit"),
        "lanes": False,
    }
    allowed = [Path(folder) for folder in question.get("allowed", ())]
    status = question.get("exit_status")
    if "text" in question:
        if len(question["text"]) > MOST_TEXT:
            raise UserError(TOO_LONG)
        return diagnose([Text.source(question["text"], "paste")], exit_status=status, **how)
    if "path" in question:
        files, left_out = files_at(question["path"], allowed)
        jobs = _jobs(files, question.get("of_job"))
        if len(jobs) > 1:
            return _each(jobs, status, how)
        return _noted(diagnose(jobs[0] if question.get("of_job") else files, exit_status=status, **how), left_out)
    return _of_job(question["job_id"], allowed, how)


def _jobs(files: Sequence[str], wanted: str | None) -> Sequence[JobFiles]:
    """The jobs that the files are of; where one is asked for, that one, and of an array all its tasks."""
    from slurmdoctor.input import picked
    from slurmdoctor.pipeline import jobs_of

    jobs = jobs_of(files)
    return picked(jobs, wanted) if wanted else jobs


def _each(jobs: Sequence[JobFiles], status: int | None, how: dict[str, Any]) -> list[Diagnosis]:
    """The verdicts on the newest jobs, oldest first, as far as the time goes."""
    from slurmdoctor.input import UnreadError
    from slurmdoctor.pipeline import diagnose, not_read

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


def _of_several(found: Sequence[Diagnosis]) -> dict[str, Any]:
    """A list of the jobs, and as the report that of the first that failed."""
    from slurmdoctor.report import Row, markdown

    first = next((one for one in found if one.failed), found[0])
    jobs = [
        {"job": one.to_dict()["job"], "verdict": one.verdict, "cause": one.cause.id, "headline": one.headline}
        for one in found
    ]
    return {"report": {**first.to_dict(), "jobs": jobs}, "markdown": markdown([Row.of(one) for one in found])}


def _of_job(job_id: str, allowed: Sequence[Path], how: dict[str, Any]) -> Diagnosis:
    from msgspec.structs import replace

    from slurmdoctor.input import Source, Text
    from slurmdoctor.pipeline import diagnose
    from slurmdoctor.slurm import gather

    if not _JOB.fullmatch(job_id):
        raise UserError(f"{job_id[:40]!r} is no job id", "a job id is a number, with _N for a task of an array")
    job = gather([], job_id=job_id, here=[str(folder) for folder in allowed])
    logs: list[str | Source] = []
    outside = 0
    for log in job.logs:
        # the paths come from Slurm, which knows those of every user's jobs
        if isinstance(log, Source) or is_under(log, allowed):
            logs.append(log)
        else:
            outside += 1
    if outside and job.record is not None:  # how they were found would name them
        job.record = replace(job.record, found=None)
    opened = [log for log in logs if isinstance(log, Source)]
    paths = [log for log in logs if not isinstance(log, Source)]
    nothing = [Text.source("", "no log")] if not paths and not opened else opened
    found = diagnose(paths or nothing, record=job.record, script=job.script, **how)
    return _noted(found, outside)


def files_at(given: str, allowed: Sequence[Path]) -> tuple[list[str], int]:
    """The log files that a path names, and how many of its folder lead outside of the allowed folders.

    A path outside gives the same error whether it exists or not.
    """
    from slurmdoctor.input import files_of

    if not allowed:
        raise UserError(
            "no folder is open to this server", "start it with --allow DIR, or send the text to diagnose_text"
        )
    if "\0" in given:
        raise UserError("the path holds a NUL", "send the path as it is written")
    tried = [Path(given)] if Path(given).is_absolute() else [folder / given for folder in allowed]
    inside = [path for path in tried if is_under(path, allowed)]
    if not inside:
        shown = ", ".join(map(str, allowed))
        raise UserError(f"{given} is outside of the folders that this server may read", f"those are {shown}")
    path = next((path for path in inside if path.exists()), inside[0])
    if not path.exists():
        raise UserError(f"no such file: {given}", "name a log file, or a folder of logs")
    files = files_of(str(path))
    if len(files) > MOST_FILES:
        raise UserError(f"{given} holds more than {MOST_FILES} logs", "name the folder of one job")
    kept = [file for file in files if is_under(file, allowed) and _is_file(file)]
    if not kept:
        raise UserError(f"{given} holds no log file that this server may read", "name a log file")
    return kept, len(files) - len(kept)


def is_under(path: str | Path, allowed: Sequence[Path]) -> bool:
    """Whether what the path leads to, through all links and `..`, lies in an allowed folder."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in allowed)


def _is_file(path: str) -> bool:
    """Whether a path is an ordinary file: a pipe waits for a writer, and a device may never end."""
    try:
        return stat.S_ISREG(Path(path).stat().st_mode)
    except OSError:
        return False


def _noted(found: Diagnosis, outside: int) -> Diagnosis:
    from msgspec.structs import replace

    if not outside:
        return found
    note = f"{outside} log file{'s' * (outside > 1)} outside of the folders that this server may read"
    return replace(found, coverage=replace(found.coverage, missing=(*found.coverage.missing, note)))


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keeps what a library prints out of the answer."""
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):  # noqa: PTH123
        yield


def _limit(seconds: float) -> None:
    import resource

    for kind, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, max(1, int(seconds) * 8))):
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some of them
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    question = json.loads(sys.stdin.buffer.read())
    _limit(question.get("seconds", 60))
    with _silent():
        answered = answer(question)
    sys.stdout.buffer.write(json.dumps(answered).encode())
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
