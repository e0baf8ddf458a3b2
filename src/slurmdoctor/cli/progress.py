"""A progress bar on a terminal, shown after a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from slurmdoctor.pipeline import Progress

PATIENCE = 1.0
"""Seconds in which nothing is shown."""


class Bar:
    """Shows how much of the logs was read. `callback` is `diagnose`'s `progress`: None where there is no terminal."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._read = 0
        self._shown: tuple[Bars, TaskID] | None = None
        self.callback: Progress | None = self._update if sys.stderr is not None and sys.stderr.isatty() else None

    def __enter__(self) -> Bar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown is not None:
            self._shown[0].stop()

    def _update(self, read: int, total: int | None) -> None:
        self._read += read
        if self._shown is None:
            if time.monotonic() - self._started < PATIENCE:
                return
            self._shown = self._start(total)
        bar, task = self._shown
        bar.update(task, completed=self._read)

    def _start(self, total: int | None) -> tuple[Bars, TaskID]:
        from rich.console import Console  # slow to import, and needed on a terminal only
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        bar = Progress(
            TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
            console=Console(stderr=True), transient=True,
        )  # fmt: skip
        task = bar.add_task("reading", total=total)
        bar.start()
        return bar, task
