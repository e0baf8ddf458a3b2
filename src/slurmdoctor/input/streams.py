"""Reads what can be read front to back alone (a pipe, a compressed log), and keeps it to be read again.

Tells text from what is none, decompresses, and reads UTF-16 and UTF-32 as UTF-8.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
from bisect import bisect_right
from collections.abc import Callable
from importlib import import_module
from typing import IO, Protocol

from slurmdoctor.input.regular_files import UnreadError, open_regular, unread
from slurmdoctor.model import UserError

CHUNK = 512 * 1024
"""Bytes a read."""


MOST = 64 * 1024**3
"""Bytes, of all logs together: nobody's log, but what a few megabytes may decompress to."""
_IN_MEMORY = 32 * 1024 * 1024


class Stream(Protocol):
    """Bytes that can be read front to back alone."""

    def read1(self, size: int = ..., /) -> bytes:
        """At least one byte, but at the end. Raises UnreadError where there are more that cannot be read."""

    def close(self) -> None: ...


class _Pipe(io.RawIOBase):
    """Bytes as they come."""

    def __init__(self, name: str, read: Callable[[int], bytes | None], close: Callable[[], object]) -> None:
        self._of, self._read, self._close = name, read, close

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview, /) -> int:  # type: ignore[override]
        try:
            data = self._read(len(room)) or b""
        except BlockingIOError:  # who opened it does not wait, and neither do we
            data = b""
        except OSError as error:
            raise unread(self._of, error) from None
        room[: len(data)] = data
        return len(data)

    def close(self) -> None:
        super().close()
        self._close()


def piped(name: str, read: Callable[[int], bytes | None], close: Callable[[], object] = bool) -> io.BufferedReader:
    """A stream of what a function reads."""
    return io.BufferedReader(_Pipe(name, read, close), _PACKED)


class Streamed:
    """A stream that is read once, in order; what was read is kept, and can be read at any place."""

    def __init__(self, name: str, begin: Callable[[], Stream], spool: Spool, again: bool = False) -> None:
        self._name = name
        self._begin = begin
        self._again = again
        """Whether it may begin anew: then it is closed after a look at its head, for others may need the descriptor."""
        self._spool = spool
        self._stream: Stream | None = None
        self._ended = False
        self._places: list[tuple[int, int]] = []
        """(offset in the stream, place in the spool) of stretches of it."""
        self._length = 0
        self._fault: UnreadError | None = None
        """Why its rest was not read."""

    def peek(self, size: int) -> bytes:
        """The first bytes, or all where there are fewer; for use before the others are read."""
        head = self.pread(size, 0)
        if self._again:
            self._end()
            self._ended, self._places, self._length, self._fault = False, [], 0, None
        return head

    def pread(self, size: int, at: int, /) -> bytes:
        """Bytes from this offset. Raises UnreadError where there are more that cannot be read."""
        while self._length < at + size and self._fill(at + size - self._length):
            pass
        found, size = b"", min(size, self._length - at)
        number = bisect_right(self._places, (at, self._spool.size)) - 1
        while size > 0:
            offset, place = self._places[number]
            end = self._places[number + 1][0] if number + 1 < len(self._places) else self._length
            data = self._spool.read(place + at - offset, min(size, end - at))
            found += data
            at, size, number = at + len(data), size - len(data), number + 1
        if not found and self._fault is not None:
            raise self._fault
        return found

    def close(self) -> None:
        self._end()
        self._spool.close()

    def _fill(self, size: int) -> bool:
        """Read on. False at the end."""
        if self._ended:
            return False
        data = b""
        try:
            self._stream = self._stream or self._begin()
            if self._spool.room <= 0:
                raise UnreadError(self._name, "too-large")
            data = self._stream.read1(min(size, self._spool.room))
        except UnreadError as error:
            self._fault = error
        if not data:
            self._end()
            return False
        place = self._spool.append(data)
        if not self._places or self._places[-1][1] + self._length - self._places[-1][0] != place:
            self._places.append((self._length, place))
        self._length += len(data)
        return True

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._ended = None, True


