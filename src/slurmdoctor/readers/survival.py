"""Judges of each error whether the job outlived it, by who printed it, and by what that writer did after it.

An error that ended its process is followed by its traceback, by what others print of the end, and by nothing else. Where
the same writer's step numbers rise after it, whatever the program calls them, it was survived; where it speaks on, perhaps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import HELD_BACK, Event, Line, Outlived, Progress, SignalHit, Writer
from slurmdoctor.ranks import Lines
from slurmdoctor.readers.caught import Caught
from slurmdoctor.readers.exceptions import begins_frame, exception_of
from slurmdoctor.readers.progress_index import ProgressIndex
from slurmdoctor.readers.work import MANY_STEPS, STEPS, TELLING, VARIABLE, WORK, rises

_END_TALK = tuple(map(text, ("end-talk", "of-the-end", "slurm-line", "script-talk", "tool-line", "shell-line")))
_SLURM = text("slurm-line")
_RESULT = text("result-line")
_SNIPPET = text("snippet-frame")
_LONG = 600.0
"""Seconds of work after an error that show that it ended nothing."""
_SPOKE_ON = 6
"""Different lines of its writer below an error from which it may not have been what ended it,"""
_EXCUSED_SPOKEN = 2
"""or was not, where the lines around it say that it was caught, or is data;"""
_MOST_SPOKEN = 12
"""Different lines that are counted."""
_ANEW_SPOKEN = 8
"""and between two errors, which show that the first one did not end the run that the second one ended."""
_NEAR = 120
"""Lines of the writer that are looked at below an error,"""
_TAIL = 16 * 1024
"""and bytes at the end of its file."""
_MOST = 32
"""Errors of which the first and the last ones are looked at."""
_USUAL = 3
"""Times that an error was survived before, from which it is the job's usual one,"""
_WORDS = 24
"""by so many first characters."""
_NUMBERS = lazy(r"\d+")
_WORDY = lazy(r"[A-Za-z]{3}")


def judge(
    events: Sequence[Event],
    signals: Sequence[SignalHit],
    steps: Sequence[Progress],
    lines: Lines,
    from_outside: Collection[str],
    alone: bool,
) -> list[Event]:
    """The events, and of each whether it was survived, or perhaps outlived.

    `from_outside` are causes that come from Slurm or a person; `alone` is whether lines without a label are all of one process,
    as far as the log shows.
    """
    caught = Caught(lines, events, signals, from_outside)
    events = [caught.judge(event) for event in lines.meter.each("caught", events)]
    telling = [e for e in events if e.role in TELLING and (e.warned or not e.retried) and not _SLURM.match(e.hit.text)]
    telling.sort(key=lambda e: e.order, reverse=True)
    half = _MOST // 2
    looked = {id(e) for e in (*telling[:half], *telling[half:][-half:])}
    ends = (e.order for e in events if e.ends_job or (e.role != "cascade" and _SLURM.match(e.hit.text)))
    told = (s.line for s in signals if s.signal.kind in ("survived", "finished"))
    known = {*(e.hit.place for e in events), *((line.source, line.offset) for line in told)}
    reader = _Afterlives(lines, known, alone, max(ends, default=-1))
    found = {id(e): reader.add(e, id(e) in looked) for e in lines.meter.each("afterlife", telling)}
    index = ProgressIndex(steps, {number: source.length for number, source in enumerate(lines.sources)})
    judged = [found.get(id(event), event) for event in events]
    judged = [replace(e, survived=e.retried or e.outlived in ("shortly", "long") or index.went_on(e)) for e in judged]
    usual = Counter(_kind(e) for e in judged if e.survived and e.role in TELLING)
    return [replace(e, outlived="likely") if not e.survived and usual[_kind(e)] >= _USUAL else e for e in judged]


