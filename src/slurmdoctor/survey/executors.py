"""Where chunks are diagnosed: on processes of this machine, each an executor of its own. A job that kills its reader is found out."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, forkserver
from multiprocessing.process import BaseProcess
from queue import Empty, SimpleQueue
from typing import Protocol

from msgspec import Struct

from slurmdoctor.model import UserError
from slurmdoctor.survey.chunks import Chunk
from slurmdoctor.survey.rows import How, Item, Row

_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
Work = Callable[[Item, How], Row]
MARGIN = 60.0
"""Seconds beyond the time limit of a job after which its reader is ended: a disk may not answer."""
_COMES_UP = 10.0
"""Seconds in which a worker has started."""
_STARTS = 3
"""Workers that may die one after the other before they have done anything."""


class Outcome(Struct, frozen=True):
    """What came of a chunk: its rows, or how its worker died."""

    chunk: Chunk
    rows: tuple[Row, ...] = ()
    died: str | None = None


class Crew(Protocol):
    """Workers, wherever they are."""

    trials: int
    """How often a worker must die with a job until it is the job's fault."""

    @property
    def wanted(self) -> int:
        """Chunks that they should have, at work and next."""

    @property
    def workers(self) -> int: ...

    def submit(self, chunk: Chunk) -> None: ...

    def outcome(self, seconds: float) -> Outcome | None:
        """What came of the next chunk that is done; None where there is none in that time."""

    def close(self) -> None:
        """End the workers, at once."""


class LocalCrew:
    """Processes of this machine."""

    trials = 1

    def __init__(self, workers: int, work: Work, how: How) -> None:
        self._done: _Done = SimpleQueue()
        self._lanes = [_Lane(work, how, self._done) for _ in range(workers)]
        _begin(work.__module__)
        try:
            for lane in self._lanes:
                lane.start()
        except BaseException:
            self.close()
            raise

    @property
    def workers(self) -> int:
        return len(self._lanes)

    @property
    def wanted(self) -> int:
        return 2 * len(self._lanes)

    def submit(self, chunk: Chunk) -> None:
        min(self._lanes, key=lambda lane: lane.chunks).submit(chunk)

    def outcome(self, seconds: float) -> Outcome | None:
        try:
            lane, chunk, future = self._done.get(timeout=seconds)
        except Empty:
            return None
        return lane.outcome(chunk, future)

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


class _Lane:
    """One worker, and the chunks that wait for it. It is given one at a time: if it dies, that one was it."""

    def __init__(self, work: Work, how: How, done: _Done) -> None:
        self._work, self._how, self._done = work, how, done
        self._next: deque[Chunk] = deque()
        self._at: Chunk | None = None
        self._lock = threading.RLock()
        self._died = 0
        self._patience = how.time_limit + MARGIN if how.time_limit is not None else 0.0
        self._process: BaseProcess | None = None
        self._executor: Executor | None = None
        self._up: Future[int] | None = None

    @property
    def chunks(self) -> int:
        return len(self._next) + (self._at is not None)

    def submit(self, chunk: Chunk) -> None:
        with self._lock:
            self._next.append(chunk)
            self._go_on()

    def outcome(self, chunk: Chunk, future: Future[list[Row]]) -> Outcome:
        """What came of a chunk; a worker that died has a successor."""
        error = future.exception()
        if error is None:
            self._died = 0
            return Outcome(chunk, tuple(future.result()))
        if isinstance(error, UserError):
            raise error
        if not isinstance(error, BrokenProcessPool):
            return Outcome(chunk, died=f"{type(error).__name__}: {error}")
        how = self._how_it_died()
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown(wait=False)
            self.start()
            self._go_on()
        return Outcome(chunk, died=how)

    def close(self) -> None:
        if self._executor is None or self._up is None:
            return
        wait([self._up], _COMES_UP)  # one that is ended while it starts would print a traceback
        with self._lock:
            self._next.clear()
            self._executor.shutdown(wait=False, cancel_futures=True)
            if self._process is not None:
                self._process.kill()

    def start(self) -> None:
        with _uninterrupted():
            self._process = None
            self._executor = ProcessPoolExecutor(
                1, mp_context=multiprocessing.get_context(_METHOD), initializer=_prepare
            )
            self._up = self._executor.submit(os.getpid)
            self._up.add_done_callback(self._met)

    def _met(self, future: Future[int]) -> None:
        """Remember the process: when it is dead, it tells of what it died."""
        if not future.cancelled() and future.exception() is None:
            pid = future.result()
            self._process = next((one for one in multiprocessing.active_children() if one.pid == pid), None)

    def _go_on(self) -> None:
        if self._at is None and self._next and self._executor is not None:
            self._at = self._next.popleft()
            try:
                future = self._executor.submit(diagnosed, self._work, self._at, self._how, self._patience)
            except BrokenProcessPool as error:
                future = Future()
                future.set_exception(error)
            future.add_done_callback(self._finished)

    def _finished(self, future: Future[list[Row]]) -> None:
        with self._lock:
            chunk, self._at = self._at, None
            if chunk is not None and not future.cancelled():
                self._done.put((self, chunk, future))
                if future.exception() is None:
                    self._go_on()

    def _how_it_died(self) -> str:
        if self._process is None:
            self._died += 1
            if self._died >= _STARTS:
                raise UserError(
                    "the workers die before they read anything", "try --jobs 1, or look for limits of memory"
                )
            return "its reader could not start"
        self._process.join(5)
        status = self._process.exitcode
        if status == -signal.SIGALRM:
            return f"its reader did not answer within {self._patience:.0f} s, and was ended"
        if status is not None and status < 0:
            return f"its reader was killed by signal {-status} ({signal.Signals(-status).name})"
        return f"its reader exited with status {status}"


_Done = SimpleQueue[tuple[_Lane, Chunk, "Future[list[Row]]"]]


def diagnosed(work: Work, chunk: Chunk, how: How, patience: float = 0.0) -> list[Row]:
    """The rows of a chunk: what a worker does. A process of our own is ended where a job takes longer than its `patience`."""
    rows = []
    for item in chunk.items:
        if patience:
            signal.setitimer(signal.ITIMER_REAL, patience)
        rows.append(work(item, how))
    if patience:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return rows


def _begin(module: str) -> None:
    """Start what the workers come from, with the module of their work; none of them hears Ctrl-C."""
    if _METHOD == "forkserver":
        forkserver.set_forkserver_preload([module])
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            forkserver.ensure_running()
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits: a worker that is half started could not be ended."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare() -> None:
    """Leave Ctrl-C to the parent, and end with it, however it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
