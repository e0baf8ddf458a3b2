"""`slurmdoctor diagnose`: the verdict on a job, or a row for each of several as soon as it is diagnosed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from slurmdoctor.cli import PATH, redact_option, rules_option
from slurmdoctor.cli.output import Bar, format_option, in_line, keep_inputs, on_terminal, output_option, put, say
from slurmdoctor.input import Source, UnreadError
from slurmdoctor.matching import keep as keep_patterns, lazy
from slurmdoctor.model import CLASSIFIER, EXIT_CODE, Frozen, JobFiles, UserError
from slurmdoctor.report import PLAIN, Diagnosis, Line, look, paint, wrap_words

if TYPE_CHECKING:
    from slurmdoctor.slurm import Job

FORMATS = ("text", "json", "markdown", "slack", "html", "github")
NO_FAILURE, CAUSE_KNOWN, CAUSE_UNKNOWN, NOT_KNOWN = 0, 1, 3, 4
"""The exit statuses of `--exit-code`."""
_WORST = (CAUSE_KNOWN, CAUSE_UNKNOWN, NOT_KNOWN, NO_FAILURE)
_ID = lazy(r"[0-9]{1,18}(?:_[0-9]{1,9}|\+[0-9]{1,4})?(?:\.(?:[0-9]{1,9}|batch|extern|interactive))?")
_LONG = 60
"""Characters of paths that a command repeats; else it names one job's own files."""


@click.command(short_help="Say which rank failed first, why, and what to do.")
@click.argument("paths", nargs=-1, metavar="[PATH or JOBID]...", type=PATH)
@format_option("the verdict", FORMATS)
@output_option
@click.option("--exit-status", type=int, metavar="N", help="The exit status of the job, if you know it.")
@click.option(
    "--job", "job_id", metavar="ID", help="Find the job's logs, state and exit codes through scontrol and sacct."
)
@click.option(
    "--job-id", "wanted", metavar="ID", help="Of files of several jobs show this one; of an array all its tasks."
)
@click.option(
    "--slurm-info",
    multiple=True,
    metavar="FILE",
    type=PATH,
    help="Saved text of `scontrol show job` or `sacct`; may be given again.",
)
@click.option("--script", metavar="FILE", type=PATH, help="The job's batch script.")
@rules_option
@click.option(
    "--context", type=click.IntRange(0, 500), default=0, metavar="N", help="Show N more lines of the traceback."
)
@click.option("--ranks", is_flag=True, help="Show the state of each group of ranks, and why.")
@redact_option
@click.option("--failed", is_flag=True, help="The job is known to have failed, even if its log does not show it.")
@click.option(
    "--classifier/--no-classifier", default=True, help="Ask what lines were learnt to read like too, or only the rules."
)
@click.option(
    "--good",
    multiple=True,
    metavar="LOG",
    type=PATH,
    help="A log of the same job when it ended well (found beside the log, too): its lines are no reason; may be given again.",
)
@click.option(
    "--kernel-log",
    "kernel_logs",
    multiple=True,
    metavar="FILE",
    type=PATH,
    help="What a node tells: dmesg, journalctl -k, nvidia-smi -q, dcgmi, scontrol show node; may be given again.",
)
@click.option(
    "--dumps",
    multiple=True,
    metavar="PATH",
    type=PATH,
    help="PyTorch's flight recorder dumps of the job (files, a folder, a glob), if they do not lie beside its log; may be given again.",
)
@click.option("--if-failed", is_flag=True, help="Print nothing if no failure is found.")
@click.option("--beside-log", is_flag=True, help="Write to slurmdoctor-JOBID.txt beside the job's log (with --job).")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Read large logs in N processes (default: one per core, four at most).",
)
@click.option(
    "--time-limit",
    type=click.IntRange(1, 86_400),
    metavar="SECONDS",
    help="Answer with what is known after that time; of large logs the start and the end are read first.",
)
@click.option(
    "--exit-code",
    is_flag=True,
    help="Exit 0 for no failure, 1 for one with its cause, 3 for one whose cause is not known, 4 if the log does not tell.",
)
def diagnose(
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    exit_status: int | None,
    failed: bool,
    classifier: bool,
    good: tuple[str, ...],
    kernel_logs: tuple[str, ...],
    dumps: tuple[str, ...],
    job_id: str | None,
    wanted: str | None,
    slurm_info: tuple[str, ...],
    script: str | None,
    extra: tuple[str, ...],
    context: int,
    ranks: bool,
    redact: str,
    if_failed: bool,
    beside_log: bool,
    jobs: int | None,
    time_limit: int | None,
    exit_code: bool,
) -> None:
    """Say which rank failed first, why, what the exit code means, and what to do.

    PATH is what the job left: log files, folders, globs, or - for standard input. JOBID is 4711, 4711_3, 4711+1 or 4711.0.
    """  # fmt: skip
    if output and beside_log:
        raise UserError("-o and --beside-log name two places", "leave one of them out")
    if not (paths or job_id or slurm_info) and sys.stdin is not None and sys.stdin.isatty():
        paths = _newest()
    beside = {"slurm_info": slurm_info, "script": script, "exit_status": exit_status}
    asked = reads(paths, wanted, job_id, beside)
    if beside_log and any(one.job is None or one.job.record is None for one in asked):
        raise UserError("--beside-log needs a job's id", "name the job by it: slurmdoctor diagnose 4711 --beside-log")
    if dumps and len(asked) > 1:
        raise UserError(f"--dumps are of one job, and these are {len(asked):,}", "name one job, or pick one: --job-id")
    if failed and len(asked) > 1:
        raise UserError(f"--failed is of one job, and these are {len(asked):,}", "name one job, or pick one: --job-id")
    logs = [log for one in asked if one.job for log in one.job.logs if isinstance(log, str)]
    keep_inputs(output, (*(paths or ["-"]), *logs, *slurm_info, *good, *kernel_logs, *dumps, *filter(None, [script])))
    how = {"rules": extra, "exit_status": exit_status, "time_limit": time_limit, "rank_timelines": form == "html"}
    how |= {"failed": failed, "classifier": classifier, "good": good, "kernel_logs": kernel_logs}
    how["dumps"] = dumps or (None if len(asked) == 1 else ())
    found = _diagnosed(asked, jobs, redact=redact, **how)
    if len(asked) > 1 and not beside_log and not (form == "text" and (ranks or context)):
        printed = _each_in_short(found, asked, paths, form, output, if_failed)
    else:
        render = partial(_render, form=form, context=context, ranks=ranks, plain=output is not None or beside_log)
        printed = _each_whole(found, asked, render, output, if_failed, beside_log)
    statuses = [status_of(one) for one in printed]
    keep_patterns()
    if exit_code:
        raise click.exceptions.Exit(worst(statuses))