def _kind(event: Event) -> str:
    """What exceptions of one kind share: the first words, but for numbers; other events are each their own kind."""
    raised = event.traceback or "exception" in event.captures
    return _NUMBERS.sub("#", event.hit.text[:_WORDS]) if raised else f"{event.order}"


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

    def __init__(self, lines: Lines, known: set[tuple[int, int]], alone: bool, ended: int) -> None:
        self._lines = lines
        self._known = known
        self._alone = alone
        self._ended = ended
        """Where Slurm ended the job; -1 where it did not."""
        self._later: dict[Writer, _Later] = {}
        self._tails: dict[int, list[Line]] = {}
        self._results: dict[int, list[Line]] = {}

    def add(self, event: Event, look: bool) -> Event:
        """The event with its afterlife; where it is not to be looked at, with that of its writer's next one."""
        writer = (event.hit.source, event.label)
        later = self._later.get(writer, _Later(self._lines.sources[event.hit.source].length))
        here = list(self._below(event, later.offset)) if look and not self._lines.out_of_time() else []
        said, began = _spoken(here), event.origin.time
        above = self._lines.before(self._lines.at(*event.hit.place), _NEAR) if here else ()
        steps, last = rises(here, above, self._held_back(event))
        seconds = last - began if began is not None else 0.0
        spoke = max(later.spoke, said)
        worked = steps >= STEPS or later.long
        long = later.long or (worked and (steps >= MANY_STEPS or seconds >= _LONG))
        before_it = max(later.before_it, said)
        another = later.error not in ("", event.rule)  # the same one again may be another process's
        one_writer = self._alone or bool(event.label)
        anew = another and before_it >= _ANEW_SPOKEN and one_writer
        excused = event.outlived == "perhaps"
        ended = event.order < self._ended and (excused or (one_writer and spoke >= _SPOKE_ON))
        went_on = excused and (spoke >= _EXCUSED_SPOKEN or any(WORK.search(line.text) for line in here))
        survived = event.retried or worked or anew or ended or went_on
        self._later[writer] = _Later(
            event.hit.offset, spoke, long, later.error if survived else event.rule, before_it if survived else 0
        )
        perhaps = excused or spoke >= (1 if _is_snippet(event) else _SPOKE_ON) or self._told_results(event)
        otherwise: Outlived = "perhaps" if perhaps else "maybe" if spoke else ""
        return replace(event, outlived="long" if long else "shortly" if survived else otherwise)

    def _held_back(self, event: Event) -> bool:
        """Whether what stands below a traceback may have been held back until its process ended."""
        left = self._lines.sources[event.hit.source].length - event.hit.offset
        return bool(event.traceback) and left <= HELD_BACK

    def _told_results(self, event: Event) -> bool:
        """Whether its writer, or one that is no rank, says at the end what came out."""
        source, offset = event.hit.source, event.hit.offset
        if source not in self._results:
            self._results[source] = [line for line in self._tail(source) if _is_result(line.text)]
        return any(
            line.offset > offset and (line.label == event.label or line.origin.rank is None)
            for line in self._results[source]
        )

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
        if source not in self._tails and not self._lines.out_of_time():
            length = self._lines.sources[source].length
            start = max(0, length - _TAIL)
            data = self._lines.text(source, start, length - start)
            offset = start + (data.find(b"\n") + 1 if start else 0)
            found = self._tails[source] = []
            while offset < length and self._lines.meter.spend():
                found.append(self._lines.at(source, offset))
                offset = max(found[-1].end, offset + 1)
        return self._tails.get(source, [])


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
            shapes.add(VARIABLE.sub("#", shown[:80])[:40])
            if len(shapes) >= _MOST_SPOKEN:
                break
    return len(shapes)


def _is_result(shown: str) -> bool:
    return _RESULT.search(shown) is not None and not any(talk.search(shown) for talk in _END_TALK[:3])


def _is_snippet(event: Event) -> bool:
    """Whether what raised it is no program of a job: code that another one made and ran."""
    return bool(event.traceback) and _SNIPPET.search(event.traceback[0]) is not None
