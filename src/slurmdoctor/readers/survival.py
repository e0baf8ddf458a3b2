"""The one judge of survival: whether an error ended its process, by who printed it and by what came after it.

An error that ended its process is followed by its traceback, by what others print of the end, and by nothing else. It was survived

- where who printed it caught it: within a record of level WARNING, `[WARNING] FileNotFoundError: ...`, or with `attempt 2/5 succeeded` below;
- where a batch script without `set -e` goes on after `cp: cannot stat ...`, as what other programs print around it shows;
- where the same writer's step numbers rise after it, whatever the program calls them.

Where its writer speaks on, or the error is a program's data (`generated: Traceback ...`), it was perhaps survived.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import LIMITS, Event, Line, Outlived, Progress, SignalHit, Writer
from slurmdoctor.ranks import Excerpts
from slurmdoctor.readers.tracebacks import HEADER, begins_frame, exception_of

_TELLING = ("root", "either")
"""Roles of events that may have ended something."""
_STEPS, _MANY_STEPS = 4, 24
"""Rising numbers behind the same words that show work, and so much of it that an earlier error ended nothing;"""
_LONG = 600.0
"""as do so many seconds of work."""
_SPOKE_ON = 6
"""Different lines of its writer below an error from which it may not have been what ended it,"""
_EXCUSED_SPOKEN = 2
"""or was not, where the lines around it say that it was caught, or is data;"""
_MOST_SPOKEN = 12
"""different lines that are counted;"""
_ANEW_SPOKEN = 8
"""and between two errors, which show that the first one did not end the run that the second one ended."""
_NEAR, _TAIL = 120, 16 * 1024
"""Lines of the writer that are looked at below an error, and bytes at the end of its file."""
_MOST = 32
"""Errors of which the first and the last ones are looked at."""
_USUAL, _WORDS = 3, 24
"""Times that an error was survived before, from which it is the job's usual one, by so many first characters."""
_TOOLS_NEED, _OTHERS_NEED = 3, 6
"""Lines of other programs that show that a script went on after a small tool, or after a command that may be its program."""
_ELSEWHERE = 6
"""In another file of the job, so many times more."""
_AROUND, _LINES_AROUND = 8 * 1024, 60
"""Bytes and lines around an error in which they stand."""
_RETRY_LINES, _RETRY_BYTES = 6, 64 * 1024
"""Lines and bytes after an event within which `attempt 2/5 succeeded` or `PASSED` is about it."""
_LABEL = 200
"""Characters of a line that may hold its label."""
_LEVEL = 24
"""Characters within which a line without a label shows its level."""
_REST = 8
"""Lines without a stamp that may belong to a record."""
_FORM = 14
"""Characters that lines of one logger share at least, but for numbers and levels."""

_TOOL, _SHELL = text("tool-line"), text("shell-line")
_SLURM = text("slurm-line")
_RESULT = text("result-line")
_SNIPPET = text("snippet-frame")
_TOP = text("top-frame")
_WARNING = text("warning-label")
_LOW_LEVEL = text("low-level-label")
_OF_AN_ERROR = text("of-an-error")
_MAIN = text("main-command")
_TALK = text("script-talk")
_SHOWN = text("shown-text")
_CHAT = text("chat-turn")
_WORK, _NO_WORK = text("work-line"), text("no-work-line")
_END_TALK = (*map(text, ("end-talk", "of-the-end")), _SLURM, _TALK, _TOOL, _SHELL)
_VARIABLE = lazy(r"[\d.]+|'[^']*'?|\"[^\"]*\"?|/\S*")
_LEVELS = lazy(r"\d+|\b(?:DEBUG|INFO|WARN|WARNING|ERROR)\b")
_NUMBERS = lazy(r"\d+")
_DECIMALS = lazy(r"\d+(?:\.\d+)?")
_WORDY = lazy(r"[A-Za-z]{3}")


