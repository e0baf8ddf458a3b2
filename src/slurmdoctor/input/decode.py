"""Tells text from what is none, decompresses a log, and reads UTF-16 and UTF-32 as UTF-8."""

from __future__ import annotations

import codecs
import io
import re
import sys
from typing import IO, Protocol

from slurmdoctor.input.streams import CHUNK, Stream
from slurmdoctor.input.unread import UnreadError

_MAGIC = {
    b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2",
    codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16",
}  # fmt: skip
_ENCODED = tuple(_MAGIC)
_BINARY_MAGIC = (
    b"\x7fELF", b"PK\x03\x04", b"PK\x05\x06", b"\x89PNG", b"\x89HDF", b"\xff\xd8\xff", b"GIF8", b"\x93NUMPY", b"%PDF-",
    b"SQLite format 3\x00", b"PAR1", b"7z\xbc\xaf", b"\x80\x02", b"\x80\x03", b"\x80\x04\x95", b"\x80\x05\x95",
)  # fmt: skip
"""Programs, archives, images, arrays, tables, pickles: a file's first bytes (each format's own documentation)."""
_TAR = slice(257, 262)
"""Where a tar archive says `ustar` (pax(1), "ustar Interchange Format")."""
_HOLE = re.compile(rb"\0{64,}")
"""Bytes that nobody wrote: a log that was cut to nothing while it was written to, or a disk that lost them."""
_PLAIN = bytes(set(range(256)) - {0, *range(1, 8), *range(14, 27), *range(28, 32)})
"""Bytes that stand in texts."""
_WORDS = re.compile(rb"[\t -~]{16,}")
_FEW_LINES, _TEXT = 2, 0.5
"""Line ends of damaged text, and the share of it that is words."""

_PACKED = 64 * 1024
"""Bytes of a compressed log that are read at a time."""


class _Decompressor(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


def kind_of(head: bytes) -> str | None:
    """The compression or encoding of the bytes, or `binary`; `hole` where all are NUL, and None for plain text."""
    for magic, name in _MAGIC.items() if head.startswith(_ENCODED) else ():
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
    text = _HOLE.sub(b"", head).strip(b"\0")
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
    return data.count(b"\n") >= _FEW_LINES and sum(map(len, _WORDS.findall(data))) >= _TEXT * len(data)


def decoded(kind: str, stream: Stream, name: str) -> Stream:
    """The text behind a compression or encoding."""
    # imported here: most logs are not compressed
    if kind.startswith("utf"):
        return _Recoded(stream, kind)
    raw: IO[bytes] = io.BufferedReader(_Raw(stream), _PACKED)
    if kind == "gzip":
        import gzip

        return _Checked(gzip.GzipFile(fileobj=raw, mode="rb"), stream, name)
    if kind == "xz":
        import lzma

        return _Checked(lzma.LZMAFile(raw), stream, name)
    if kind == "bzip2":
        import bz2

        return _Checked(bz2.BZ2File(raw), stream, name)
    return _Checked(_zstd(raw, name), stream, name)


def _zstd(stream: IO[bytes], name: str) -> _Decompressor:
    try:
        if sys.version_info >= (3, 14):
            from compression.zstd import ZstdFile
        else:
            from backports.zstd import ZstdFile
    except ImportError:
        raise UnreadError(name, "no-decoder") from None
    return ZstdFile(stream)


class _Raw(io.RawIOBase):
    """A stream as Python's decompressors want it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, room: memoryview, /) -> int:  # type: ignore[override]
        data = self._stream.read(len(room))
        room[: len(data)] = data
        return len(data)


class _Recoded:
    """A UTF-16 or UTF-32 stream, read as UTF-8."""

    def __init__(self, stream: Stream, encoding: str) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder(encoding)(errors="replace").decode

    def read(self, size: int = CHUNK, /) -> bytes:
        while data := self._stream.read(size):
            text = self._decode(data)
            if text:
                return text.encode("utf-8", "replace")
        return self._decode(b"", True).encode("utf-8", "replace")

    def close(self) -> None:
        self._stream.close()


class _Checked:
    """A decompressor that gives all before the damage, and then raises UnreadError."""

    def __init__(self, stream: _Decompressor, packed: Stream, name: str) -> None:
        self._stream, self._packed, self._name = stream, packed, name
        self._error: UnreadError | None = None

    def read(self, size: int = CHUNK, /) -> bytes:
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
