"""A progress bar on a terminal, shown after a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING

from slurmdoctor.cli.say import show
from slurmdoctor.report import Line, Look, look, paint

if TYPE_CHECKING:
    from slurmdoctor.pipeline import Progress

PATIENCE = 1.0
"""Seconds in which nothing is shown."""
_PAUSE = 0.1
"""Seconds between two pictures."""
_WIDTH = 30
_CLEAR = "\r\x1b[K"


class Bar:
    """Shows how much of the logs was read. `callback` is `diagnose`'s `progress`: None where there is no terminal."""

    def __init__(self) -> None:
        self._started = 0.0
        self._drawn = 0.0
        self._read = 0
        self.callback: Progress | None = self._update if on_terminal() else None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            show(_CLEAR, err=True)

    def _update(self, read: int, total: int | None) -> None:
        self._read += read
        now = time.monotonic()
        self._started = self._started or now  # what was prepared before is no reading
        if now - self._started >= PATIENCE and now - self._drawn >= _PAUSE:
            self._drawn = now
            show(_CLEAR + row(self._read, total, now - self._started, look(sys.stderr)), err=True)


@contextmanager
def preparing() -> Iterator[None]:
    """Says so while the rules are read for the first time."""
    show("preparing the rules, once (a few seconds) ...", err=True)
    try:
        yield
    finally:
        show(_CLEAR, err=True)


def on_terminal() -> bool:
    """Whether somebody watches."""
    return sys.stderr is not None and sys.stderr.isatty()


def row(read: int, total: int | None, seconds: float, seen: Look) -> str:
    """`reading ━━━━━━ 98 of 227 MB, 3 s left`; without the number of bytes to read, what was read."""
    line: Line = [("", "reading ")]
    if total:
        done = min(read / total, 1.0)
        full = round(_WIDTH * done)
        left = f", {seconds * (1 - done) / done:.0f} s left" if done else ""
        line += [("key", "━" * full), ("dim", "─" * (_WIDTH - full)), ("", f" {_megabytes(read)} of ")]
        line += [("", f"{_megabytes(total)} MB{left}")]
    else:
        line += [("", f"{_megabytes(read)} MB")]
    return paint([line], colour=seen.colour, encoding=seen.encoding).rstrip("\n")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}" if size < 10_000_000 else f"{size / 1e6:,.0f}"
