"""Finds where a log's first lines are printed again, after something ended: a script or a program that was started anew.

Output that is appended (`nohup ... >> log`, `--open-mode=append`, a loop of launches) shows no other mark than this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import Event, ExitReport, Line, Signal, SignalHit
from slurmdoctor.ranks import Excerpts
from slurmdoctor.search import template_of

AGAIN = Signal("start/first-line", "start", (), "")
"""What stands for a first line, and for each place at which it is printed again."""
_FIRST, _HEAD = 6, 4096
"""Lines, and bytes, at a log's beginning that may tell its start."""
_MOST_BYTES = 16 * 1024 * 1024
"""A longer log is not searched, nor the logs after so many bytes in all."""
_MOST_STARTS, _MOST_LOOKS = 64, 4000
_RARE = 8
"""Bytes without a number in them that a first line must have, to be searched for."""
_LONGEST = 200
_ANYBODY = text("anybodys-line")
_WORDS = lazy(r"[A-Za-z]{2,}")


def find_restarts(events: Sequence[Event], reports: Sequence[ExitReport], lines: Excerpts) -> list[SignalHit]:
    """The first lines that are printed again, with all their places, in the logs in which something ended."""
    ended = [e.hit.place for e in events if e.role in ("root", "either", "confirmation") and not e.retried]
    ended += [report.line.place for report in reports]
    found: list[SignalHit] = []
    left = _MOST_BYTES
    for source in dict.fromkeys(source for source, _ in ended):
        length = lines.sources[source].length
        if length <= left and not lines.out_of_time():
            left -= length
            found += _in_one(source, {offset for one, offset in ended if one == source}, lines)
    return found


def _in_one(source: int, ends: set[int], lines: Excerpts) -> Iterator[SignalHit]:
    data = lines.text(source, 0, lines.sources[source].length)
    at = 0
    for raw, below in pairwise(data[:_HEAD].split(b"\n")[: _FIRST + 1]):
        if at >= min(ends):
            return
        begins = _tells(lines.at(source, at)) and _tells(lines.at(source, at + len(raw) + 1))
        keys = _key(raw), _key(below)
        if begins and len(_WORDS.findall(" ".join(keys))) > 2:
            places = _places(data, at, *keys)
            if 2 <= len(places) <= _MOST_STARTS and places[1] > min(ends):
                yield from (SignalHit(AGAIN, lines.at(source, one), lines.order(source, one), {}) for one in places)
                return
        at += len(raw) + 1


def _tells(line: Line) -> bool:
    """Whether only who starts something may print it: no rank, of which there are many, and no error."""
    origin = line.origin
    anybodys = line.label or origin.rank is not None or origin.local_rank is not None or origin.pid is not None
    return not anybodys and _ANYBODY.search(line.raw) is None


def _places(data: bytes, at: int, key: str, key_below: str) -> list[int]:
    """Where a line and the one below stand, but for numbers, paths and quoted texts."""
    fixed = max(key.split("#"), key=len).strip().encode()
    if key == key_below or len(fixed) < _RARE or "\ufffd" in key:  # twice in a row, and several processes print it
        return []
    places: list[int] = []
    for _ in range(_MOST_LOOKS):
        at = data.find(fixed, at)
        if at < 0 or len(places) > _MOST_STARTS:
            break
        begin = data.rfind(b"\n", 0, at) + 1
        rows = data[begin : begin + _HEAD].split(b"\n", 2)[:2]
        if [_key(row) for row in rows] == [key, key_below]:
            places.append(begin)
        at = max(at + 1, begin + len(rows[0]))
    return places


def _key(raw: bytes) -> str:
    return template_of(raw[:_LONGEST].decode("utf-8", "replace")).strip()
