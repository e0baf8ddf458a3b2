"""How far the newest run of a dataset came: a small file that the run keeps, and that reports read."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from msgspec import MsgspecError, Struct, json

from slurmdoctor.survey.tally import Tally

_NAME = "progress.json"
_SECONDS = 5.0
"""Between two writes."""


class Mark(Struct, frozen=True):
    """How far a run came."""

    found: int
    """Jobs;"""
    there: int
    """of these have a row,"""
    listed: bool
    """and whether all jobs were found."""
    finished: bool


class Marker:
    """Keeps the mark of a run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._written = 0.0

    def keep(self, tally: Tally) -> None:
        """Write the mark, if there is something to say, and not too often."""
        if tally.found and (not self._written or time.monotonic() - self._written > _SECONDS):
            self.write(tally)

    def write(self, tally: Tally, *, finished: bool = False) -> None:
        mark = Mark(tally.found, tally.unchanged + tally.done, tally.listed, finished)
        new = self._folder / f"new-{_NAME}"
        with suppress(OSError):  # rows are what must be written, and their error is told
            new.write_bytes(json.encode(mark))
            new.replace(self._folder / _NAME)
        self._written = time.monotonic()


def mark_of(folder: Path) -> Mark | None:
    """What the run that keeps its files in this folder came to."""
    try:
        return json.decode((folder / _NAME).read_bytes(), type=Mark)
    except (OSError, MsgspecError):
        return None
