"""Finds how the files of a job end, where no line proves why: the complaint nearest to an end, and the last lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmdoctor.knowledge import text
from slurmdoctor.matching import compiled
from slurmdoctor.model import Ending, Event, Knowledge, Line
from slurmdoctor.ranks import Lines

_FEW = 16
"""Files whose ends are read,"""
_BYTES = 16 * 1024
"""so many bytes of each,"""
_MOST = 40
"""and so many lines."""
_LONGEST = 2000
"""Characters of a line."""
_SHOWN = 3
"""Last lines that are shown."""
_MOST_WORK = 4
"""Lines of work; what stands above more of them was no end."""
_COMPLAINT = text("of-an-error")
_NAMES = "slurm-line low-level-label drawn-line harmless-traceback python-frame raising-code no-last-words"
_NO_COMPLAINT = tuple(map(text, _NAMES.split()))
"""What may hold words of an error, and tells none."""
_NO_END = tuple(map(text, ("script-talk", "tool-line")))
"""What a script says around its programs."""
_WORK = (text("work-line"), text("busy-bar"))


def find_ending(events: Iterable[Event], lines: Lines, knowledge: Knowledge) -> Ending:
    """Of the ends of the job's files the complaint nearest to its file's end, without one the last line that is no noise.

    Nothing where an event may be what ended the job.
    """
    if any(event.role in ("root", "either", "confirmation") and not event.survived for event in events):
        return Ending()
    complaints: list[tuple[int, Line]] = []
    others: list[tuple[int, Line]] = []
    shown: dict[int, tuple[Line, ...]] = {}
    for source in range(len(lines.sources))[-_FEW:]:
        last = list(_upwards(lines, source))
        shown[source] = tuple(reversed(last[:_SHOWN]))
        complaint, other = _telling(last, knowledge)
        complaints += [complaint] if complaint else []
        others += [other] if other else []
    telling = min(complaints or others, default=(0, None), key=lambda one: one[0])[1]
    source = telling.source if telling else max(shown, key=lambda one: lines.sources[one].length, default=0)
    return Ending(telling, shown.get(source, ()))


def _telling(last: Iterable[Line], knowledge: Knowledge) -> tuple[tuple[int, Line] | None, tuple[int, Line] | None]:
    """The last complaint, and the last other line that is no noise; each with the number of lines below it."""
    work = 0
    other: tuple[int, Line] | None = None
    for below, line in enumerate(last):
        if "\ufffd" in line.text or not line.text.strip() or _any(_NO_COMPLAINT, line):
            continue
        work += _is_work(line, knowledge)
        if work > _MOST_WORK:
            break
        complains = _COMPLAINT.search(line.text) is not None and not _any(_WORK, line)
        wanted = complains or not (work or other or _any(_NO_END, line))
        if not wanted or _follows(line, knowledge):
            continue
        if complains:
            return (below, line), other
        other = (below, line)
    return None, other


def _upwards(lines: Lines, source: int) -> Iterator[Line]:
    """The last lines, the last one first. Of a bar the last state counts, as a terminal shows it."""
    end = lines.sources[source].length
    start = max(0, end - _BYTES)
    data = lines.text(source, start, end - start)
    stop, found = len(data), 0
    while stop > 0 and found < _MOST:
        begin = data.rfind(b"\n", 0, stop) + 1
        row = data[begin:stop].rstrip(b"\r")
        state = begin + row.rfind(b"\r") + 1
        if row.strip() and (begin or not start) and len(row) <= _LONGEST:
            found += 1
            yield lines.at(source, start + state)
        stop = begin - 1


def _any(patterns: Iterable[object], line: Line) -> bool:
    return any(pattern.search(line.raw) or pattern.search(line.text) for pattern in patterns)  # type: ignore[attr-defined]


def _is_work(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line counts steps."""
    steps = (s for s in knowledge.signals if s.kind == "progress" and any(word in line.raw for word in s.literals))
    return _any(_WORK, line) or any(compiled(one.regex).search(line.text) for one in steps)


def _follows(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line only tells that a process ended, or what others did because of it."""
    reports = [one.pattern for one in knowledge.exit_reports if any(word in line.raw for word in one.literals)]
    cascades = [r.regex for r in knowledge.rules if r.role == "cascade" and any(w in line.raw for w in r.literals)]
    return any(compiled(pattern).search(line.text) for pattern in (*reports, *cascades))
