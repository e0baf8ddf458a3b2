"""Reads what can be read front to back alone (a pipe, a compressed log), and keeps it to be read again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Protocol

from slurmdoctor.input.spool import Spool
from slurmdoctor.input.unread import UnreadError, unread

CHUNK = 512 * 1024
"""Bytes a read."""


class Stream(Protocol):
    """Bytes that can be read front to back alone."""

    def read(self, size: int, /) -> bytes:
        """At least one byte, but at the end. Raises UnreadError where there are more that cannot be read."""

    def close(self) -> None: ...


class Pipe:
    """Bytes as they come."""

    def __init__(self, name: str, read: Callable[[int], bytes | None], close: Callable[[], object] = bool) -> None:
        self.name, self._read, self._close = name, read, close
        self._begin = b""

    def peek(self, size: int) -> bytes:
        """The first bytes that are there; more of them while they are NUL bytes."""
        while len(self._begin) < size and not self._begin.strip(b"\0") and (data := self._next(size)):
            self._begin += data
        return self._begin

    def read(self, size: int = CHUNK, /) -> bytes:
        if self._begin:
            data, self._begin = self._begin[:size], self._begin[size:]
            return data
        return self._next(size)

    def _next(self, size: int) -> bytes:
        try:
            return self._read(size) or b""
        except BlockingIOError:  # who opened it does not wait, and neither do we
            return b""
        except OSError as error:
            raise unread(self.name, error) from None

    def close(self) -> None:
        self._close()


class Streamed:
    """A stream that is read once, in order; what was read is kept, and can be read again."""

    def __init__(self, name: str, begin: Callable[[], Stream], spool: Spool, again: bool = False) -> None:
        self._name = name
        self._begin = begin
        self._again = again
        """Whether it may begin anew: then it is closed after a look at its head, for others may need the descriptor."""
        self._spool = spool
        self._stream: Stream | None = None
        self._head = b""
        self._ended = False
        self._start, self._kept = 0, b""
        self._places: list[tuple[int, int]] = []
        """(offset in the stream, place in the spool) of stretches of it."""
        self._length = 0
        self.fault: UnreadError | None = None
        """Why its rest was not read."""

    def peek(self, size: int) -> bytes:
        """The first bytes, or all where there are fewer; for use before `ahead`."""
        while len(self._head) < size and (data := self._next(size - len(self._head))):
            self._head += data
        head = self._head
        if self._again:
            self._rewind()
        return head

    def ahead(self, size: int, at: int) -> bytes:
        """Bytes from this offset, which rises from call to call."""
        pieces = [self._kept[at - self._start :]]
        have = len(pieces[0])
        while have < size:
            data, self._head = self._head or self._next(max(CHUNK, size - have)), b""
            if not data:
                break
            self._keep(data)
            pieces.append(data)
            have += len(data)
        self._start, self._kept = at, b"".join(pieces)
        return self._kept[:size] if have > size else self._kept

    def again(self, size: int, at: int) -> bytes:
        """Bytes that were read before."""
        found = b""
        number = bisect_right(self._places, (at, self._spool.size)) - 1
        while size > 0 and 0 <= number < len(self._places):
            offset, place = self._places[number]
            end = self._places[number + 1][0] if number + 1 < len(self._places) else self._length
            data = self._spool.read(place + at - offset, min(size, end - at))
            found += data
            at, size, number = at + len(data), size - len(data), number + 1
        return found

    def close(self) -> None:
        self._end()
        self._spool.close()

    def _keep(self, data: bytes) -> None:
        place = self._spool.append(data)
        if not self._places or self._places[-1][1] + self._length - self._places[-1][0] != place:
            self._places.append((self._length, place))
        self._length += len(data)

    def _next(self, size: int) -> bytes:
        if self._ended:
            return b""
        data = b""
        try:
            self._stream = self._stream or self._begin()
            if self._spool.room <= 0:
                raise UnreadError(self._name, "too-large")
            data = self._stream.read(min(size, self._spool.room))
        except UnreadError as error:
            self.fault = error
        if not data:
            self._end()
        return data

    def _end(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream, self._ended = None, True

    def _rewind(self) -> None:
        self._end()
        self._ended, self._head = False, b""
