"""The config files: defaults of options, from the site's file and the user's, never from the working folder; `slurmdoctor config`."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
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
    {"job", "job-id", "slurm-info", "script", "exit-status", "output", "beside-log", "note", "status", "shell-pid"}
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
    """A value, and where it is from."""

    value: Any
    file: str | None = None
    line: int | None = None


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
        context = click.Context(command)
        inner = {one: command.get_command(context, one) for one in command.list_commands(context)}
        return {one: defaults("", found) for one, found in inner.items() if found is not None}
    options = options_of(command)
    return {str(options[key].name): setting.value for key, setting in settings(name, command).items()}


def settings(name: str, command: click.Command) -> dict[str, Setting]:
    """What the files set for a command's options, by the options' names. Raises a UserError for a wrong file."""
    options, found = options_of(command), {}
    for path in _there():
        read = _File(path)
        for table in ("", name) if name in TABLES else ("",):
            for key, value in read.rows(table).items():
                if key in options:
                    found[key] = Setting(read.value(table, key, value, options[key]), path, read.line(table, key))
                elif key in _OF_ONE_CALL:
                    read.refuse(table, key, f"`{key}` is of one call", f"give it on the command line: --{key}")
                elif table:
                    read.refuse(table, key, f"there is no key `{key}` in [{table}]", _of(key, list(options)))
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


class _File:
    """A config file. Whatever is wrong with it is one line: its name, the line, what is wrong, and what to do."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._text = self._read()
        self._tables = self._parsed()
        for key, value in self._tables.items():
            if isinstance(value, dict) and key not in TABLES:
                self.refuse(key, "", f"there is no table `{key}`", _of(key, TABLES))
            elif not isinstance(value, dict) and key not in SHARED:
                self.refuse(
                    "", key, f"`{key}` belongs to no command here", f"put it below [diagnose], or {_of(key, SHARED)}"
                )

    def rows(self, table: str) -> dict[str, Any]:
        """The keys of a table; without a name those above all tables."""
        rows = self._tables.get(table, {}) if table else self._tables
        return {key.replace("_", "-"): value for key, value in rows.items() if table or not isinstance(value, dict)}

    def value(self, table: str, key: str, value: Any, option: click.Option) -> Any:
        """A value as click takes it; a path is `~`, or stands beside the file."""
        given = [value] if option.multiple and not isinstance(value, list) else value
        try:
            taken = option.type_cast_value(click.Context(click.Command("")), given)
            if isinstance(option.type, click.Path):
                return [str(Path(self.path).parent / Path(one).expanduser()) for one in taken]
        except (click.BadParameter, TypeError) as error:
            why = error.message if isinstance(error, click.BadParameter) else 'a list of texts is wanted: ["..."]'
            self.refuse(table, key, f"`{key}` cannot be {_written(value)}", why)
        return taken

    def refuse(self, table: str, key: str, what: str, mend: str) -> None:
        """Raise a UserError on a key, or on a table."""
        line = self.line(table, key)
        raise UserError(f"{self.path}:{line}: {what}" if line else f"{self.path}: {what}", mend)

    def _read(self) -> str:
        from slurmdoctor.knowledge import data_of

        try:
            text = data_of(self.path)
            seen, around = os.stat(self.path), os.stat(os.path.dirname(os.path.realpath(self.path)))  # noqa: PTH116, PTH120
        except OSError as error:
            raise UserError(f"{self.path}: {error.strerror}", f"check it, or set {VARIABLE}=/dev/null") from None
        sticky = around.st_mode & stat.S_ISVTX
        if seen.st_mode & stat.S_IWOTH or (around.st_mode & stat.S_IWOTH and not sticky):
            raise UserError(f"{self.path} is not read: every user may write to it", "chmod o-w the file and its folder")
        if seen.st_uid not in (0, os.geteuid()):
            mend = f"use a file of your own, or set {VARIABLE}=/dev/null"
            raise UserError(f"{self.path} is not read: it is another user's", mend)
        try:
            return text.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise UserError(f"{self.path} is no text in UTF-8", "save it as UTF-8") from None

    def _parsed(self) -> dict[str, Any]:
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        try:
            return tomllib.loads(self._text)
        except tomllib.TOMLDecodeError as error:
            found = re.search(r"^(.*?) \(at line (\d+)", str(error))
            what, line = (found[1], f":{found[2]}") if found else (str(error), "")
            raise UserError(f"{self.path}{line}: it is no TOML: {what}", 'write such as: format = "json"') from None

    def line(self, table: str, key: str) -> int | None:
        """The line of a key, or of a table's head: the parser tells none."""
        here, name = "", re.escape(key).replace(r"\-", "[-_]")
        for number, line in enumerate(self._text.splitlines(), 1):
            head = re.match(r"\s*\[\s*([\w.-]+)", line)
            here = head[1] if head else here
            if here == table and (not key or re.match(rf"\s*[\"']?{name}[\"']?\s*=", line)):
                return number
        return None


def _of(word: str, known: Sequence[str]) -> str:
    from slurmdoctor.knowledge import nearest

    guess = nearest(word.lower(), known)
    return f"did you mean `{guess}`?" if guess else f"one of {', '.join(known)}"


@click.command(short_help="Show the settings, and where each is from.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="How to print them.")
@click.pass_context
def config(context: click.Context, form: str) -> None:
    """Show each setting that holds, and where it is from: the default, the site's file, the user's, or a variable.

    The text is a config file: it can be saved as one. Options on the command line are stronger than any file.
    """
    root = context.find_root().command
    assert isinstance(root, click.Group)
    whose, read = places(), _there()
    rows = []
    for table in TABLES:
        command = root.get_command(context, table)
        assert command is not None
        given = settings(table, command)
        for key, option in options_of(command).items():
            value, file, line = given.get(key) or Setting(_default(option))
            source = whose[file] if file else "default"
            rows.append({"table": table, "key": key, "value": value, "from": source, "file": file, "line": line})
    document = {
        "files": [{"path": path, "from": who, "read": path in read} for path, who in whose.items()],
        "environment": {name: os.environ[name] for name in VARIABLES if os.environ.get(name)},
        "settings": rows,
    }
    say(_written(document, indent=1) if form == "json" else "\n".join(_lines(document)))


def _written(value: Any, **how: Any) -> str:
    import json  # here: each command reads the files, and few write a value

    return json.dumps(value, ensure_ascii=False, default=str, **how)


def _default(option: click.Option) -> Any:
    if option.is_flag:
        return False
    value = option.default() if callable(option.default) else option.default
    return value if isinstance(value, (str, int, float, bool)) else [] if option.multiple else None


def _lines(document: dict[str, Any]) -> list[str]:
    lines = [f"# {one['path']}: {'read' if one['read'] else 'not there'} ({one['from']})" for one in document["files"]]
    lines += [f"# {name}={value} (environment)" for name, value in document["environment"].items()]
    table = ""
    for row in document["settings"]:
        if row["table"] != table:
            table = row["table"]
            lines += ["", f"[{table}]"]
        source = f"{row['from']}: {row['file']}:{row['line']}" if row["file"] else "default"
        told = f"{row['key']} = {_written(row['value'])}"
        lines.append(f"# {row['key']} is not set" if row["value"] is None else f"{told:<28}  # {source}")
    return lines
