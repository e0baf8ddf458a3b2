"""`slurmdoctor survey run`: a row for each job, written as it is read."""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmdoctor.cli import files, rules_option
from slurmdoctor.cli.say import in_line, say
from slurmdoctor.cli.survey import need
from slurmdoctor.cli.survey_jobs import Jobs, which_jobs
from slurmdoctor.model import UserError
from slurmdoctor.survey import Crew, How, LocalCrew, Tally

if TYPE_CHECKING:
    from slurmdoctor.survey import Anonymizer

_READ = {
    "yes": "read",
    "no-log": "without a log",
    "not-asked": "COMPLETED, and not read without --all-states",
    "error": "could not be read",
}


class _Shard(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`3/16`: the third of sixteen."""

    name = "K/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        which, _, of = value.partition("/")
        if not (which.isdecimal() and of.isdecimal() and 1 <= int(which) <= int(of) <= 100_000):
            self.fail(f"{value} is no shard: they are 1/N to N/N (in a job array: --array=1-N)", param, ctx)
        return int(which), int(of)


class _Option(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """`memory=8GB`, `processes=2`, `job_extra_directives=[--exclusive]`: a text, a number, or a list or map of YAML."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from yaml import YAMLError, safe_load

        if isinstance(value, tuple):
            return value
        name, is_one, text = value.partition("=")
        try:
            # not all is YAML: there 12:00:00 is a number
            read = int(text) if text.isdecimal() else safe_load(text) if text.startswith(("[", "{")) else text
        except YAMLError:
            is_one = ""
        if not name.isidentifier() or not is_one:
            self.fail(f"{value} is no option: write NAME=VALUE, as in queue=cpu", param, ctx)
        return name, read


@click.command(short_help="Diagnose thousands of jobs into a dataset.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", shell_complete=files)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The dataset's folder: made, or gone on with.",
)
@which_jobs
@rules_option
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Read in N processes (default: one per core).")
@click.option(
    "--shard", type=_Shard(), help="Read the jobs of part K of N alone: for a job array, with one DIR for all."
)
@click.option(
    "--dask", metavar="ADDRESS", help="Read on the workers of a Dask scheduler: tcp://HOST:8786, or its .json file."
)
@click.option(
    "--dask-slurm",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Let Dask send N jobs to Slurm, and read on these.",
)
@click.option(
    "--dask-option",
    "dask_options",
    type=_Option(),
    multiple=True,
    metavar="NAME=VALUE",
    help="What these jobs ask for, as Dask's SLURMCluster names it: queue=cpu, account=lab, walltime=08:00:00, memory=8GB.",
)
@click.option(
    "--anonymize", is_flag=True, help="Write pseudonyms for the names of users, accounts, jobs, nodes and paths."
)
@click.option(
    "--time-limit",
    type=click.IntRange(1, 86400),
    default=300,
    metavar="SECONDS",
    help="What one job may take; after that its row tells what is known by then.",
)
def run(
    look: Callable[[], Jobs],
    out: Path,
    extra: tuple[Path, ...],
    jobs: int | None,
    shard: tuple[int, int] | None,
    dask: str | None,
    dask_slurm: int | None,
    dask_options: tuple[tuple[str, Any], ...],
    anonymize: bool,
    time_limit: int,
) -> None:
    """Diagnose each job, and write a row of each into a dataset (Parquet files).

    The jobs are those whose logs the PATHs name (files, folders), else those that sacct tells of: one call a day, the logs by
    what Slurm knows of them. sacct's times count: --until is not within.

    The same command again reads what is new or has changed since, and goes on where a run was stopped.

    Exit status: 0 every job has its row, 1 sacct did not answer for some of the days, 2 it could not run or go on.
    """
    from slurmdoctor.survey import open_dataset, version

    rules = tuple(os.path.abspath(folder) for folder in extra)  # noqa: PTH100 - resolves no links
    how = How(rules, version(rules), float(time_limit))
    items = look()
    change = _anonymizer() if anonymize else None
    hire = _hire(jobs, dask, dask_slurm, dict(dask_options), out / ".run" / "workers", how)
    with open_dataset(out, shard, change.id if change else None) as data:
        told = _run(data, items, how, hire, shard, change)
    say(told, mask=False)
    if items.incomplete:
        click.get_current_context().exit(1)


