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
    loop = _Loop(_to_read(data, items, how, shard, change, tally), data, how, hire, change, tally)
    kept = 0.0
    try:
        while loop.step():
            if tally.found and time.monotonic() - kept > _KEPT:
                kept = time.monotonic()
                _keep(data, tally)
            report(tally)
    except BaseException:
        loop.close()
        with suppress(UserError):  # if it is the disk, that is told already
            _keep(data, tally)
            data.flush()
            data.merge()
        raise
    loop.close()
    data.flush()
    data.merge()
    _keep(data, tally, finished=True)


def _keep(data: Dataset, tally: Tally, *, finished: bool = False) -> None:
    write_progress(data.run, Progress(tally.found, tally.unchanged + tally.done, tally.listed, finished))


def _to_read(
    data: Dataset,
    items: Iterable[Item],
    how: How,
    shard: tuple[int, int] | None,
    change: Anonymizer | None,
    tally: Tally,
) -> Iterator[Item]:
    """The jobs of this shard whose rows are not there, or are of other logs, records or rules."""
    known = data.known()
    for item in items:
        if shard is not None and int.from_bytes(digest_of(item.key), "big") % shard[1] != shard[0] - 1:
            continue
        tally.found += 1
        called = item.key, fingerprint(item, how)
        key, print_ = change.identity(*called) if change else called
        # without its logs a job's row would tell less than it does
        is_gone = item.record is not None and not item.logs and digest_of(key, "read", item.record.state) in known
        if not is_gone and (digest := digest_of(key, print_)) not in known:
            known.add(digest)
            tally.bytes_found += item.size
            yield item
        else:
            tally.unchanged += 1


class _Loop:
    """Looks for jobs, hands them out, and takes their rows, a moment for each."""

    def __init__(
        self, items: Iterator[Item], data: Dataset, how: How, hire: Hire, change: Anonymizer | None, tally: Tally
    ) -> None:
        self._items, self._data, self._how, self._hire, self._change = items, data, how, hire, change
        self._tally = tally
        self._pool: Pool | None = None
        self._waiting = Waiting()
        self._last: deque[Chunk] = deque()
        """Jobs whose worker died: each is read alone, when nothing else is."""
        self._out = 0
        self._began = time.monotonic()

    def step(self) -> bool:
        """Whether anything is left to do."""
        if not self._tally.listed and len(self._waiting) < _WINDOW:
            self._look()
        enough = self._tally.listed or len(self._waiting) >= _WINDOW
        if enough or time.monotonic() - self._began > _LOOK_AROUND:
            self._hand_out()
        if self._pool is not None and self._out:
            seconds = _SLICE if enough else 0.0
            while (outcome := self._pool.outcome(seconds)) is not None:
                self._take(outcome)
                self._hand_out()
                seconds = 0.0
        self._data.add([])
        return not self._tally.listed or bool(self._waiting or self._out or self._last)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    def _look(self) -> None:
        end = time.monotonic() + _SLICE
        for item in self._items:
            self._waiting.add(item)
            if time.monotonic() > end or len(self._waiting) >= _WINDOW:
                return
        self._tally.listed = True

    def _hand_out(self) -> None:
        if not (self._waiting or self._last or self._out):
            return
        pool = self._pool = self._pool or self._hire()
        self._tally.workers = pool.workers
        while self._waiting and self._out < max(1, pool.wanted):
            self._submit(pool, self._waiting.pop(max(1, pool.workers)))
        if self._last and not self._out:
            self._submit(pool, self._last.popleft())

    def _submit(self, pool: Pool, chunk: Chunk) -> None:
        pool.submit(chunk)
        self._out += 1

    def _take(self, outcome: Outcome) -> None:
        self._out -= 1
        chunk, rows = outcome.chunk, outcome.rows
        if outcome.died is not None:
            if not chunk.alone:
                self._last += chunk.one_by_one()
                return
            rows = tuple(not_read(item, self._how, outcome.died) for item in chunk.items)
        kept = [self._change.row(row) if self._change else row for row in rows]
        for row in rows:
            self._tally.count(row)
        self._tally.bytes_done += chunk.size
        self._data.add(kept)
