"""`slurmdoctor hook` prints the footer of a batch script; `slurmdoctor footer` is what that footer calls."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.footer import KINDS, SECONDS, SHELLS, WHEN
from slurmdoctor.cli.say import say


@click.command()
@click.option("--shell", type=click.Choice(SHELLS), default="bash", help="The script's shell: all get the same text.")
@click.option(
    "--kind", type=click.Choice(KINDS), default="footer", help="A footer, a dependent job, or an EpilogSlurmctld."
)
@click.option(
    "--timeout",
    "seconds",
    type=click.IntRange(1, 3600),
    default=SECONDS,
    metavar="SECONDS",
    show_default=True,
    help="The most that it may take.",
)
@click.option("--when", type=click.Choice(WHEN), default="failed", help="Speak of failed jobs only, or always.")
@click.option("--command", metavar="PATH", help="The slurmdoctor that the job calls where its PATH has none.")
def hook(shell: str, kind: str, seconds: int, when: str, command: str | None) -> None:
    """Print what makes a job diagnose itself.

    Paste the footer below the #SBATCH lines of your script. It changes nothing of the job: not its exit status, not its
    output but for the verdict, and nothing at all where slurmdoctor is missing, fails or is slow. See docs/hook.md.
    """
    from slurmdoctor.cli.footer import script

    say(script(kind, seconds=seconds, when=when, command=command), nl=False, mask=False)


@click.command(hidden=True)
@click.option("--note", is_flag=True, help="Print how the logs stand as the script begins.")
@click.option("--status", type=int, default=0)
@click.option("--shell", "shell_pid", type=int, required=True)
@click.option("--script", "script_file")
@click.option("--before", default="", help="What --note has printed.")
@click.option("--when", type=click.Choice(WHEN), default="failed")
@click.option("--time-limit", "seconds", type=click.IntRange(1), default=SECONDS, help="What its shell grants it.")
@click.option("--redact", type=click.Choice(["default", "strict", "off"]), default="default")
@rules_option
def footer(
    note: bool,
    status: int,
    shell_pid: int,
    script_file: str | None,
    before: str,
    when: str,
    seconds: int,
    redact: str,
    extra: tuple[Path, ...],
) -> None:
    """The verdict on the job that this runs in, printed by its footer."""
    from slurmdoctor import __version__
    from slurmdoctor.cli.footer import (
        PATIENCE,
        READING,
        inside,
        job_id,
        note_logs,
        tells,
    )

    if note:
        say(note_logs(shell_pid, script_file), mask=False)
        return
    from slurmdoctor.knowledge import current
    from slurmdoctor.pipeline import diagnose
    from slurmdoctor.report import render_text

    begun = time.monotonic()
    job = inside(status, shell_pid, script_file, before, patience=min(PATIENCE, seconds / 3))
    found = diagnose(
        job.logs,
        rules=extra,
        exit_status=status or None,
        redact=redact,
        record=job.record,
        script=job.script,
        begins=job.begins,
        time_limit=max(0.5, READING * seconds - (time.monotonic() - begun)),
        lanes=False,
    )
    if when != "always" and not tells(found, status, job.script):
        return
    lines = [f"--- slurmdoctor {__version__}, job {job_id()} ---"]
    traits = current(extra).traits
    ended = found.cause.id in traits["scheduler"] | traits["whole-job"]  # then the shell's own status means nothing
    if found.verdict == "failed" and status == 0 and not ended and not (job.record and job.record.running_children):
        lines.append("the script's exit status is 0, yet this failed in it:")
    text = render_text(found, width=100, colour=False, encoding=sys.stdout.encoding or "ascii")
    lines += [text.rstrip("\n"), "--- end of slurmdoctor ---"]
    with contextlib.suppress(BrokenPipeError):
        say("\n".join(lines), mask=False)
        sys.stdout.flush()
