"""A progress bar on a terminal, for what takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slurmdoctor.pipeline import Progress

PATIENCE = 1.0
"""Seconds in which nothing is shown."""


class Bar:
    """Shows how much of the logs was read. `told` is what to hand to `diagnose`: None where nobody would see it."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._read = 0
        self._bar: Any = None
        self._task: Any = None
        self.told: Progress | None = self._tell if sys.stderr is not None and sys.stderr.isatty() else None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _tell(self, read: int, total: int | None) -> None:
        self._read += read
        if self._bar is None:
            if time.monotonic() - self._started < PATIENCE:
                return
            self._show(total)
        self._bar.update(self._task, completed=self._read)

    def _show(self, total: int | None) -> None:
        from rich.console import Console  # slow to import, and needed on a terminal only
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("reading", total=total)
        self._bar.start()
