"""`slurmdoctor explain`: a cause as a page to read."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.say import say

_STYLES = {"title": "bold", "head": "bold cyan", "faint": "dim", "code": "yellow", "text": ""}


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

    known = load(folders(extra))
    page = rows(find(cause, known), known, shutil.get_terminal_size((100, 24)).columns)
    if not sys.stdout.isatty():
        say("\n".join(line for _, line in page))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(no_color="NO_COLOR" in os.environ or None, highlight=False, soft_wrap=True)
    for style, line in page:
        console.print(Text(redact(line), style=_STYLES[style]))
