"""Collects what each rank printed last around the first wait for another rank: what the others waited for, perhaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Event, Knowledge, Line
from slurmdoctor.ranks.lines import Lines

_AROUND = 256 * 1024
"""Bytes before and after the wait that are read."""
_LONGEST = 2000
"""Bytes of a line that is worth showing."""
_OF_THE_END = text("of-the-end")
"""What a rank prints of its end, or of the others' silence, does not show what it did meanwhile."""


def collect_last_words(events: Sequence[Event], knowledge: Knowledge, lines: Lines) -> Mapping[int, Line]:
    """Each rank's last line around the first wait; none where a failure that needs no such proof came before."""
    waits = [e for e in events if e.cause in knowledge.traits["timed-out"] and e.role != "hint"]
    if not waits:
        return {}
    first = min(waits, key=lambda e: (e.origin.time is None, e.origin.time or 0.0, e.order))
    settled = knowledge.traits["generic"] | knowledge.traits["scheduler"]
    if any(e.role == "root" and e.cause not in settled and e.order < first.order for e in events):
        return {}
    return _last_lines(first.hit.source, first.hit.offset, lines)


def _last_lines(source: int, offset: int, lines: Lines) -> dict[int, Line]:
    start = max(0, offset - _AROUND)
    data = lines.text(source, start, 2 * _AROUND)
    at = data.find(b"\n") + 1 if start else 0
    found: dict[int, Line] = {}
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        if end - at < _LONGEST:
            line = lines.at(source, start + at)
            rank = line.origin.rank
            if rank is not None and _OF_THE_END.search(line.raw) is None:
                found[rank] = line
        at = end + 1
    return found