class Spool:
    """One place for all of them: of a file each, a job might have more than may be open."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self.size = 0

    @property
    def room(self) -> int:
        """Bytes that it may still take."""
        return MOST - self.size

    def append(self, data: bytes) -> int:
        """Keep the data; returns its place."""
        place = self.size
        try:
            if self._file is None:
                import tempfile  # slow to import, and a plain file needs none

                self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed by `close`
            self._file.write(data)
        except OSError as error:
            raise UserError(
                f"no room for a copy of the piped or decompressed log: {error.strerror or error}",
                "set TMPDIR to a folder with room, or decompress the log first",
            ) from None
        self.size += len(data)
        return place

    def read(self, place: int, size: int) -> bytes:
        """Bytes from this place."""
        if self._file is None:
            return b""
        self._file.seek(place)
        data = self._file.read(size)
        self._file.seek(0, os.SEEK_END)
        return data

    def close(self) -> None:
        """Let go of it; for the last source that uses it, and harmless for the others."""
        if self._file is not None:
            self._file.close()
            self._file = None


_MAGIC = {
    b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2",
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
_DECODERS = {
    "gzip": "gzip", "xz": "lzma", "bzip2": "bz2",
    "zstd": "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd",
}  # fmt: skip
"""Compression -> the module whose `open` undoes it."""
_BINARY_MAGIC = (
    b"\x7fELF", b"PK\x03\x04", b"PK\x05\x06", b"\x89PNG", b"\x89HDF", b"\xff\xd8\xff", b"GIF8", b"\x93NUMPY", b"%PDF-",
    b"SQLite format 3\x00", b"PAR1", b"7z\xbc\xaf", b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95",
)  # fmt: skip
"""Programs, archives, images, arrays, tables, pickles: a file's first bytes (each format's own documentation)."""
_TAR = slice(257, 262)
"""Where a tar archive says `ustar` (pax(1), "ustar Interchange Format")."""
_HOLE = rb"\0{64,}"
"""Bytes that nobody wrote: a log that was cut to nothing while it was written to, or a disk that lost them."""
_PLAIN = bytes(set(range(256)) - {0, *range(1, 8), *range(14, 27), *range(28, 32)})
"""Bytes that stand in texts."""
_WORDS = rb"[\t -~]{16,}"
_FEW_LINES, _TEXT = 2, 0.5
"""Line ends of damaged text, and the share of it that is words."""

_PACKED = 64 * 1024
"""Bytes of a compressed log that are read at a time."""


def kind_of(head: bytes) -> str | None:
    """The compression or encoding of the bytes, or `binary`; `hole` where all are NUL, and None for plain text."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    if head.startswith(_BINARY_MAGIC):
        return "binary"
    strange = head.translate(None, _PLAIN)
    if not strange:
        return None
    odd, even = head[1::2].count(0), head[::2].count(0)
    if len(head) > 2 and max(odd, even) > len(head) * 0.35 and min(odd, even) < len(head) * 0.05:
        return "utf-16-le" if odd > even else "utf-16-be"
    text = re.sub(_HOLE, b"", head).strip(b"\0")
    if not text:
        return "hole"
    holed = len(head) - len(text) > 64
    nuls = text.count(0)
    controls = len(strange) - strange.count(0)
    # beside holes there are none in a text; arrays of small numbers have both
    many = controls > len(text) * 0.05 or nuls > len(text) * (0.05 if holed else 0.5)
    return "binary" if (many and not _holds_text(text)) or head[_TAR] == b"ustar" else None


def _holds_text(data: bytes) -> bool:
    """Whether words stand between the damage, on lines: what is no text has few of either."""
    return data.count(b"\n") >= _FEW_LINES and sum(map(len, re.findall(_WORDS, data))) >= _TEXT * len(data)


def decoded(kind: str, stream: io.BufferedReader, name: str) -> Stream:
    """The text behind a compression or encoding."""
    if kind.startswith("utf"):
        return _Recoded(stream, kind)
    try:
        decoder = import_module(_DECODERS[kind])  # now: most logs are not compressed
    except ImportError:
        raise UnreadError(name, "no-decoder") from None
    return _Checked(decoder.open(stream), stream, name)


class _Recoded:
    """A UTF-16 or UTF-32 stream, read as UTF-8."""

    def __init__(self, stream: io.BufferedReader, encoding: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding, errors="replace", newline="")

    def read1(self, size: int = CHUNK, /) -> bytes:
        return self._text.read(size).encode("utf-8", "replace")

    def close(self) -> None:
        self._text.close()


class _Checked:
    """A decompressor that gives all before the damage, and then raises UnreadError."""

    def __init__(self, stream: Stream, packed: Stream, name: str) -> None:
        self._stream, self._packed, self._name = stream, packed, name
        self._error: UnreadError | None = None

    def read1(self, size: int = CHUNK, /) -> bytes:
        found = bytearray()
        while len(found) < size and self._error is None:
            try:
                # `read` would drop what it has when it comes to the damage
                data = self._stream.read1(size - len(found))
            except UnreadError as error:
                self._error = error
            except Exception as error:  # each decompressor has its own error types
                self._error = UnreadError(self._name, "damaged", str(error))
            else:
                if not data:
                    break
                found += data
        if not found and self._error is not None:
            raise self._error
        return bytes(found)

    def close(self) -> None:
        self._packed.close()


HEAD, END = 8192, 4096
"""Bytes of a file's beginning and of its end that are looked at to tell what it is."""


def ends_of(path: str) -> tuple[str, str]:
    """The head and the end of a file as text; of a compressed one the head alone, and nothing of what cannot be read."""
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe is not even opened: what its writer has sent would be lost
        return "", ""
    try:
        with os.fdopen(open_regular(path), "rb", buffering=0) as file:
            number = file.fileno()
            size, head = os.fstat(number).st_size, os.pread(number, HEAD, 0)
            kind = kind_of(head)
            if kind not in (None, "binary", "hole"):
                stream = decoded(str(kind), piped(path, file.read), path)
                return stream.read1(HEAD)[:HEAD].decode("utf-8", "replace"), ""
            end = os.pread(number, END, max(size - END, HEAD)) if size > HEAD else b""
            return head.decode("utf-8", "replace"), end.decode("utf-8", "replace")
    except (OSError, ValueError, UnreadError):
        return "", ""
