"""Opens the logs that paths name, standard input too, whatever their compression and encoding."""

from __future__ import annotations

import io
import math
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from slurmdoctor.input.decode import decoded, kind_of
from slurmdoctor.input.descriptors import File, Handles
from slurmdoctor.input.files import did_you_mean, expand
from slurmdoctor.input.sources import Held, Source
from slurmdoctor.input.spool import Spool
from slurmdoctor.input.streams import Pipe, Stream, Streamed
from slurmdoctor.input.unread import UnreadError, kind_of_file, unread
from slurmdoctor.model import LogNotFoundError, UserError

_HEAD = 4096
_SMALL = 64 * 1024
"""Bytes of a file that is read whole at once,"""
_HELD = 32 * 1024 * 1024
"""and of all such files together."""
_FAR = 1024 * 1024
"""Bytes of a pipe that are looked at for the text behind a hole,"""
_STEPS = 1024
"""and pieces of a file."""
_FEW = 32
"""Compressed logs that stay open between a look at their heads and their reading."""
_STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_OF_SHELL = ("/dev/fd/", "/proc/self/fd/")
_PATIENCE = 2.0
"""Seconds for somebody to write to a pipe that is named among other files."""


class Opened(Struct, frozen=True):
    """The logs, and the files that could not be opened."""

    sources: list[Source]
    skipped: tuple[UnreadError, ...] = ()


def open_sources(paths: Sequence[str | os.PathLike[str]], *, among_others: bool = False) -> Opened:
    """Open everything that the paths name: files, folders, globs, `-` for standard input.

    Raises UserError, with what to do, where nothing readable is there, and for a name that nothing has.
    """
    named = {os.fspath(path) for path in paths}
    found = expand(paths)
    opening = _Opening(named, len(found.paths) > _FEW, among_others or len(named) > 1)
    skipped = list(found.skipped)
    sources: list[Source] = []
    try:
        for path in found.paths:
            try:
                sources.append(opening.source(path))
            except UnreadError as error:
                if error.why == "missing" and path in named:
                    raise LogNotFoundError(error.message, did_you_mean(path)) from None
                skipped.append(error)
    except BaseException:
        for source in sources:
            source.close()
        raise
    if not sources:
        raise _nothing(skipped)
    return Opened(sources, tuple(skipped))


def _nothing(skipped: Sequence[UnreadError]) -> UserError:
    first = skipped[0]
    if len(skipped) == 1:
        return first
    return UserError(f"none of {len(skipped)} files can be read; the first one: {first.message}", first.mend)


