"""Paths that hold several jobs: which of them are asked for, and a row for each as soon as it is diagnosed."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from slurmdoctor.cli.job_ids import jobs_of, known_of, tell_how_all_were_found
from slurmdoctor.cli.output import put
from slurmdoctor.cli.say import in_line
from slurmdoctor.input import Source, UnreadError
from slurmdoctor.model import JobFiles, UserError
from slurmdoctor.report import PLAIN, Diagnosis, Line, look, paint, wrap_words

if TYPE_CHECKING:
    from slurmdoctor.slurm import Job

OF_SEVERAL = ("text", "json", "markdown", "slack", "github", "html")
"""Formats that have a form for several jobs,"""
WHOLE = ("text",)
"""and those that show more of each where that is asked for."""
_LONG = 60
"""Characters of paths that a command repeats; else it names one job's own files."""


def told_apart(paths: Sequence[str], wanted: str | None) -> tuple[JobFiles, ...]:
    """The jobs of these paths that are asked for; none where all files are one job's, or something that only its reader can tell of."""
    if wanted is not None and (not paths or "-" in paths):
        raise UserError("--job-id picks a job among files", "name them, or give the id to --job to ask Slurm")
    if not paths or "-" in paths or (wanted is None and len(paths) == 1 and os.path.isfile(paths[0])):  # noqa: PTH113
        return ()
    if not all(os.path.lexists(path) or any(c in path for c in "*?[") for path in paths):
        return ()
    from slurmdoctor.input import picked
    from slurmdoctor.pipeline import jobs_of

    jobs = jobs_of(paths)
    if wanted is not None:
        return picked(jobs, wanted)
    return jobs if len(jobs) > 1 else ()


class Ask(Struct, frozen=True):
    """How to print them."""

    form: str
    output: str | None = None
    if_failed: bool = False


class Read(Struct, frozen=True):
    """One job to diagnose."""

    log: list[str] | list[Source] | JobFiles
    label: str
    job: Job | None = None
    """What is known of it beside its log."""


def reads(
    paths: Sequence[str],
    wanted: str | None,
    job_id: str | None,
    slurm_info: Sequence[str],
    script: str | None,
    exit_status: int | None,
) -> list[Read]:
    """The jobs to diagnose: those that are named by their ids, or those of the files."""
    apart = told_apart(paths, wanted)
    if job_id is not None:  # its record is of one of them
        own = [one for one in apart if one.id == job_id]
        paths, apart = (own[0].files if own else paths), ()
    if not apart:
        jobs = jobs_of(paths, job_id, slurm_info, script, exit_status)
        return [Read(job.logs if job else list(paths) or ["-"], _label(job), job) for job in jobs]
    found = [Read(one, one.label, _beside(one, slurm_info, script, exit_status, len(apart))) for one in apart]
    refuse_for_several(found, (("--script", script), ("--exit-status", exit_status)))
    return found


def _label(job: Job | None) -> str:
    return job.record.label if job is not None and job.record is not None else "-"


def _beside(
    one: JobFiles, slurm_info: Sequence[str], script: str | None, exit_status: int | None, count: int
) -> Job | None:
    """What saved texts of Slurm and the script tell of one of the jobs."""
    if not (slurm_info or script) or (slurm_info and count > 1 and one.id is None):
        return None
    from slurmdoctor.slurm import gather

    try:
        return gather(one.files, job_id=one.id, slurm_info=slurm_info, script=script, exit_status=exit_status)
    except UserError:
        if count == 1:
            raise
        return None  # the texts need not tell of all


def read_all(asked: Sequence[Read], *, redact: str, jobs: int | None, **how: Any) -> Iterator[Diagnosis]:
    """Diagnose one after the other; of several one that cannot be read is not the end."""
    from slurmdoctor.cli.progress import Bar
    from slurmdoctor.pipeline import diagnose, not_read
    from slurmdoctor.search import usual_jobs

    how |= {"redact": redact, "jobs": jobs or usual_jobs()}
    for one in asked:
        with Bar() as bar:
            try:
                yield diagnose(one.log, progress=bar.callback, **how, **known_of(one.job))
            except UnreadError as error:
                if len(asked) == 1:
                    raise
                named = one.log if isinstance(one.log, JobFiles) else JobFiles(one.label)
                yield not_read(named, error, redact)


def refuse_for_several(reads: Sequence[Read], options: Iterable[tuple[str, object]]) -> None:
    """An option that is of one job cannot be given for several."""
    for name, value in options:
        if len(reads) > 1 and value not in (None, False):
            one = in_line(reads[-1].label)
            pick = f"pick one: --job-id {one}" if isinstance(reads[-1].log, JobFiles) else f"name one of them: {one}"
            raise UserError(f"{name} is of one job, and these are {len(reads):,}", pick)


def tell(found: Iterable[Diagnosis], reads: Sequence[Read], paths: Sequence[str], ask: Ask) -> Iterator[Diagnosis]:
    """Print each job as it comes, and at last how many ended alike and how to see one whole."""
    from slurmdoctor.report import Annotation, Row, annotation, commands, counted, line, markdown, room_for, slack

    seen = PLAIN if ask.output is not None else look(sys.stdout)
    room = room_for(read.label for read in reads)
    rows: list[Row] = []
    kept: list[str] = []
    beside: list[Annotation] = []
    drawn: list[Diagnosis] = []
    for one in found:
        yield one
        row = Row.of(one)
        rows.append(row)
        if ask.if_failed and row.verdict != "failed":
            continue
        if ask.form == "json":
            kept.append(json.dumps(one.to_dict(), separators=(",", ":"), allow_nan=False) + "\n")
        elif ask.form == "github":
            beside.append(annotation(one))
        elif ask.form == "html":
            drawn.append(one)
        elif ask.form == "text":
            kept.append(paint([line(row, room, seen.width)], colour=seen.colour, encoding=seen.encoding))
        if ask.output is None and kept:
            put(kept.pop(), None)
            sys.stdout.flush()
    failed = next((at for at, row in enumerate(rows) if row.verdict == "failed"), None)
    if failed is None and ask.if_failed:
        return
    if ask.form == "text":
        again = one_in_full(paths, reads[failed or 0])
        end: list[Line] = [[("bold", part)] for part in wrap_words(counted(rows), seen.width)]
        end.append([("", f"one in full: {again if again.isprintable() else in_line(again)}")])
        kept.append(paint(end, colour=seen.colour, encoding=seen.encoding))
    elif ask.form == "github":
        kept.append(commands(beside))
    elif ask.form == "html":
        from slurmdoctor.report import render_jobs

        kept.append(render_jobs(drawn))
    elif ask.form != "json":
        kept.append(markdown(rows) if ask.form == "markdown" else slack(rows))
    put("".join(kept), ask.output)
    tell_how_all_were_found(read.job for read in reads)


def one_in_full(paths: Sequence[str], read: Read) -> str:
    """The command that shows one of the jobs whole."""
    if not isinstance(read.log, JobFiles):
        return f"slurmdoctor diagnose {shlex.quote(read.label)}"
    named = shlex.join(paths)
    if len(named) > _LONG and len(own := shlex.join(read.log.files)) <= len(named):
        return f"slurmdoctor diagnose {own}"
    return f"slurmdoctor diagnose {named} --job-id {shlex.quote(read.label)}"
