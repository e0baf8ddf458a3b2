"""Opens what is handed over: paths, standard input, or a log's text."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import IO, TypeAlias

from slurmdoctor.input.files import did_you_mean, expand
from slurmdoctor.input.regular_files import File, Handles, UnreadError, kind_of_file, unread
from slurmdoctor.input.sources import Gap, Held, Source, Text
from slurmdoctor.input.streams import Spool, Stream, Streamed, decoded, kind_of, piped
from slurmdoctor.matching import lazy
from slurmdoctor.model import Frozen, JobFiles, LogNotFoundError, UserError

_HEAD = 4096
_SMALL = 64 * 1024
"""Bytes of a file that is read whole at once,"""
_HELD = 32 * 1024 * 1024
"""and of all such files together."""
_STEPS = 1024
"""Pieces of a file that are looked at for the text behind a hole."""
_FEW = 32
"""Compressed logs that stay open between a look at their heads and their reading."""
_STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_OF_SHELL = ("/dev/fd/", "/proc/self/fd/")
_PATIENCE = 2.0
"""Seconds for somebody to write to a pipe that is named among other files."""


class Opened(Frozen):
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
            seen = os.stat(path)  # noqa: PTH116
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            raise unread(path, error if isinstance(error, OSError) else OSError(str(error))) from None
        why = kind_of_file(seen.st_mode)
        if why is None:
            return self._file(path)
        if path in self._named and why == "pipe":
            return self._pipe(path)
        if path in self._named and why == "device" and seen.st_rdev == os.stat(os.devnull).st_rdev:  # noqa: PTH116
            return Source(path, path, 0, Held(b""))
        raise UnreadError(path, why)

    def _file(self, path: str) -> Source:
        file = File(path, self._handles)
        size = file.status.st_size
        head = file.pread(_HEAD, 0)
        if size == 0:  # an empty file; but some file systems only say that it is, of what may have no end
            file.close()
            return self._streamed(path, lambda: _again(file, _HELD)) if head else Source(path, path, 0, Held(b""))
        kind = kind_of(head)
        if kind == "hole" and kind_of(_behind_hole(file)) not in ("binary", "hole"):
            kind = None
        if kind in ("binary", "hole"):
            raise UnreadError(path, "binary")
        if size <= min(_SMALL, self._room):
            data = file.pread(size, 0)
            self._room -= len(data)
            file.close()
            if kind is None:
                return Source(path, path, len(data), Held(data))
            return self._streamed(path, lambda: piped(path, io.BytesIO(data).read), kind)
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
        import select

        writer = select.poll()
        writer.register(stream, select.POLLIN)
        if not writer.poll(wait):
            stream.close()
            raise UnreadError(path, "pipe")
        os.set_blocking(stream.fileno(), True)
        return self._piped(path, path, piped(path, stream.read, stream.close))

    def _stdin(self) -> Source:
        if sys.stdin is None:
            raise UserError("standard input is closed", "name the job's log")
        stream = sys.stdin.buffer
        if stream.isatty():
            raise UserError(
                "standard input is a terminal", "name the job's log, or pipe it in: slurmdoctor diagnose < job.log"
            )
        return self._piped("-", "standard input", piped("standard input", getattr(stream, "read1", stream.read)))

    def _piped(self, path: str, name: str, pipe: io.BufferedReader) -> Source:
        kind = kind_of(pipe.peek(_HEAD)[:_HEAD])
        if kind == "binary":
            raise UnreadError(name, "binary")
        stream: Stream = pipe if kind in (None, "hole") else decoded(kind, pipe, name)
        return Source(path, None if path == "-" else path, None, Streamed(name, lambda: stream, self._spool))

    def _streamed(self, path: str, begin: Callable[[], io.BufferedReader], kind: str | None = None) -> Source:
        """A file that is read front to back. Its head is read now, for the damaged ones to be known."""

        def text() -> Stream:
            return begin() if kind is None else decoded(kind, begin(), path)

        streamed = Streamed(path, text, self._spool, again=self._many)
        if kind_of(streamed.peek(_HEAD)) == "binary":
            streamed.close()
            raise UnreadError(path, "binary")
        return Source(path, path, None, streamed)


def _again(file: File, most: float = math.inf) -> io.BufferedReader:
    stream = io.FileIO(file.open())

    def read(size: int) -> bytes | None:
        if stream.tell() > most:
            raise UnreadError(file.path, "too-large")
        return stream.read(size)

    return piped(file.path, read, stream.close)


def _behind_hole(file: File) -> bytes:
    """The first bytes behind the NUL bytes that a log begins with."""
    at = 0
    for _ in range(_STEPS):
        at = file.after_hole(at)
        data = file.pread(_SMALL, at)
        text = data.lstrip(b"\0")
        if text:
            return text[:_HEAD]
        if not data:
            break
        at += len(data)
    return b"\0"


_LIKE_A_PATH = lazy(r"~?[./]|.*\.(?:log|out|err|txt|gz|bz2|xz|zst)$")


_JOB = lazy(r"\d+(?:[_+.]\d+)*")


class LogText(Frozen):
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
    if isinstance(job, str) and is_text(job):
        job = LogText(job)
    several = isinstance(job, Iterable) and not isinstance(job, (str, bytes, bytearray, memoryview, io.IOBase))
    every: Iterable[object] = job if several else (job,)  # type: ignore[assignment]
    texts: list[Source] = []
    paths: list[APath] = []
    for one in every:
        if isinstance(one, io.IOBase):
            one = LogText(one.read(), str(getattr(one, "name", "<text>")))
        elif isinstance(one, (bytes, bytearray, memoryview)):
            one = LogText(bytes(one))
        if isinstance(one, (LogText, Source)):
            texts.append(one if isinstance(one, Source) else _source(one))
        elif isinstance(one, (str, os.PathLike)):
            paths.append(one)
        else:
            raise TypeError(f"{one!r} is no text and no path; a Slurm job's number goes to slurmdoctor.diagnose_job")
    if texts and not paths:
        return Opened(texts)
    try:
        found = open_sources(paths)
    except LogNotFoundError as error:
        number = "a Slurm job's number goes to diagnose_job, " if _JOB.fullmatch(str(job)) else ""
        mend = f"{error.mend}; {number}a log's text to diagnose_text"
        raise LogNotFoundError(error.message, mend) if isinstance(job, str) else error from None
    return Opened([*found.sources, *texts], found.skipped)


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


def _source(text: LogText) -> Source:
    head, end = _bytes(text.data), _bytes(text.end)
    gap = Gap(len(head), text.left_out) if text.left_out > 0 else None
    return Text.source(head + end, text.name, gap)


def _bytes(text: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise TypeError(f"{text!r} is no text: a log's text is a str, or bytes")
