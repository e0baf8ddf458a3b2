"""A run: jobs in, rows in the dataset. The same loop for every kind of workers."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Protocol

from slurmdoctor.model import UserError
from slurmdoctor.survey.chunks import Chunk, Waiting, one_by_one
from slurmdoctor.survey.dataset import Dataset
from slurmdoctor.survey.executors import Crew, Outcome
from slurmdoctor.survey.journal import Journal
from slurmdoctor.survey.known import digest_of
from slurmdoctor.survey.mark import Marker
from slurmdoctor.survey.merge import merge
from slurmdoctor.survey.rows import How, Item, Row, fingerprint
from slurmdoctor.survey.tally import Tally
from slurmdoctor.survey.work import not_read

_WINDOW = 50_000
"""Jobs that wait at most: of these the biggest goes first."""
_LOOK_AROUND = 1.0
"""Seconds of looking for jobs before the first ones are read."""
_SLICE = 0.1
"""Seconds between two looks at what is done."""


class Change(Protocol):
    """What is done to all rows before they are written: `--anonymize`."""

    def row(self, row: Row) -> Row: ...

    def identity(self, key: str, fingerprint: str) -> tuple[str, str]:
        """What the changed row has for these."""


Hire = Callable[[], Crew]
Tell = Callable[[Tally], None]


def run(
    data: Dataset,
    items: Iterable[Item],
    how: How,
    hire: Hire,
    *,
    shard: tuple[int, int] | None = None,
    change: Change | None = None,
    tally: Tally,
    tell: Tell = lambda _: None,
) -> None:
    """Write a row for each job that has none, or has changed. `hire` is called when the first one is to be read."""
    merge(data)  # what a run before left
    journal, marker = Journal(data), Marker(data.run)
    loop = _Loop(_to_read(data, items, how, shard, change, tally), journal, how, hire, change, tally)
    try:
        while loop.step():
            marker.keep(tally)
            tell(tally)
    except BaseException:
        loop.close()
        with suppress(UserError):  # if it is the disk, that is told already
            marker.write(tally)
            journal.flush()
            merge(data)
        raise
    loop.close()
    journal.flush()
    merge(data)
    marker.write(tally, finished=True)


def _to_read(
    data: Dataset, items: Iterable[Item], how: How, shard: tuple[int, int] | None, change: Change | None, tally: Tally
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
        is_gone = item.record is not None and not item.logs and known.was_read(key, item.record.state)
        if not is_gone and known.add(key, print_):
            tally.bytes_found += item.size
            yield item
        else:
            tally.unchanged += 1


class _Loop:
    """Looks for jobs, hands them out, and takes their rows, a moment for each."""

    def __init__(
        self, items: Iterator[Item], journal: Journal, how: How, hire: Hire, change: Change | None, tally: Tally
    ) -> None:
        self._items, self._journal, self._how, self._hire, self._change = items, journal, how, hire, change
        self._tally = tally
        self._crew: Crew | None = None
        self._waiting = Waiting()
        self._again: deque[Chunk] = deque()
        """Jobs whose worker died, each alone."""
        self._last: deque[Chunk] = deque()
        """Those that died again beside others: they are read when nothing else is."""
        self._out = 0
        self._began = time.monotonic()

    def step(self) -> bool:
        """Whether anything is left to do."""
        if not self._tally.listed and len(self._waiting) < _WINDOW:
            self._look()
        if self._tally.listed or len(self._waiting) >= _WINDOW or time.monotonic() - self._began > _LOOK_AROUND:
            self._hand_out()
        if self._crew is not None and self._out:
            seconds = _SLICE if self._tally.listed or len(self._waiting) >= _WINDOW else 0.0
            while (outcome := self._crew.outcome(seconds)) is not None:
                self._take(outcome)
                self._hand_out()
                seconds = 0.0
        self._journal.add([])
        return bool(not self._tally.listed or self._waiting or self._again or self._last or self._out)

    def close(self) -> None:
        if self._crew is not None:
            self._crew.close()

    def _look(self) -> None:
        end = time.monotonic() + _SLICE
        for item in self._items:
            self._waiting.add(item)
            if time.monotonic() > end or len(self._waiting) >= _WINDOW:
                return
        self._tally.listed = True

    def _hand_out(self) -> None:
        if self._last and not (self._waiting or self._again or self._out):
            self._again.append(self._last.popleft())
        if not (self._waiting or self._again or self._out):
            return
        crew = self._crew = self._crew or self._hire()
        self._tally.workers = crew.workers
        wanted = max(1, crew.wanted)
        while self._out < wanted and (self._again or self._waiting):
            crew.submit(self._again.popleft() if self._again else self._waiting.pop(max(1, crew.workers)))
            self._out += 1

    def _take(self, outcome: Outcome) -> None:
        self._out -= 1
        chunk, rows = outcome.chunk, outcome.rows
        if outcome.died is not None and self._crew is not None and chunk.trial < self._crew.trials:
            (self._last if chunk.trial else self._again).extend(one_by_one(chunk))
            return
        if outcome.died is not None:
            rows = tuple(not_read(item, self._how, outcome.died) for item in chunk.items)
        tally = self._tally
        tally.bytes_done += chunk.size
        tally.failed += sum(row.verdict == "failed" for row in rows)
        for row in rows:
            tally.read[row.read] += 1
            if row.read == "error":
                tally.error = tally.error or f"{', '.join(row.logs[:1]) or row.key}: {row.error}"
        kept = [self._change.row(row) if self._change else row for row in rows]
        tally.done += len(kept)
        self._journal.add(kept)
