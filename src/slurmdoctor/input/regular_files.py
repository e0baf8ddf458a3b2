"""What is opened for reading, only a few files at a time and through no link that could trick us; and why a file was not read."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from collections import OrderedDict
from collections.abc import Iterable
from functools import cache
from typing import Literal

from slurmdoctor.model import Reason, UserError, reason

Why = Literal[
    "dangling", "loop", "denied", "missing", "vanished", "replaced", "shrunk", "damaged", "no-decoder", "binary", "pipe",
    "device", "socket", "folder", "broken", "too-long", "too-many", "too-large",
    "foreign-link",
]  # fmt: skip
"""`report/reasons.py` has the words for each."""
_SHOWN = 3
"""Names of files that a note shows for each reason."""
_OWNER = "run as the job's owner, or ask for a copy"
_LOG = "name the job's .out, .err or .log file"
_DISK = "copy the log to a disk that answers"
_ERRORS: dict[Why, tuple[str, str]] = {
    "dangling": ("{path} is a link to a file that is not there", "name the log itself"),
    "loop": ("{path} is a link that leads to itself", "name the log itself"),
    "denied": ("cannot read {path}: permission denied", _OWNER),
    "missing": ("no such file: {path}", "check the path"),
    "vanished": ("{path} vanished while it was read", "name where it is now"),
    "replaced": ("{path} was replaced while it was read", "read it again"),
    "binary": ("{path} is not a text log (binary data)", _LOG),
    "pipe": ("{path} is a pipe", _LOG),
    "device": ("{path} is a device or a file of the kernel's, not a log", _LOG),
    "socket": ("{path} is a socket, not a log", _LOG),
    "folder": ("{path} is a folder", "name it without a trailing component"),
    "damaged": ("cannot decompress {path}: {text}", "is the file whole? decompress it by hand to see"),
    "no-decoder": (
        "{path} is zstd-compressed, and no decoder is installed",
        "pip install backports.zstd, or: zstd -dc LOG | slurmdoctor diagnose -",
    ),
    "foreign-link": (
        "{path} is, or lies behind, a link of a user who does not own what it leads to",
        "name the log itself",
    ),
    "broken": ("cannot read {path}: {text}", _DISK),
    "too-long": ("the path is longer than a path can be", "name the log by a shorter way"),
}
_OF_ERRNO: dict[int | None, Why] = {
    errno.ENOENT: "missing", errno.ENOTDIR: "missing", errno.ELOOP: "loop", errno.EACCES: "denied",
    errno.EPERM: "denied", errno.EISDIR: "folder", errno.ENAMETOOLONG: "too-long",
}  # fmt: skip


class UnreadError(UserError):
    """A file, or the rest of one, that cannot be read."""

    def __init__(self, path: str, why: Why, text: str = "") -> None:
        what, mend = _ERRORS.get(why, _ERRORS["broken"])
        super().__init__(what.format(path=path, text=text), mend)
        self.path, self.why = path, why


def unread(path: str, error: OSError) -> UnreadError:
    """The system's error as one of ours."""
    why = _OF_ERRNO.get(error.errno, "broken")
    if why == "missing" and os.path.islink(path):  # noqa: PTH114
        why = "dangling"
    return UnreadError(path, why, error.strerror or str(error))


def kind_of_file(mode: int) -> Why | None:
    """Why a file of this mode is no log; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def notes(skipped: Iterable[UnreadError], cut: Iterable[UnreadError]) -> tuple[Reason, ...]:
    """For the coverage: which files were not read, and of which only a part."""
    lines = (("files-not-read", list(skipped)), ("files-read-in-part", list(cut)))
    return tuple(reason(code, count=len(errors), kinds=_kinds(errors)) for code, errors in lines if errors)


def _kinds(errors: Iterable[UnreadError]) -> tuple[tuple[Why, int, tuple[str, ...]], ...]:
    """(why, number of files, the names of the first ones), the most frequent first."""
    names: dict[Why, list[str]] = {}
    for error in errors:
        names.setdefault(error.why, []).append(error.path.rstrip("/").rpartition("/")[2] or error.path)
    kinds = [(why, len(found), tuple(found[:_SHOWN])) for why, found in names.items()]
    return tuple(sorted(kinds, key=lambda kind: -kind[1]))


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


_MOST = 128
"""Files that stay open; a quarter of what the process may open, where that is fewer."""
_USED_UP = (errno.EMFILE, errno.ENFILE)


class File:
    """A regular file. What it held when it was opened first is read, or nothing: never another one of its name."""

    def __init__(self, path: str, handles: Handles) -> None:
        self.path = path
        self._handles = handles
        self._identity: tuple[int, int] | None = None
        self.status = os.fstat(handles.of(self))

    def pread(self, size: int, at: int) -> bytes:
        """Bytes from this offset; fewer at the end. Raises UnreadError where that cannot be."""
        try:
            return os.pread(self._handles.of(self), size, at)
        except OSError as error:
            raise unread(self.path, error) from None

    def after_hole(self, at: int) -> int:
        """The first offset from here on at which the disk holds anything."""
        try:
            return os.lseek(self._handles.of(self), at, os.SEEK_DATA)
        except (OSError, AttributeError):  # no data behind it, or a disk that does not tell
            return at

    def open(self) -> int:
        """A new descriptor of the file."""
        try:
            handle = open_regular(self.path)
        except OSError as error:
            if error.errno in _USED_UP:
                raise
            raise UnreadError(self.path, "vanished") if self._identity else unread(self.path, error) from None
        try:
            seen = os.fstat(handle)
            if self._identity not in (None, (seen.st_dev, seen.st_ino)):
                raise UnreadError(self.path, "replaced")
            self._identity = seen.st_dev, seen.st_ino
        except BaseException:
            os.close(handle)
            raise
        return handle

    def close(self) -> None:
        self._handles.close(self)


class Handles:
    """The descriptors of the files that were read last."""

    def __init__(self) -> None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = _MOST if soft == resource.RLIM_INFINITY else max(1, min(_MOST, soft // 4))
        self._open: OrderedDict[File, int] = OrderedDict()

    def of(self, file: File) -> int:
        """The file's descriptor; another one may be closed for it."""
        handle = self._open.get(file)
        if handle is not None:
            self._open.move_to_end(file)
            return handle
        while len(self._open) >= self._most:
            self._close_one()
        while True:
            try:
                handle = self._open[file] = file.open()
                return handle
            except OSError as error:  # others of this process hold the rest
                if error.errno not in _USED_UP or not self._open:
                    raise
                self._close_one()

    def close(self, file: File) -> None:
        if (handle := self._open.pop(file, None)) is not None:
            _close(handle)

    def _close_one(self) -> None:
        _close(self._open.popitem(last=False)[1])


def _close(handle: int) -> None:
    with contextlib.suppress(OSError):
        os.close(handle)
