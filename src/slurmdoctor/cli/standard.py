"""The standard streams, which may be closed, full or broken."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from typing import IO

from slurmdoctor.model import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def open_closed() -> None:
    """Take the numbers of those that are closed, lest a log gets them; what is written to them fails, or is lost."""
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # it gets the lowest number that is free: this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def stdin() -> IO[bytes]:
    """Standard input's bytes."""
    if sys.stdin is None:
        raise UserError("standard input is closed", "name a file")
    return sys.stdin.buffer


def leave(stream: IO[str]) -> None:
    """Lose what could not be written to it: at its end Python would try again, and report that."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        stream.flush()


def told(error: OSError) -> UserError:
    """An error of the system, as a line with what to do."""
    why = error.strerror or str(error)
    if error.filename is not None:
        return UserError(f"{error.filename}: {why}", "check the file and its folder")
    if error.errno == errno.EBADF:
        leave(sys.stdout)
        return UserError("standard output is closed", "the report needs a place to go to")
    if error.errno in _FULL:
        leave(sys.stdout)
        return UserError(f"the report cannot be written: {why}", "free some room, or write it to another place")
    return UserError(why, "SLURMDOCTOR_DEBUG=1 shows where")
