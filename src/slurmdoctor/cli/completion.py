"""`slurmdoctor completion`: what makes a shell complete commands, options, choices, causes and paths."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import get_completion_class, shell_complete

from slurmdoctor.cli.output import say
from slurmdoctor.cli.usage import COMPLETE
from slurmdoctor.model import UserError

_INSTALL = {
    "bash": """\
# To have it in every bash (with the package bash-completion):
#   mkdir -p ~/.local/share/bash-completion/completions
#   slurmdoctor completion bash > ~/.local/share/bash-completion/completions/slurmdoctor
# or, without that package, add this line to ~/.bashrc:
#   eval "$(slurmdoctor completion bash)"
""",
    "zsh": """\
# To have it in every zsh, add this line to ~/.zshrc, below compinit:
#   eval "$(slurmdoctor completion zsh)"
# or put this text into a folder of $fpath:
#   slurmdoctor completion zsh > ~/.zfunc/_slurmdoctor
""",
    "fish": """\
# To have it in every fish:
#   mkdir -p ~/.config/fish/completions
#   slurmdoctor completion fish > ~/.config/fish/completions/slurmdoctor.fish
""",
}


@click.command(short_help="Print what makes your shell complete the commands.")
@click.argument("shell", type=click.Choice(list(_INSTALL)), required=False, metavar="[SHELL]")
@click.pass_context
def completion(context: click.Context, shell: str | None) -> None:
    """Print what completes slurmdoctor's commands, options, causes and paths in your shell.

    SHELL is bash, zsh or fish; without it, the one that you use. The first lines say how to install it.
    """
    used = shell or Path(os.environ.get("SHELL", "")).name
    found = get_completion_class(used)
    if used not in _INSTALL or found is None:
        raise UserError(f"no completion for {used or 'an unknown shell'}", f"name one: {', '.join(_INSTALL)}")
    first, _, rest = found(context.find_root().command, {}, "slurmdoctor", COMPLETE).source().partition("\n")
    # zsh takes the first line for a mark where the text is a file of $fpath
    parts = (f"{first}\n", _INSTALL[used]) if first.startswith("#") else (_INSTALL[used], f"{first}\n")
    say("".join((*parts, rest)), nl=False)


def answer(cli: click.Command, asked: str) -> int:
    """What the shell's function asked for; nothing where that fails: it would be shown in the midst of a line."""
    with suppress(Exception):
        return shell_complete(cli, {}, "slurmdoctor", COMPLETE, asked)
    return 1
