"""`slurmdoctor help`: the same as --help behind the command."""

from __future__ import annotations

import click


@click.command("help")
@click.argument("command", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def help_(context: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of a command."""
    cli = context.find_root().command
    with cli.make_context("slurmdoctor", [*command, "--help"]) as asked:
        cli.invoke(asked)