def status_of(found: Diagnosis) -> int:
    """What a verdict tells a script."""
    if found.verdict == "failed":
        return CAUSE_KNOWN if found.cause.id not in (None, EXIT_CODE) else CAUSE_UNKNOWN
    return NO_FAILURE if found.verdict == "no-failure" else NOT_KNOWN


def worst(statuses: Iterable[int]) -> int:
    """The status of several jobs: any that failed counts before one that is not known to, and that before none."""
    return min(statuses, key=_WORST.index, default=NOT_KNOWN)


# ── which jobs ───────────────────────────────────────────────────────────────────────────────


class Read(Frozen):
    """One job to diagnose."""

    log: list[str] | list[Source] | JobFiles
    label: str
    job: Job | None = None
    """What is known of it beside its log."""


def _newest() -> tuple[str, ...]:
    """The newest job's logs here: what is read where nobody names anything, and a terminal would be."""
    from slurmdoctor.report import duration, listed
    from slurmdoctor.slurm import newest

    found = newest()
    others = [in_line(file) for file in found.files if file != found.log]
    more = [f"{len(others):,} more files"] if len(others) > 1 else others
    log = listed([in_line(found.log), *more])
    say(f"reading {log}, the newest job's log here ({duration(found.age)} ago); name another to read that", err=True)
    return found.files


def reads(paths: Sequence[str], wanted: str | None, job_id: str | None, beside: dict[str, Any]) -> list[Read]:
    """The jobs to diagnose: those that are named by their ids, or those of the files; `beside` is what is known beside the logs."""
    apart = _separated(paths, wanted)
    if job_id is not None:  # its record is of one of them
        own = [one for one in apart if one.id == job_id]
        paths, apart = (own[0].files if own else paths), ()
    if not apart:
        jobs = _jobs_of(paths, job_id, beside)
        return [
            Read(job.logs if job else list(paths) or ["-"], job.record.label if job and job.record else "-", job)
            for job in jobs
        ]
    if len(apart) > 1:
        for name in ("script", "exit_status"):
            if beside[name] is not None:
                option, one = f"--{name.replace('_', '-')}", in_line(apart[-1].label)
                raise UserError(f"{option} is of one job, and these are {len(apart):,}", f"pick one: --job-id {one}")
    return [Read(one, one.label, _beside(one, beside, len(apart))) for one in apart]


