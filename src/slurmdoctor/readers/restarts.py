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

AGAIN = Signal("start/first-line", "start", (), "")
"""What stands for a first line, and for each place at which it is printed again."""
_FIRST = 6
"""Lines at a log's beginning that may tell its start."""
_HEAD = 4096
_MOST_BYTES = 16 * 1024 * 1024
"""A longer log is not searched, nor the logs after so many bytes in all."""
_MOST_STARTS = 64
_RARE = 8
"""Bytes without a number in them that a first line must have, to be searched for; and the lines with them that are looked at."""
_MOST_LOOKS = 4000
_LONGEST = 200
_VARIABLE = lazy(r"\d+|'[^']*'?|\"[^\"]*\"?|/\S*|\b0x\w+")
_ANYBODY = text("anybodys-line")
_WORDS = lazy(r"[A-Za-z]{2,}")


def find_restarts(events: Sequence[Event], reports: Sequence[ExitReport], lines: Excerpts) -> list[SignalHit]:
    """The first lines that are printed again, with all their places, in the logs in which something ended."""
    ends: dict[int, list[int]] = {}
    for event in events:
        if event.role in ("root", "either", "confirmation") and not event.retried:
            ends.setdefault(event.hit.source, []).append(event.hit.offset)
    for report in reports:
        ends.setdefault(report.line.source, []).append(report.line.offset)
    found: list[SignalHit] = []
    left = _MOST_BYTES
    for source, offsets in ends.items():
        length = lines.sources[source].length
        if length <= left and not lines.out_of_time():
            left -= length
            found += _in_one(source, min(offsets), set(offsets), lines)
    return found


def _in_one(source: int, first_end: int, ends: set[int], lines: Excerpts) -> Iterator[SignalHit]:
    data = lines.text(source, 0, lines.sources[source].length)
    head = data[:_HEAD].split(b"\n")[: _FIRST + 1]
    at = 0
    for raw, below in pairwise(head):
        if at >= first_end or at in ends:
            return
        begins = _tells(lines.at(source, at)) and _tells(lines.at(source, at + len(raw) + 1))
        if begins and len(_WORDS.findall(_key(raw) + " " + _key(below))) > 2:
            places = _places(data, at, raw, below)
            if 2 <= len(places) <= _MOST_STARTS and places[1] > first_end:
                for place in places:
                    yield SignalHit(AGAIN, lines.at(source, place), lines.order(source, place), {})
                return
        at += len(raw) + 1


def _tells(line: Line) -> bool:
    """Whether only who starts something may print it: no rank, of which there are many, and no error."""
    origin = line.origin
    anybodys = line.label or origin.rank is not None or origin.local_rank is not None or origin.pid is not None
    return not anybodys and _ANYBODY.search(line.raw) is None


def _places(data: bytes, at: int, raw: bytes, below: bytes) -> list[int]:
    """Where this line and the one below stand, but for numbers, paths and quoted texts."""
    key, key_below = _key(raw), _key(below)
    fixed = max(_VARIABLE.split(raw[:_LONGEST].decode("utf-8", "replace")), key=len).encode()
    places = [at]
    # twice in a row, and several processes print it
    told = key != key_below and len(fixed) >= _RARE and "\ufffd" not in key
    here = data.find(fixed, at + len(raw)) if told else -1
    for _ in range(_MOST_LOOKS):
        if here < 0 or len(places) > _MOST_STARTS:
            break
        begin, end = data.rfind(b"\n", 0, here) + 1, data.find(b"\n", here)
        if end < 0:
            break
        stop = data.find(b"\n", end + 1)
        if _key(data[begin:end]) == key and _key(data[end + 1 : stop if stop >= 0 else len(data)]) == key_below:
            places.append(begin)
        here = data.find(fixed, end)
    return places


def _key(raw: bytes | str) -> str:
    shown = raw if isinstance(raw, str) else raw[:_LONGEST].decode("utf-8", "replace")
    return _VARIABLE.sub("#", shown[:_LONGEST]).strip()
