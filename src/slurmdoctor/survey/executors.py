"""Where chunks are diagnosed: on processes of this machine. A job that kills its reader is found out."""

from __future__ import annotations

import pickle
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from msgspec import Struct

from slurmdoctor.model import UserError
from slurmdoctor.survey.children import python
from slurmdoctor.survey.chunks import Chunk
from slurmdoctor.survey.rows import How, Item, Row

Work = Callable[[Item, How], Row]
MARGIN = 60.0
"""Seconds beyond the time limit of a job after which its reader is ended: a disk may not answer."""
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
        self._done: SimpleQueue[Outcome | UserError] = SimpleQueue()
        self._lanes = [_Lane(work, how, self._done) for _ in range(workers)]

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
            outcome = self._done.get(timeout=seconds)
        except Empty:
            return None
        if isinstance(outcome, UserError):
            raise outcome
        return outcome

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()


class _Lane:
    """One worker, and the chunks that wait for it. It is given one at a time: if it dies, that one was it."""

    def __init__(self, work: Work, how: How, done: SimpleQueue[Outcome | UserError]) -> None:
        self._work, self._how, self._done = work, how, done
        self._patience = how.time_limit + MARGIN if how.time_limit is not None else 0.0
        self._next: SimpleQueue[Chunk] = SimpleQueue()
        self._busy = self._closed = False
        self._lock = threading.Lock()
        self._worker: subprocess.Popen[bytes] | None = None
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def chunks(self) -> int:
        return self._next.qsize() + self._busy

    def submit(self, chunk: Chunk) -> None:
        self._next.put(chunk)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._worker is not None:
                self._worker.kill()
                self._worker.wait()

    def _run(self) -> None:
        while True:
            self._busy = False
            chunk = self._next.get()
            self._busy = True
            try:
                self._done.put(self._outcome(chunk))
            except UserError as error:
                self._done.put(error)

    def _outcome(self, chunk: Chunk) -> Outcome:
        """What came of a chunk; a worker that died has a successor when the next one comes."""
        worker = self._worker = self._worker or self._started()
        told = _told(worker, (self._work, chunk, self._how, self._patience))
        if told is None:
            self._worker = None
            return Outcome(chunk, died=self._how_it_died(worker.wait()))
        return Outcome(chunk, died=told) if isinstance(told, str) else Outcome(chunk, told)

    def _started(self) -> subprocess.Popen[bytes]:
        for _ in range(_STARTS):
            with self._lock, _uninterrupted():
                if self._closed:
                    raise UserError("the survey has ended")
                worker = self._worker = subprocess.Popen(
                    [*python(), "-m", "slurmdoctor.survey.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            if _told(worker):
                return worker
            worker.wait()
        raise UserError("the workers die before they read anything", "try --jobs 1, or look for limits of memory")

    def _how_it_died(self, status: int) -> str:
        if status == -signal.SIGALRM:
            return f"its reader did not answer within {self._patience:.0f} s, and was ended"
        if status < 0:
            return f"its reader was killed by signal {-status} ({signal.Signals(-status).name})"
        return f"its reader exited with status {status}"


def _told(worker: subprocess.Popen[bytes], *asked: Any) -> Any:
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


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for a worker that is half started, and the worker, which inherits this, never hears it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
