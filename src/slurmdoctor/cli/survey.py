"""`slurmdoctor survey`: thousands of jobs, what kills them, what their rows answer, and the bar while they are read."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmdoctor.cli import PATH, rules_option
from slurmdoctor.cli.output import Bar, format_option, in_line, on_terminal, output_option, put, say
from slurmdoctor.cli.usage import Group
from slurmdoctor.knowledge import current
from slurmdoctor.model import UserError
from slurmdoctor.processes import cores

if TYPE_CHECKING:
    from slurmdoctor.survey import Accounts, Choice, Found, How, Pool, Tally


_FORMATS = ("text", "html", "json")
_DATASET = click.Path(path_type=Path)


class _Survey(Group):
    """A group whose first command needs no name: `survey PATH` is `survey run PATH`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = ["run", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Survey, short_help="Say what kills thousands of jobs, from their logs.")
def survey() -> None:
    """Diagnose thousands of jobs, keep a row of each, and say what killed them, where, and at what cost.

    `slurmdoctor survey logs/ --out found` writes the rows (it is short for `survey run`), and `slurmdoctor survey report found`
    says what they tell.
    """
    need("pyarrow", "duckdb")


def need(*packages: str) -> None:
    """Raise a UserError that says what to install where one of these packages is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UserError(
            f"survey needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            "install it with the extra `survey`, from a clone: pip install '.[survey]'",
        )


def _moment(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    from slurmdoctor.slurm import moment

    return moment(value, option.opts[0], datetime.now())


def _filters(*kinds: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that choose jobs; the command gets them as one `choice`."""

    def wrapped(command: Callable[..., Any]) -> Callable[..., Any]:
        def chosen(
            since: Any, until: Any, users: Any = (), partitions: Any = (), clusters: Any = (), **rest: Any
        ) -> Any:
            from slurmdoctor.survey import Choice

            if since and until and since >= until:
                raise UserError(
                    "--until is not after --since",
                    "jobs count from --since to before --until, so name the day after the last one",
                )
            return command(choice=Choice(since, until, users, partitions, clusters), **rest)

        chosen.__doc__, made = command.__doc__, chosen
        for name in kinds:
            about, letter = f"Jobs of this {name}; may be given again.", name[0].upper()
            made = click.option(f"--{name}", f"{name}s", multiple=True, metavar=letter, help=about)(made)
        for name, when in (
            ("until", "before this time."),
            ("since", "at this time or later: 2026-11-01, 7d, as sacct takes it."),
        ):
            made = click.option(f"--{name}", callback=_moment, metavar="DATE", help=f"Jobs that ended {when}")(made)
        return made

    return wrapped


_choosing = _filters("cluster", "partition", "user")


def _say_lacks(folder: Path, lacks: Iterable[str]) -> None:
    for note in lacks:
        say(f"slurmdoctor: {in_line(folder)}: {note}", err=True)


def _put(form: str, found: Any, output: str | None) -> None:
    """Print answers, or a comparison."""
    from slurmdoctor.survey import SCHEMA_VERSION, describe, render, show

    if form == "html":
        put(render(found), output)
    elif form == "text":
        from slurmdoctor.report import PLAIN, look

        put(show(describe(found), PLAIN if output else look(sys.stdout)), output)
    else:
        from msgspec import json, structs

        from slurmdoctor import __version__

        whole = {"schema_version": SCHEMA_VERSION, "slurmdoctor": __version__, **structs.asdict(found)}
        put(json.format(json.encode(whole), indent=2).decode() + "\n", output)


_DEFAULT_DAYS = 7
_READ = {
    "yes": "read",
    "no-log": "without a log",
    "not-asked": "COMPLETED, and not read without --all-states",
    "error": "could not be read",
}
_JOB = 100_000
"""A job costs as much as so many bytes, beside its own."""
_ALONE = 60.0
"""Seconds without any worker after which a message says so on a pipe."""


def _shard(context: click.Context, option: click.Parameter, given: str | None) -> tuple[int, int] | None:
    """`3/16`: the third of sixteen."""
    if given is None:
        return None
    which, _, of = given.partition("/")
    if not (which.isdecimal() and of.isdecimal() and 1 <= int(which) <= int(of) <= 100_000):
        raise click.BadParameter(
            f"{given} is no shard: they are 1/N to N/N (in a job array: --array=1-N)", context, option
        )
    return int(which), int(of)


def _dask_options(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, Any]:
    """`memory=8GB`, `processes=2`, `job_extra_directives=[--exclusive]`: a text, a number, or a list or map of YAML."""
    from yaml import YAMLError, safe_load

    found = {}
    for one in given:
        name, is_one, text = one.partition("=")
        try:
            # not all is YAML: there 12:00:00 is a number
            found[name] = int(text) if text.isdecimal() else safe_load(text) if text.startswith(("[", "{")) else text
        except YAMLError:
            is_one = ""
        if not name.isidentifier() or not is_one:
            raise click.BadParameter(f"{one} is no option: write NAME=VALUE, as in queue=cpu", context, option)
    return found


