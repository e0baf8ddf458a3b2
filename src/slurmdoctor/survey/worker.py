"""A worker of this machine: `python -m slurmdoctor.survey.worker` reads chunks on standard input and answers with their rows."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from queue import SimpleQueue
from typing import Any

from slurmdoctor.survey.work import diagnose_one  # noqa: F401 - loaded before the first chunk comes


def main() -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    tasks: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_take, args=(tasks,), daemon=True).start()
    pickle.dump("ready", answers)
    while True:
        answers.flush()
        pickle.dump(_told(*tasks.get()), answers)


def _take(tasks: SimpleQueue[Any]) -> None:
    """Read the chunks, and end with the parent, however it ends."""
    try:
        while True:
            tasks.put(pickle.load(sys.stdin.buffer))
    finally:
        os._exit(1)


def _told(work: Any, chunk: Any, how: Any, patience: float) -> Any:
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
