"""`slurmdoctor config`: each setting that holds, and where it is from."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from slurmdoctor.cli.say import say
from slurmdoctor.cli.settings import TABLES, Place, Setting, options_of, places, settings, toml

VARIABLES = {
    "SLURMDOCTOR_CONFIG": "The one config file that is read; /dev/null for none.",
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


@click.command(short_help="Show the settings, and where each is from.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print them.")
@click.pass_context
def config(context: click.Context, form: str) -> None:
    """Show each setting that holds, and where it is from: the default, the site's file, the user's, or a variable.

    The text is a config file: it can be saved as one. Options on the command line are stronger than any file.
    """
    root = context.find_root().command
    looked = places()
    read = [place.path for place in looked if place.required or os.path.lexists(place.path)]
    tables: dict[str, dict[str, Setting]] = {}
    for name in TABLES:
        command = root.get_command(context, name) if isinstance(root, click.Group) else None
        if command is not None:
            given = settings(name, command, read)
            plain = {key: Setting(_default(option)) for key, option in options_of(command).items()}
            tables[name] = {key: given.get(key, setting) for key, setting in plain.items()}
    whose = {place.path: place.whose for place in looked}
    if form == "json":
        say(json.dumps(_document(looked, read, tables, whose), indent=1))
    else:
        say("\n".join(_lines(looked, read, tables, whose)))


def _default(option: click.Option) -> Any:
    if option.is_flag:
        return False
    value = option.default() if callable(option.default) else option.default
    return value if isinstance(value, (str, int, float, bool)) else [] if option.multiple else None


def _lines(
    looked: list[Place], read: list[str], tables: dict[str, dict[str, Setting]], whose: dict[str, str]
) -> list[str]:
    lines = [f"# {place.path}: {'read' if place.path in read else 'not there'} ({place.whose})" for place in looked]
    lines += ["# no file is read: SLURMDOCTOR_CONFIG says so"] if not looked else []
    lines += [f"# {name}={os.environ[name]} (environment)" for name in VARIABLES if os.environ.get(name)]
    for name, rows in tables.items():
        lines += ["", f"[{name}]"]
        for key, (value, file, line) in rows.items():
            source = "default" if file is None else f"{whose[file]}: {file}:{line}"
            told = f"# {key} is not set" if value is None else f"{key} = {toml(value)}"
            lines.append(f"{told:<28}  # {source}" if value is not None else told)
    return lines


def _document(
    looked: list[Place], read: list[str], tables: dict[str, dict[str, Setting]], whose: dict[str, str]
) -> dict[str, Any]:
    return {
        "files": [{"path": place.path, "from": place.whose, "read": place.path in read} for place in looked],
        "environment": {name: os.environ[name] for name in VARIABLES if os.environ.get(name)},
        "settings": [
            {
                "table": name,
                "key": key,
                "value": value,
                "from": whose[file] if file else "default",
                "file": file,
                "line": line,
            }
            for name, rows in tables.items()
            for key, (value, file, line) in rows.items()
        ],
    }
