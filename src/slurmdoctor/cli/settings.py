"""The config files: defaults of options, from the site's file and the user's, never from the working folder."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

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


class Setting(NamedTuple):
    """A value, and where it is from."""

    value: Any
    file: str | None = None
    line: int | None = None


class Place(NamedTuple):
    """A file that is looked for."""

    whose: str
    path: str
    required: bool = False


def places(environ: Mapping[str, str] = os.environ) -> list[Place]:
    """The files in the order of reading: a later one is stronger."""
    named = environ.get(VARIABLE)
    if named:
        return [] if named == os.devnull else [Place("environment", os.path.expanduser(named), True)]  # noqa: PTH111
    configured = environ.get("XDG_CONFIG_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.config")  # noqa: PTH111
    return [Place("site", SITE), Place("user", f"{base}/slurmdoctor/slurmdoctor.toml")]


def defaults(name: str, command: click.Command) -> dict[str, Any]:
    """click's default_map of a command: its options' values by click's names."""
    if isinstance(command, click.Group):
        inner = {
            one: command.get_command(click.Context(command), one)
            for one in command.list_commands(click.Context(command))
        }
        return {one: defaults("", found) for one, found in inner.items() if found is not None}
    chosen = settings(
        name, command, [place.path for place in places() if place.required or os.path.lexists(place.path)]
    )
    options = options_of(command)
    return {str(options[key].name): setting.value for key, setting in chosen.items()}


def settings(name: str, command: click.Command, files: Iterable[str]) -> dict[str, Setting]:
    """What the files set for a command's options, by the options' names. Raises a UserError for a wrong file."""
    options, found = options_of(command), {}
    for path in files:
        read = _File(path)
        for table in ("", name) if name in TABLES else ("",):
            for key, value, line in read.rows(table):
                if key in options:
                    found[key] = Setting(read.value(table, key, value, options[key]), path, line)
                elif table:
                    read.refuse_key(table, key, options)
    return found


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
            if isinstance(value, dict):
                if key not in TABLES:
                    self._refuse_name(key, "", TABLES, "table")
            elif _hyphened(key) not in SHARED:
                mend = f"put it below [diagnose]; above the tables only {' and '.join(SHARED)} can stand"
                self._refuse("", key, f"`{key}` belongs to no command here", self._near(key, SHARED) or mend)

    def rows(self, table: str) -> Iterator[tuple[str, Any, int | None]]:
        """(key, value, line) of a table; of the keys above all tables without a name."""
        rows = self._tables.get(table, {}) if table else self._tables
        for key, value in rows.items():
            if table or not isinstance(value, dict):
                yield _hyphened(key), value, self._line(table, key)

    def value(self, table: str, key: str, value: Any, option: click.Option) -> Any:
        """A value as click takes it."""
        kind, wanted = option.type, ""
        if option.multiple:
            value = [value] if isinstance(value, str) else value
            if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
                wanted = 'a list of texts: ["..."]'
        elif option.is_flag:
            wanted = "" if isinstance(value, bool) else "true or false"
        elif isinstance(kind, click.Choice):
            choices = ", ".join(kind.choices)
            guess = self._near(str(value), list(kind.choices))
            wanted = "" if value in kind.choices else f"one of {choices}" + (f"; {guess}" if guess else "")
        elif isinstance(kind, (click.IntRange, click.FloatRange)):
            numbers = (int,) if isinstance(kind, click.IntRange) else (int, float)
            fits = isinstance(value, numbers) and not isinstance(value, bool)
            fits = fits and (kind.min is None or value >= kind.min) and (kind.max is None or value <= kind.max)
            wanted = "" if fits else f"a number from {kind.min} to {kind.max}"
        elif not isinstance(value, str):
            wanted = 'a text: "..."'
        if wanted:
            self._refuse(table, key, f"`{key}` cannot be {toml(value)}", f"give {wanted}")
        return [self._beside(one) for one in value] if option.multiple and isinstance(kind, click.Path) else value

    def refuse_key(self, table: str, key: str, options: Iterable[str]) -> None:
        if key in _OF_ONE_CALL:
            self._refuse(table, key, f"`{key}` is of one call", f"give it on the command line: --{key}")
        self._refuse_name(key, table, list(options), "key")

    def _refuse_name(self, key: str, table: str, known: Sequence[str], kind: str) -> None:
        where = f" in [{table}]" if table else ""
        self._refuse(
            table, key, f"there is no {kind} `{key}`{where}", self._near(key, known) or f"one of {', '.join(known)}"
        )

    def _near(self, word: str, known: Sequence[str]) -> str:
        from slurmdoctor.knowledge import nearest

        guess = nearest(word.lower(), known)
        return f"did you mean `{guess}`?" if guess else ""

    def _refuse(self, table: str, key: str, what: str, mend: str) -> None:
        line = self._line(table, key)
        raise UserError(f"{self.path}:{line}: {what}" if line else f"{self.path}: {what}", mend)

    def _read(self) -> str:
        from slurmdoctor.knowledge import data_of

        try:
            text = data_of(self.path)
            seen, around = os.stat(self.path), os.stat(os.path.dirname(os.path.realpath(self.path)))  # noqa: PTH116, PTH120
        except OSError as error:
            mend = f"check it, or unset {VARIABLE}" if os.environ.get(VARIABLE) else "fix its permissions, or remove it"
            raise UserError(f"{self.path}: {error.strerror}", mend) from None
        sticky = around.st_mode & stat.S_ISVTX
        if seen.st_mode & stat.S_IWOTH or (around.st_mode & stat.S_IWOTH and not sticky):
            raise UserError(f"{self.path} is not read: every user may write to it", "chmod o-w the file and its folder")
        if seen.st_uid not in (0, os.geteuid()):
            raise UserError(
                f"{self.path} is not read: it is another user's", f"use a file of your own, or set {VARIABLE}=/dev/null"
            )
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

    def _line(self, table: str, key: str) -> int | None:
        """The line of a key, or of a table's head."""
        here, name = "", "[-_]".join(map(re.escape, _hyphened(key).split("-")))
        for number, line in enumerate(self._text.splitlines(), 1):
            head = re.match(r"\s*\[\s*([\w.-]+)", line)
            here = head[1] if head else here
            if (head and not table and here == key) or (
                here == table and re.match(rf"\s*[\"']?{name}[\"']?\s*=", line)
            ):
                return number
        return None

    def _beside(self, path: str) -> str:
        """A path as the file means it: `~` is the user's home, and what is relative stands beside the file."""
        return str(Path(self.path).parent / Path(path).expanduser()) if path else path


def _hyphened(key: str) -> str:
    return key.replace("_", "-")


def toml(value: Any) -> str:
    """A value as TOML has it."""
    import json

    return json.dumps(value, ensure_ascii=False, default=str)
