"""Reads files at will, of which only a few are open at a time: a job may leave more than a process may open."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections import OrderedDict

from slurmdoctor.input.trusted import open_regular
from slurmdoctor.input.unread import UnreadError, unread

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
            raise self._gone() if self._identity else unread(self.path, error) from None
        try:
            seen = os.fstat(handle)
            if self._identity not in (None, (seen.st_dev, seen.st_ino)):
                raise UnreadError(self.path, "replaced")
            self._identity = seen.st_dev, seen.st_ino
        except BaseException:
            os.close(handle)
            raise
        return handle

    def _gone(self) -> UnreadError:
        return UnreadError(self.path, "vanished")

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
