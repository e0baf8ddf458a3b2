"""Opens what is handed over: paths, standard input, or a log's text."""

from __future__ import annotations

import io
import math
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TypeAlias

from msgspec import Struct

from slurmdoctor.input.files import did_you_mean, expand
from slurmdoctor.input.regular_files import File, Handles, UnreadError, kind_of_file, unread
from slurmdoctor.input.sources import Gap, Held, Source, Text
from slurmdoctor.input.streams import Pipe, Spool, Stream, Streamed, decoded, kind_of
from slurmdoctor.model import JobFiles, LogNotFoundError, UserError

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


_LIKE_A_PATH = re.compile(r"~?[./]|.*\.(?:log|out|err|txt|gz|bz2|xz|zst)$")


_JOB = re.compile(r"\d+(?:[_+.]\d+)*")


class LogText(Struct, frozen=True):
    """A log that is not in a file: its name, and its text; of a large one the head, the end, and how much is between."""

    data: str | bytes
    name: str = "<text>"
    end: str | bytes = b""
    """The last bytes of the log, where not all of it is here."""
    left_out: int = 0
    """Bytes between `data` and `end`."""


APath: TypeAlias = "str | os.PathLike[str]"
Given: TypeAlias = "APath | bytes | IO[str] | IO[bytes] | LogText | Iterable[APath | LogText | Source]"


def opened(job: Given | JobFiles) -> Opened:
    """The sources of what was given. Raises UserError where a path cannot be read."""
    if isinstance(job, JobFiles):
        return open_sources(job.files, among_others=True)
    if isinstance(job, (bytearray, memoryview)):
        job = bytes(job)
    if isinstance(job, (bytes, LogText)) or (isinstance(job, str) and is_text(job)):
        return Opened([_source(job)])
    if isinstance(job, str):
        try:
            return open_sources([job])
        except LogNotFoundError as error:
            number = "a Slurm job's number goes to diagnose_job, " if _JOB.fullmatch(job) else ""
            raise LogNotFoundError(error.message, f"{error.mend}; {number}a log's text to diagnose_text") from None
    if isinstance(job, os.PathLike):
        return open_sources([job])
    if isinstance(job, io.IOBase):
        return Opened([_source(LogText(job.read(), str(getattr(job, "name", "<text>"))))])
    if not isinstance(job, Iterable):
        raise _neither(job)
    texts: list[Source] = []
    paths: list[APath] = []
    for one in job:
        if isinstance(one, (Source, bytes, LogText)):
            texts.append(one if isinstance(one, Source) else _source(one))
        elif isinstance(one, (str, os.PathLike)):
            paths.append(one)
        else:
            raise _neither(one)
    if texts and not paths:
        return Opened(texts)
    found = open_sources(paths)
    return Opened([*found.sources, *texts], found.skipped)


def _neither(given: object) -> TypeError:
    return TypeError(f"{given!r} is no text and no path; a Slurm job's number goes to slurmdoctor.diagnose_job")


def is_text(given: str) -> bool:
    """Whether a str is a log's text: it has a line end or `: `, or a blank and not the looks of a path; and no file has that name."""
    if "\n" in given or "\r" in given or not given.strip() or not _can_be_a_name(given):
        return True
    if os.path.lexists(given):
        return False
    return ": " in given or (" " in given and not _LIKE_A_PATH.match(given))


def _can_be_a_name(given: str) -> bool:
    try:
        return "\0" not in given and all(len(part) < 256 for part in os.fsencode(given).split(b"/"))
    except UnicodeEncodeError:
        return False


def _source(text: str | bytes | LogText) -> Source:
    if not isinstance(text, LogText):
        return Text.source(text)
    head, end = _bytes(text.data), _bytes(text.end)
    gap = Gap(len(head), text.left_out) if text.left_out > 0 else None
    return Text.source(head + end, text.name, gap)


def _bytes(text: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise TypeError(f"{text!r} is no text: a log's text is a str, or bytes")
