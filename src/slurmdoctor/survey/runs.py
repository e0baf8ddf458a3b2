"""A run: jobs in, rows in the dataset. The same loop for every kind of workers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import get_args

from slurmdoctor.model import UserError
from slurmdoctor.survey.dataset import Dataset, Progress, digest_of, write_progress
from slurmdoctor.survey.pool import Chunk, Outcome, Pool, Waiting
from slurmdoctor.survey.pseudonyms import Anonymizer
from slurmdoctor.survey.rows import How, Item, Read, Row, fingerprint
from slurmdoctor.survey.work import not_read

_WINDOW = 20_000
"""Jobs that wait at most: of these the biggest goes first."""
_LOOK_AROUND = 1.0
"""Seconds of looking for jobs before the first ones are read."""
_SLICE = 0.1
"""Seconds between two looks at what is done."""
_AHEAD = 4
"""Chunks that are handed out at least: those at work, and the next."""
_KEPT = 5.0
"""Seconds after which it is kept again how far the run is."""


@dataclass(slots=True)
class Tally:
    """How far a run is."""

    found: int = 0
    unchanged: int = 0
    """Jobs whose rows are there already."""
    done: int = 0
    failed: int = 0
    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(get_args(Read), 0))
    """Rows by what was done with the logs."""
    error: str | None = None
    """The first reason why a job was not read."""
    bytes_found: int = 0
    """Of the logs that are to be read."""
    bytes_done: int = 0
    listed: bool = False
    """Whether all jobs are found."""
    workers: int = 0

    def count(self, row: Row) -> None:
        """Count a job that is done."""
        self.done += 1
        self.failed += row.verdict == "failed"
        self.read[row.read] += 1
        if row.read == "error":
            self.error = self.error or f"{', '.join(row.logs[:1]) or row.key}: {row.error}"


Hire = Callable[[], Pool]
Report = Callable[[Tally], None]


def run(
    data: Dataset,
    items: Iterable[Item],
    how: How,
    hire: Hire,
    *,
    shard: tuple[int, int] | None = None,
    change: Anonymizer | None = None,
    tally: Tally,
    report: Report = lambda _: None,
) -> None:
    """Write a row for each job that has none, or has changed. `hire` is called when the first one is to be read."""
    data.merge()  # what a run before left
    loop = _Loop(data, how, hire, change, tally)
    to_read = loop.to_read(items, shard or (1, 1))
    kept = 0.0
    try:
        while loop.step(to_read):
            if tally.found and time.monotonic() - kept > _KEPT:
                kept = time.monotonic()
                loop.keep()
            report(tally)
    except BaseException:
        loop.close()
        with suppress(UserError):  # if it is the disk, that is told already
            loop.keep()
            data.flush()
            data.merge()
        raise
    loop.close()
    data.flush()
    data.merge()
    loop.keep(finished=True)


@dataclass(slots=True)
class _Loop:
    """Looks for jobs, hands them out, and takes their rows, a moment for each."""

    data: Dataset
    how: How
    hire: Hire
    change: Anonymizer | None
    tally: Tally
    pool: Pool | None = None
    waiting: Waiting = field(default_factory=Waiting)
    alone: deque[Chunk] = field(default_factory=deque)
    """Jobs whose worker died: each is read alone, when nothing else is."""
    out: int = 0
    """Chunks that the workers have."""
    began: float = field(default_factory=time.monotonic)

    def to_read(self, items: Iterable[Item], shard: tuple[int, int]) -> Iterator[Item]:
        """The jobs of this shard whose rows are not there, or are of other logs, records or rules."""
        known, tally = self.data.known(), self.tally
        for item in items:
            if int.from_bytes(digest_of(item.key), "big") % shard[1] != shard[0] - 1:
                continue
            tally.found += 1
            called = item.key, fingerprint(item, self.how)
            key, print_ = self.change.identity(*called) if self.change else called
            # without its logs a job's row would tell less than it does
            is_gone = item.record is not None and not item.logs and digest_of(key, "read", item.record.state) in known
            if not is_gone and (digest := digest_of(key, print_)) not in known:
                known.add(digest)
                tally.bytes_found += item.size
                yield item
            else:
                tally.unchanged += 1

    def step(self, to_read: Iterator[Item]) -> bool:
        """Whether anything is left to do."""
        tally = self.tally
        if not tally.listed and len(self.waiting) < _WINDOW:
            self._look(to_read)
        enough = tally.listed or len(self.waiting) >= _WINDOW
        if enough or time.monotonic() - self.began > _LOOK_AROUND:
            self._hand_out()
        if self.pool is not None and self.out:
            seconds = _SLICE if enough else 0.0
            while (outcome := self.pool.outcome(seconds)) is not None:
                self._take(outcome)
                self._hand_out()
                seconds = 0.0
        self.data.add([])
        return not tally.listed or bool(self.waiting or self.out or self.alone)

    def keep(self, *, finished: bool = False) -> None:
        """Write down how far the run is."""
        tally = self.tally
        write_progress(self.data.run, Progress(tally.found, tally.unchanged + tally.done, tally.listed, finished))

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()

    def _look(self, to_read: Iterator[Item]) -> None:
        end = time.monotonic() + _SLICE
        for item in to_read:
            self.waiting.add(item)
            if time.monotonic() > end or len(self.waiting) >= _WINDOW:
                return
        self.tally.listed = True

    def _hand_out(self) -> None:
        if not (self.waiting or self.alone or self.out):
            return
        pool = self.pool = self.pool or self.hire()
        workers = self.tally.workers = pool.workers
        while self.waiting and self.out < max(_AHEAD, 2 * workers):
            self._submit(pool, self.waiting.pop(max(1, workers)))
        if self.alone and not self.out:
            self._submit(pool, self.alone.popleft())

    def _submit(self, pool: Pool, chunk: Chunk) -> None:
        pool.submit(chunk)
        self.out += 1

    def _take(self, outcome: Outcome) -> None:
        self.out -= 1
        chunk, rows = outcome.chunk, outcome.rows
        if outcome.died is not None:
            if not chunk.alone:
                self.alone += (Chunk((item,), alone=True) for item in chunk.items)
                return
            rows = tuple(not_read(item, self.how, outcome.died) for item in chunk.items)
        for row in rows:
            self.tally.count(row)
        self.tally.bytes_done += chunk.size
        self.data.add([self.change.row(row) if self.change else row for row in rows])
