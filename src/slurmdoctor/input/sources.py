"""Opens what the job left: files, folders, globs, pipes and compressed logs, as blocks of bytes cut at line ends.

The only room that opens logs. Blocks are read, not mapped: a log that shrinks while we read it must not kill us.
"""

from __future__ import annotations

import codecs
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from slurmdoctor.model import UserError
from slurmdoctor.records import dataclass
from slurmdoctor.search import walk

BLOCK = 512 * 1024
"""Bytes a read. Larger blocks miss the second-level cache, smaller ones cost calls."""
LONGEST_LINE = 4 * 1024 * 1024
"""A line longer than this is handed on in pieces."""
_PIECE = 64 * 1024
"""Bytes for which `malloc` need not ask the kernel each time."""
OVERLAP = 40 * 1024
"""Bytes that such pieces have in common: the surroundings of a word that stands at the edge."""
_SPOOL_IN_MEMORY = 32 * 1024 * 1024
_LOG_ENDINGS = (".log", ".out", ".err", ".txt", ".stdout", ".stderr", ".o", ".e")
_COMPRESSED = (".gz", ".xz", ".zst", ".bz2")
_NOT_LOGS = (
    ".py", ".sh", ".sbatch", ".slurm", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".md", ".rst", ".ipynb", ".pt", ".pth",
    ".ckpt", ".bin", ".safetensors", ".npy", ".npz", ".csv", ".tsv", ".parquet", ".pyc", ".so", ".png", ".jpg", ".svg",
    ".html", ".zip", ".tar", ".h5", ".pkl", ".lock", ".pid",
)  # fmt: skip
_SIDE_FILES = frozenset({"scontrol.txt", "sacct.txt", "requirements.txt"})
_MAGIC = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
_BINARY_MAGIC = (b"\x7fELF", b"PK\x03\x04", b"\x89PNG", b"\x80\x02}q", b"\x93NUMPY", b"%PDF-", b"SQLite format 3\x00")


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a source, cut at line ends wherever that can be."""

    offset: int
    data: bytes
    size: int
    """Bytes of the data that count: the line that begins behind them stands whole in the next block."""
    lines: int
    """Line ends in it."""
    open_start: bool = False
    """It begins inside of a line, with the last bytes of the block before it once more."""
    open_end: bool = False
    """It ends inside of a line."""


def line_ends(data: bytes) -> int:
    """How many line ends there are."""
    if walk.native is not None:
        return int(walk.native.line_ends(data))
    if sys.version_info >= (3, 13):
        return data.count(b"\n")
    # before Python 3.13 `count` looks at byte after byte; this jumps from one to the next, and takes half the time
    pieces = (data[at : at + _PIECE] for at in range(0, len(data), _PIECE))
    return len(data) - sum(len(piece.replace(b"\n", b"")) for piece in pieces)


class Source:
    """One log, readable twice: front to back in blocks, then again at any offset."""

    def __init__(self, name: str, path: str | None, stream: IO[bytes], size: int | None, spool: bool) -> None:
        self.name = name
        """As the user would write it."""
        self.path = path
        self._stream = stream
        self._size = size
        self._spool = _new_spool() if spool else None
        self._head = b""
        self.numbers: Sequence[int] = ()
        """Each line's number where the user sees another: in a paste that was undone."""
        self.length = 0
        """Bytes read so far."""
        self.lines = 0

    @property
    def size(self) -> int | None:
        """Bytes, where that is known before they are read."""
        return self._size

    @property
    def divisible(self) -> bool:
        """Whether it can be read at any place: a file, as it is."""
        return self._size is not None and self._spool is None

    def blocks(self, size: int = BLOCK, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """All of the source, or a part of a file, in blocks that end at line ends, unless one line outgrows them.

        Where such a line is cut depends on where it begins alone.
        """
        fetch = self._fetch if self.divisible else self._stream_fetch()
        end = (self._size if stop is None else stop) if self.divisible else None
        at, begun, want = start, False, size
        while True:
            data = fetch(at, want if end is None else min(want, end - at))
            if not data:
                return
            self.length = max(self.length, at + len(data))
            last = len(data) < want or (end is not None and at + len(data) >= end)
            cut = len(data) if last else data.rfind(b"\n") + 1
            if cut:
                # what follows is read again: cheaper than to put it before the next block
                yield Block(at, data, cut, line_ends(data), begun, False)
                at, begun, want = at + cut, False, size
            elif len(data) >= LONGEST_LINE:
                yield Block(at, data, len(data), 0, begun, True)
                at, begun, want = at + len(data) - OVERLAP, True, size
            else:
                want = min(LONGEST_LINE, want * 2)

    def _fetch(self, at: int, size: int) -> bytes:
        return os.pread(self._stream.fileno(), size, at) if size > 0 else b""

    def _stream_fetch(self) -> Callable[[int, int], bytes]:
        """The same for what can be read front to back alone."""
        start, kept = 0, b""

        def fetch(at: int, size: int) -> bytes:
            nonlocal start, kept
            pieces = [kept[at - start :]]
            have = len(pieces[0])
            while have < size:
                data, self._head = self._head or self._stream.read(max(BLOCK, size - have)), b""
                if not data:
                    break
                if self._spool is not None:
                    self._spool.write(data)
                pieces.append(data)
                have += len(data)
            start, kept = at, b"".join(pieces)
            return kept[:size] if have > size else kept

        return fetch

    def line_start(self, at: int) -> int:
        """The first offset from here on at which a line begins, in a file; its end where none does."""
        size = self._size or 0
        at = max(at - 1, 0)
        while at < size and (data := self._pread(at, BLOCK)):
            if (found := data.find(b"\n")) >= 0:
                return at + found + 1
            at += len(data)
        return size

    def _pread(self, offset: int, size: int) -> bytes:
        return os.pread(self._stream.fileno(), size, offset)

    def sample(self, size: int) -> list[str]:
        """Some of the lines, from the head and, where the file can be read at will, from places all over it."""
        pieces = [self.peek(size)[:size]]
        if (
            len(pieces[0]) == size and pieces[0].count(b"\n") < 50
        ):  # a printed configuration may fill the head with one line
            pieces = [self.peek(16 * size)]
        if self._size is not None and self._size > 4 * size and self._spool is None:
            pieces += [os.pread(self._stream.fileno(), size // 8, self._size * k // 8) for k in range(1, 8)]
        lines = []
        for number, piece in enumerate(pieces):
            whole = piece.split(b"\n")
            if number or len(piece) >= size:
                whole = whole[bool(number) : -1]  # cut lines say nothing
            lines += [line[:400].decode("utf-8", "replace") for line in whole]
        return lines

    def peek(self, size: int) -> bytes:
        """The first bytes, or all where there are fewer; for use before `blocks`."""
        if self._spool is None:
            return os.pread(self._stream.fileno(), size, 0)
        head = self._head
        while len(head) < size and (data := self._stream.read(size - len(head))):
            head += data
        self._head = head
        return head

    def read(self, offset: int, size: int) -> bytes:
        """Bytes already passed by `blocks`, again. Short where the file has shrunk since."""
        offset = max(0, offset)
        size = min(size, self.length - offset)
        if size <= 0:
            return b""
        if self._spool is not None:
            self._spool.seek(offset)
            data = self._spool.read(size)
            self._spool.seek(0, os.SEEK_END)
            return data
        return os.pread(self._stream.fileno(), size, offset)

    def close(self) -> None:
        if self._stream is not sys.stdin.buffer:
            self._stream.close()
        if self._spool is not None:
            self._spool.close()


class _Readable(Protocol):
    def read(self, size: int = ..., /) -> bytes: ...


class _Decompressor(Protocol):
    def read1(self, size: int = ..., /) -> bytes: ...


class _Recoded:
    """A UTF-16 or UTF-32 stream, read as UTF-8."""

    def __init__(self, stream: _Readable, encoding: str) -> None:
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


class _Prefixed:
    """A pipe whose first bytes were looked at already."""

    def __init__(self, head: bytes, stream: _Readable) -> None:
        self._head, self._stream = head, stream

    def read(self, size: int = BLOCK, /) -> bytes:
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
            return data
        reader = getattr(self._stream, "read1", self._stream.read)
        return bytes(reader(size))

    def close(self) -> None:
        pass


class Text:
    """A string handed over in Python, as a source."""

    @staticmethod
    def source(text: str | bytes, name: str = "<text>") -> Source:
        import io

        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        return Source(name, None, io.BytesIO(data), len(data), spool=True)


def open_sources(paths: Sequence[str | os.PathLike[str]]) -> list[Source]:
    """Open everything that the paths name: files, folders, globs, `-` for standard input.

    Binary files are left out where a folder or a glob brought them. Raises UserError, with what to do, where nothing
    readable is there.
    """
    named = {os.fspath(path) for path in paths}
    sources: list[Source] = []
    binary: list[BinaryFileError] = []
    for path in _expand(paths):
        try:
            sources.append(_open_stdin() if path == "-" else _open_file(path))
        except BinaryFileError as error:
            if path in named:
                raise
            binary.append(error)
    if not sources:
        raise binary[0]
    return sources


class BinaryFileError(UserError):
    """A file that holds no text."""


def files_of(path: str) -> list[str]:
    """The logs that a file's or folder's path names; `*` and `-` are letters like any other here."""
    return _logs_in(path) if Path(path).is_dir() else [path]


def _expand(paths: Sequence[str | os.PathLike[str]]) -> list[str]:
    found: list[str] = []
    for given in (os.fspath(path) for path in paths):
        if given == "-":
            found.append(given)
        elif Path(given).is_dir():
            found += _logs_in(given)
        elif not Path(given).exists() and any(c in given for c in "*?["):
            import glob

            matched = sorted(glob.glob(given, recursive=True))  # noqa: PTH207 (Path.glob takes no absolute pattern)
            if not matched:
                raise UserError(f"no file matches {given}", "check the pattern, or quote it less")
            found += _expand(matched) if any(Path(m).is_dir() for m in matched) else matched
        else:
            found.append(given)
    unique = list(dict.fromkeys(found))
    if not unique:
        raise UserError("nothing to read", "name the job's log, its folder, or - for standard input")
    return unique


def _logs_in(folder: str) -> list[str]:
    logs, maybe = [], []
    try:
        for parent, folders, files in os.walk(folder, onerror=_refused):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f != "__pycache__")
            for name in sorted(files):
                if name.startswith(".") or name in _SIDE_FILES:
                    continue
                path = os.path.join(parent, name)  # noqa: PTH118 - keeps the path as the user wrote it
                stem = name
                for ending in _COMPRESSED:
                    stem = stem.removesuffix(ending)
                if stem.endswith(_LOG_ENDINGS):
                    logs.append(path)
                elif "." not in stem or not stem.endswith((*_NOT_LOGS, ".json", *_COMPRESSED)):
                    maybe.append(path)
    except PermissionError as error:
        raise UserError(
            f"cannot read {error.filename}: permission denied", "run as the job's owner, or copy it"
        ) from None
    found = logs or maybe
    if not found:
        raise UserError(
            f"{folder} holds no log files",
            f"name the log itself; looked for {', '.join(_LOG_ENDINGS[:4])} and the like",
        )
    return found


def _refused(error: OSError) -> None:
    if isinstance(error, PermissionError):
        raise error


def _open_file(path: str) -> Source:
    try:
        stream: IO[bytes] = open(path, "rb", buffering=0)  # noqa: SIM115, PTH123 - closed by Source.close
    except FileNotFoundError:
        raise UserError(f"no such file: {path}", _did_you_mean(path)) from None
    except PermissionError:
        raise UserError(f"cannot read {path}: permission denied", "run as the job's owner, or ask for a copy") from None
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror or error}", "copy the log to a disk that answers"
        ) from None
    status = os.fstat(stream.fileno())
    if stat.S_ISDIR(status.st_mode):
        raise UserError(f"{path} is a folder", "name it without a trailing component")
    regular = stat.S_ISREG(status.st_mode)
    head = stream.read(4096) if regular else b""
    if regular:
        stream.seek(0)
    kind = _kind(head)
    if kind == "binary":
        stream.close()
        raise BinaryFileError(f"{path} is not a text log (binary data)", "name the job's .out, .err or .log file")
    if kind is None:
        return Source(path, path, stream, status.st_size if regular else None, spool=not regular)
    return Source(path, path, _decoded(kind, stream, path), None, spool=True)  # type: ignore[arg-type]


