"""The parsed rules, kept in the user's cache folder: a diagnosis need not read fifty YAML files again.

The key is every rule file's path, size and time of change, with the versions of slurmdoctor and Python.
What is kept are plain tuples and dicts in marshal's form, never a pickle (`usercache` keeps them).
"""

from __future__ import annotations

import marshal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from slurmdoctor import __version__
from slurmdoctor.knowledge.paths import files
from slurmdoctor.model import Cause, ExitFormat, Fix, Knowledge, LineFormat, RankLine, Rule, SecretKind, Signal, Text
from slurmdoctor.search import shapes, usercache

_SETTLED = 2.0
"""Seconds: a file changed within them might change again without its time showing it."""
_TABLES: Mapping[str, type[Any]] = {
    "formats": LineFormat,
    "paths": LineFormat,
    "rank_lines": RankLine,
    "signals": Signal,
    "exit_reports": ExitFormat,
    "texts": Text,
    "secrets": SecretKind,
}
"""The fields of Knowledge that hold entries of a table, and what an entry is."""
_KINDS: tuple[type[Any], ...] = (Cause, Rule, Fix, *dict.fromkeys(_TABLES.values()), Knowledge)
_NAMES = {kind: kind.__struct_fields__ for kind in _KINDS}
_EXAMPLES = ("match", "no_match", "samples")
_SHAPE = repr([(kind.__name__, _NAMES[kind]) for kind in _KINDS])


def key(folders: Sequence[Path]) -> str | None:
    """What the rules depend on; None where a file is too young, or cannot be looked at."""
    parts = [__version__, sys.version, _SHAPE]
    newest = 0.0
    try:
        for folder in folders:
            parts.append(f"\n{folder.absolute()}")
            for file in (*files(folder), Path(shapes.__file__)):  # it computes what is kept beside a pattern
                seen = file.stat()
                newest = max(newest, seen.st_mtime, seen.st_ctime)
                parts.append(f"{file}\0{seen.st_size}\0{seen.st_mtime_ns}\0{seen.st_ctime_ns}\0{seen.st_ino}")
    except OSError:
        return None
    if newest > time.time() - _SETTLED:
        return None
    return usercache.name_for("\n".join(parts).encode("utf-8", "surrogateescape"))


def get(key: str, examples: bool = True) -> Knowledge | None:
    data = usercache.get(_file(key, examples))
    try:
        return None if data is None else _unpack(marshal.loads(data))
    except (ValueError, EOFError, TypeError, KeyError):
        return None


def put(key: str, knowledge: Knowledge) -> None:
    for examples in (True, False):
        usercache.put(_file(key, examples), marshal.dumps(_pack(knowledge, examples)))


def without_examples(knowledge: Knowledge) -> Knowledge:
    """The same without the lines that prove it."""
    return _unpack(_pack(knowledge, examples=False))


def _file(key: str, examples: bool) -> str:
    return f"{key}.{'rules' if examples else 'bare'}"


# ── plain form ───────────────────────────────────────────────────────────────────────────────


def _pack(knowledge: Knowledge, examples: bool) -> dict[str, Any]:
    row = partial(_row, without=("rules", "fixes") if examples else ("rules", "fixes", *_EXAMPLES))
    return {
        "causes": [
            (row(cause), [row(rule) for rule in cause.rules], [row(fix) for fix in cause.fixes])
            for cause in knowledge.causes.values()
        ],
        "tables": {name: [row(entry) for entry in getattr(knowledge, name)] for name in _TABLES},
        "digit_sensitive": knowledge.digit_sensitive,
    }


def _unpack(kept: dict[str, Any]) -> Knowledge:
    causes = {}
    for row, rules, fixes in kept["causes"]:
        values = dict(zip(_NAMES[Cause], row, strict=True))
        values["rules"] = tuple(Rule(*rule) for rule in rules)
        values["fixes"] = tuple(Fix(*fix) for fix in fixes)
        cause = Cause(**values)
        causes[cause.id] = cause
    tables = {name: tuple(_TABLES[name](*row) for row in rows) for name, rows in kept["tables"].items()}
    return Knowledge(causes=causes, digit_sensitive=kept["digit_sensitive"], **tables)


def _row(entry: Any, without: Collection[str]) -> tuple[Any, ...]:
    """The fields of an entry in their order, but for some; a cause's rules and fixes are packed beside it."""
    return tuple(() if name in without else getattr(entry, name) for name in _NAMES[type(entry)])
