"""`slurmdoctor explain`: a cause as a page to read."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.say import show


@click.command()
@click.argument("cause")
@rules_option
def explain(cause: str, extra: tuple[Path, ...]) -> None:
    """Explain a cause: what happens, how it shows, how to make sure, what to do.

    CAUSE is a cause or a rule, as a verdict or `slurmdoctor rules list` names it.
    """
    from slurmdoctor.knowledge import folders, load
    from slurmdoctor.report.explain import find, rows
    from slurmdoctor.report.redact import redact
    from slurmdoctor.report.terminal import look, paint

    known, seen = load(folders(extra)), look(sys.stdout)
    page = [[(style, redact(line))] for style, line in rows(find(cause, known), known, seen.width)]
    show(paint(page, colour=seen.colour, encoding=seen.encoding))
