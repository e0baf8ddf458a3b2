"""The command line: parses, calls, prints, exits. No logic."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from contextlib import suppress
from typing import Any

import click

from slurmdoctor import __version__
from slurmdoctor.cli.usage import COMPLETE, Group, in_one_line

PATH = click.Path(readable=False)
"""A path, which its reader looks at; shells complete it."""


def _watched(context: click.Context, option: click.Parameter, extra: tuple[str, ...]) -> tuple[str, ...]:
    """The folders; a line on standard error for each file in them that another user could have written."""
    if "" in extra:  # `--rules "$UNSET"` would name the working folder
        raise click.BadParameter("the name is empty", context, option)
    if context.resilient_parsing:
        return extra
    from slurmdoctor.cli.output import in_line, on_terminal, preparing, say
    from slurmdoctor.knowledge import announce, doubts, folders

    for doubt in doubts(folders(extra)):
        say(f"slurmdoctor: {in_line(doubt)}", err=True)
    if on_terminal():
        announce(preparing)
    return extra


rules_option = click.option(
    "--rules",
    "extra",
    multiple=True,
    type=PATH,
    callback=_watched,
    metavar="DIR",
    help="A folder of your site's rules; may be given again.",
)
"""The option of all commands that read rules."""
redact_option = click.option(
    "--redact",
    type=click.Choice(["default", "strict", "off"]),
    default="default",
    help="What to mask in what is printed.",
)
_MODULES = {
    "diagnose": "diagnose:diagnose",
    "dumps": "dumps:dumps",
    "explain": "rules:explain",
    "rules": "rules:rules",
    "hook": "hook:hook",
    "lint": "lint:lint",
    "collect": "collect:collect",
    "survey": "survey:survey",
    "footer": "hook:footer",
    "mcp": "mcp:mcp",
    "config": "config:config",
    "help": "usage:help_",
}
"""Command -> module:object of this package."""
_INTERRUPTED = 130
"""The exit status after Ctrl-C."""
_WITHOUT_SETTINGS = frozenset({"config", "help"})


def _defaults(name: str, command: click.Command) -> dict[str, Any]:
    """What the config files set for a command. A job's footer goes on without them where one is wrong."""
    from slurmdoctor.cli.config import defaults
    from slurmdoctor.cli.output import complain
    from slurmdoctor.model import UserError

    try:
        return defaults(name, command)
    except UserError as error:
        if name != "footer":
            raise
        complain(UserError(f"{error.message} (ignored)", error.mend))
        return {}


def _version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from slurmdoctor.cli.output import say
        from slurmdoctor.matching import description

        say(f"slurmdoctor {__version__} (search: {description()})")
        context.exit()


@click.group(
    cls=Group, modules=_MODULES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option("-V", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version,
              help="Show the version, and what searches the logs.")  # fmt: skip
@click.pass_context
def cli(context: click.Context) -> None:
    """Find the rank that broke a training job, and why, from what the job left behind."""
    assert isinstance(context.command, Group)
    name = str(context.invoked_subcommand)
    command = context.command.get_command(context, name)
    if command is not None and name not in _WITHOUT_SETTINGS:
        context.default_map = {name: _defaults(name, command)}


def main() -> None:
    """Run the program, and exit without freeing every object: that takes a tenth of a paste's time."""
    status = _run()
    # the threads of a pool that was stopped while it starts have nothing to end in order, and would complain
    if threading.active_count() == 1 or status == _INTERRUPTED:
        atexit._run_exitfuncs()
        with suppress(OSError):  # then Python exits in its own way, and reports the error
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    sys.exit(status)


def _run() -> int:
    """The exit status; in any case a user sees one line, never a traceback."""
    from slurmdoctor.cli import output

    output.open_closed()
    try:
        return _status()
    except BrokenPipeError:
        output.leave(sys.stdout)  # the reader has what it wanted
        return 0
    except Exception as error:
        if os.environ.get("SLURMDOCTOR_DEBUG"):
            raise
        try:
            output.complain(in_one_line(error) if isinstance(error, click.ClickException) else error)
        except OSError:  # nobody can be told
            output.leave(sys.stderr)
        return 2


def _status() -> int:
    """Run the command; its exit status."""
    if asked := os.environ.get(COMPLETE):
        from slurmdoctor.cli.usage import answer

        return answer(cli, asked)
    try:
        # not cli(): click's own main turns a closed pipe into exit status 1
        with cli.make_context("slurmdoctor", sys.argv[1:]) as context:
            cli.invoke(context)
        status = 0
    except click.exceptions.Exit as error:
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    sys.stdout.flush()
    return status
