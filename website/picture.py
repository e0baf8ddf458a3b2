"""A picture (SVG) of the terminal report of a real run: `python -m website.picture LOG OUT.svg`."""

from __future__ import annotations

import sys
from pathlib import Path

from slurmdoctor.pipeline import diagnose
from slurmdoctor.report.text_report import render_text

WIDTH = 100


def picture(log: str) -> str:
    """The report on a log as a terminal would show it, with the command that prints it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=WIDTH, file=Path("/dev/null").open("w"), force_terminal=True)  # noqa: SIM115
    console.print(Text(f"$ slurmdoctor diagnose {log}", style="bold"))
    console.print(Text.from_ansi(render_text(diagnose([log]), width=WIDTH, colour=True)))
    return console.export_svg(title="slurmdoctor", unique_id="slurmdoctor")


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(picture(sys.argv[1]) + "\n")
