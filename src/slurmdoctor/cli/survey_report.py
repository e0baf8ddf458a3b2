"""`slurmdoctor survey report`, `diff` and `export`: what the rows of a dataset answer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.output import form_for, output_option, put
from slurmdoctor.cli.say import in_line, say
from slurmdoctor.model import UserError

if TYPE_CHECKING:
    from slurmdoctor.report import Line
    from slurmdoctor.survey import Answers, Choice

FORMATS = ("text", "html", "json")
_DATASET = click.Path(path_type=Path)


def _moment(context: click.Context, option: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    from slurmdoctor.slurm import moment

    return moment(value, option.opts[0], datetime.now())


_FILTERS = (
    click.option("--since", callback=_moment, metavar="DATE", help="Jobs that ended at this time or later: 2026-11-01, 7d, as sacct takes it."),
    click.option("--until", callback=_moment, metavar="DATE", help="Jobs that ended before this time."),
    click.option("--user", "users", multiple=True, metavar="U", help="Jobs of this user; may be given again."),
    click.option("--partition", "partitions", multiple=True, metavar="P", help="Jobs of this partition; may be given again."),
    click.option("--cluster", "clusters", multiple=True, metavar="C", help="Jobs of this cluster; may be given again."),
)  # fmt: skip


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose jobs; the command gets them as one `choice`."""

    def chosen(since: Any, until: Any, users: Any, partitions: Any, clusters: Any, **rest: Any) -> Any:
        from slurmdoctor.survey import Choice

        if since and until and since >= until:
            raise UserError("--until is not after --since", "jobs count from --since to before --until")
        return command(choice=Choice(since, until, users, partitions, clusters), **rest)

    chosen.__doc__, wrapped = command.__doc__, chosen
    for option in reversed(_FILTERS):
        wrapped = option(wrapped)
    return wrapped


def _answers(folder: Path, extra: tuple[Path, ...], choice: Choice) -> Answers:
    from slurmdoctor.knowledge import folders, load
    from slurmdoctor.survey import ask

    return ask(str(folder), load(folders(extra), examples=False), choice)


def _say_lacks(folder: Path, lacks: Iterable[str]) -> None:
    for note in lacks:
        say(f"slurmdoctor: {in_line(folder)}: {note}", err=True)


def _shown(lines: Callable[[int], list[Line]], output: str | None) -> str:
    from slurmdoctor.report import PLAIN, look, paint

    seen = look(sys.stdout) if output is None else PLAIN
    return paint(lines(seen.width), colour=seen.colour, encoding=seen.encoding)


def _json(found: Any) -> str:
    from msgspec import json, structs

    from slurmdoctor import __version__
    from slurmdoctor.survey import SCHEMA_VERSION

    whole = {"schema_version": SCHEMA_VERSION, "slurmdoctor": __version__, **structs.asdict(found)}
    return json.format(json.encode(whole), indent=2).decode() + "\n"


@click.command(short_help="Say what killed the jobs of a dataset, and what they cost.")
@click.argument("folder", metavar="DIR", type=_DATASET)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the report.")
@output_option
@rules_option
@_filters
@click.pass_context
def report(
    called: click.Context, folder: Path, form: str, output: str | None, choice: Choice, extra: tuple[Path, ...]
) -> None:
    """Say what killed the jobs of a dataset: GPU hours lost by cause, over time, by partition and user; nodes that fail more than chance;
    MTTF by job size; jobs that die of the same cause again; and the commonest unknown failures.

    DIR is the folder that `slurmdoctor survey` wrote to with --out.
    """  # fmt: skip
    form = form_for(called, form, output, FORMATS)
    found = _answers(folder, extra, choice)
    if form == "json":
        put(_json(found), output)
    elif form == "html":
        from slurmdoctor.survey import render

        put(render(found), output)
    else:
        from slurmdoctor.survey import report as lines

        put(_shown(lambda width: lines(found, width), output), output)


@click.command(short_help="Compare two datasets, or one before and after a day.")
@click.argument("folders", metavar="DIR [DIR]", nargs=-1, required=True, type=_DATASET)
@click.option(
    "--at",
    callback=_moment,
    metavar="DATE",
    help="Compare the jobs of one DIR that ended before this time and after it.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print the report.")
@output_option
@rules_option
@_filters
@click.pass_context
def diff(
    called: click.Context,
    folders: tuple[Path, ...],
    at: datetime | None,
    form: str,
    output: str | None,
    choice: Choice,
    extra: tuple[Path, ...],
) -> None:
    """Compare two datasets: which causes came, went, or changed, per 1,000 jobs; MTTF; nodes; and which changes exceed chance."""  # fmt: skip
    from msgspec.structs import replace

    from slurmdoctor.knowledge import folders as sites
    from slurmdoctor.knowledge import load
    from slurmdoctor.survey import ask_both, compare, unfinished

    if len(folders) != (1 if at else 2):
        wanted = "name one DIR with --at" if at else "name two, or one with --at DATE"
        raise UserError(f"diff compares two datasets, and {len(folders)} are named", wanted)
    if at is None:
        names = (str(folders[0]), str(folders[1]))
        choices = choice, choice
    else:
        day = f"{at:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        names = (f"jobs that ended before {day}", f"jobs that ended from {day} on")
        if (choice.since and choice.since >= at) or (choice.until and choice.until <= at):
            raise UserError("--at is not between --since and --until", "leave one of them out")
        choices = replace(choice, until=at), replace(choice, since=at)
    both = ask_both((str(folders[0]), str(folders[-1])), load(sites(extra), examples=False), choices)
    for folder in dict.fromkeys(folders):
        _say_lacks(folder, unfinished(str(folder)))
    for name, side in zip(names, (both.before, both.after), strict=True):
        if not side.jobs:
            raise UserError(f"nothing to compare: 0 jobs of {in_line(name)}" if at is None else f"nothing to compare: no {in_line(name)}", "choose other dates or filters")  # fmt: skip
    found = compare(names, both.before, both.after, both.clusters, both.tested)
    if form_for(called, form, output, ("text", "json")) == "json":
        put(_json(found), output)
        return
    from slurmdoctor.survey import diff as lines

    put(_shown(lambda width: lines(found, width), output), output)


@click.command(short_help="Write a dataset's numbers as Prometheus metrics.")
@click.argument("folder", metavar="DIR", type=_DATASET)
@click.option(
    "--prometheus", is_flag=True, help="As text for node_exporter's textfile collector (the only format yet)."
)
@click.option("--by-user", is_flag=True, help="Also by user: those whose failures cost most.")
@output_option
@rules_option
@_filters
def export(
    folder: Path, prometheus: bool, by_user: bool, output: str | None, choice: Choice, extra: tuple[Path, ...]
) -> None:
    """Write a dataset's numbers as Prometheus metrics: jobs, failures and GPU hours lost by cause and partition. No job ids are in them."""  # fmt: skip
    from slurmdoctor.survey import by_cause_and_partition, metrics

    if not prometheus:
        raise UserError("export needs a format", "add --prometheus")
    found = _answers(folder, extra, choice)
    _say_lacks(folder, found.lacks)
    put(metrics(found, by_cause_and_partition(str(folder), choice), by_user), output)
