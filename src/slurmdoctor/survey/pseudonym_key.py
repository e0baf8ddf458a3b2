"""The user's own key for pseudonyms: made at first use, in the config folder, for nobody else's eyes, and never inside a dataset."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from slurmdoctor.model import UserError

_SIZE = 32
"""Bytes."""
_NAME = "pseudonyms.key"


def key() -> bytes:
    """The key. Raises UserError where it cannot be read or made, or where others can read it."""
    path = place()
    try:
        if not os.path.lexists(path):
            _make(path)
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            _prove(path, status)
            text = file.read(2 * _SIZE + 2).decode("ascii", "replace").strip()
    except OSError as error:
        mend = "make it readable and writable for you, or set XDG_CONFIG_HOME to another folder"
        raise UserError(f"the key of the pseudonyms, {path}, cannot be used: {error.strerror}", mend) from None
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _SIZE:
        raise UserError(
            f"{path} is no key of slurmdoctor's", "remove it for a new one, with which all pseudonyms are others"
        )
    return found


def place() -> Path:
    """Where the key lies."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.config")  # noqa: PTH111 - never raises
    return Path(base, "slurmdoctor", _NAME)


def _prove(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise UserError(f"{path} is not a file of yours", "remove it, or set XDG_CONFIG_HOME to a folder of yours")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UserError(
            f"others may read {path}, and tell names from pseudonyms with it",
            f"if nobody did, run chmod 600 {path}; else remove it for a new one",
        )


def _make(path: Path) -> None:
    """Write it aside and give it its name at once: of two runs at the same time both use the one that came first."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    aside = path.with_name(f".{_NAME}-{secrets.token_hex(8)}")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_hex(_SIZE).encode() + b"\n")
            file.flush()
            os.fsync(handle)
        with suppress(FileExistsError):
            path.hardlink_to(aside)
    finally:
        aside.unlink()
