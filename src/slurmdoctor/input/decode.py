"""Decompresses a log, and reads UTF-16 and UTF-32 as UTF-8."""

from __future__ import annotations

import codecs
import sys
from typing import IO, Protocol

from slurmdoctor.input.sources import BLOCK
from slurmdoctor.model import UserError

_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
_BINARY_MAGIC = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\x80\x02}q", b"\x93NUMPY", b"%PDF-", b"SQLite format 3\x00")


class Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Decompressor(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


def kind_of(head: bytes) -> str | None:
    """The compression or encoding of the bytes, or `binary`; None for plain text."""
    for magic, name in _MAGIC.items():
        if head.startswith(magic):
            return name
    for bom, name in (
        (codecs.BOM_UTF32_LE, "utf-32"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if head.startswith(bom):
            return name
    if head.startswith(_BINARY_MAGIC):
        return "binary"
    if head:
        odd, even = head[1::2].count(0), head[::2].count(0)
        if odd > len(head) * 0.35 and even < len(head) * 0.05:
            return "utf-16-le"
        controls = sum(head.count(bytes([c])) for c in (*range(1, 8), *range(14, 27), *range(28, 32)))
        if controls > len(head) * 0.05 or odd + even > len(head) * 0.5:
            return "binary"
    return None


def decoded(kind: str, stream: IO[bytes], name: str) -> Readable:
    # imported here: most logs are not compressed
    if kind == "gzip":
        import gzip

        return _Checked(gzip.GzipFile(fileobj=stream, mode="rb"), name)
    if kind == "xz":
        import lzma

        return _Checked(lzma.LZMAFile(stream), name)
    if kind == "bzip2":
        import bz2

        return _Checked(bz2.BZ2File(stream), name)
    if kind == "zstd":
        return _Checked(_zstd(stream, name), name)
    return _Recoded(stream, kind)


def _zstd(stream: IO[bytes], name: str) -> _Decompressor:
    try:
        if sys.version_info >= (3, 14):
            from compression.zstd import ZstdFile
        else:
            from backports.zstd import ZstdFile
    except ImportError:
        raise UserError(
            f"{name} is zstd-compressed, and no decoder is installed",
            "pip install backports.zstd, or: zstd -dc LOG | slurmdoctor diagnose -",
        ) from None
    return ZstdFile(stream)


class _Recoded:
    """A UTF-16 or UTF-32 stream, read as UTF-8."""

    def __init__(self, stream: Readable, encoding: str) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder(encoding)(errors="replace").decode

    def read(self, size: int = BLOCK, /) -> bytes:
        while data := self._stream.read(size):
            text = self._decode(data)
            if text:
                return text.encode()
        return self._decode(b"", True).encode()

    def close(self) -> None:
        pass


class _Checked:
    """A decompressor whose truncated or damaged end counts as the end: what came before it is kept."""

    def __init__(self, stream: _Decompressor, name: str) -> None:
        self._stream, self._name = stream, name
        self._started = self._ended = False

    def read(self, size: int = BLOCK, /) -> bytes:
        found = bytearray()
        while len(found) < size and not self._ended:
            try:
                data = self._stream.read1(
                    size - len(found)
                )  # `read` would drop what it has when it comes to the damage
            except Exception as error:  # each decompressor has its own error types
                if not self._started:
                    raise UserError(
                        f"cannot decompress {self._name}: {error}", "is the file whole? decompress it by hand to see"
                    ) from None
                data = b""
            self._started = True
            self._ended = not data
            found += data
        return bytes(found)

    def close(self) -> None:
        pass
