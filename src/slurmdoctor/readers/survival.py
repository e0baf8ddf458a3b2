"""Answers whether a rank went on after an event: a later training step of the same rank shows it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import HELD_BACK, Event, Line, Outlived, Progress, SignalHit, Writer
from slurmdoctor.ranks import PEELED, Lines
from slurmdoctor.readers.tracebacks import HEADER, begins_frame, exception_of

_TOP = text("top-frame")


class ProgressIndex:
    """The steps of a job, to be asked whether somebody went on after an event."""

    def __init__(self, progress: Sequence[Progress], ends: Mapping[int, int] | None = None) -> None:
        """`ends` are the lengths of the sources, in bytes."""
        self._ends = ends or {}
        self._of_source: dict[int, list[Progress]] = {}
        self._of_writer: dict[tuple[int, int | bytes], list[Progress]] = {}
        for step in progress:
            self._of_source.setdefault(step.source, []).append(step)
            if step.rank is not None:
                self._of_writer.setdefault((step.source, step.rank), []).append(step)
            if step.label:
                self._of_writer.setdefault((step.source, step.label), []).append(step)

    def went_on(self, event: Event) -> bool:
        """Whether the event's rank, or the whole job, made a step after it."""
        source = event.hit.source
        if self._held_back(event):
            return False
        writers: list[int | bytes] = [w for w in (event.origin.rank, event.label) if w is not None and w != b""]
        for writer in writers:
            if any(True for _ in self._later(self._of_writer.get((source, writer), ()), event)):
                return True
        # without labels, or from ranks that cannot go on alone: several steps, not one that was on its way to the pipe
        enough = 4 if writers else 2
        others: set[tuple[int | None, int | None]] = set()
        for step in self._later(self._of_source.get(source, ()), event):
            others.add((step.rank, step.step))
            if len(others) >= enough:
                return True
        return False

    def _held_back(self, event: Event) -> bool:
        """Whether the steps below a traceback may have been printed above it, and were held back until its process ended.

        Where no step stands above it and none has a time, all of them came at once, from a buffer.
        """
        source = event.hit.source
        steps = self._of_source.get(source, ())
        ended = event.traceback and _TOP.search(event.traceback[0])
        if not steps or not ended or event.label or event.origin.time is not None:
            return False
        near = self._ends.get(source, 0) - event.hit.offset <= HELD_BACK
        first, last = steps[0], steps[-1]
        begins_below = first.offset > event.hit.offset and not first.skipped
        to_the_last = last.step is not None and last.step == last.steps
        return near and begins_below and not to_the_last and all(s.time is None and not s.label for s in steps)

    @staticmethod
    def _later(steps: Sequence[Progress], event: Event) -> Iterator[Progress]:
        time = event.origin.time
        first = bisect_right(steps, event.hit.offset, key=lambda step: step.offset)
        for at in range(len(steps) - 1, first - 1, -1):
            step = steps[at]
            if time is None or step.time is None or step.time > time:
                yield step


TELLING = ("root", "either")
"""Roles of events that may have ended something."""
STEPS, MANY_STEPS = 4, 24
"""Rising numbers behind the same words that show work, and so much of it that an earlier error ended nothing."""
WORK = text("work-line")
_NO_WORK = text("no-work-line")
VARIABLE = lazy(r"[\d.]+|'[^']*'?|\"[^\"]*\"?|/\S*")
_NUMBERS = lazy(r"\d+(?:\.\d+)?")


def rises(lines: Iterable[Line], above: Iterable[Line] = (), timed: bool = False) -> tuple[int, float]:
    """How often numbers rise behind the same words, and when they last did; `timed`: lines without a time show nothing.

    Where numbers rose behind other words `above`, only many show work: a checkpoint that is still written is none.
    """
    highest: dict[str, tuple[float, ...]] = {}
    count: dict[str, int] = {}
    last = 0.0
    for line in lines:
        found = WORK.search(line.text)
        if found is None or _NO_WORK.search(line.text) or (timed and line.origin.time is None):
            continue
        key = _words(line.text, found.start("at"))
        numbers = tuple(map(float, islice(_NUMBERS.findall(found["at"]), 6)))
        if numbers > highest.get(key, ()):
            highest[key] = numbers
            count[key] = count.get(key, 0) + 1
            last = max(last, line.origin.time or 0.0)
    most = max(count.values(), default=0)
    if STEPS <= most < MANY_STEPS:
        before = {_words(line.text, found.start("at")) for line in above if (found := WORK.search(line.text))}
        most = max((n for key, n in count.items() if key in before or not before), default=0)
    return most, last


