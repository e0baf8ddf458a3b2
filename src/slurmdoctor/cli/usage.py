"""A wrong call in one line: what is wrong with it, and what to type instead."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress

import click

from slurmdoctor.knowledge import nearest
from slurmdoctor.model import UserError

_OTHER_WORDS = {
    "version": "--version",
    "analyze": "diagnose",
    "analyse": "diagnose",
    "man": "help",
    "config.toml": "config",
}
_SCRIPTS = (".sbatch", ".slurm", ".sh", ".bash")
_LOG_LIKE = re.compile(r"-|\d+(_\d+)?|.*[/*?\[].*|.*\.(out|err|log|txt|o\d*|e\d*|gz|xz|zst|bz2)", re.S)
"""What nobody would call a command: standard input, a job's id, a path or a pattern, a log's name."""


def unknown_command(word: str, commands: Sequence[str], path: str) -> UserError:
    """No command has that name: the one that was probably meant."""
    top = path == "slurmdoctor"
    meant = _meant(word) if top else None
    if meant is None and (guess := nearest(word.lower(), commands)):
        meant = guess if top else f"{path} {guess}"
    if meant is None:
        return UserError(f"no command `{word}`", f"`{path} --help` lists them")
    return UserError(f"no command `{word}`", f"did you mean `{meant}`?")


def _meant(word: str) -> str | None:
    """What is no name of a command, yet shows what was wanted."""
    if word.lower() in _OTHER_WORDS:
        wanted = _OTHER_WORDS[word.lower()]
        return f"slurmdoctor {wanted}" if wanted.startswith("-") else wanted
    if word.endswith(_SCRIPTS):
        return f"slurmdoctor lint {shlex.quote(word)}"
    if os.path.lexists(word) or _LOG_LIKE.fullmatch(word):
        return f"slurmdoctor diagnose {shlex.quote(word)}"
    with suppress(UserError):
        from slurmdoctor.knowledge import folders, load

        if word in load(folders(), examples=False).causes:
            return f"slurmdoctor explain {word}"
    return None


def told(wrong: click.ClickException, root: click.Command, words: Sequence[str]) -> UserError:
    """click's error in our words; `words` are those of the call, which click does not always remember."""
    path, command = _called(root, words)
    asked = f"`{path} --help` shows how"
    if isinstance(wrong, click.NoSuchOption):
        return _no_option(wrong.option_name, path, command, root, words)
    if isinstance(wrong, click.BadOptionUsage):
        return _without_value(wrong, path, command, asked)
    if isinstance(wrong, click.MissingParameter) and wrong.param is not None:
        arguments = [_label(param) for param in command.params if isinstance(param, click.Argument)]
        asks = [f"{_name(wrong.param)} {_label(wrong.param)}"] if isinstance(wrong.param, click.Option) else []
        usage = " ".join([path, *arguments, *asks])
        return UserError(f"`{path}` needs {_name(wrong.param)}", f"`{usage}`; `{path} --help` tells more")
    if isinstance(wrong, click.BadParameter) and wrong.param is not None:
        return _bad_value(wrong.message, wrong.param) or UserError(f"{_name(wrong.param)}: {_plain(wrong)}", asked)
    return UserError(_plain(wrong), asked)


def _called(root: click.Command, words: Sequence[str]) -> tuple[str, click.Command]:
    path, command = "slurmdoctor", root
    for word in words:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        inner = command.get_command(click.Context(command), word)
        if inner is None:
            break
        path, command = f"{path} {word}", inner
    unnamed = getattr(command, "unnamed", None)
    if isinstance(command, click.Group) and unnamed:
        command = command.get_command(click.Context(command), unnamed) or command
    return path, command


def _no_option(name: str, path: str, command: click.Command, root: click.Command, words: Sequence[str]) -> UserError:
    if not name.startswith("--"):  # of `-format` click tells the first letter
        name = next((word for word in words if word.startswith(name) and len(word) > 2), name)
    known = [option for param in command.params for option in param.opts]
    guess = nearest(
        f"--{name.lstrip('-')}".lower(), [*(option for option in known if option.startswith("--")), "--help"]
    )
    if len(name) == 2:  # `-v` for `-V`, `-f` for `--format`
        wanted = (name.swapcase(), f"-{name}")
        alike = [param.opts[0] for param in command.params if any(option.startswith(wanted) for option in param.opts)]
        guess = alike[0] if len(alike) == 1 else None
    word = name.lstrip("-")  # `--json` for `--format json`
    for param in command.params:
        if isinstance(param.type, click.Choice) and word in param.type.choices:
            guess = f"{param.opts[0]} {word}"
    if guess:
        return UserError(f"`{path}` has no option {name}", f"did you mean {guess}?")
    if command is root:
        diagnose = _called(root, ["diagnose"])[1]
        if any(name in param.opts for param in diagnose.params):
            return UserError(f"{name} is an option of `slurmdoctor diagnose`", f"slurmdoctor diagnose {name} ...")
    return UserError(f"`{path}` has no option {name}", f"`{path} --help` lists them")


def _without_value(wrong: click.BadOptionUsage, path: str, command: click.Command, asked: str) -> UserError:
    name = wrong.option_name
    param = next((param for param in command.params if name in param.opts), None)
    if isinstance(param, click.Option) and param.is_flag:
        return UserError(f"{name} takes no value", f"write {name} alone")
    values = _values(param) if param else None
    return UserError(f"{name} needs a value", values or f"`{path} {name} {_label(param)}`" if param else asked)


def _bad_value(message: str, param: click.Parameter) -> UserError | None:
    """A value that its option does not take; None where click's own sentence has to do."""
    found = re.match(r"(?:(?:Path|File|Directory) )?'?(.*?)'? (?:is not |does not )", message, re.S)
    given, values = (found[1] if found else ""), _values(param)
    if found and isinstance(param.type, click.Path):
        from slurmdoctor.input import did_you_mean

        near = did_you_mean(given)
        return UserError(f"no such file or folder: {given}", near if "?" in near else "check its path")
    if not found or not values:
        return None
    guess = nearest(given.lower(), list(param.type.choices)) if isinstance(param.type, click.Choice) else None
    what = f"{_name(param)} cannot be `{given}`"
    return UserError(what, f"did you mean `{guess}`? It can be {values}" if guess else f"give {values}")


def _values(param: click.Parameter) -> str | None:
    """The values that an option takes, in words."""
    kind = param.type
    if isinstance(kind, click.Choice):
        *most, last = map(str, kind.choices)
        return f"{', '.join(most)} or {last}" if most else last
    if isinstance(kind, (click.IntRange, click.FloatRange)) and kind.min is not None:
        return f"a number from {kind.min}" + (f" to {kind.max}" if kind.max is not None else " on")
    return "a whole number" if kind is click.INT else None


def _name(param: click.Parameter) -> str:
    if isinstance(param, click.Option):
        return max(param.opts, key=len)
    return _label(param).strip("[]").removesuffix("...").strip("]")


def _label(param: click.Parameter) -> str:
    """What stands for its value in the help."""
    return param.metavar or (param.name or "").upper()


def _plain(wrong: click.ClickException) -> str:
    return (wrong.message[:1].lower() + wrong.message[1:]).rstrip(".")
