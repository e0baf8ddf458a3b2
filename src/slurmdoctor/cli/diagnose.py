"""`slurmdoctor diagnose`: the verdict on a job."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.output import form_for, keep_inputs, output_option, put
from slurmdoctor.model import Diagnosis, UserError
from slurmdoctor.model.causes import EXIT_CODE
from slurmdoctor.report.terminal import PLAIN, look

FORMATS = ("text", "json", "markdown", "slack")
_STATUS = {"no-failure": 0, "unknown": 0, "failed": 1}


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", help="How to print the verdict.")
@output_option
@click.option("--exit-status", type=int, metavar="N", help="The exit status of the job, if you know it.")
@click.option(
    "--job", "job_id", metavar="ID", help="Find the job's logs, state and exit codes through scontrol and sacct."
)
@click.option(
    "--slurm-info",
    multiple=True,
    metavar="FILE",
    help="Saved text of `scontrol show job` or `sacct`; may be given again.",
)
@click.option("--script", metavar="FILE", help="The job's batch script.")
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
    "--exit-code", is_flag=True, help="Exit 1 for a failure with its cause, 3 for one whose cause is not known."
)
@click.pass_context
def diagnose(
    called: click.Context,
    paths: tuple[str, ...],
    form: str,
    output: str | None,
    exit_status: int | None,
    job_id: str | None,
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

    PATH is what the job left: log files, folders, globs, or - for standard input. Several are one job.
    """  # fmt: skip
    from slurmdoctor.cli.progress import Bar
    from slurmdoctor.pipeline import diagnose as read
    from slurmdoctor.search.many import usual_jobs

    if output and beside_log:
        raise UserError("-o and --beside-log name two places", "leave one of them out")
    form = form_for(called, form, output, FORMATS)
    keep_inputs(output, (*paths, *slurm_info, *([script] if script else ())))
    job = None
    if job_id or slurm_info or script:
        from slurmdoctor.slurm.job import gather  # a log alone does not wait for what reads Slurm

        job = gather(list(paths), job_id=job_id, slurm_info=slurm_info, script=script, exit_status=exit_status)
    with Bar() as bar:
        found = read(
            job.logs if job else list(paths) or ["-"],
            rules=extra,
            exit_status=exit_status,
            redact="off" if no_redact else redact,
            record=job.record if job else None,
            script=job.script if job else None,
            begins=job.begins if job else None,
            jobs=jobs or usual_jobs(),
            progress=bar.callback,
            time_limit=time_limit,
        )
    wanted = found.verdict == "failed" or not if_failed
    if wanted and job and beside_log:
        job.write_beside_log(_render(found, form, context, ranks, plain=True))
        return
    if wanted:
        put(_render(found, form, context, ranks, plain=output is not None), output)
        sys.stdout.flush()
    if exit_code:
        unknown = found.cause.id == EXIT_CODE
        raise click.exceptions.Exit(3 if unknown else _STATUS[found.verdict])


def _render(found: Diagnosis, form: str, context: int, ranks: bool, plain: bool = False) -> str:
    module = importlib.import_module(f"slurmdoctor.report.{form}")
    if form != "text":
        return str(module.render(found))
    seen = PLAIN if plain else look(sys.stdout)
    return str(
        module.render(found, width=seen.width, colour=seen.colour, context=context, ranks=ranks, encoding=seen.encoding)
    )