@survey.command("run", short_help="Diagnose thousands of jobs into a dataset.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=PATH)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The dataset's folder: made, or gone on with.",
)
@click.option(
    "--all-states", is_flag=True, help="Read the logs of jobs that Slurm calls COMPLETED, too: some have failed."
)
@click.option(
    "--slurm-info",
    multiple=True,
    metavar="FILE",
    type=PATH,
    help="With PATHs: saved text of `scontrol show job` or `sacct`; may be given again.",
)
@rules_option
@click.option("--jobs", type=click.IntRange(1, 1024), metavar="N", help="Read in N processes (default: one per core).")
@click.option(
    "--shard",
    callback=_shard,
    metavar="K/N",
    help="Read the jobs of part K of N alone: for a job array, with one DIR for all.",
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
    callback=_dask_options,
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
@_filters("partition", "user")
def run(
    paths: Sequence[str],
    out: Path,
    extra: tuple[str, ...],
    jobs: int | None,
    shard: tuple[int, int] | None,
    dask: str | None,
    dask_slurm: int | None,
    dask_options: dict[str, Any],
    anonymize: bool,
    time_limit: int,
    choice: Choice,
    all_states: bool,
    slurm_info: Sequence[str],
) -> None:
    """Diagnose each job, and write a row of each into a dataset (Parquet files).

    The jobs are those whose logs the PATHs name (files, folders), else those that sacct tells of, without --since of the last
    7 days: one call a day, the logs by what Slurm knows of them. sacct's times count: --until is not within.

    The same command again reads what is new or has changed since, and goes on where a run was stopped.

    Exit status: 0 every job has its row, 1 sacct did not answer for some of the days, 2 it could not run or go on.
    """
    from slurmdoctor.survey import Anonymizer, How, open_dataset, version

    # a worker of Dask may work in another folder
    named = [os.path.abspath(path) for path in paths] if dask or dask_slurm else paths  # noqa: PTH100 - resolves no links
    rules = tuple(os.path.abspath(folder) for folder in extra)  # noqa: PTH100
    how = How(rules, version(rules), float(time_limit))
    items = _jobs(named, choice, all_states, slurm_info)
    change = Anonymizer() if anonymize else None
    hire = _hire(jobs, dask, dask_slurm, dask_options, out / ".run" / "workers", how)
    with open_dataset(out, shard, change.id if change else None) as data:
        done = _run(data, items, how, hire, shard, change)
    say(done, mask=False)
    if items.incomplete:
        click.get_current_context().exit(1)


def _jobs(paths: Sequence[str], choice: Choice, all_states: bool, slurm_info: Sequence[str]) -> Accounts | Found:
    """The jobs of folders, or those that Slurm's accounts name."""
    from slurmdoctor.slurm import Asked
    from slurmdoctor.survey import find_accounted, find_in_folders

    if paths:
        if choice.partitions and not slurm_info:
            raise UserError(
                "logs do not tell their partition", "add --slurm-info with saved text of sacct, or leave it out"
            )
        return find_in_folders(paths, slurm_info, choice)
    if slurm_info:
        raise UserError("--slurm-info is for the logs of PATHs", "name their folders, or leave it out")
    until = choice.until or datetime.now().replace(microsecond=0)
    since = choice.since or until - timedelta(days=_DEFAULT_DAYS)
    if since >= until:
        raise UserError(f"--since ({since:%Y-%m-%d %H:%M}) is not before now", "name an earlier day")
    users, partitions = ",".join(choice.users) or None, ",".join(choice.partitions) or None
    return find_accounted(since, until, Asked(users, partitions, all_states))


def _hire(
    jobs: int | None, dask: str | None, dask_slurm: int | None, options: Mapping[str, Any], logs: Path, how: How
) -> Callable[[], Pool]:
    """What brings the workers, once there is something to read."""
    from slurmdoctor.survey import LocalPool, diagnose_one

    named = [name for name, value in (("--jobs", jobs), ("--dask", dask), ("--dask-slurm", dask_slurm)) if value]
    if len(named) > 1:
        raise UserError(f"{' and '.join(named)} name two kinds of workers", "leave one of them out")
    if options and not dask_slurm:
        raise UserError("--dask-option is for the jobs of --dask-slurm", "add --dask-slurm N, or leave it out")
    if not dask and not dask_slurm:
        workers = jobs or cores()
        return lambda: LocalPool(workers, diagnose_one, how)
    need("distributed", *(["dask_jobqueue"] if dask_slurm else []))
    from slurmdoctor.survey import connect, send_to_slurm

    if dask_slurm:
        return lambda: send_to_slurm(dask_slurm, options, logs, diagnose_one, how)
    return lambda: connect(str(dask), diagnose_one, how)


def _run(
    data: Any, items: Accounts | Found, how: How, hire: Callable[[], Pool], shard: tuple[int, int] | None, change: Any
) -> str:
    from slurmdoctor.survey import Tally, run as survey

    tally = Tally()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what is done is kept
    try:
        with SurveyBar() as bar:
            survey(data, items, how, hire, shard=shard, change=change, tally=tally, report=bar.update)
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


def _summary(
    tally: Tally, folder: Path, shard: tuple[int, int] | None, no_logs: str | None, stopped: bool = False
) -> str:
    """What was done, where it is, and what to do next."""
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
    return "\n".join([*lines, f"rows: {in_line(folder)}/jobs", end])


class SurveyBar(Bar):
    """Shows a tally while it changes; where there is no terminal, it says once that nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self._busy = time.monotonic()
        """When there was a worker, or nothing to read, last."""

    def update(self, tally: Tally) -> None:
        now = time.monotonic()
        waits = not tally.workers and tally.found > tally.unchanged + tally.done
        self._busy = self._busy if waits else now
        if on_terminal():
            whole = (tally.found - tally.unchanged) * _JOB + tally.bytes_found
            # before all are listed no remainder can be known
            self.show(tally.done * _JOB + tally.bytes_done, whole if tally.listed else None, in_words(tally))
        elif now - self._busy >= _ALONE:
            self._busy = float("inf")
            say(
                f"slurmdoctor: no worker has been there for {_ALONE:.0f} s: waiting for one (Ctrl-C keeps what is done)",
                err=True,
            )


def in_words(tally: Tally) -> str:
    """`812 of 10,412 jobs, 0.9 GB of 10.2 GB`; while jobs are looked for, `found so far`."""
    from rich.filesize import decimal

    wanted = tally.found - tally.unchanged
    shown = f"{tally.done:,} of {wanted:,} jobs{'' if tally.listed else ' found so far'}"
    shown += f", {decimal(tally.bytes_done)} of {decimal(tally.bytes_found)}"
    shown += f", {tally.unchanged:,} unchanged" if tally.unchanged else ""
    return shown + (", no worker yet" if wanted and not tally.workers and tally.listed else "")


@survey.command("report", short_help="Say what killed the jobs of a dataset, and what they cost.")
@click.argument("folder", metavar="DIR", type=_DATASET)
@format_option("the report", _FORMATS)
@output_option
@rules_option
@_choosing
def report(folder: Path, form: str, output: str | None, choice: Choice, extra: tuple[str, ...]) -> None:
    """Say what killed the jobs of a dataset: GPU hours lost by cause, over time, by partition and user; nodes that fail more than chance;
    MTTF by job size; jobs that die of the same cause again; and the commonest unknown failures.

    DIR is the folder that `slurmdoctor survey` wrote to with --out.
    """
    from slurmdoctor.survey import ask

    _put(form, ask(str(folder), current(extra), choice), output)


@survey.command("diff", short_help="Compare two datasets, or one before and after a day.")
@click.argument("folders", metavar="DIR [DIR]", nargs=-1, required=True, type=_DATASET)
@click.option(
    "--at",
    callback=_moment,
    metavar="DATE",
    help="Compare the jobs of one DIR that ended before this time and after it.",
)
@format_option("the report", ("text", "json"))
@output_option
@rules_option
@_choosing
def diff(
    folders: tuple[Path, ...],
    at: datetime | None,
    form: str,
    output: str | None,
    choice: Choice,
    extra: tuple[str, ...],
) -> None:
    """Compare two datasets: which causes came, went, or changed, per 1,000 jobs; MTTF; nodes; and which changes exceed chance."""
    from msgspec.structs import replace

    from slurmdoctor.survey import ask_both, unfinished

    if len(folders) != (1 if at else 2):
        wanted = "name one DIR with --at" if at else "name two, or one with --at DATE"
        raise UserError(f"diff compares two datasets, and {len(folders)} are named", wanted)
    both = names = (str(folders[0]), str(folders[-1]))
    choices = (choice, choice)
    if at is not None:
        day = f"{at:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        names = (f"jobs that ended before {day}", f"jobs that ended from {day} on")
        if (choice.since and choice.since >= at) or (choice.until and choice.until <= at):
            raise UserError("--at is not between --since and --until", "leave one of them out")
        choices = replace(choice, until=at), replace(choice, since=at)
    found = ask_both(both, names, current(extra), choices)
    for folder in dict.fromkeys(folders):
        _say_lacks(folder, unfinished(str(folder)))
    _put(form, found, output)


@survey.command("export", short_help="Write a dataset's numbers as Prometheus metrics.")
@click.argument("folder", metavar="DIR", type=_DATASET)
@click.option(
    "--prometheus", is_flag=True, help="As text for node_exporter's textfile collector (the only format yet)."
)
@click.option("--by-user", is_flag=True, help="Also by user: those whose failures cost most.")
@output_option
@rules_option
@_choosing
def export(
    folder: Path, prometheus: bool, by_user: bool, output: str | None, choice: Choice, extra: tuple[str, ...]
) -> None:
    """Write a dataset's numbers as Prometheus metrics: jobs, failures and GPU hours lost by cause and partition. No job ids are in them."""
    from slurmdoctor.survey import ask, by_cause_and_partition, metrics

    if not prometheus:
        raise UserError("export needs a format", "add --prometheus")
    found = ask(str(folder), current(extra), choice)
    _say_lacks(folder, found.lacks)
    put(metrics(found, by_cause_and_partition(str(folder), choice), by_user), output)
