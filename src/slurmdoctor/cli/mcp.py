"""`slurmdoctor mcp`: serves agents on standard input and output."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.output import stdin
from slurmdoctor.model import UserError


@click.command(short_help="Serve agents over the Model Context Protocol.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Path(),
    metavar="DIR",
    help="A folder whose logs may be read; may be given again. None by default.",
)
@click.option("--timeout", type=click.FloatRange(1, 3600), default=60, show_default=True, help="Seconds a question.")
@rules_option
@click.option("--redact", type=click.Choice(["default", "strict"]), default="default", help="What to mask in answers.")
def mcp(allow: tuple[str, ...], timeout: float, extra: tuple[Path, ...], redact: Literal["default", "strict"]) -> None:
    """Serve agents over the Model Context Protocol, on standard input and output.

    Tools: diagnose_text, diagnose_path, diagnose_job, explain_cause, list_causes. Needs the MCP SDK: pip install 'mcp>=2,<3'.
    """
    try:
        from slurmdoctor.cli.server import Settings, checked, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "slurmdoctor":
            raise
        raise UserError("`slurmdoctor mcp` needs the MCP SDK, version 2", "pip install 'mcp>=2,<3'") from None
    settings = Settings(checked(allow), extra, redact, timeout)
    stdin()  # closed, it would be an error of the SDK's
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for the thread that waits for a line
    serve(settings).run("stdio")
