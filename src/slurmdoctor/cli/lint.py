"""`slurmdoctor lint`: what is wrong with a batch script, before it is sent."""

from __future__ import annotations

import re
import sys

import click

from slurmdoctor.cli import PATH, redact_option
from slurmdoctor.cli.output import format_option, keep_inputs, output_option, put, stdin
from slurmdoctor.model import UserError
from slurmdoctor.report import FORMATS, PLAIN, Mode, look, render_lint


@click.command(short_help="Check batch scripts before they are submitted.")
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...", type=PATH)
@format_option("the findings", FORMATS)
@click.option(
    "--batch-only",
    is_flag=True,
    help="Leave out files that are no batch scripts: without an #SBATCH line in a program or at the top.",
)
@output_option
@redact_option
def lint(scripts: tuple[str, ...], form: str, batch_only: bool, output: str | None, redact: Mode) -> None:
    """Check batch scripts before they are submitted: each finding with its line, why, and how to fix it.

    SCRIPT is a file, or - for standard input. Exit status: 0 no problems found (notes do not count), 1 problems found,
    2 the call was bad.
    """
    from slurmdoctor.slurm import LARGEST, read_text
    from slurmdoctor.slurm.script import is_batch_script, is_no_text, lint as check, parse, wrong

    keep_inputs(output, scripts)
    found = []
    for name in scripts:
        text = stdin().read(LARGEST).decode("utf-8", "replace") if name == "-" else read_text(name, whole=False)
        if batch_only and (is_no_text(text) or not is_batch_script(text)):
            continue
        if is_no_text(text):
            raise UserError(f"{name} is no script: it holds bytes that are no text", "name the file that sbatch gets")
        shown = "<stdin>" if name == "-" else name
        script = parse(text, shown)
        if script.broken and script.interpreter == "bash" and not re.search("^#!|^#SBATCH", text, re.M):
            raise UserError(
                f"{name} is no batch script: no #! and no #SBATCH line, and bash cannot read line {script.broken[0]}",
                "name the file that sbatch gets, and give logs to `slurmdoctor diagnose`",
            )
        found.append((shown, check(script)))
    put(render_lint(found, form, redact, PLAIN if output else look(sys.stdout)), output)
    if any(wrong(findings) for _, findings in found):
        raise click.exceptions.Exit(1)
