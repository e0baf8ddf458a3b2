"""The door of all that the commands print: no text that passes it can steer a terminal, or shows a secret."""

from __future__ import annotations

import sys
from typing import Any

import click

from slurmdoctor.model import UserError


def say(text: str = "", *, err: bool = False, nl: bool = True, mask: bool = True, **style: Any) -> None:
    """Print text of any origin; `style` is click's. Without `mask` what looks like a secret stays: scripts, and what is masked already."""
    from slurmdoctor.report import disarm, redact

    try:
        safe = redact(text) if mask else disarm(text)
    except UserError:  # the kinds of secrets are missing, like all rules: which is what it is about to say
        safe = disarm(text)
    if not style:
        click.echo(safe, nl=nl, err=err)
        return
    from slurmdoctor.report import look

    colour = look(sys.stderr if err else sys.stdout).colour
    click.echo(click.style(safe, **style), nl=nl, err=err, color=colour)


def in_line(path: object) -> str:
    """A name as a part of a line: it may hold line ends."""
    from slurmdoctor.report import one_line

    return one_line(str(path))


def show(report: str, *, err: bool = False) -> None:
    """Print a report: what it quotes is masked and disarmed already, and its colours are its own."""
    click.echo(report, nl=False, err=err, color=True)  # click would take them off for a pipe, FORCE_COLOR or not


def error(wrong: Exception) -> None:
    """Say what went wrong: one line a problem."""
    from slurmdoctor.report import one_line

    if isinstance(wrong, UserError):
        say("slurmdoctor: " + "\n".join(map(one_line, wrong.lines)), err=True)
    else:
        what = f"internal error, {type(wrong).__name__}: {wrong}: please report it; SLURMDOCTOR_DEBUG=1 shows where"
        say(f"slurmdoctor: {one_line(what)}", err=True)
