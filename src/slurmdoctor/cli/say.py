"""The door of all that the commands print: no text that passes it can steer a terminal."""

from __future__ import annotations

import io
from typing import Any

import click

from slurmdoctor.model import UserError


def say(text: str = "", *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text of any origin; `style` is click's."""
    from slurmdoctor.report.redact import disarm

    click.echo(click.style(disarm(text), **style) if style else disarm(text), nl=nl, err=err)


def in_line(path: object) -> str:
    """A name as a part of a line: it may hold line ends."""
    from slurmdoctor.report.redact import one_line

    return one_line(str(path))


def show(report: str) -> None:
    """Print a report: what it quotes is disarmed already, and its colours are its own."""
    click.echo(report, nl=False)


def error(wrong: Exception) -> None:
    """Say what went wrong: one line a problem."""
    from slurmdoctor.report.redact import one_line

    if isinstance(wrong, click.ClickException):
        told = io.StringIO()
        wrong.show(told)
        quoted = wrong.format_message()  # may hold what the user typed, line ends too
        say(told.getvalue().replace(quoted, one_line(quoted)), err=True, nl=False)
    elif isinstance(wrong, UserError):
        say("slurmdoctor: " + "\n".join(map(one_line, wrong.lines)), err=True)
    else:
        what = f"internal error, {type(wrong).__name__}: {wrong}: please report it; SLURMDOCTOR_DEBUG=1 shows where"
        say(f"slurmdoctor: {one_line(what)}", err=True)
