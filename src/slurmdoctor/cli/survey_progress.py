"""How far a survey is, on a terminal: jobs, bytes, and what is left once that can be known."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from slurmdoctor.cli.progress import PATIENCE, on_terminal
from slurmdoctor.cli.say import show
from slurmdoctor.report import Line, look, paint
from slurmdoctor.survey import Tally

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
_PAUSE = 0.2
"""Seconds between two pictures."""
_WIDTH = 20
_CLEAR = "\r\x1b[K"
_JOB = 100_000
"""A job costs as much as so many bytes, beside its own."""
_ENOUGH = 2.0
"""Seconds of reading before the rest can be told."""
_ALONE = 60.0
"""Seconds without any worker after which that is told, on a terminal or not."""


class SurveyBar:
    """Shows a tally while it changes; nothing where there is no terminal."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._drawn = 0.0
        self._first = self._newest = (0.0, 0.0)
        """When jobs were done first and last, and the work that was done by then."""
        self._shows = on_terminal()
        self._alone: float | None = None
        self._told = False

    def __enter__(self) -> SurveyBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            show(_CLEAR, err=True)

    def update(self, tally: Tally) -> None:
        now = time.monotonic()
        self._watch(tally, now)
        work = _work(tally.done, tally.bytes_done)
        if work > self._newest[1]:
            self._newest = now, work
            self._first = self._first if self._first[1] else self._newest
        if self._shows and now - self._began >= PATIENCE and now - self._drawn >= _PAUSE:
            self._drawn = now
            seen = look(sys.stderr)
            line = row(tally, self._left(tally, now), min(seen.width, 120))
            show(_CLEAR + paint([line], colour=seen.colour, encoding=seen.encoding).rstrip("\n"), err=True)

    def _watch(self, tally: Tally, now: float) -> None:
        """Tell once that nobody reads."""
        if tally.workers or not tally.found > tally.unchanged + tally.done:
            self._alone, self._told = None, False
            return
        self._alone = now if self._alone is None else self._alone
        if now - self._alone >= _ALONE and not self._told and not self._shows:
            self._told = True
            show(
                f"slurmdoctor: no worker has been there for {_ALONE:.0f} s: waiting for one (Ctrl-C keeps what is done)\n",
                err=True,
            )

    def _left(self, tally: Tally, now: float) -> float | None:
        """Seconds; None while that is not known: jobs are still looked for, or too little is done."""
        (since, before), (until, done) = self._first, self._newest
        if not tally.listed or until - since < _ENOUGH:
            return None
        rest = _work(tally.found - tally.unchanged, tally.bytes_found) - done
        return max(0.0, rest * (until - since) / (done - before) - (now - until))


def row(tally: Tally, left: float | None, width: int = 100) -> Line:
    """`reading ━━━━──── 812 of 10,412 jobs, 0.9 of 10.2 GB, 3 min left`; while jobs are looked for, `found so far`."""
    wanted = tally.found - tally.unchanged
    so_far = "" if tally.listed else " found so far"
    told = f"{tally.done:,} of {wanted:,} jobs{so_far}, {_of(tally.bytes_done, tally.bytes_found)}"
    told += f", {tally.unchanged:,} unchanged" if tally.unchanged else ""
    told += f", {in_words(left)} left" if left is not None else ""
    told += ", no worker yet" if wanted and not tally.workers and tally.listed else ""
    line: Line = [("", "reading ")]
    if tally.listed and wanted and len(told) + _WIDTH + 10 <= width:
        full = round(_WIDTH * _work(tally.done, tally.bytes_done) / _work(wanted, tally.bytes_found))
        line += [("key", "━" * full), ("dim", "─" * (_WIDTH - full)), ("", " ")]
    return [*line, ("", told[: max(10, width - 9)])]


def in_words(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def _of(size: int, whole: int) -> str:
    unit, name = next((one for one in _UNITS if whole >= one[0]), _UNITS[-1])
    return f"{size / unit:.1f} of {whole / unit:.1f} {name}"


def _work(jobs: int, size: int) -> float:
    return jobs * _JOB + size
