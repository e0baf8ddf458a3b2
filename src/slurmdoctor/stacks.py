"""Reads stack dumps and finds the rank that stands elsewhere than all others.

Formats: CPython's faulthandler (`Thread 0x... (most recent call first):`), as PYTHONFAULTHANDLER and dump_traceback_later print it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import regex

from slurmdoctor.lines import Line, Lines

LITERALS = (b"(most recent call first)",)

_FRAME = regex.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+) in (?P<function>\S+)')
_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Dump:
    """Where one rank stood: the innermost frame of the thread that the line opens."""

    rank: int
    innermost: str
    """`function (file:line)`."""
    line: Line


def read(lines: Lines, header: Line) -> Dump | None:
    """The dump that begins at this header; None where its rank is not to be read or it has no frame."""
    if header.origin.rank is None:
        return None
    for line in lines.after(header, _DEPTH):
        if frame := _FRAME.match(line.text):
            return Dump(header.origin.rank, f"{frame['function']} ({frame['file']}:{frame['line']})", header)
        break
    return None


def odd_ones(dumps: Mapping[int, str]) -> tuple[tuple[int, ...], str] | None:
    """The few ranks that stand elsewhere than the many, and where the many stand. None where nobody stands out."""
    if len(dumps) < 3:
        return None
    (usual, most), *_ = Counter(dumps.values()).most_common()
    odd = tuple(sorted(rank for rank, where in dumps.items() if where != usual))
    if not odd or len(odd) > max(1, len(dumps) // 4) or most < 2:
        return None
    return odd, usual
