"""Reads what a process was busy with when the others' wait ended: a bar of data preparation, a save that a logger told of."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurmdoctor.knowledge import text
from slurmdoctor.model import Busy, Event, Knowledge, Line
from slurmdoctor.ranks import Lines

_BAR = text("busy-bar")
_LINE = text("busy-line")
_KIND = text("busy-kind")
_ABOVE = 64 * 1024
"""Bytes above the wait's first line, and"""
_MOST = 200
"""lines that are looked at."""
_LONGEST = 1000
"""Characters of a line that is looked at."""


def find_busy(events: Sequence[Event], knowledge: Knowledge, lines: Lines) -> Busy | None:
    """The last word of such work above the first wait that timed out, or above what ended the job; None where there is none."""
    traits = knowledge.traits
    ends = [e for e in events if e.role != "hint" and e.cause in traits["timed-out"] | traits["scheduler"]]
    if not ends:
        return None
    first = min(ends, key=lambda e: e.order).hit
    start = max(0, first.offset - _ABOVE)
    above = lines.text(first.source, start, first.offset - start + len(first.raw.encode()))
    offset = start + len(above)
    for piece in reversed(re.split(rb"(?<=[\r\n])", above)[-_MOST:]):
        offset -= len(piece)
        if found := _read(first.source, offset, piece, lines):
            return found
    return None


def work_told(line: Line | None) -> Busy | None:
    """The work that a process's last line tells of, and that was not done by then."""
    if line is None:
        return None
    bar = _BAR.search(line.text)
    if bar is None and not _LINE.search(line.text):
        return None
    if bar is not None and bar["done"] == bar["all"]:
        return None
    kind = _KIND.search(bar["what"] if bar else line.text)
    words = f"{bar['what'].strip(' .:')}: {bar['done']} of {bar['all']}" if bar else line.text.strip()[:100]
    return Busy(kind.lastgroup or "", words, line.offset) if kind else None


def _read(source: int, offset: int, piece: bytes, lines: Lines) -> Busy | None:
    """What this line, or piece of one, tells."""
    line = piece.decode("utf-8", "replace")[:_LONGEST]
    order = lines.order(source, offset)
    bar = _BAR.search(line)
    if bar is not None and (kind := _KIND.search(bar["what"])):
        words = f"{bar['what'].strip(' .:')}: {bar['done']} of {bar['all']} after {bar['elapsed']}"
        return Busy(kind.lastgroup or "", words, order, elapsed=_seconds(bar["elapsed"]))
    if bar is None and _LINE.search(line):
        origin, words = lines.peeled(source, piece.rstrip(b"\r\n"))
        if (kind := _KIND.search(words)) and origin.time is not None:
            return Busy(kind.lastgroup or "", words.strip()[:100], order, time=origin.time)
    return None


def _seconds(clock: str) -> float:
    """Seconds of tqdm's `29:55`, `1:02:03` and `1 day, 2:03:04`."""
    days, _, rest = clock.rpartition("day")
    seconds = 0
    for part in re.findall(r"\d+", rest):
        seconds = 60 * seconds + int(part)
    return seconds + 86400.0 * int(days or 0)
