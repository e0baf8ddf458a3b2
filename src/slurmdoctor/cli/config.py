"""The config files: defaults of options, from the site's file and the user's, never from the working folder; `slurmdoctor config`."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from slurmdoctor.cli.output import say
from slurmdoctor.model import UserError

SITE = "/etc/slurmdoctor/slurmdoctor.toml"
VARIABLE = "SLURMDOCTOR_CONFIG"
TABLES = ("diagnose", "explain", "lint", "hook", "mcp")
"""The commands that a file may have a table for."""
SHARED = ("rules", "redact")
"""The options that a file may also set for all commands, above its tables."""
_OF_ONE_CALL = frozenset(
    {"job", "job-id", "slurm-info", "script", "exit-status", "beside-log", "failed", "note", "status", "shell-pid"}
)
"""Options that say something of one job."""
VARIABLES = {
    VARIABLE: "The one config file that is read; /dev/null for none.",
    "SLURMDOCTOR_RULES": "Folders of more rules, with a colon between them.",
    "SLURMDOCTOR_DEBUG": "If set, an internal error shows its traceback.",
    "SLURMDOCTOR": "In a job: the program that its footer calls.",
    "SLURMDOCTOR_TIMEOUT": "In a job: the seconds that its footer may take.",
    "SLURMDOCTOR_WHEN": "In a job: whether its footer speaks of failed jobs only (failed), or always.",
    "SLURMDOCTOR_HOOK": "In a job: off for no footer.",
    "NO_COLOR": "If set, nothing is colored.",
    "FORCE_COLOR": "If set, reports are colored in a pipe too; 0 for never.",
    "COLUMNS": "The width of reports.",
    "XDG_CONFIG_HOME": "The folder that is meant by ~/.config here.",
    "XDG_CACHE_HOME": "The folder that is meant by ~/.cache here.",
}
"""The variables by which a user steers the program."""


class Setting(NamedTuple):
    """A value, and the file that it is from."""

    value: Any
    file: str | None = None


def places() -> dict[str, str]:
    """The files that are looked for -> whose they are, in the order of reading: a later one is stronger."""
    named = os.environ.get(VARIABLE)
    if named:
        return {} if named == os.devnull else {os.path.expanduser(named): "environment"}  # noqa: PTH111
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.config")  # noqa: PTH111
    return {SITE: "site", f"{base}/slurmdoctor/slurmdoctor.toml": "user"}


def defaults(name: str, command: click.Command) -> dict[str, Any]:
    """click's default_map of a command: its options' values by click's names."""
    if isinstance(command, click.Group):
        return {one: defaults("", found) for one, found in command.commands.items()}
    options = options_of(command)
    return {str(options[key].name): setting.value for key, setting in settings(name, command).items()}


def settings(name: str, command: click.Command) -> dict[str, Setting]:
    """What the files set for a command's options, by the options' names. Raises a UserError for a wrong file."""
    options, found = options_of(command), {}
    for path in _there():
        tables = _tables(path)
        own = tables.get(name, {}) if name in TABLES else {}
        for key, value in {**tables, **own}.items():
            option = key.replace("_", "-")
            if option in options and (key in own or option in SHARED):
                found[option] = Setting(_value(path, option, value, options[option]), path)
            elif key in own:
                raise UserError(f"{path}: there is no key `{option}` in [{name}]", _of(option, list(options)))
    return found


def _there() -> list[str]:
    return [path for path, whose in places().items() if whose == "environment" or os.path.lexists(path)]


def options_of(command: click.Command) -> dict[str, click.Option]:
    """The options that a file may set, by their long names."""
    named = {max(param.opts, key=len).lstrip("-"): param for param in command.params if isinstance(param, click.Option)}
    return {
        key: option
        for key, option in named.items()
        if key not in _OF_ONE_CALL and not key.startswith("no-") and not option.is_eager
    }


def _tables(path: str) -> dict[str, Any]:
    """A config file's tables, and the keys above them. Any mistake is one line: the file, what is wrong, and what to do."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tables = tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: it is no TOML: {error}", 'write such as: format = "json"') from None
    for key, value in tables.items():
        if isinstance(value, dict) and key not in TABLES:
            raise UserError(f"{path}: there is no table `{key}`", _of(key, TABLES))
        if not isinstance(value, dict) and key not in SHARED:
            mend = f"put it below [diagnose], or {_of(key, SHARED)}"
            raise UserError(f"{path}: `{key}` belongs to no command here", mend)
    return tables


def _value(path: str, key: str, value: Any, option: click.Option) -> Any:
    """A value as click takes it; a path is `~`, or relative to the file."""
    given = [value] if option.multiple and not isinstance(value, list) else value
    try:
        taken = option.type_cast_value(click.Context(click.Command("")), given)
        if isinstance(option.type, click.Path):
            from pathlib import Path  # here: few files name a path

            return [str(Path(path).parent / Path(one).expanduser()) for one in taken]
        return taken
    except (click.BadParameter, TypeError) as error:
        why = error.message if isinstance(error, click.BadParameter) else 'a list of texts is wanted: ["..."]'
        raise UserError(f"{path}: `{key}` cannot be {_written(value)}", why) from None


def _text(path: str) -> str:
    from slurmdoctor.knowledge import data_of

    try:
        text = data_of(path)
        seen, around = os.stat(path), os.stat(os.path.dirname(os.path.realpath(path)))  # noqa: PTH116, PTH120
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}", f"check it, or set {VARIABLE}=/dev/null") from None
    sticky = around.st_mode & stat.S_ISVTX
    if seen.st_mode & stat.S_IWOTH or (around.st_mode & stat.S_IWOTH and not sticky):
        raise UserError(f"{path} is not read: every user may write to it", "chmod o-w the file and its folder")
    if seen.st_uid not in (0, os.geteuid()):
        mend = f"use a file of your own, or set {VARIABLE}=/dev/null"
        raise UserError(f"{path} is not read: it is another user's", mend)
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path} is no text in UTF-8", "save it as UTF-8") from None


def _of(word: str, known: Sequence[str]) -> str:
    from slurmdoctor.knowledge import nearest

    guess = nearest(word.lower(), known)
    return f"did you mean `{guess}`?" if guess else f"one of {', '.join(known)}"


@click.command(short_help="Show the settings, and where each is from.")
@click.pass_context
def config(context: click.Context) -> None:
    """Show each setting that holds, and where it is from: the default, the site's file, the user's, or a variable.

    The text is a config file: it can be saved as one. Options on the command line are stronger than any file.
    """
    root = context.find_root().command
    assert isinstance(root, click.Group)
    whose, read = places(), _there()
    for path, who in whose.items():
        say(f"# {path}: {'read' if path in read else 'not there'} ({who})")
    for name in VARIABLES:
        if value := os.environ.get(name):
            say(f"# {name}={value} (environment)")
    for table in TABLES:
        say(f"\n[{table}]")
        command = root.get_command(context, table)
        assert command is not None
        given = settings(table, command)
        for key, option in options_of(command).items():
            value, file = given.get(key) or Setting(_default(option))
            source = f"{whose[file]}: {file}" if file else "default"
            shown = f"{key} = {_written(value)}"
            say(f"# {key} is not set" if value is None else f"{shown:<28}  # {source}")


def _default(option: click.Option) -> Any:
    if option.is_flag:
        return False
    value = option.default() if callable(option.default) else option.default
    return value if isinstance(value, (str, int, float, bool)) else [] if option.multiple else None


def _written(value: Any) -> str:
    import json  # here: each command reads the files, and few write a value

    return json.dumps(value, ensure_ascii=False, default=str)
