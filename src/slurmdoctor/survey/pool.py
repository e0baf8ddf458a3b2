"""Where jobs are diagnosed: the chunks in which they go to workers, and the workers of this machine, each a process of its own.

`python -m slurmdoctor.survey.pool` is such a worker: it reads chunks on standard input and answers with their rows. A job that kills
its reader is found out.
"""

from __future__ import annotations

import heapq
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any

from slurmdoctor.model import Frozen, UserError
from slurmdoctor.processes import python, uninterrupted
from slurmdoctor.survey.rows import How, Item, Row

Work = Callable[[Item, How], Row]
MARGIN = 60.0
"""Seconds beyond the time limit of a job after which its reader is ended: a disk may not answer."""
_STARTS = 3
"""Workers that may die one after the other before they have done anything."""
_JOBS = 200
_FEW, _MANY = 5_000_000, 64_000_000
"""Bytes of a chunk. Only the rows of whole chunks are written, so a crash costs those that are read: some seconds of work,"""
_EACH = 64_000
"""and more of them for each worker: the chunks of a thousand do not come faster than one process takes them."""
_SHARES = 4
"""A chunk is at most such a part of what waits for a worker: at the end, all are busy."""


# ── chunks ──


class Chunk(Frozen):
    """What a worker does at once."""

    items: tuple[Item, ...]
    alone: bool = False
    """Whether nothing else is read meanwhile, so that a worker that dies has died of it."""

    @property
    def size(self) -> int:
        """Bytes of their logs."""
        return sum(item.size for item in self.items)


class Outcome(Frozen):
    """What came of a chunk: its rows, or how its worker died."""

    chunk: Chunk
    rows: tuple[Row, ...] = ()
    died: str | None = None


class Waiting:
    """The jobs that wait, the biggest first. `pop` gives the next chunk."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Item]] = []
        self._order = count()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: Item) -> None:
        self._bytes += item.size
        heapq.heappush(self._heap, (-item.size, next(self._order), item))

    def pop(self, workers: int) -> Chunk:
        """The biggest job that waits, and those after it, up to so many jobs and bytes."""
        most = min(_JOBS, max(1, len(self._heap) // (workers * _SHARES)))
        largest = min(max(_FEW, workers * _EACH), _MANY, self._bytes // (workers * _SHARES))
        items: list[Item] = []
        size = 0
        while self._heap and (not items or (len(items) < most and size - self._heap[0][0] <= largest)):
            items.append(heapq.heappop(self._heap)[-1])
            size += items[-1].size
        self._bytes -= size
        return Chunk(tuple(items))


# ── workers ──


class Pool:
    """Workers, wherever they are; what comes of their chunks goes through a queue."""

    workers = 0
    """How many are there at this moment."""

    def __init__(self) -> None:
        self.done: SimpleQueue[Outcome | UserError] = SimpleQueue()

    def submit(self, chunk: Chunk) -> None:
        raise NotImplementedError

    def outcome(self, seconds: float) -> Outcome | None:
        """What came of the next chunk that is done; None where there is none in that time. Raises what ends the run."""
        try:
            outcome = self.done.get(timeout=seconds)
        except Empty:
            return None
        if isinstance(outcome, UserError):
            raise outcome
        return outcome

    def close(self) -> None:
        """End the workers, at once."""


class LocalPool(Pool):
    """Processes of this machine. Each is given one chunk at a time: if it dies, that one was it."""

    def __init__(self, workers: int, work: Work, how: How) -> None:
        super().__init__()
        self._work, self._how, self.workers = work, how, workers
        self._patience = how.time_limit + MARGIN
        self._next: SimpleQueue[Chunk] = SimpleQueue()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._lock = threading.Lock()
        for _ in range(workers):
            threading.Thread(target=self._serve, daemon=True).start()

    def submit(self, chunk: Chunk) -> None:
        self._next.put(chunk)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for process in self._processes:
                process.kill()
                process.wait()

    def _serve(self) -> None:
        """Give one worker chunk after chunk; one that died has a successor when the next chunk comes."""
        process = None
        while True:
            chunk = self._next.get()
            try:
                process = process or self._started()
            except UserError as error:
                self.done.put(error)
                continue
            answer = _answer(process, (self._work, chunk, self._how, self._patience))
            if answer is None:
                answer, process = self._how_it_died(process.wait()), None
            self.done.put(Outcome(chunk, died=answer) if isinstance(answer, str) else Outcome(chunk, answer))

    def _started(self) -> subprocess.Popen[bytes]:
        for _ in range(_STARTS):
            with self._lock, uninterrupted():
                if self._closed:
                    raise UserError("the survey has ended")
                command = [*python(), "-m", "slurmdoctor.survey.pool"]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                self._processes.add(process)
            if _answer(process):
                return process
            process.wait()
        raise UserError("the workers die before they read anything", "try --jobs 1, or look for limits of memory")

    def _how_it_died(self, status: int) -> str:
        if status == -signal.SIGALRM:
            return f"its reader did not answer within {self._patience:.0f} s, and was ended"
        if status < 0:
            return f"its reader was killed by signal {-status} ({signal.Signals(-status).name})"
        return f"its reader exited with status {status}"


def _answer(worker: subprocess.Popen[bytes], *asked: Any) -> Any:
    """A worker's next answer; None where it died."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        for one in asked:
            pickle.dump(one, worker.stdin)
        worker.stdin.flush()
        return pickle.load(worker.stdout)
    except (OSError, ValueError, EOFError, pickle.UnpicklingError):  # ValueError: it was closed meanwhile
        return None


# ── in the worker ──


def main() -> None:
    """Answer chunks with rows, and end with the parent, however it ends."""
    from slurmdoctor.survey import work  # noqa: F401 - loaded before the first chunk comes

    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    tasks: SimpleQueue[Any] = SimpleQueue()

    def take() -> None:
        try:
            while True:
                tasks.put(pickle.load(sys.stdin.buffer))
        finally:
            os._exit(1)

    threading.Thread(target=take, daemon=True).start()
    pickle.dump("ready", answers)
    while True:
        answers.flush()
        pickle.dump(_rows_of(*tasks.get()), answers)


def _rows_of(work: Work, chunk: Chunk, how: How, patience: float) -> tuple[Row, ...] | str:
    """The rows of a chunk, or what went wrong. Where a job takes longer than its `patience` the worker is ended."""
    rows = []
    try:
        for item in chunk.items:
            signal.setitimer(signal.ITIMER_REAL, patience)
            rows.append(work(item, how))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return tuple(rows)


if __name__ == "__main__":
    main()