def _separated(paths: Sequence[str], wanted: str | None) -> tuple[JobFiles, ...]:
    """The jobs of these paths that are asked for; none where all files are one job's, or something that only its reader can tell of."""
    if wanted is not None and (not paths or "-" in paths):
        raise UserError("--job-id picks a job among files", "name them, or give the id to --job to ask Slurm")
    if not paths or "-" in paths or (wanted is None and len(paths) == 1 and os.path.isfile(paths[0])):  # noqa: PTH113
        return ()
    if not all(os.path.lexists(path) or any(c in path for c in "*?[") for path in paths):
        return ()
    from slurmdoctor import pipeline
    from slurmdoctor.input import picked

    jobs = pipeline.jobs_of(paths)
    if wanted is not None:
        return picked(jobs, wanted)
    return jobs if len(jobs) > 1 else ()


def _jobs_of(paths: Sequence[str], job_id: str | None, beside: dict[str, Any]) -> Sequence[Job | None]:
    """The jobs to read; None is the one of the paths, where nothing but its logs is to be read."""
    ids = () if job_id else _job_ids(paths)
    if not (ids or job_id or beside["slurm_info"] or beside["script"]):
        return [None]
    from slurmdoctor.slurm import gather, gather_all  # a log alone does not wait for what reads Slurm

    if not ids:
        return [gather(paths, job_id=job_id, **beside)]
    jobs, absent = gather_all(ids, **beside)
    for wrong in absent:
        say(f"slurmdoctor: {wrong}", err=True)
    return jobs


def _job_ids(words: Sequence[str]) -> tuple[str, ...]:
    """The jobs that are named by their ids; none where the words name files. A file of that name is a file."""
    ids: list[str] = []
    paths: list[str] = []
    for word in words:
        parts = word.split(",")
        if word[:1].isdigit() and all(map(_ID.fullmatch, parts)) and not os.path.lexists(word):
            ids += parts
        else:
            paths.append(word)
    if ids and paths:
        other = "- is standard input" if paths[0] == "-" else f"{in_line(paths[0])} names files"
        raise UserError(
            f"{ids[0]} is a job's id, and {other}",
            f"name jobs or logs; --job {ids[0]} reads these logs with Slurm's record of that job",
        )
    return tuple(dict.fromkeys(ids))


def _beside(one: JobFiles, beside: dict[str, Any], count: int) -> Job | None:
    """What saved texts of Slurm and the script tell of one of the jobs."""
    saved = beside["slurm_info"]
    if not (saved or beside["script"]) or (saved and count > 1 and one.id is None):
        return None
    from slurmdoctor.slurm import gather

    try:
        return gather(one.files, job_id=one.id, **beside)
    except UserError:
        if count == 1:
            raise
        return None  # the texts need not tell of all


def _diagnosed(asked: Sequence[Read], jobs: int | None, **how: Any) -> Iterator[Diagnosis]:
    """Diagnose one after the other; of several one that cannot be read is not the end."""
    from slurmdoctor import pipeline
    from slurmdoctor.search import usual_jobs

    for one in asked:
        job = one.job
        known: dict[str, Any] = {"record": job.record, "script": job.script, "begins": job.begins} if job else {}
        with Bar() as bar:
            progress = bar.add if on_terminal() else None
            ask = partial(pipeline.diagnose, one.log, progress=progress, jobs=jobs or usual_jobs(), **known)
            try:
                yield _by_a_good_run(ask(**how), one, ask, how)
            except UnreadError as error:
                if len(asked) == 1:
                    raise
                named = one.log if isinstance(one.log, JobFiles) else JobFiles(one.label)
                yield pipeline.not_read(named, error, how["redact"])


_MOST_SEEN, _MOST_TRIED, _MOST_BYTES = 2_000, 3, 16 * 1024 * 1024
"""Files of the folder that are looked at for a good run, those that are read, and the bytes of one."""


def _by_a_good_run(found: Diagnosis, one: Read, ask: Callable[..., Diagnosis], how: dict[str, Any]) -> Diagnosis:
    """Where no rule knows what broke the job: the verdict that knows what the last good run of its name says, too."""
    if (
        how["good"]
        or how["time_limit"]
        or not how["classifier"]
        or found.verdict == "no-failure"
        or found.cause.rule not in (None, CLASSIFIER)
    ):
        return found
    logs = one.log if isinstance(one.log, list) else []
    good = _good_run(logs[0]) if len(logs) == 1 and isinstance(logs[0], str) else None
    if good is None:
        return found
    better = ask(**{**how, "good": (good,)})
    note = f"the lines of {in_line(good.rpartition('/')[2])}, which ended well, are no reason why this one failed"
    return replace(better, coverage=replace(better.coverage, notes=(*better.coverage.notes, note)))


