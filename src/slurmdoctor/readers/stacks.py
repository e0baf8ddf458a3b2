"""Reads stack dumps and finds the rank that stands elsewhere than all others.

Formats: CPython's faulthandler (`Thread 0x... (most recent call first):`), as PYTHONFAULTHANDLER and dump_traceback_later
print it; `py-spy dump` (`Thread 4121 (idle): "MainThread"`).
"""

from __future__ import annotations

from slurmdoctor.model import Line, StackDump
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.search.compiled import lazy

LITERALS = (b"(most recent call first)", b'"MainThread"')

_FRAME = lazy(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_PY_SPY = lazy(r"^\s{2,}(?P<function>[\w.<>]+) \((?P<file>[^():]+):(?P<line>\d+)\)")
_DEPTH = 60


def read(lines: Lines, header: Line) -> StackDump | None:
    """The dump that begins at this header; None where its rank is not to be read or it has no frame."""
    if header.origin.rank is None:
        return None
    pattern = _PY_SPY if '"MainThread"' in header.text else _FRAME
    for line in lines.after(header, _DEPTH):
        if frame := pattern.match(line.text):
            where = f"{frame['function']} ({frame['file']}"
            return StackDump(header.origin.rank, f"{where}:{frame['line']})", header, f"{where})")
        break
    return None
