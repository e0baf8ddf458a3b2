"""`slurmdoctor survey`: thousands of jobs, what kills them, and what their rows answer. `survey run` is in `survey_run`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.output import form_for, in_line, output_option, put, say
from slurmdoctor.cli.usage import Group
from slurmdoctor.model import UserError

if TYPE_CHECKING:
    from slurmdoctor.model import Knowledge
    from slurmdoctor.survey import Choice

_FORMATS = ("text", "html", "json")
_DATASET = click.Path(path_type=Path)


class _Survey(Group):
    """A group whose first command needs no name: `survey PATH` is `survey run PATH`. That one is imported when called."""

    unnamed = "run"

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [self.unnamed, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == self.unnamed:
            run: click.Command = importlib.import_module("slurmdoctor.cli.survey_run").run
            return run
        return self.commands.get(cmd_name)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.list_commands(ctx) and args[0] not in ctx.help_option_names:
            args = [self.unnamed, *args]
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


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose jobs; the command gets them as one `choice`."""

    def chosen(since: Any, until: Any, users: Any, partitions: Any, clusters: Any, **rest: Any) -> Any:
        from slurmdoctor.survey import Choice

        if since and until and since >= until:
            raise UserError("--until is not after --since", "jobs count from --since to before --until")
        return command(choice=Choice(since, until, users, partitions, clusters), **rest)

    chosen.__doc__, wrapped = command.__doc__, chosen
    for name, letter in (("cluster", "C"), ("partition", "P"), ("user", "U")):
        told = f"Jobs of this {name}; may be given again."
        wrapped = click.option(f"--{name}", f"{name}s", multiple=True, metavar=letter, help=told)(wrapped)
    for name, told in (
        ("until", "before this time."),
        ("since", "at this time or later: 2026-11-01, 7d, as sacct takes it."),
    ):
        wrapped = click.option(f"--{name}", callback=_moment, metavar="DATE", help=f"Jobs that ended {told}")(wrapped)
    return wrapped


def _knowledge(extra: tuple[Path, ...]) -> Knowledge:
    from slurmdoctor.knowledge import folders, load

    return load(folders(extra), examples=False)


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


@survey.command("report", short_help="Say what killed the jobs of a dataset, and what they cost.")
@click.argument("folder", metavar="DIR", type=_DATASET)
@click.option("--format", "form", type=click.Choice(_FORMATS), default="text", help="How to print the report.")
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
    from slurmdoctor.survey import ask

    form = form_for(called, form, output, _FORMATS)
    _put(form, ask(str(folder), _knowledge(extra), choice), output)


@survey.command("diff", short_help="Compare two datasets, or one before and after a day.")
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

    from slurmdoctor.survey import ask_both, unfinished

    if len(folders) != (1 if at else 2):
        wanted = "name one DIR with --at" if at else "name two, or one with --at DATE"
        raise UserError(f"diff compares two datasets, and {len(folders)} are named", wanted)
    names, choices = (str(folders[0]), str(folders[-1])), (choice, choice)
    if at is not None:
        day = f"{at:%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        names = (f"jobs that ended before {day}", f"jobs that ended from {day} on")
        if (choice.since and choice.since >= at) or (choice.until and choice.until <= at):
            raise UserError("--at is not between --since and --until", "leave one of them out")
        choices = replace(choice, until=at), replace(choice, since=at)
    found = ask_both((str(folders[0]), str(folders[-1])), names, _knowledge(extra), choices)
    for folder in dict.fromkeys(folders):
        _say_lacks(folder, unfinished(str(folder)))
    for side in (found.before, found.after):
        if not side.jobs:
            raise UserError(f"nothing to compare: 0 jobs of {in_line(side.name)}" if at is None else f"nothing to compare: no {in_line(side.name)}", "choose other dates or filters")  # fmt: skip
    _put(form_for(called, form, output, ("text", "json")), found, output)


@survey.command("export", short_help="Write a dataset's numbers as Prometheus metrics.")
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
    from slurmdoctor.survey import ask, by_cause_and_partition, metrics

    if not prometheus:
        raise UserError("export needs a format", "add --prometheus")
    found = ask(str(folder), _knowledge(extra), choice)
    _say_lacks(folder, found.lacks)
    put(metrics(found, by_cause_and_partition(str(folder), choice), by_user), output)
