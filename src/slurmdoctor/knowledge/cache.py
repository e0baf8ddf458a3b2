"""The parsed rules, kept in the user's cache folder: a diagnosis need not read fifty YAML files again.

The key is every rule file's path, size and time of change, with the versions of slurmdoctor and Python.
What is kept are plain tuples and dicts in marshal's form, never a pickle, in a folder that only its owner
may write to. Whatever is wrong with the cache, the rules are read as if there were none.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from slurmdoctor import __version__
from slurmdoctor.knowledge.paths import files
from slurmdoctor.model import Cause, Fix, Knowledge, LineFormat, Rule, Signal

_SETTLED = 2.0
"""Seconds: a file changed within them might change again without its time showing it."""
_KEPT = 8
"""So many caches are kept: one for each set of rule folders, before and after an upgrade."""
_DIGEST = hashlib.sha256().digest_size
_KINDS = (Cause, Rule, Fix, LineFormat, Signal)
_NAMES = {kind: tuple(field.name for field in fields(kind)) for kind in _KINDS}
_SHAPE = repr([(kind.__name__, _NAMES[kind]) for kind in _KINDS])


def key(folders: Sequence[Path]) -> str | None:
    """What the rules depend on; None where a file is too young, or cannot be looked at."""
    parts = [__version__, sys.version, _SHAPE]
    newest = 0.0
    try:
        for folder in folders:
            parts.append(f"\n{folder.absolute()}")
            for file in files(folder):
                seen = file.stat()
                newest = max(newest, seen.st_mtime, seen.st_ctime)
                parts.append(f"{file}\0{seen.st_size}\0{seen.st_mtime_ns}\0{seen.st_ctime_ns}\0{seen.st_ino}")
    except OSError:
        return None
    if newest > time.time() - _SETTLED:
        return None
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def get(key: str) -> Knowledge | None:
    folder = _folder()
    if folder is None:
        return None
    try:
        handle = os.open(folder / f"{key}.rules", os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            if not _ours(os.fstat(handle)):
                return None
            data = file.read()
        digest, kept = data[:_DIGEST], data[_DIGEST:]
        if hashlib.sha256(kept).digest() != digest:
            return None
        return _unpack(marshal.loads(kept))
    except (OSError, ValueError, EOFError, TypeError, KeyError):
        return None


def put(key: str, knowledge: Knowledge) -> None:
    folder = _folder(make=True)
    if folder is None:
        return
    import tempfile  # slow to import, and needed only here

    kept = marshal.dumps(_pack(knowledge))
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(kept).digest() + kept)
            Path(name).replace(folder / f"{key}.rules")
        except OSError:
            Path(name).unlink()
        _sweep(folder)


def _sweep(folder: Path) -> None:
    kept = sorted(folder.glob("*.rules"), key=lambda file: file.stat().st_mtime, reverse=True)
    stale = [file for file in folder.glob(".new-*") if file.stat().st_mtime < time.time() - 3600]
    for file in (*kept[_KEPT:], *stale):
        file.unlink()


def _folder(make: bool = False) -> Path | None:
    """The cache's folder, if it is the user's own and nobody else may write to it."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
    if not base.startswith("/"):
        return None
    folder = Path(base, "slurmdoctor")
    try:
        if make:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _ours(folder.lstat()) and folder.is_dir() else None
    except OSError:
        return None


def _ours(seen: os.stat_result) -> bool:
    return seen.st_uid == os.geteuid() and not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


# ── plain form ───────────────────────────────────────────────────────────────────────────────


def _pack(knowledge: Knowledge) -> dict[str, Any]:
    return {
        "causes": [
            (_row(cause), [_row(rule) for rule in cause.rules], [_row(fix) for fix in cause.fixes])
            for cause in knowledge.causes.values()
        ],
        "formats": [_row(entry) for entry in knowledge.formats],
        "paths": [_row(entry) for entry in knowledge.paths],
        "signals": [_row(entry) for entry in knowledge.signals],
    }


def _unpack(kept: dict[str, Any]) -> Knowledge:
    causes = {}
    for row, rules, fixes in kept["causes"]:
        values = dict(zip(_NAMES[Cause], row, strict=True))
        values["rules"] = tuple(Rule(*rule) for rule in rules)
        values["fixes"] = tuple(Fix(*fix) for fix in fixes)
        cause = Cause(**values)
        causes[cause.id] = cause
    return Knowledge(
        causes=causes,
        formats=tuple(LineFormat(*row) for row in kept["formats"]),
        signals=tuple(Signal(*row) for row in kept["signals"]),
        paths=tuple(LineFormat(*row) for row in kept["paths"]),
    )


def _row(entry: Cause | Rule | Fix | LineFormat | Signal) -> tuple[Any, ...]:
    """The fields of an entry in their order; a cause's rules and fixes are packed beside it."""
    return tuple(None if name in ("rules", "fixes") else getattr(entry, name) for name in _NAMES[type(entry)])
