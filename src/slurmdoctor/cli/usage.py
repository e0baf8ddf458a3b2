"""How commands are called: groups that import them then, a wrong call in one line, help, and completion in shells."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from slurmdoctor.model import UserError

COMPLETE = "_SLURMDOCTOR_COMPLETE"
"""The variable by which a shell asks for completions."""
_LOG_LIKE = r"(?s)-|\d+(_\d+)?|.*[/*?\[].*|.*\.(out|err|log|txt|o\d*|e\d*|gz|xz|zst|bz2)"
"""What nobody would call a command: standard input, a job's id, a path or a pattern, a log's name."""


class Group(click.Group):
    """A group of commands: its own, and those of `modules` (name -> module:object of this package).

    It suggests a command where it has none of a name, and alone prints its help. Start-up counts in a hook and a chat.
    """

    def __init__(self, *args: Any, modules: Mapping[str, str] | None = None, **given: Any) -> None:
        super().__init__(*args, **given)
        self.modules = modules or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.modules, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            return super().get_command(ctx, cmd_name)
        module, _, name = self.modules[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"slurmdoctor.cli.{module}"), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ([] if ctx.resilient_parsing else ["--help"]))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            raise self._unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def _unknown(self, ctx: click.Context, word: str) -> UserError:
        from shlex import quote

        from slurmdoctor.knowledge import nearest

        shown = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        meant = nearest(word.lower(), [name for name, one in shown.items() if one is not None and not one.hidden])
        if ctx.parent is None and word.endswith((".sbatch", ".slurm", ".sh", ".bash")):
            meant = f"lint {quote(word)}"
        elif ctx.parent is None and (os.path.lexists(word) or re.fullmatch(_LOG_LIKE, word)):
            meant = f"diagnose {quote(word)}"
        mend = f"did you mean `{ctx.command_path} {meant}`?" if meant else f"`{ctx.command_path} --help` lists them"
        return UserError(f"no command `{word}`", mend)


def in_one_line(wrong: click.ClickException) -> UserError:
    """click's error, and where to read on."""
    context = wrong.ctx if isinstance(wrong, click.UsageError) else None
    if context is None:
        return UserError(wrong.format_message())
    if isinstance(wrong, click.NoSuchOption):  # `--json` for `--format json`
        for param in context.command.params:
            word = wrong.option_name.lstrip("-")
            if isinstance(param.type, click.Choice) and word in param.type.choices:
                return UserError(f"no such option: {wrong.option_name}", f"did you mean {param.opts[0]} {word}?")
    message = wrong.format_message().rstrip(".")
    return UserError(message[:1].lower() + message[1:], f"`{context.command_path} --help` shows how")


@click.command("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of a command."""
    cli = context.find_root().command
    with cli.make_context("slurmdoctor", [*command, "--help"]) as asked:
        cli.invoke(asked)


def answer(cli: click.Command, asked: str) -> int:
    """click's own script for a shell (`bash_source`), or what it asks for; nothing where that fails: it would be shown in the midst of a line."""
    with suppress(Exception):
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "slurmdoctor", COMPLETE, asked)
    return 1