def _open_stdin() -> Source:
    stream = sys.stdin.buffer
    if stream.isatty():
        raise UserError(
            "standard input is a terminal", "name the job's log, or pipe it in: slurmdoctor diagnose < job.log"
        )
    head = stream.peek(4096)[:4096] if hasattr(stream, "peek") else b""
    kind = _kind(head)
    if kind == "binary":
        raise UserError("standard input is not a text log (binary data)", "pipe the log's text in")
    wrapped: object = _Prefixed(b"", stream)
    if kind is not None:
        wrapped = _decoded(kind, stream, "standard input")
    return Source("-", None, wrapped, None, spool=True)  # type: ignore[arg-type]


def _new_spool() -> IO[bytes]:
    import tempfile  # slow to import, and a plain file needs none

    return tempfile.SpooledTemporaryFile(_SPOOL_IN_MEMORY)  # Source.close closes it


def _kind(head: bytes) -> str | None:
    """What stands in the way of reading the bytes as text: a compression, an encoding, `binary`, or nothing."""
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


def _decoded(kind: str, stream: IO[bytes], name: str) -> _Readable:
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


def _did_you_mean(path: str) -> str:
    import difflib

    parent = Path(path).parent
    try:
        names = [p.name for p in parent.iterdir()]
    except OSError:
        return f"the folder {parent} is not there either"
    near = difflib.get_close_matches(Path(path).name, names, 1)
    return (
        f"did you mean {parent / near[0]}?"
        if near
        else "check the path; Slurm's default is slurm-<job id>.out where the job was submitted"
    )
