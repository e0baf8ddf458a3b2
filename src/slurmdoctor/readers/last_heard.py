"""Finds the last line of each rank of which no error and no end is in the log: until then at least it was there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from slurmdoctor.knowledge import text
from slurmdoctor.model import Line, Origin, RankMap
from slurmdoctor.ranks import Lines

_TAIL = 256 * 1024
"""Bytes of a log that are read,"""
_TAIL_OF_ONE = 4096
"""of the file of one rank,"""
_MOST_FILES = 1024
"""and the files that are read."""
_MOST = 4000
"""Lines of which the rank is read, over all files."""
_NOT_ITS_WORK = (text("of-the-end"), text("slurm-line"))
"""What a rank prints of its end, and what Slurm prints under its label."""


def collect_last_heard(ranks: Collection[int], maps: RankMap, lines: Lines) -> Mapping[int, Line]:
    """The last line that the ends of the logs have of each of these ranks."""
    found: dict[int, Line] = {}
    left = _MOST
    for source in range(min(len(lines.sources), _MOST_FILES) if ranks else 0):
        own = maps.resolve(Origin(), source)[0].rank
        if own is not None and own not in ranks:
            continue
        missing = set(ranks) if own is None else {own}
        for offset, raw in _upwards(source, _TAIL if own is None else _TAIL_OF_ONE, lines):
            left -= 1
            if not missing or left < 0 or lines.out_of_time():
                break
            rank = maps.resolve(lines.peeled(source, raw)[0], source)[0].rank
            if rank in missing and not any(other.search(raw.decode("utf-8", "replace")) for other in _NOT_ITS_WORK):
                missing.remove(rank)
                line = lines.at(source, offset)
                if rank not in found or _moment(found[rank]) < _moment(line):
                    found[rank] = line
    return found


def _upwards(source: int, size: int, lines: Lines) -> Iterator[tuple[int, bytes]]:
    """The lines at a log's end, the last one first; none that the stretch cuts."""
    length = lines.sources[source].length
    start = max(0, length - size)
    data = lines.text(source, start, size)
    top = data.find(b"\n") + 1 if start else 0
    end = len(data)
    while end > top:
        begin = max(top, data.rfind(b"\n", top, end - 1) + 1)
        if raw := data[begin:end].strip():
            yield start + begin, raw
        end = begin


def _moment(line: Line) -> float:
    return line.origin.time if line.origin.time is not None else -1.0