def _words(shown: str, end: int) -> str:
    return VARIABLE.sub("#", shown[:end])


_TOOL = text("tool-line")
_SHELL = text("shell-line")
_WARNING = text("warning-label")
_LOW_LEVEL = text("low-level-label")
_OF_AN_ERROR = text("of-an-error")
_MAIN = text("main-command")
_TALK = text("script-talk")
_SHOWN = text("shown-text")
_CHAT = text("chat-turn")
_TOOLS_NEED, _OTHERS_NEED = 3, 6
"""Lines of other programs that show that a script went on after a small tool, or after a command that may be its program."""
_LABEL = 200
"""Bytes of a line that may hold its label."""
_RETRY_LINES = 6
"""Lines after an event within which `attempt 2/5 succeeded` or `PASSED` is about it,"""
_RETRY_BYTES = 64 * 1024
"""and bytes."""
_VARIABLE = lazy(r"\d+|\b(?:DEBUG|INFO|WARN|WARNING|ERROR)\b")
_FORM = 14
"""Characters of it that lines of one logger share at least."""
_REST = 8
"""Lines without a stamp that may belong to a record."""
_LEVEL = 24
"""Characters within which a line without a label tells its level."""
_ELSEWHERE = 6
"""In another file of the job, so many times more."""
_BYTES = 8 * 1024
"""Bytes that are read after the line, and before it."""
_MOST = 60
"""Lines of them that are looked at."""


class Caught:
    """Asked of each error what the lines around it show."""

    def __init__(
        self, lines: Lines, events: Sequence[Event], signals: Sequence[SignalHit], from_outside: Collection[str]
    ) -> None:
        """`from_outside` are causes that come from Slurm or a person: they end a job at whatever level they are logged."""
        self._lines = lines
        self._own = {event.hit.place for event in events}
        self._from_outside = from_outside
        self._dealt_with: dict[int, list[SignalHit]] = {}
        for signal in signals:
            if signal.signal.kind == "survived":
                self._dealt_with.setdefault(signal.line.source, []).append(signal)

    def judge(self, event: Event) -> Event:
        """The event: retried where who printed it caught it, or went on as batch scripts do; perhaps outlived where the lines around it say so."""
        telling = event.role in TELLING
        own = event.cause not in self._from_outside
        label = _label(event)
        if own and _WARNING.search(label or event.hit.raw[:_LEVEL]):
            return replace(event, warned=True, retried=telling or self._retried(event))
        if not telling:
            return replace(event, retried=self._retried(event))
        record = _warning_above(event, self._lines) if own and not label else None
        if self._script_went_on(event) or HEADER in (record or ""):
            return replace(event, retried=True)
        if record or _LOW_LEVEL.search(label) or self._retried(event) or _is_shown(event, self._lines):
            return replace(event, outlived="perhaps")
        return event

    def _retried(self, event: Event) -> bool:
        """Whether a signal of kind `survived` stands just after it."""
        survived = self._dealt_with.get(event.hit.source, ())
        after = bisect_left(survived, event.order, key=lambda signal: signal.order)
        if after == len(survived) or survived[after].order - event.order >= _RETRY_BYTES:
            return False
        line = self._lines.at(event.hit.source, event.hit.offset)
        near = {line.offset, *(below.offset for below in self._lines.after(line, _RETRY_LINES))}
        return survived[after].line.offset in near

    def _script_went_on(self, event: Event) -> bool:
        """Whether its line is a shell's or a small tool's, and others print so much that the script went on after it."""
        shown, lines, source = event.hit.text, self._lines, event.hit.source
        tool = _TOOL.search(shown) is not None
        if event.traceback or not (tool or _SHELL.search(shown)):
            return False
        if _MAIN.search(shown):  # nothing but the work that it was to start shows that it was started otherwise
            return rises(lines.at(source, at) for _, at, _ in _below(event, lines))[0] >= STEPS
        need = _TOOLS_NEED if tool else _OTHERS_NEED
        if _enough(_below(event, lines), need, self._own, lines):
            return True
        if tool and _enough(_above(event, lines), need, self._own, lines):
            return True
        others = (log.lines for number, log in enumerate(lines.sources) if number != source)
        return sum(others) >= need * _ELSEWHERE


