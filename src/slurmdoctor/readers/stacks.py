"""Reads stack dumps and finds the rank that stands elsewhere than all others.

Formats: CPython's faulthandler (`Thread 0x... (most recent call first):`), as PYTHONFAULTHANDLER and dump_traceback_later
print it; `py-spy dump` (`Thread 4121 (idle): "MainThread"`).
"""

from __future__ import annotations

from slurmdoctor.knowledge import text
from slurmdoctor.model import Line, StackDump
from slurmdoctor.ranks import Lines

_FRAME = text("python-frame")
_PY_SPY_THREAD = text("py-spy-thread")
_PY_SPY_FRAME = text("py-spy-frame")
_DEPTH = 60


def read(lines: Lines, header: Line) -> StackDump | None:
    """The dump that begins at this header; None where its rank is not to be read or it has no frame."""
    if header.origin.rank is None:
        return None
    pattern = _PY_SPY_FRAME if _PY_SPY_THREAD.search(header.text) else _FRAME
    for line in lines.after(header, _DEPTH):
        if (frame := pattern.search(line.text)) and frame["function"]:
            where = f"{frame['function']} ({frame['file']}"
            return StackDump(header.origin.rank, f"{where}:{frame['lineno']})", header, f"{where})")
        break
    return None
