"""Reads `nvidia-smi dmon` with dates, in a `.gutil` file beside the log or in the log itself: each GPU's memory over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from slurmdoctor.knowledge import text
from slurmdoctor.model import MemoryTrend, SignalHit
from slurmdoctor.ranks import Lines

_FACT = "dmon"
_ROW = text("dmon-row")
_FILE = text("dmon-file")
_HEAD, _TAIL = 64 * 1024, 256 * 1024
"""Bytes of a file that are read for it."""
_MOST_FILES = 64
_HELD = 0.5
"""Share of a GPU's peak from which its process counts as set up, and below which it has ended."""
_FEW = 6
"""Samples without which nothing is said."""
_STEADY = 0.05
"""Share of the peak that counts as a change,"""
_MIDDLE = 0.2
"""and share of the change that the first half must have made, and have left over, for it to be a steady growth."""
_MIB = 1024
Series = dict[int, list[tuple[float, float]]]
"""GPU -> (minute, GiB), in order."""


def find_trends(signals: Sequence[SignalHit], lines: Lines) -> tuple[MemoryTrend, ...]:
    """How each GPU's memory went until its process ended."""
    headers: dict[int, str] = {}
    for hit in signals:
        if hit.signal.id.partition("/")[0] == _FACT and len(headers) < _MOST_FILES:
            headers.setdefault(hit.line.source, hit.line.text)
    found = []
    for source, header in headers.items():
        name = _FILE.search(lines.sources[source].name)
        for gpu, samples in sorted(_series(source, header.lstrip("# ").split(), lines).items()):
            if trend := _trend(gpu, samples, name["node"] if name else None):
                found.append(trend)
    return tuple(found)


def _series(source: int, columns: Sequence[str], lines: Lines) -> Series:
    """The samples at the file's beginning and end; rows are told by their date and by the number of their columns."""
    found: Series = {}
    for line in _rows(source, lines):
        cells = line.split()
        row = dict(zip(columns, cells, strict=False)) if len(cells) == len(columns) else {}
        if row and row.get("gpu", "").isdecimal() and row.get("fb", "").isdecimal():
            found.setdefault(int(row["gpu"]), []).append((_minute(row), int(row["fb"]) / _MIB))
    return found


def _rows(source: int, lines: Lines) -> Iterator[str]:
    length = lines.sources[source].length
    for start, size in ((0, min(_HEAD, length)), (max(_HEAD, length - _TAIL), _TAIL)):
        if start < length:
            for line in lines.text(source, start, size).decode("utf-8", "replace").splitlines():
                if _ROW.match(line):
                    yield line


def _minute(row: Mapping[str, str]) -> float:
    """Minutes of a row's day and clock; only differences count."""
    hours, minutes, seconds = (int(part) for part in row["Time"].split(":"))
    return int(row.get("Date", "0")[-2:]) * 1440 + hours * 60 + minutes + seconds / 60


def _trend(gpu: int, samples: Sequence[tuple[float, float]], node: str | None) -> MemoryTrend | None:
    """The course from the end of the setup to the end of the process."""
    peak = max(size for _, size in samples)
    held = [number for number, (_, size) in enumerate(samples) if size >= _HELD * peak]
    course = samples[held[0] : held[-1] + 1] if peak else []
    if len(course) < _FEW:
        return None
    sizes = [size for _, size in course]
    first, last = median(sizes[:3]), median(sizes[-3:])
    middle = median(sizes[len(sizes) // 2 - 1 : len(sizes) // 2 + 2])
    change = last - first
    if abs(change) < _STEADY * peak:
        kind = "level"
    elif change > 0 and first + _MIDDLE * change <= middle <= last - _MIDDLE * change:
        kind = "grew"
    else:
        return None
    return MemoryTrend(gpu, node, kind, first, last, course[-1][0] - course[0][0])
