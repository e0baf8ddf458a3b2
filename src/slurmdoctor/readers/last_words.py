"""Collects what each rank printed last around the first wait for another rank: what the others waited for, perhaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slurmdoctor.knowledge import text
from slurmdoctor.model import Event, Knowledge, Line
from slurmdoctor.ranks import Lines
from slurmdoctor.search import HEAD

_AROUND = 256 * 1024
"""Bytes before and after the wait that are read."""
_LONGEST = 2000
"""Bytes of a line that is worth showing."""
_MOST = 4000
"""Lines of which the rank is read."""
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
    """Each rank's line, from the last one upwards: where its label names the rank, those above it are passed over."""
    start = max(0, offset - _AROUND)
    data = lines.text(source, start, 2 * _AROUND)
    top = data.find(b"\n") + 1 if start else 0
    end = len(data) - data.endswith(b"\n")
    found: dict[int, Line] = {}
    done: set[bytes] = set()
    left = _MOST
    while end > top and left:
        begin = max(top, data.rfind(b"\n", top, end) + 1)
        label = lines.label(source, data[begin : min(end, begin + HEAD)])
        if end - begin < _LONGEST and label not in done:
            left -= 1
            rank = lines.peeled(source, data[begin:end])[0].rank
            if rank is not None and rank not in found:
                line = lines.at(source, start + begin)
                if _OF_THE_END.search(line.raw) is None:
                    found[rank] = line
            if rank in found and lines.writer(source, label) is not None:
                done.add(label)
        end = begin - 1
    return found
