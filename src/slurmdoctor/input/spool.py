"""Keeps what can be read front to back alone (pipes, compressed logs), so that places in it can be read again."""

from __future__ import annotations

import os
from typing import IO

from slurmdoctor.model import UserError

MOST = 64 * 1024**3
"""Bytes, of all logs together: nobody's log, but what a few megabytes may decompress to."""
_IN_MEMORY = 32 * 1024 * 1024


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
