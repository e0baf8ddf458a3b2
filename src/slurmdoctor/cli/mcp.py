"""`slurmdoctor mcp`: serves agents on standard input and output."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import click

from slurmdoctor.cli import rules_option
from slurmdoctor.cli.output import stdin
from slurmdoctor.model import UserError

LONGEST_LINE = 64 << 20
"""Bytes of a request: far more than a text of the longest that is taken, with each of its characters escaped."""


class Bounded(io.BufferedIOBase):
    """Bytes whose lines have at most so many: the rest of a longer one is dropped, so that what has no end does not fill the memory."""

    def __init__(self, source: Any, longest: int = LONGEST_LINE) -> None:
        self._source, self._longest = source, longest
        self._room = longest

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        while data := self._source.read1(size):
            if kept := self._within(data):
                return kept
        return b""

    def _within(self, data: bytes) -> bytes:
        kept = []
        for line in data.splitlines(keepends=True):
            ends = line.endswith(b"\n")
            kept.append(line if len(line) <= self._room else line[: self._room] + b"\n" * ends)
            self._room = self._longest if ends else max(0, self._room - len(line))
        return b"".join(kept)


@click.command(short_help="Serve agents over the Model Context Protocol.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path),
    metavar="DIR",
    help="A folder whose logs may be read; may be given again. None by default.",
)
@click.option("--timeout", type=click.FloatRange(1, 3600), default=60, show_default=True, help="Seconds a question.")
@rules_option
@click.option("--redact", type=click.Choice(["default", "strict"]), default="default", help="What to mask in answers.")
def mcp(allow: tuple[Path, ...], timeout: float, extra: tuple[str, ...], redact: Literal["default", "strict"]) -> None:
    """Serve agents over the Model Context Protocol, on standard input and output.

    Tools: diagnose_text, diagnose_path, diagnose_job, explain_cause, list_causes. Needs the MCP SDK: pip install 'mcp>=2,<3'.
    """
    try:
        from slurmdoctor.cli.server import Settings, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "slurmdoctor":
            raise
        raise UserError("`slurmdoctor mcp` needs the MCP SDK, version 2", "pip install 'mcp>=2,<3'") from None
    settings = Settings(allow, extra, redact, timeout)
    sys.stdin = io.TextIOWrapper(Bounded(stdin()), encoding="utf-8")  # the SDK takes its `buffer`
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python would wait for the thread that waits for a line
    serve(settings).run("stdio")