def _is_shown(event: Event, lines: Lines) -> bool:
    """Whether a program shows the error as its data: right behind the words for it, or below them, before it logs or works on."""
    line = lines.at(event.hit.source, event.hit.offset)
    for above in (line, *lines.before(line, 2 * len(event.traceback) + _REST)):
        logged = above is not line and above.origin.time is not None
        shown = above.text.rstrip()
        if (_SHOWN.match(shown) and (above is line or shown[-1:] == ":")) or (not logged and _CHAT.match(shown)):
            return True
        if logged or (above is not line and WORK.search(above.text)):
            return False
    return False


def _label(event: Event) -> str:
    raw, shown = event.hit.raw, event.hit.text.strip()
    return raw[: raw.find(shown)] if shown in raw else ""


def _warning_above(event: Event, lines: Lines) -> str | None:
    """The record of level WARNING that tells of an error right above; where it does not hold the traceback, another record follows."""
    record = _record_above(event, lines)
    if record is None or not (_WARNING.search(record[:_LABEL]) and _OF_AN_ERROR.search(record)):
        return None
    if HEADER in record:
        return record
    below = (raw for _, _, raw in islice(_below(event, lines), _REST))
    stamped = (raw for raw in below if lines.peeled(event.hit.source, raw[:_LABEL])[0].time is not None)
    following = next(stamped, b"").decode("utf-8", "replace")
    return record if _label_form(following) == _label_form(record) else None


def _label_form(shown: str) -> str:
    """How a line begins, but for numbers and levels: lines of one logger begin alike."""
    return _VARIABLE.sub("#", shown[:_LABEL])[:_FORM]


def _record_above(event: Event, lines: Lines) -> str | None:
    """The record above a traceback, or above a few lines without a stamp; or a traceback's first line, where that is one."""
    begun = not event.traceback
    for _, _, raw in islice(_above(event, lines), 2 * len(event.traceback) + _REST):
        shown = raw.decode("utf-8", "replace")
        if not shown.strip():
            continue
        if not begun:
            begun = HEADER in shown
            if begun and _WARNING.search(shown[:_LABEL]):
                return shown
        elif event.traceback or lines.peeled(event.hit.source, raw[:_LABEL])[0].time is not None:
            return shown
    return None


def _enough(found: Iterator[tuple[int, int, bytes]], need: int, own: set[tuple[int, int]], lines: Lines) -> bool:
    """Whether so many of these lines are a program's: no event's, no other tool's, and nothing that scripts print of themselves."""
    for source, offset, raw in found:
        if not raw.strip() or (source, offset) in own or not lines.meter.spend(PEELED):
            continue
        shown = lines.peeled(source, raw[:400])[1]
        if not (_TALK.search(shown) or _TOOL.search(shown) or _SHELL.search(shown)):
            need -= 1
            if need == 0:
                return True
    return False


def _below(event: Event, lines: Lines) -> Iterator[tuple[int, int, bytes]]:
    """(source, offset, line) of the lines below."""
    source, offset = event.hit.source, event.hit.offset
    for raw in lines.text(source, offset, _BYTES).split(b"\n")[: _MOST + 1]:
        if offset > event.hit.offset:
            yield source, offset, raw
        offset += len(raw) + 1


def _above(event: Event, lines: Lines) -> Iterator[tuple[int, int, bytes]]:
    """The same of the lines above, nearest first."""
    source, end = event.hit.source, event.hit.offset
    start = max(0, end - _BYTES)
    for raw in reversed(lines.text(source, start, end - start).split(b"\n")[:-1][-_MOST:]):
        end -= len(raw) + 1
        yield source, end, raw


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


def judge_survival(
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
