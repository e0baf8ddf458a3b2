"""`slurmdoctor survey`: thousands of jobs, what kills them, and what their rows answer."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import click

from slurmdoctor.cli.group import Group
from slurmdoctor.model import UserError

_COMMANDS: dict[str, str] = {
    "run": "survey_run:run",
    "report": "survey_report:report",
    "diff": "survey_report:diff",
    "export": "survey_report:export",
}
"""Command -> module:object of this package, imported when called."""
_NEEDED = ("pyarrow", "duckdb")
"""Packages of the extra that every survey needs."""


class _Survey(Group):
    """A group whose first command needs no name: `survey PATH` is `survey run PATH`."""

    unnamed = "run"

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"slurmdoctor.cli.{module}"), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in _COMMANDS and args[0] not in ctx.help_option_names:
            args = [self.unnamed, *args]
        return super().parse_args(ctx, args)


@click.group(cls=_Survey, short_help="Say what kills thousands of jobs, from their logs.")
def survey() -> None:
    """Diagnose thousands of jobs, keep a row of each, and say what killed them, where, and at what cost.

    `slurmdoctor survey logs/ --out found` writes the rows (it is short for `survey run`), and `slurmdoctor survey report found`
    says what they tell.
    """
    need(*_NEEDED)


def need(*packages: str, extra: str = "survey") -> None:
    """Raise a UserError that says what to install where one of these packages is missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise UserError(
            f"survey needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed",
            f"install it with the extra `{extra}`, from a clone: pip install '.[{extra}]'",
        )