class _Opening:
    """What the sources of one job share."""

    def __init__(self, named: set[str], many: bool, among_others: bool) -> None:
        self._named, self._many, self._among_others = named, many, among_others
        self._handles = Handles()
        self._spool = Spool()
        self._room = _HELD

    def source(self, path: str) -> Source:
        """Open one log. Raises UnreadError."""
        if path in _STDIN:
            return self._stdin()
        try:
            seen = Path(path).stat()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise unread(path, error if isinstance(error, OSError) else OSError(str(error))) from None
        why = kind_of_file(seen.st_mode)
        if why is None:
            return self._file(path)
        if path in self._named and why == "pipe":
            return self._pipe(path)
        if path in self._named and why == "device" and seen.st_rdev == Path(os.devnull).stat().st_rdev:
            return Source(path, path, 0, Held(b""))
        raise UnreadError(path, why)

    def _file(self, path: str) -> Source:
        file = File(path, self._handles)
        size = file.status.st_size
        if 0 < size <= min(_SMALL, self._room):
            data = file.pread(size, 0)
            file.close()
            self._room -= len(data)
            kind = _kind(path, data[:_HEAD], data)
            if kind is None:
                return Source(path, path, len(data), Held(data))
            text = _whole(decoded(kind, Pipe(path, io.BytesIO(data).read), path))
            if text is not None and len(text) <= self._room and kind_of(text[:_HEAD]) is None:
                self._room -= len(text)
                return Source(path, path, len(text), Held(text))
            return self._streamed(path, lambda: Pipe(path, io.BytesIO(data).read), kind)
        head = file.pread(_HEAD, 0)
        if size == 0:  # an empty file; but some file systems only say that it is, of what may have no end
            file.close()
            return self._streamed(path, lambda: _again(file, _HELD)) if head else Source(path, path, 0, Held(b""))
        kind = _kind(path, head, file)
        if kind is None:
            return Source(path, path, size, file)
        file.close()
        return self._streamed(path, lambda: _again(file), kind)

    def _pipe(self, path: str) -> Source:
        try:
            stream = io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            raise unread(path, error) from None
        # a shell's `logs/*` names a pipe that nobody writes to, too; what the shell opened itself has its writer
        wait = _PATIENCE * 1000 if self._among_others and not path.startswith(_OF_SHELL) else None
        writer = select.poll()
        writer.register(stream, select.POLLIN)
        if not writer.poll(wait):
            stream.close()
            raise UnreadError(path, "pipe")
        os.set_blocking(stream.fileno(), True)
        return self._piped(path, Pipe(path, stream.read, stream.close))

    def _stdin(self) -> Source:
        if sys.stdin is None:
            raise UserError("standard input is closed", "name the job's log")
        stream = sys.stdin.buffer
        if stream.isatty():
            raise UserError(
                "standard input is a terminal", "name the job's log, or pipe it in: slurmdoctor diagnose < job.log"
            )
        return self._piped("-", Pipe("standard input", getattr(stream, "read1", stream.read)))

    def _piped(self, path: str, pipe: Pipe) -> Source:
        head = pipe.peek(_FAR)
        kind = _kind(pipe.name, head, head)
        stream = pipe if kind is None else decoded(kind, pipe, pipe.name)
        return Source(path, None if path == "-" else path, None, Streamed(pipe.name, lambda: stream, self._spool))

    def _streamed(self, path: str, begin: Callable[[], Stream], kind: str | None = None) -> Source:
        """A file that is read front to back. Its head is read now, for the damaged ones to be known."""

        def text() -> Stream:
            return begin() if kind is None else decoded(kind, begin(), path)

        streamed = Streamed(path, text, self._spool, again=self._many)
        head = streamed.peek(_HEAD)
        if streamed.fault is not None and not head:
            raise streamed.fault
        if kind_of(head) == "binary":
            streamed.close()
            raise UnreadError(path, "binary")
        return Source(path, path, None, streamed)


def _whole(stream: Stream) -> bytes | None:
    """A small text; None where it is larger, or damaged."""
    text = b""
    while len(text) <= _SMALL:
        try:
            data = stream.read(_SMALL)
        except UnreadError:
            return None
        if not data:
            return text
        text += data
    return None


def _again(file: File, most: float = math.inf) -> Pipe:
    stream = io.FileIO(file.open())

    def read(size: int) -> bytes | None:
        if stream.tell() > most:
            raise UnreadError(file.path, "too-large")
        return stream.read(size)

    return Pipe(file.path, read, stream.close)


def _kind(path: str, head: bytes, rest: bytes | File) -> str | None:
    """The compression or encoding of a log. Raises UnreadError for what is no text."""
    kind = kind_of(head[:_HEAD])
    if kind == "hole" and kind_of(_behind_hole(rest)) not in ("binary", "hole"):
        return None
    if kind in ("binary", "hole"):
        raise UnreadError(path, "binary")
    return kind


def _behind_hole(rest: bytes | File) -> bytes:
    """The first bytes behind the NUL bytes that a log begins with."""
    at = 0
    for _ in range(_STEPS):
        if isinstance(rest, File):
            at = rest.after_hole(at)
        data = rest[at : at + _SMALL] if isinstance(rest, bytes) else rest.pread(_SMALL, at)
        text = data.lstrip(b"\0")
        if text:
            return text[:_HEAD]
        if not data:
            break
        at += len(data)
    return b"\0"
