"""Files that are there whole or not at all, whatever happens while they are written."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from slurmdoctor.model import UserError


@contextmanager
def replacing(path: Path, scratch: Path, first: bool = False) -> Iterator[BinaryIO]:
    """A file to write in `scratch`, on the same disk; at the end it is in the place of `path`.

    With `first`, one that is there by then stays: of several writers the first one wins.
    """
    # a pattern that names all Parquet files of the dataset must not find it
    new = scratch / f"new-{token_hex(4)}-{path.parent.name}-{path.name}.part"
    try:
        with new.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (first and _linked(new, path)):
            new.replace(path)
        settle(path.parent)
    except OSError as error:
        raise unwritten(error, path) from error
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _linked(new: Path, path: Path) -> bool:
    """Whether a file is at `path` now, which was never replaced. Not every file system has links."""
    try:
        path.hardlink_to(new)
    except FileExistsError:
        return True
    except OSError:
        return False
    return True


def is_unfinished(name: str) -> bool:
    """Whether a file of this name is one that `replacing` writes, or wrote when it was killed."""
    return name.startswith("new-") and name.endswith(".part")


def unwritten(error: OSError, path: Path) -> UserError:
    """The system's error as a line that says what to do."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    mend = "make room there" if full else "check the folder, and that you may write there"
    return UserError(
        f"cannot write {path}: {error.strerror or error}",
        f"{mend}; the same command again goes on from what is written",
    )


def settle(folder: Path) -> None:
    """Let the disk have the names in a folder. Not every file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