def judge_survival(
    events: Sequence[Event],
    signals: Sequence[SignalHit],
    steps: Sequence[Progress],
    lines: Excerpts,
    from_outside: Collection[str],
    alone: bool,
) -> list[Event]:
    """The events, and of each whether it was survived, or perhaps outlived.

    `from_outside` are causes that come from Slurm or a person: they end a job at whatever level they are logged. `alone` is whether
    lines without a label are all of one process, as far as the log shows.
    """
    surroundings = _Surroundings(lines, events, signals, from_outside)
    events = [surroundings.judge(event) for event in lines.meter.each("survival", events)]
    telling = [e for e in events if e.role in _TELLING and (e.warned or not e.retried) and not _SLURM.match(e.hit.text)]
    telling.sort(key=lambda e: e.order, reverse=True)
    looked = {id(e) for e in (*telling[: _MOST // 2], *telling[_MOST // 2 :][-_MOST // 2 :])}
    ends = (e.order for e in events if e.ends_job or (e.role != "cascade" and _SLURM.match(e.hit.text)))
    said = (s.line.place for s in signals if s.signal.kind in ("survived", "finished"))
    sequel = _Sequel(lines, {*(e.hit.place for e in events), *said}, alone, max(ends, default=-1))
    found = {id(e): sequel.judge(e, id(e) in looked) for e in lines.meter.each("survival", telling)}
    index = ProgressIndex(steps, {number: source.length for number, source in enumerate(lines.sources)})
    judged = [found.get(id(event), event) for event in events]
    judged = [replace(e, survived=e.retried or e.outlived in ("shortly", "long") or index.went_on(e)) for e in judged]
    usual = Counter(_kind(e) for e in judged if e.survived and e.role in _TELLING)
    return [replace(e, outlived="likely") if not e.survived and usual[_kind(e)] >= _USUAL else e for e in judged]


def _kind(event: Event) -> str:
    """What exceptions of one kind share: the first words, but for numbers; other events are each their own kind."""
    raised = event.traceback or "exception" in event.captures
    return _NUMBERS.sub("#", event.hit.text[:_WORDS]) if raised else f"{event.order}"


# ── by the lines around an error: was it caught, or is it data? ───────────────────────────────


class _Surroundings:
    """Asked of each error what the lines around it show."""

    def __init__(
        self, lines: Excerpts, events: Sequence[Event], signals: Sequence[SignalHit], from_outside: Collection[str]
    ) -> None:
        self._lines = lines
        self._own = {event.hit.place for event in events}
        self._from_outside = from_outside
        self._dealt_with: dict[int, list[SignalHit]] = {}
        for signal in signals:
            if signal.signal.kind == "survived":
                self._dealt_with.setdefault(signal.line.source, []).append(signal)

    def judge(self, event: Event) -> Event:
        """The event: retried where who printed it caught it, or went on as batch scripts do; perhaps outlived where the lines around it say so."""
        telling = event.role in _TELLING
        own = event.cause not in self._from_outside
        raw, shown = event.hit.raw, event.hit.text.strip()
        label = raw[: raw.find(shown)] if shown in raw else ""
        if own and _WARNING.search(label or raw[:_LEVEL]):
            return replace(event, warned=True, retried=telling or self._retried(event))
        if not telling:
            return replace(event, retried=self._retried(event))
        line = self._lines.at(*event.hit.place)
        record = self._warning_above(event, line) if own and not label else ""
        if self._script_went_on(event, line) or HEADER in record:
            return replace(event, retried=True)
        if record or _LOW_LEVEL.search(label) or self._retried(event) or self._is_data(event, line):
            return replace(event, outlived="perhaps")
        return event

    def _retried(self, event: Event) -> bool:
        """Whether a signal of kind `survived` stands just after it."""
        survived = self._dealt_with.get(event.hit.source, ())
        after = bisect_left(survived, event.order, key=lambda signal: signal.order)
        if after == len(survived) or survived[after].order - event.order >= _RETRY_BYTES:
            return False
        line = self._lines.at(*event.hit.place)
        near = {line.offset, *(below.offset for below in self._lines.after(line, _RETRY_LINES))}
        return survived[after].line.offset in near

    def _script_went_on(self, event: Event, line: Line) -> bool:
        """Whether its line is a shell's or a small tool's, and others print so much that the script went on after it."""
        shown = event.hit.text
        tool = _TOOL.search(shown) is not None
        if event.traceback or not (tool or _SHELL.search(shown)):
            return False
        below = self._lines.below(line, _LINES_AROUND, _AROUND)
        if _MAIN.search(shown):  # nothing but the work that it was to start shows that it was started otherwise
            return _rises(below)[0] >= _STEPS
        need = _TOOLS_NEED if tool else _OTHERS_NEED
        if self._programs(below, need):
            return True
        if tool and self._programs(self._lines.above(line, _LINES_AROUND, _AROUND), need):
            return True
        others = (log.lines for number, log in enumerate(self._lines.sources) if number != line.source)
        return sum(others) >= need * _ELSEWHERE

    def _programs(self, lines: Iterable[Line], need: int) -> bool:
        """Whether so many of these lines are a program's: no event's, no other tool's, and nothing that scripts print of themselves."""
        talk = (_TALK, _TOOL, _SHELL)
        found = (
            line
            for line in lines
            if line.raw.strip() and line.place not in self._own and not any(one.search(line.text) for one in talk)
        )
        return next(islice(found, need - 1, None), None) is not None

    def _is_data(self, event: Event, line: Line) -> bool:
        """Whether a program shows the error as its data: right behind the words for it, or below them, before it logs or works on."""
        for above in (line, *self._lines.before(line, 2 * len(event.traceback) + _REST)):
            logged = above is not line and above.origin.time is not None
            shown = above.text.rstrip()
            if (_SHOWN.match(shown) and (above is line or shown[-1:] == ":")) or (not logged and _CHAT.match(shown)):
                return True
            if logged or (above is not line and _WORK.search(above.text)):
                return False
        return False

    def _warning_above(self, event: Event, line: Line) -> str:
        """The record of level WARNING that tells of an error right above; where it does not hold the traceback, another record follows."""
        record = self._record_above(event, line)
        if not (_WARNING.search(record[:_LABEL]) and _OF_AN_ERROR.search(record)):
            return ""
        if HEADER in record:
            return record
        below = self._lines.below(line, _REST, _AROUND)
        following = next((one.raw for one in below if one.origin.time is not None), "")
        return record if _label_form(following) == _label_form(record) else ""

    def _record_above(self, event: Event, line: Line) -> str:
        """The record above a traceback, or above a few lines without a stamp; or a traceback's first line, where that is one."""
        begun = not event.traceback
        for above in self._lines.above(line, 2 * len(event.traceback) + _REST, _AROUND):
            if not above.raw.strip():
                continue
            if not begun:
                begun = HEADER in above.raw
                if begun and _WARNING.search(above.raw[:_LABEL]):
                    return above.raw
            elif event.traceback or above.origin.time is not None:
                return above.raw
        return ""


def _label_form(shown: str) -> str:
    """How a line begins, but for numbers and levels: lines of one logger begin alike."""
    return _LEVELS.sub("#", shown[:_LABEL])[:_FORM]


# ── by what its writer printed after it ───────────────────────────────────────────────────────


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


class _Sequel:
    """Takes the errors from the last one upwards: what was printed after one was printed after those above it, too."""

    def __init__(self, lines: Excerpts, known: set[tuple[int, int]], alone: bool, ended: int) -> None:
        self._lines = lines
        self._known = known
        self._alone = alone
        self._ended = ended
        """Where Slurm ended the job; -1 where it did not."""
        self._later: dict[Writer, _Later] = {}
        self._tails: dict[int, list[Line]] = {}

    def judge(self, event: Event, look: bool) -> Event:
        """The event with what came after it; where it is not to be looked at, with that of its writer's next one."""
        writer = (event.hit.source, event.label)
        length = self._lines.sources[event.hit.source].length
        later = self._later.get(writer, _Later(length))
        here = list(self._below(event, later.offset)) if look and not self._lines.out_of_time() else []
        said, began = _spoken(here), event.origin.time
        # what stands below a traceback may have been held back until its process ended
        held_back = bool(event.traceback) and length - event.hit.offset <= LIMITS.held_back
        above = self._lines.before(self._lines.at(*event.hit.place), _NEAR) if here else ()
        steps, last = _rises(here, above, held_back)
        spoke = max(later.spoke, said)
        worked = steps >= _STEPS or later.long
        lasted = began is not None and last - began >= _LONG
        long = later.long or (worked and (steps >= _MANY_STEPS or lasted))
        before_it = max(later.before_it, said)
        another = later.error not in ("", event.rule)  # the same one again may be another process's
        one_writer = self._alone or bool(event.label)
        anew = another and before_it >= _ANEW_SPOKEN and one_writer
        excused = event.outlived == "perhaps"
        ended = event.order < self._ended and (excused or (one_writer and spoke >= _SPOKE_ON))
        went_on = excused and (spoke >= _EXCUSED_SPOKEN or any(_WORK.search(line.text) for line in here))
        survived = event.retried or worked or anew or ended or went_on
        self._later[writer] = _Later(
            event.hit.offset, spoke, long, later.error if survived else event.rule, before_it if survived else 0
        )
        # what raised it may be no program of a job: code that another one made and ran
        snippet = bool(event.traceback) and _SNIPPET.search(event.traceback[0]) is not None
        perhaps = excused or spoke >= (1 if snippet else _SPOKE_ON) or self._has_results(event)
        otherwise: Outlived = "perhaps" if perhaps else "maybe" if spoke else ""
        return replace(event, outlived="long" if long else "shortly" if survived else otherwise)

    def _has_results(self, event: Event) -> bool:
        """Whether its writer, or one that is no rank, says at the end what came out."""
        for line in self._tail(event.hit.source):
            by_it = line.label == event.label or line.origin.rank is None
            if (
                line.offset > event.hit.offset
                and by_it
                and _RESULT.search(line.text)
                and not _is_end_talk(line.text, 3)
            ):
                return True
        return False

    def _below(self, event: Event, stop: int) -> Iterator[Line]:
        """The writer's lines after the event and before its next one: those near it, and those at the end of the file."""
        source, last = event.hit.place
        for line in self._lines.after(self._lines.at(source, last), _NEAR):
            if line.offset >= stop:
                return
            last = line.offset
            if line.place not in self._known:
                yield line
        if stop < self._lines.sources[source].length:
            return
        for line in self._tail(source):
            if line.offset > last and line.label == event.label and line.place not in self._known:
                yield line

    def _tail(self, source: int) -> list[Line]:
        """The lines at the end of a file."""
        if source not in self._tails and not self._lines.out_of_time():
            length = self._lines.sources[source].length
            start = max(0, length - _TAIL)
            offset = start + (self._lines.text(source, start, _TAIL).find(b"\n") + 1 if start else 0)
            found = self._tails[source] = []
            while offset < length and self._lines.meter.spend():
                found.append(self._lines.at(source, offset))
                offset = found[-1].end
        return self._tails.get(source, [])


def _is_end_talk(shown: str, kinds: int | None = None) -> bool:
    """Whether a line is what ends bring; of the first kinds alone where so many are given."""
    return any(talk.search(shown) for talk in _END_TALK[:kinds])


def _spoken(below: Iterable[Line]) -> int:
    """How many different lines are the program's own talk: no traceback, no stack, nothing that ends bring."""
    shapes: set[str] = set()
    trace = False
    for line in below:
        shown = line.text
        if HEADER in shown:
            trace = True
        elif exception_of(shown):
            trace = False
        elif trace and (begins_frame(shown) or shown[:1].isspace()):
            continue
        else:
            trace = trace and not shown.strip()
            if not _WORDY.search(shown) or shown[:1].isspace() or _is_end_talk(shown):
                continue
            shapes.add(_VARIABLE.sub("#", shown[:80])[:40])
            if len(shapes) >= _MOST_SPOKEN:
                break
    return len(shapes)


# ── by numbers that rise ──────────────────────────────────────────────────────────────────────


def _rises(lines: Iterable[Line], above: Iterable[Line] = (), timed: bool = False) -> tuple[int, float]:
    """How often numbers rise behind the same words, and when they last did; `timed`: lines without a time show nothing.

    Where numbers rose behind other words `above`, only many show work: a checkpoint that is still written is none.
    """
    highest: dict[str, tuple[float, ...]] = {}
    count: dict[str, int] = {}
    last = 0.0
    for line in lines:
        found = _WORK.search(line.text)
        if found is None or _NO_WORK.search(line.text) or (timed and line.origin.time is None):
            continue
        key = _VARIABLE.sub("#", line.text[: found.start("at")])
        numbers = tuple(map(float, islice(_DECIMALS.findall(found["at"]), 6)))
        if numbers > highest.get(key, ()):
            highest[key] = numbers
            count[key] = count.get(key, 0) + 1
            last = max(last, line.origin.time or 0.0)
    most = max(count.values(), default=0)
    if _STEPS <= most < _MANY_STEPS:
        matches = ((line, _WORK.search(line.text)) for line in above)
        before = {_VARIABLE.sub("#", line.text[: found.start("at")]) for line, found in matches if found}
        most = max((n for key, n in count.items() if key in before or not before), default=0)
    return most, last


class ProgressIndex:
    """The steps of a job, to be asked whether somebody went on after an event."""

    def __init__(self, progress: Sequence[Progress], ends: Mapping[int, int] | None = None) -> None:
        """`ends` are the lengths of the sources, in bytes."""
        self._ends = ends or {}
        self._of_source: dict[int, list[Progress]] = {}
        self._of_writer: dict[tuple[int, int | bytes], list[Progress]] = {}
        for step in progress:
            self._of_source.setdefault(step.source, []).append(step)
            for writer in (step.rank, step.label):
                if writer is not None and writer != b"":
                    self._of_writer.setdefault((step.source, writer), []).append(step)

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
        near = self._ends.get(source, 0) - event.hit.offset <= LIMITS.held_back
        first, last = steps[0], steps[-1]
        begins_below = first.offset > event.hit.offset and not first.skipped
        to_the_last = last.step is not None and last.step == last.steps
        return near and begins_below and not to_the_last and all(s.time is None and not s.label for s in steps)

    @staticmethod
    def _later(steps: Sequence[Progress], event: Event) -> Iterator[Progress]:
        time = event.origin.time
        first = bisect_right(steps, event.hit.offset, key=lambda step: step.offset)
        for step in reversed(steps[first:]):
            if time is None or step.time is None or step.time > time:
                yield step