def _hire(
    jobs: int | None, dask: str | None, dask_slurm: int | None, options: dict[str, Any], logs: Path, how: How
) -> Callable[[], Crew]:
    """What brings the workers, once there is something to read."""
    from slurmdoctor.survey import diagnose_one

    named = [name for name, value in (("--jobs", jobs), ("--dask", dask), ("--dask-slurm", dask_slurm)) if value]
    if len(named) > 1:
        raise UserError(f"{' and '.join(named)} name two kinds of workers", "leave one of them out")
    if options and not dask_slurm:
        raise UserError("--dask-option is for the jobs of --dask-slurm", "add --dask-slurm N, or leave it out")
    if not dask and not dask_slurm:
        workers = jobs or _cores()
        return lambda: LocalCrew(workers, diagnose_one, how)
    need("distributed", *(["dask_jobqueue"] if dask_slurm else []))
    from slurmdoctor.survey import connect, send_to_slurm

    if dask_slurm:
        return lambda: send_to_slurm(dask_slurm, options, logs, diagnose_one, how)
    return lambda: connect(str(dask), diagnose_one, how)


def _anonymizer() -> Anonymizer:
    from slurmdoctor.survey import Anonymizer, key

    return Anonymizer(key())


def _run(
    data: Any,
    items: Jobs,
    how: How,
    hire: Callable[[], Crew],
    shard: tuple[int, int] | None,
    change: Anonymizer | None,
) -> str:
    from slurmdoctor.cli.survey_progress import SurveyBar
    from slurmdoctor.survey import run as survey

    tally = Tally()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is done is kept
    try:
        with SurveyBar() as bar:
            survey(data, items, how, hire, shard=shard, change=change, tally=tally, tell=bar.update)
    except KeyboardInterrupt:
        say(_summary(tally, data.folder, shard, items.no_logs, stopped=True), mask=False)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        for note in [*items.notes, *data.notes]:
            say(f"slurmdoctor: {in_line(note)}", err=True)
    if not (tally.found or shard or items.no_logs):
        return items.nothing
    return _summary(tally, data.folder, shard, items.no_logs)


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1


def _summary(
    tally: Tally, folder: Path, shard: tuple[int, int] | None, no_logs: str | None, stopped: bool = False
) -> str:
    """What was done, where it is, and what to do next."""
    place = in_line(folder)
    wanted = tally.found - tally.unchanged
    of = f" of {wanted:,}{'' if tally.listed else ' found so far'}" if stopped else ""
    parts = [f"{tally.done:,}{of} job{'s' * (tally.done != 1)}, {tally.failed:,} of them failed"]
    if not wanted and tally.unchanged:
        parts = []
    parts += [f"{count:,} {_READ[read]}" for read, count in tally.read.items() if count]
    if tally.unchanged:
        parts.append(f"{tally.unchanged:,} job{'s' * (tally.unchanged != 1)} unchanged since the last run")
    lines = ["; ".join(parts)]
    if tally.error:
        lines.append(f"not read, the first: {in_line(tally.error)}")
    if no_logs:
        lines.append(f"left out: {in_line(no_logs)}")
    report = f"slurmdoctor survey report {in_line(shlex.quote(str(folder.parent if shard else folder)))}"
    when = f"next, when all {shard[1]:,} shards are there" if shard else "next"
    end = "stopped; the same command goes on" if stopped else f"{when}: {report}"
    return "\n".join([*lines, f"rows: {place}/jobs", end])
