"""`slurmdoctor diagnose`: the verdict on a job."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import click

from slurmdoctor.cli import files, rules_option
from slurmdoctor.cli.job_ids import tell_how_found
from slurmdoctor.cli.newest import or_newest
from slurmdoctor.cli.output import form_for, keep_inputs, output_option, put
from slurmdoctor.cli.say import in_line
from slurmdoctor.cli.several import OF_SEVERAL, WHOLE, Ask, Read, read_all, reads, refuse_for_several, tell
from slurmdoctor.cli.status import status_of, worst
from slurmdoctor.model import UserError
from slurmdoctor.report import PLAIN, Diagnosis, look

FORMATS = ("text", "json", "markdown", "slack", "html", "github")
"""Formats that show what each rank did over time."""


@click.command(short_help="Say which rank failed first, why, and what to do.")
@click.argument("paths", nargs=-1, metavar="[PATH or JOBID]...", shell_complete=files)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the verdict.")
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
    shell_complete=files,
    help="Saved text of `scontrol show job` or `sacct`; may be given again.",
)
@click.option("--script", metavar="FILE", shell_complete=files, help="The job's batch script.")
@rules_option
@click.option(
    "--context", type=click.IntRange(0, 500), default=0, metavar="N", help="Show N more lines of the traceback."
)
@click.option("--ranks", is_flag=True, help="Show the state of each group of ranks, and why.")
@click.option(
    "--redact",
    type=click.Choice(["default", "strict", "off"]),
    default="default",
    help="What to mask in what is printed.",
)
@click.option("--no-redact", is_flag=True, help="The same as --redact off.")
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
@click.pass_context
def diagnose(
    called: click.Context,
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    exit_status: int | None,
    job_id: str | None,
    wanted: str | None,
    slurm_info: tuple[str, ...],
    script: str | None,
    extra: tuple[Path, ...],
    context: int,
    ranks: bool,
    redact: str,
    no_redact: bool,
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
    form = form_for(called, form, output, FORMATS)
    paths = or_newest(paths, job_id or slurm_info)
    asked = reads(paths, wanted, job_id, slurm_info, script, exit_status)
    if beside_log and any(one.job is None or one.job.record is None for one in asked):
        raise UserError("--beside-log needs a job's id", "name the job by it: slurmdoctor diagnose 4711 --beside-log")
    logs = [log for one in asked if one.job for log in one.job.logs if isinstance(log, str)]
    keep_inputs(output, (*(paths or ["-"]), *logs, *slurm_info, *filter(None, [script])))
    mask = "off" if no_redact else redact
    how = {"rules": extra, "exit_status": exit_status, "time_limit": time_limit, "lanes": form == "html"}
    found = read_all(asked, redact=mask, jobs=jobs, **how)
    if len(asked) > 1 and not beside_log and (form not in WHOLE or not (ranks or context)):
        refuse_for_several(asked, [(f"--format {form}", form not in OF_SEVERAL)])
        verdicts = tell(found, asked, paths, Ask(form, output, if_failed))
    else:
        shown = partial(_render, form=form, context=context, ranks=ranks, plain=output is not None or beside_log)
        verdicts = _tell_whole(found, asked, shown, Ask(form, output, if_failed), beside_log)
    statuses = [status_of(one) for one in verdicts]
    if exit_code:
        raise click.exceptions.Exit(worst(statuses))


def _tell_whole(
    found: Iterable[Diagnosis], asked: Sequence[Read], render: Callable[[Diagnosis], str], ask: Ask, beside_log: bool
) -> Iterator[Diagnosis]:
    """Print each report whole."""
    reports: list[str] = []
    for one, verdict in zip(asked, found, strict=True):
        yield verdict
        if ask.if_failed and verdict.verdict != "failed":
            continue
        report = render(verdict)
        if one.job and beside_log:
            one.job.write_beside_log(report)
        else:
            reports.append(f"{in_line(one.label)}\n{report}" if len(asked) > 1 else report)
            tell_how_found(one.job, verdict, report)
    if reports:
        put("\n".join(reports), ask.output)
        sys.stdout.flush()


def _render(found: Diagnosis, form: str, context: int, ranks: bool, plain: bool = False) -> str:
    if form != "text":
        return str(importlib.import_module(f"slurmdoctor.report.{form}_report").render(found))
    from slurmdoctor.report import render_text

    seen = PLAIN if plain else look(sys.stdout)
    return render_text(
        found, width=seen.width, colour=seen.colour, context=context, ranks=ranks, encoding=seen.encoding
    )
