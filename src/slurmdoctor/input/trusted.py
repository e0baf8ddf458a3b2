"""Opens files for reading, through no link with which its owner could have us read what is another's."""

from __future__ import annotations

import os
import stat
from functools import cache

from slurmdoctor.input.unread import UnreadError, kind_of_file

_MOST_LINKS = 40
"""As many as Linux follows."""
_OF_KERNEL = ("/proc/", "/sys/")
"""Where files tell no size, and need not end."""


def open_regular(path: str) -> int:
    """A descriptor of a regular file. Raises OSError where it cannot be opened, and UnreadError where it is not to be read.

    A link counts, wherever on the way it lies, if it is root's, ours, or of the one who owns the file that it leads to.
    """
    # a pipe in the place of the file would wait for a writer
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        seen = os.fstat(handle)
        if (why := kind_of_file(seen.st_mode)) is not None:
            raise UnreadError(path, why)
        _prove(path, handle, frozenset({_root(), os.geteuid(), seen.st_uid}))
        os.set_blocking(handle, True)  # some archives answer "later" to who does not wait
    except BaseException:
        os.close(handle)
        raise
    return handle


@cache
def _root() -> int:
    """Root's number, which is another one in a container of a user's."""
    try:
        return os.stat("/proc/sys").st_uid  # noqa: PTH116
    except OSError:
        return 0


def _prove(path: str, handle: int, trusted: frozenset[int]) -> None:
    """Raise UnreadError where a link on the way is nobody's whom we trust: what is open then, not what is there by now."""
    try:
        real = os.readlink(f"/proc/self/fd/{handle}")  # noqa: PTH115
    except OSError:  # macOS
        real = None
    if real is not None and real.startswith(_OF_KERNEL):
        raise UnreadError(path, "device")
    if real != os.path.abspath(path):  # noqa: PTH100
        end = _end(path, trusted)
        if None not in (end, real) and end != real:
            raise UnreadError(path, "replaced")


def _end(path: str, trusted: frozenset[int]) -> str | None:
    """Where a path leads; None where the kernel's own links tell."""
    at, left, links = "" if path.startswith("/") else os.getcwd(), path.split("/")[::-1], 0  # noqa: PTH109
    while left:
        part = left.pop()
        here = f"{at}/{part}"
        if part == "..":
            at = at.rpartition("/")[0]
        elif part not in ("", ".") and not stat.S_ISLNK((status := os.lstat(here)).st_mode):
            at = here
        elif part not in ("", "."):
            links += 1
            if status.st_uid not in trusted or links > _MOST_LINKS:
                raise UnreadError(path, "foreign-link")
            if here.startswith(_OF_KERNEL):
                return None
            target = os.readlink(here)  # noqa: PTH115
            at = "" if target.startswith("/") else at
            left += target.split("/")[::-1]
    return at
