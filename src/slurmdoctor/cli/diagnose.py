"""`slurmdoctor diagnose`: the verdict on a job."""

from __future__ import annotations

import importlib
import sys

import click

from slurmdoctor.model import Diagnosis
from slurmdoctor.report.terminal import look

FORMATS = ("text", "json", "markdown", "slack")
_STATUS = {"no-failure": 0, "unknown": 0, "failed": 1}


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the verdict.")
@click.option("--exit-status", type=int, metavar="N", help="The job's own exit status, where you know it.")
@click.option(
    "--rules", "rules", multiple=True, metavar="DIR", help="A folder of your site's rules; may be given again."
)
@click.option(
    "--context", type=click.IntRange(0, 500), default=0, metavar="N", help="Show N more lines of the traceback."
)
@click.option("--ranks", is_flag=True, help="Show where each group of ranks stands, and why.")
@click.option(
    "--redact",
    type=click.Choice(["default", "strict", "off"]),
    default="default",
    help="What to mask in what is printed.",
)
@click.option("--no-redact", is_flag=True, help="The same as --redact off.")
@click.option(
    "--exit-code", is_flag=True, help="Exit 1 for a failure with its cause, 3 for one whose cause is not known."
)
def diagnose(
    paths: tuple[str, ...],
    form: str,
    exit_status: int | None,
    rules: tuple[str, ...],
    context: int,
    ranks: bool,
    redact: str,
    no_redact: bool,
    exit_code: bool,
) -> None:
    """Say which rank failed first, why, what the exit code means, and what to do.

    PATH is what the job left: log files, folders, globs, or - for standard input. Several are one job.
    """  # fmt: skip
    from slurmdoctor.pipeline import diagnose as run

    found = run(list(paths) or ["-"], rules=rules, exit_status=exit_status, redact="off" if no_redact else redact)
    click.echo(_render(found, form, context, ranks), nl=False)
    sys.stdout.flush()
    if exit_code:
        unknown = found.cause is not None and found.cause.id == "exit-code"
        raise click.exceptions.Exit(3 if unknown else _STATUS[found.verdict])


def _render(found: Diagnosis, form: str, context: int, ranks: bool) -> str:
    module = importlib.import_module(f"slurmdoctor.report.{form}")
    if form != "text":
        return str(module.render(found))
    seen = look(sys.stdout)
    return str(
        module.render(found, width=seen.width, colour=seen.colour, context=context, ranks=ranks, encoding=seen.encoding)
    )