def _good_run(log: str) -> str | None:
    """The newest log beside this one that is older, has the same name but for its numbers, and ended well."""
    from slurmdoctor.input import named

    mine = named(os.path.realpath(log))
    if mine.part or not (mine.id or mine.numbers) or not os.path.isfile(mine.path):  # noqa: PTH113
        return None
    began = os.stat(mine.path).st_mtime  # noqa: PTH116
    older: list[tuple[float, str]] = []
    with suppress(OSError), os.scandir(mine.folder) as entries:
        for entry in islice(entries, _MOST_SEEN):
            if entry.path != mine.path and entry.is_file() and named(entry.path).template == mine.template:
                seen = entry.stat()
                older += [(seen.st_mtime, entry.path)] if seen.st_mtime < began and seen.st_size < _MOST_BYTES else []
    tried = (path for _, path in sorted(older, reverse=True)[:_MOST_TRIED])
    return next(filter(_ended_well, tried), None)


def _ended_well(log: str) -> bool:
    from slurmdoctor import pipeline

    with suppress(UserError):  # what cannot be read is no good run
        return pipeline.diagnose(log, classifier=False).verdict == "no-failure"
    return False


# ── what is printed ──────────────────────────────────────────────────────────────────────────


def _each_whole(
    found: Iterable[Diagnosis],
    asked: Sequence[Read],
    render: Callable[[Diagnosis], str],
    output: str | None,
    if_failed: bool,
    beside_log: bool,
) -> Iterator[Diagnosis]:
    """Print each report whole."""
    reports: list[str] = []
    for one, verdict in zip(asked, found, strict=True):
        yield verdict
        if if_failed and verdict.verdict != "failed":
            continue
        report = render(verdict)
        if one.job and beside_log:
            one.job.write_beside_log(report)
        else:
            reports.append(f"{in_line(one.label)}\n{report}" if len(asked) > 1 else report)
            _tell_how_found([one.job], report)
    if reports:
        put("\n".join(reports), output)


def _render(found: Diagnosis, form: str, context: int, ranks: bool, plain: bool) -> str:
    from slurmdoctor.report import render, render_text

    if form != "text":
        return render(found, form)

    seen = PLAIN if plain else look(sys.stdout)
    return render_text(
        found, width=seen.width, colour=seen.colour, context=context, ranks=ranks, encoding=seen.encoding
    )


def _each_in_short(
    found: Iterable[Diagnosis],
    asked: Sequence[Read],
    paths: Sequence[str],
    form: str,
    output: str | None,
    if_failed: bool,
) -> Iterator[Diagnosis]:
    """Print a row for each job as it comes, and at last how many ended in one way and how to see one whole."""
    from slurmdoctor import report

    seen = PLAIN if output is not None else look(sys.stdout)
    room = report.room_for(read.label for read in asked)
    rows: list[report.Row] = []
    whole: list[Diagnosis] = []
    texts: list[str] = []
    for one in found:
        yield one
        rows.append(report.Row.of(one))
        if if_failed and one.verdict != "failed" and form not in ("markdown", "slack"):  # a chat's list counts all
            continue
        if form == "json":
            texts.append(one.to_json() + "\n")
        elif form == "text":
            texts.append(paint([report.line(rows[-1], room, seen.width)], seen))
        else:
            whole.append(one)
        if output is None and texts:
            put(texts.pop(), None)
    failed = next((at for at, row in enumerate(rows) if row.verdict == "failed"), None)
    if failed is None and if_failed:
        return
    if form == "text":
        again = one_in_full(paths, asked[failed or 0])
        end: list[Line] = [[("bold", part)] for part in wrap_words(report.counted(rows), seen.width)]
        end.append([("", f"one in full: {again if again.isprintable() else in_line(again)}")])
        texts.append(paint(end, seen))
    elif form != "json":
        texts.append(report.render_jobs(whole, form))
    put("".join(texts), output)
    _tell_how_found([read.job for read in asked])


def _tell_how_found(jobs: Iterable[Job | None], report: str = "") -> None:
    """Say once on standard error how the logs were found, where that is an inference and the report has no room for it."""
    from slurmdoctor.report import how_found, plural

    notes = [how_found(job.record, job.record.found) for job in jobs if job and job.record and job.record.found]
    if notes and "".join(notes[0].split()) not in "".join(report.split()):
        others = plural(len(notes) - 1, "more job")
        more = f"; the logs of {others} too were not named by Slurm" if len(notes) > 1 else ""
        say(f"slurmdoctor: {notes[0]}{more}", err=True)


def one_in_full(paths: Sequence[str], read: Read) -> str:
    """The command that shows one of the jobs whole."""
    import shlex

    if not isinstance(read.log, JobFiles):
        return f"slurmdoctor diagnose {shlex.quote(read.label)}"
    named = shlex.join(paths)
    if len(named) > _LONG and len(own := shlex.join(read.log.files)) <= len(named):
        return f"slurmdoctor diagnose {own}"
    return f"slurmdoctor diagnose {named} --job-id {shlex.quote(read.label)}"
