"""Reads a log twice: front to back in blocks of bytes that end at line ends, then again at any offset.

Blocks are read, not mapped: a log that shrinks while it is read must not end the program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from slurmdoctor.input.regular_files import UnreadError
from slurmdoctor.input.streams import Streamed
from slurmdoctor.matching import in_c
from slurmdoctor.model import NEVER, Deadline, Frozen

BLOCK = 512 * 1024
"""Bytes a read. Larger blocks miss the second-level cache, smaller ones cost calls."""
LONGEST_LINE = 4 * 1024 * 1024
"""A line longer than this is read in pieces."""
_COUNTING = 0.2
"""Share of a time limit in which lines of an earlier run are counted."""
OVERLAP = 40 * 1024
"""Bytes that such pieces have in common: the surroundings of a word at the edge."""


class Block(Frozen):
    """Bytes of a source, cut at line ends wherever that can be."""

    offset: int
    data: bytes
    size: int
    """Bytes of the data that count: the line that begins after them is whole in the next block."""
    lines: int
    """Line ends in it."""
    open_start: bool = False
    """It begins inside of a line, with the last bytes of the block before it once more."""
    open_end: bool = False
    """It ends inside of a line."""


def line_ends(data: bytes) -> int:
    """How many line ends there are."""
    if (native := in_c()) is not None:
        return int(native.line_ends(data))
    return data.count(b"\n")


class AtWill(Protocol):
    """Bytes that can be read at any place."""

    def pread(self, size: int, at: int, /) -> bytes:
        """Raises UnreadError where they cannot be read any more."""

    def close(self) -> None: ...


class Held:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def pread(self, size: int, at: int, /) -> bytes:
        return self._data[at : at + size]

    def close(self) -> None:
        pass


class Gap(Frozen):
    """Bytes that were left out of a log: only its head and its end came here."""

    offset: int
    """Where the end begins, in the text that is here."""
    bytes: int


class Witness(Frozen):
    """What is known of a source that a node wrote, and no process of the job."""

    node: str | None
    """The node that its name tells."""
    in_time: bool
    """Whether its lines with a stamp are known to be of the job's time."""


class Source:
    """One log, readable twice: front to back in blocks, then again at any offset."""

    def __init__(self, name: str, path: str | None, size: int | None, bytes: AtWill | Streamed) -> None:
        self.name = name
        """The path as the user wrote it."""
        self.path = path
        self.size = size
        """Bytes, where that is known before they are read."""
        self._bytes = bytes
        self.fault: UnreadError | None = None
        """Why its rest was not read."""
        self.witness: Witness | None = None
        self.numbers: Sequence[int] = ()
        """Each line's number in the text as the user has it, where a paste was undone."""
        self.begins = 0
        """Byte of the file at which this source begins."""
        self.lines_above: int | None = 0
        """Lines of the file above it: line numbers are always the file's. None where there was no time to count them."""
        self._end: int | None = None
        """Where it ends, though the file goes on."""
        self.gap: Gap | None = None
        """Where bytes of the log were left out before it came here."""
        self.length = 0
        """Bytes read so far."""
        self.lines = 0
        self.searched = 0
        """Bytes that were searched: all, but for a time limit."""

    @property
    def divisible(self) -> bool:
        """Whether it can be read at any place: a file, as it is."""
        return not isinstance(self._bytes, Streamed)

    def blocks(self, size: int = BLOCK, start: int = 0, stop: int | None = None) -> Iterator[Block]:
        """All of the source, or a part of a file, in blocks that end at line ends, unless one line outgrows them.

        Where such a line is cut depends on where it begins alone.
        """
        end = (self.size if stop is None else stop) if self.divisible else None
        at, begun, want = start, False, size
        while True:
            data = self._fetch(at, want if end is None else min(want, end - at))
            if not data:
                if end is not None and at < end and self.fault is None:
                    self.fault = UnreadError(self.path or self.name, "shrunk")
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
        if self._end is not None:
            size = min(size, self._end - at)
        if size <= 0:
            return b""
        try:
            return self._bytes.pread(size, at + self.begins)
        except UnreadError as error:
            self.fault = self.fault or error
            return b""

    def leave_out_below(self, byte: int) -> None:
        """End at this byte of the file, before anything is read: a later run wrote what is below it."""
        if self.divisible and self.size is not None and byte < self.begins + self.size:
            self.size = self._end = max(0, byte - self.begins)

    def leave_out(self, above: int, deadline: Deadline = NEVER) -> None:
        """Begin at this byte of the file, before anything is read: an earlier run wrote what is above it."""
        if not self.divisible or self.begins or above <= 0:
            return
        above = min(above, self.size or 0)
        lines = 0
        for at in range(0, above, BLOCK):
            if deadline.passed(_COUNTING):
                self.lines_above = None
                break
            lines += line_ends(self._fetch(at, min(BLOCK, above - at)))
        else:
            self.lines_above = lines
        self.begins, self.size = above, (self.size or 0) - above

    def line_start(self, at: int) -> int:
        """The first offset from here on at which a line begins, in a file; its end where none does."""
        size = self.size or 0
        at = max(at - 1, 0)
        while at < size and (data := self._fetch(at, BLOCK)):
            if (found := data.find(b"\n")) >= 0:
                return at + found + 1
            at += len(data)
        return size

    def sample(self, size: int, most: int | None = None) -> list[str]:
        """Some of the lines, from the head and, where the file can be read at will, from places all over it.

        Of more than the `most` lines some between are left out.
        """
        pieces = [self.peek(size)[:size]]
        if (
            len(pieces[0]) == size and pieces[0].count(b"\n") < 50
        ):  # a printed configuration may fill the head with one line
            pieces = [self.peek(16 * size)]
        if self.size is not None and self.size > 4 * size and self.divisible:
            places = [
                *(self.size * k // 8 for k in range(1, 8)),
                self.size - size // 8,
            ]  # what failed stands at the end
            pieces += [self._fetch(place, size // 8) for place in places]
        lines: list[bytes] = []
        for number, piece in enumerate(pieces):
            whole = piece.split(b"\n")
            if number or len(piece) >= size:
                whole = whole[bool(number) : -1]  # a cut line may have lost its label
            lines += whole
        step = 1 if most is None else max(1, len(lines) // most)
        return [line[:400].decode("utf-8", "replace") for line in lines[::step]]

    def end_of(self, size: int) -> list[str]:
        """The last lines of a file."""
        data = self._fetch(max(0, (self.size or 0) - size), size) if self.divisible else b""
        return data.decode("utf-8", "replace").split("\n")[1:]

    def peek(self, size: int) -> bytes:
        """The first bytes, or all where there are fewer; for use before `blocks`."""
        return self._bytes.peek(size) if isinstance(self._bytes, Streamed) else self._fetch(0, size)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes already passed by `blocks`, again. Short where the file has shrunk since."""
        offset = max(0, offset)
        size = min(size, self.length - offset)
        if size <= 0:
            return b""
        return self._fetch(offset, size)

    def close(self) -> None:
        self._bytes.close()


class Text:
    """A string handed over in Python, as a source."""

    @staticmethod
    def source(text: str | bytes, name: str = "<text>", gap: Gap | None = None) -> Source:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        source = Source(name, None, len(data), Held(data))
        source.gap = gap
        return source
