"""Reads and writes small files in the user's cache folder. Whatever is wrong with one, the program works as if it were not there.

Each file begins with a digest of what follows. The folder and the files must be the user's own, and nobody else may
write to them. Files are written aside and renamed, so that a program that starts meanwhile does not see half of one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

try:
    # the same as hashlib's, which loads OpenSSL first: that takes longer than all that we hash
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

_DIGEST = 32
_KEPT = 8
"""So many files of each kind are kept: one for each set of rule folders, before and after an upgrade."""


def name_for(data: bytes) -> str:
    """A file's name for what depends on this."""
    return _digest(data).hex()[:32]


def get(name: str) -> bytes | None:
    """What was put under this name; None where it is not there, not ours, or not whole."""
    folder = _folder()
    if folder is None:
        return None
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, "rb") as file:
            data = file.read() if _ours(os.fstat(handle)) else b""
    except OSError:
        return None
    kept = data[_DIGEST:]
    return kept if data and _digest(kept) == data[:_DIGEST] else None


def put(name: str, data: bytes) -> None:
    """Keep data under this name, if that can be done."""
    folder = _folder(make=True)
    if folder is None:
        return
    import tempfile  # slow to import, and needed only here

    with contextlib.suppress(OSError):
        handle, aside = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_digest(data) + data)
            Path(aside).replace(folder / name)
        except OSError:
            Path(aside).unlink()
        _sweep(folder, Path(name).suffix)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


def _sweep(folder: Path, kind: str) -> None:
    kept = sorted(folder.glob(f"*{kind}"), key=lambda file: file.stat().st_mtime, reverse=True)
    stale = [file for file in folder.glob(".new-*") if file.stat().st_mtime < time.time() - 3600]
    for file in (*kept[_KEPT:], *stale):
        file.unlink()


def _folder(make: bool = False) -> Path | None:
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
