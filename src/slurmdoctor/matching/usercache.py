"""Reads and writes small files that are slow to make: those in the user's cache folder, else those that the wheel brings.

A file's name says what its content was made of, its first bytes whether it is whole: one with any defect counts as not there.
The user's folder and the files in it must be the user's own, and nobody else may write to them. Files are written aside and renamed, so
that a program that starts meanwhile does not see half of one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from typing import TYPE_CHECKING
from zlib import crc32

try:
    # the same as hashlib's, which loads OpenSSL first: that takes longer than all that we hash
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

if TYPE_CHECKING:
    from pathlib import Path

READY = os.path.join(os.path.dirname(__file__), "ready")  # noqa: PTH118, PTH120 - a path is made at every start
"""What `hatch_build.py` made for the wheel, in files as the user's cache holds them."""
_SIZE, _CHECK = 8, 12
"""Bytes of the content's length, and of that and its checksum: both stand before it."""
_KEPT = 8
"""So many files of each kind are kept: one for each set of rule folders, before and after an upgrade."""
_LARGEST = 1 << 24
"""Bytes of a file that is believed: ours have less than one million."""


def name_for(data: bytes) -> str:
    """A file's name for what depends on this."""
    return blake2b(data, digest_size=16).hexdigest()


def get(name: str) -> bytes | None:
    """What was put under this name or came with the program; None where it is not there, not ours, or not whole."""
    folder = _folder()
    found = None if folder is None else _read(f"{folder}/{name}", own=True)
    return _read(f"{READY}/{name}", own=False) if found is None else found


def put(name: str, data: bytes) -> None:
    """Keep data under this name, if that can be done."""
    folder = _folder(make=True)
    if folder is None:
        return
    import tempfile  # slow to import, as pathlib, and needed only here
    from pathlib import Path

    with contextlib.suppress(OSError):
        handle, aside = tempfile.mkstemp(dir=folder, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_size(data) + _sum(data) + data)
            Path(aside).replace(f"{folder}/{name}")
        except OSError:
            Path(aside).unlink()
        _sweep(Path(folder), Path(name).suffix)


def _read(path: str, own: bool) -> bytes | None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(handle, "rb", buffering=0) as file:
            seen = os.fstat(handle)
            usual = stat.S_ISREG(seen.st_mode) and seen.st_size <= _LARGEST and (_ours(seen) or not own)
            head, kept = (file.read(_CHECK), file.read()) if usual else (b"", b"")
    except OSError:
        return None
    whole = head[:_SIZE] == _size(kept)
    # what was installed was proven then, and to prove a megabyte at each start takes a hundredth of it
    return kept if whole and (not own or head[_SIZE:] == _sum(kept)) else None


def _size(data: bytes) -> bytes:
    return len(data).to_bytes(_SIZE, "little")


def _sum(data: bytes) -> bytes:
    return crc32(data).to_bytes(_CHECK - _SIZE, "little")


def _sweep(folder: Path, kind: str) -> None:
    kept = sorted(folder.glob(f"*{kind}"), key=lambda file: file.stat().st_mtime, reverse=True)
    stale = [file for file in folder.glob(".new-*") if file.stat().st_mtime < time.time() - 3600]
    for file in (*kept[_KEPT:], *stale):
        file.unlink()


def _folder(make: bool = False) -> str | None:
    configured = os.environ.get("XDG_CACHE_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.cache")  # noqa: PTH111 - never raises
    if not base.startswith("/"):
        return None
    folder = f"{base}/slurmdoctor"
    try:
        if make:
            os.makedirs(base, exist_ok=True)  # noqa: PTH103
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, mode=0o700)  # noqa: PTH102
        return folder if _ours(os.lstat(folder)) and os.path.isdir(folder) else None  # noqa: PTH112
    except OSError:
        return None


def _ours(seen: os.stat_result) -> bool:
    return seen.st_uid == os.geteuid() and not seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
