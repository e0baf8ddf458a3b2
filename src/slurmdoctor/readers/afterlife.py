"""Tells of an error what its writer printed after it: steps of a program's work, or other words that no ending brings.

An error that ended its process is followed by its traceback, by what others print of the end, and by nothing else. Where
the same writer's step numbers rise after it, whatever the program calls them, it was survived.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Event, Line, Writer
from slurmdoctor.model.events import HELD_BACK
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.readers.exceptions import begins_frame, exception_of
from slurmdoctor.search.compiled import lazy

_WORK = text("work-line")
_NO_WORK = text("no-work-line")
_END_TALK = tuple(map(text, ("end-talk", "of-the-end", "slurm-line", "script-talk", "tool-line", "shell-line")))
_SLURM = text("slurm-line")
_LOW_LEVEL = text("low-level-label")
_TELLING = ("root", "either")
_STEPS, _MANY_STEPS = 4, 24
"""Rising numbers behind the same words that show work, and so much of it that an earlier error ended nothing."""
_LONG = 600.0
"""Seconds of work after an error that show the same."""
_MOST_SPOKEN = 12
"""Different lines that are counted."""
_LOGGED_SPOKEN = 4
"""Different lines after an error that a logger calls a warning, which show that it was none,"""
_ANEW_SPOKEN = 8
"""and between two errors, which show that the first one did not end the run that the second one ended."""
_NEAR = 120
"""Lines of the writer that are looked at below an error,"""
_TAIL = 16 * 1024
"""and bytes at the end of its file."""
_MOST = 32
"""Errors of which the first and the last ones are looked at."""
_VARIABLE = lazy(r"[\d.]+|'[^']*'?|\"[^\"]*\"?|/\S*")
_NUMBERS = lazy(r"\d+(?:\.\d+)?")
_WORDY = lazy(r"[A-Za-z]{3}")


def add_afterlife(events: Sequence[Event], lines: Lines, alone: bool) -> list[Event]:
    """The events, and of those that may have ended something what their writers printed after them.

    `alone` is whether lines without a label are all of one process, as far as the log shows.
    """
    telling = [e for e in events if e.role in _TELLING and (e.warned or not e.retried) and not _SLURM.match(e.hit.text)]
    telling.sort(key=lambda e: e.order, reverse=True)
    half = _MOST // 2
    looked = {id(e) for e in (*telling[:half], *telling[half:][-half:])}
    reader = _Afterlives(lines, {e.hit.place for e in events}, alone)
    found = {id(e): reader.add(e, id(e) in looked) for e in lines.meter.each("afterlife", telling)}
    return [found.get(id(event), event) for event in events]


class _Later(Struct, frozen=True):
    """What a writer printed after one of its errors."""

    offset: int
    spoke: int = 0
    long: bool = False
    """Whether it worked for long,"""
    error: str = ""
    """the rule of the next error that was not survived,"""
    before_it: int = 0
    """and how much was said before that one."""


class _Afterlives:
    """Takes the errors from the last one upwards: what was printed after one was printed after those above it, too."""

    def __init__(self, lines: Lines, known: set[tuple[int, int]], alone: bool) -> None:
        self._lines = lines
        self._known = known
        self._alone = alone
        self._later: dict[Writer, _Later] = {}
        self._tails: dict[int, list[Line]] = {}

    def add(self, event: Event, look: bool) -> Event:
        """The event with its afterlife; where it is not to be looked at, with that of its writer's next one."""
        writer = (event.hit.source, event.label)
        later = self._later.get(writer, _Later(self._lines.sources[event.hit.source].length))
        here = list(self._below(event, later.offset)) if look and not self._lines.out_of_time() else []
        said = _spoken(here)
        steps, seconds = _work(event, here, self._lines)
        spoke = max(later.spoke, said)
        worked = steps >= _STEPS or later.long
        long = later.long or (worked and (steps >= _MANY_STEPS or seconds >= _LONG))
        doubted = spoke >= _LOGGED_SPOKEN and _logged_low(event)
        before_it = max(later.before_it, said)
        another = later.error not in ("", event.rule)  # the same one again may be another process's
        anew = another and before_it >= _ANEW_SPOKEN and (self._alone or bool(event.label))
        survived = event.retried or worked or doubted or anew
        self._later[writer] = _Later(
            event.hit.offset, spoke, long, later.error if survived else event.rule, before_it if survived else 0
        )
        return replace(event, spoke=spoke, outlived="long" if long else "shortly" if survived else "")

    def _below(self, event: Event, stop: int) -> Iterator[Line]:
        """The writer's lines after the event and before its next one: those near it, and those at the end of the file."""
        last, source = event.hit.offset, event.hit.source
        for line in self._lines.after(self._lines.at(source, last), _NEAR):
            if line.offset >= stop:
                return
            last = line.offset
            if (source, last) not in self._known:
                yield line
        if stop < self._lines.sources[source].length:
            return
        for line in self._tail(source):
            if line.offset > last and line.label == event.label and (source, line.offset) not in self._known:
                yield line

    def _tail(self, source: int) -> list[Line]:
        """The lines at the end of a file."""
        if source not in self._tails:
            length = self._lines.sources[source].length
            start = max(0, length - _TAIL)
            data = self._lines.text(source, start, length - start)
            offset = start + (data.find(b"\n") + 1 if start else 0)
            found = self._tails[source] = []
            while offset < length and self._lines.meter.spend():
                found.append(self._lines.at(source, offset))
                offset = max(found[-1].end, offset + 1)
        return self._tails[source]


def _spoken(below: Iterable[Line]) -> int:
    """How many different lines are the program's own talk: no traceback, no stack, nothing that ends bring."""
    shapes: set[str] = set()
    trace = False
    for line in below:
        shown = line.text
        if "Traceback (most recent call" in shown:
            trace = True
        elif exception_of(shown):
            trace = False
        elif trace and (begins_frame(shown) or shown[:1].isspace()):
            continue
        else:
            trace = trace and not shown.strip()
            if not _WORDY.search(shown) or shown[:1].isspace() or any(talk.search(shown) for talk in _END_TALK):
                continue
            shapes.add(_VARIABLE.sub("#", shown[:80])[:40])
            if len(shapes) >= _MOST_SPOKEN:
                break
    return len(shapes)


def _work(event: Event, below: Iterable[Line], lines: Lines) -> tuple[int, float]:
    """How often numbers of steps rise behind the same words, and for how many seconds after the event."""
    highest: dict[str, tuple[float, ...]] = {}
    rises: dict[str, int] = {}
    began = event.origin.time
    last = began or 0.0
    held = bool(event.traceback) and lines.sources[event.hit.source].length - event.hit.offset <= HELD_BACK
    for line in below:
        found = _WORK.search(line.text)
        if found is None or _NO_WORK.search(line.text) or (held and line.origin.time is None):
            continue
        key = _VARIABLE.sub("#", line.text[: found.start("at")])
        numbers = tuple(map(float, islice(_NUMBERS.findall(found["at"]), 6)))
        if numbers > highest.get(key, ()):
            highest[key] = numbers
            rises[key] = rises.get(key, 0) + 1
            last = max(last, line.origin.time or 0.0)
    return max(rises.values(), default=0), last - began if began is not None else 0.0


def _logged_low(event: Event) -> bool:
    """Whether a logger printed the event's line as less than an error."""
    hit = event.hit
    label = hit.raw[: len(hit.raw) - len(hit.text)] if hit.raw.endswith(hit.text) else ""
    return _LOW_LEVEL.search(label) is not None
