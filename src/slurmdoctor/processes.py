"""Child processes: how one is started, whole and with no module of the folder that it works in, and for how many there are cores."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_BEGIN = "import sys; sys.path[:] = {path!r}; del sys.argv[:2]; import runpy; runpy.run_module(sys.argv[0], None, '__main__', True)"
_HOME = os.path.realpath(__file__).rsplit("/", 2)[0]
"""Where slurmdoctor is, be that the working folder."""


def python(program: str | None = None) -> list[str]:
    """The words before `-m MODULE ARGUMENT...`: Python imports from where this one does, and never from the folder that it works in.

    A `program` other than this Python knows its modules itself. What a child starts in turn (multiprocessing, Dask's nannies) is
    given `-I` by Python.
    """
    if program not in (None, sys.executable):
        return [str(program), "-I"]
    try:
        here = os.path.realpath(os.curdir)
    except FileNotFoundError:  # it was deleted, and holds nothing
        here = ""
    path = [one for one in map(os.path.realpath, filter(None, sys.path)) if one != here]
    return [sys.executable, "-I", "-c", _BEGIN.format(path=[*path, _HOME])]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits for a child that is half started; a child that is started meanwhile inherits this, and never hears it."""
    import signal  # here: a start does without it

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def cores() -> int:
    """Those that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        return os.cpu_count() or 1
