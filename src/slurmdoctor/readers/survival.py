"""The one judge of survival: whether an error ended its process, by who printed it and by what came after it.

An error that ended its process is followed by its traceback, by what others print of the end, and by nothing else. It was survived

- where who printed it caught it: within a record of level WARNING, `[WARNING] FileNotFoundError: ...`, or with `attempt 2/5 succeeded` below;
- where a batch script without `set -e` goes on after `cp: cannot stat ...`, as what other programs print around it shows;
- where the same writer's step numbers rise after it, under any name.

Where its writer goes on printing, it was perhaps survived. `model/limits.py` has the numbers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice, pairwise, takewhile

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import LIMITS, Event, ExitReport, Frozen, Line, Outlived, Progress, Signal, SignalHit, Writer
from slurmdoctor.ranks import Excerpts
from slurmdoctor.readers.rule_events import HEADER
from slurmdoctor.search import template_of

_TELLING = ("root", "either")
"""Roles of events that may have ended something."""
_NEAR, _AROUND, _AROUND_BYTES = 120, 60, 8 * 1024
"""Lines of its writer that are looked at below an error; lines, and bytes, of anybody around it."""
_MOST = 32
"""Errors of which the first and the last ones are looked at."""
_FORM = 14
"""Characters that lines of one logger share at least, but for numbers."""

_TOP = text("top-frame")
_TOOL, _SHELL, _TALK = text("tool-line"), text("shell-line"), text("script-talk")
_SLURM = text("slurm-line")
_WARNING = text("warning-label")
_LOW_LEVEL = text("low-level-label")
_OF_AN_ERROR = text("of-an-error")
_MAIN = text("main-command")
_WORK, _NO_WORK = text("work-line"), text("no-work-line")
_END_TALK = (*map(text, ("end-talk", "of-the-end", "mpi-stack")), _SLURM, _TALK, _TOOL, _SHELL)
_DECIMALS = lazy(r"\d+(?:\.\d+)?")
_WORDY = lazy(r"^(?=\S).*[A-Za-z]{3}")


def judge_survival(
    events: Sequence[Event],
    signals: Sequence[SignalHit],
    steps: Sequence[Progress],
    lines: Excerpts,
    from_outside: Collection[str],
    alone: bool,
) -> list[Event]:
    """The events, and of each whether it was survived, or perhaps outlived.

    `from_outside` are causes that come from Slurm or a person: they end a job at any level of the log. `alone` is whether
    lines without a label are all of one process, as far as the log shows.
    """
    around = _Around(lines, events, signals, from_outside)
    events = [around.judge(event) for event in lines.meter.each("survival", events)]
    telling = [e for e in events if e.role in _TELLING and not _SLURM.match(e.hit.text)]
    telling.sort(key=lambda e: e.order, reverse=True)
    looked = {id(e) for e in (*telling[: _MOST // 2], *telling[_MOST // 2 :][-_MOST // 2 :])}
    ends = (e.order for e in events if e.ends_job or (e.role != "cascade" and _SLURM.match(e.hit.text)))
    facts = (s.line.place for s in signals if s.signal.kind in ("survived", "finished"))
    after = _After(lines, steps, {*(e.hit.place for e in events), *facts}, alone, max(ends, default=-1))
    found = {id(e): after.judge(e, id(e) in looked) for e in lines.meter.each("survival", telling)}
    judged = [found.get(id(event), event) for event in events]
    return [replace(e, survived=e.retried or e.outlived in ("shortly", "long") or after.made_steps(e)) for e in judged]


# ── by the lines around an error: was it caught? ──────────────────────────────────────────────


class _Around:
    """Asked of each error what the lines around it show."""

    def __init__(
        self, lines: Excerpts, events: Sequence[Event], signals: Sequence[SignalHit], from_outside: Collection[str]
    ) -> None:
        self._lines = lines
        self._own = {event.hit.place for event in events}
        self._from_outside = from_outside
        self._dealt_with = {signal.line.place for signal in signals if signal.signal.kind == "survived"}

    def judge(self, event: Event) -> Event:
        """The event: retried where who printed it caught it, or went on as batch scripts do; perhaps outlived where the lines around it say so."""
        telling = event.role in _TELLING
        raw, shown = event.hit.raw, event.hit.text.strip()
        label = raw[: raw.find(shown)] if shown in raw else ""
        own = event.cause not in self._from_outside
        if own and _WARNING.search(label or raw[: LIMITS.level_within]):
            return replace(event, warned=True, retried=telling or self._retried(event))
        retried = self._retried(event)
        if not telling:
            return replace(event, retried=retried)
        record = self._warning_above(event) if own and not label else ""
        if self._script_went_on(event) or HEADER in record:
            return replace(event, retried=True)
        excused = retried or record or _LOW_LEVEL.search(label)
        return replace(event, outlived="perhaps") if excused else event

    def _retried(self, event: Event) -> bool:
        """Whether a signal of kind `survived` comes just after it."""
        if not self._dealt_with:
            return False
        near = (event.hit, *self._lines.after(event.hit, LIMITS.retry_lines))
        return any(one.place in self._dealt_with for one in near)

    def _script_went_on(self, event: Event) -> bool:
        """Whether its line is a shell's or a small tool's, and others print so much that the script went on after it."""
        tool = _TOOL.search(event.hit.text) is not None
        if event.traceback or not (tool or _SHELL.search(event.hit.text)):
            return False
        line = event.hit
        below = list(self._lines.below(line, _AROUND, _AROUND_BYTES))
        if _MAIN.search(
            event.hit.text
        ):  # nothing but the work that it was to start shows that it was started otherwise
            return _rises(below)[0] >= LIMITS.rising_steps
        need = LIMITS.lines_after_tool if tool else LIMITS.lines_after_command
        above = self._lines.above(line, _AROUND, _AROUND_BYTES) if tool else ()
        elsewhere = sum(log.lines for number, log in enumerate(self._lines.sources) if number != line.source)
        if any(sum(map(self._is_of_program, some)) >= need for some in (below, above)):
            return True
        return elsewhere >= need * LIMITS.lines_elsewhere

    def _is_of_program(self, line: Line) -> bool:
        """Whether a line is a program's: no event's, no other tool's, and nothing that scripts print of themselves."""
        talk = any(one.search(line.text) for one in (_TALK, _TOOL, _SHELL))
        return line.place not in self._own and not talk

    def _warning_above(self, event: Event) -> str:
        """The record of level WARNING right above an error that holds the traceback's header, or whose logger goes on below."""
        begun = not event.traceback
        for above in self._lines.above(event.hit, 2 * len(event.traceback) + 8, _AROUND_BYTES):
            holds = HEADER in above.raw
            if holds and _WARNING.search(above.raw):
                return above.raw
            if begun and above.raw.strip() and (event.traceback or above.origin.time is not None):
                below = self._lines.below(event.hit, 8, _AROUND_BYTES)
                following = next((one.raw for one in below if one.origin.time is not None), "")
                warns = _WARNING.search(above.raw) and _OF_AN_ERROR.search(above.raw)
                goes_on = template_of(following)[:_FORM] == template_of(above.raw)[:_FORM]
                return above.raw if warns and goes_on else ""
            begun = begun or holds
        return ""


# ── by what its writer printed after it ───────────────────────────────────────────────────────


class _Later(Frozen):
    """What a writer printed after one of its errors."""

    offset: int
    printed: int = 0
    long: bool = False
    """Whether it worked for long,"""
    error: str = ""
    """the rule of the next error that was not survived,"""
    before_it: int = 0
    """and how much was printed before that one."""


class _After:
    """Takes the errors from the last one upwards: what was printed after one was printed after those above it, too."""

    def __init__(
        self, lines: Excerpts, steps: Iterable[Progress], known: set[tuple[int, int]], alone: bool, ended: int
    ) -> None:
        self._lines = lines
        self._known = known
        self._alone = alone
        self._ended = ended
        """Where Slurm ended the job; -1 where it did not."""
        self._later: dict[Writer, _Later] = {}
        self._steps: dict[int, list[Progress]] = {}
        for step in steps:
            self._steps.setdefault(step.source, []).append(step)

    def judge(self, event: Event, look: bool) -> Event:
        """The event with what came after it; where it is not to be looked at, with that of its writer's next one."""
        writer = (event.hit.source, event.label)
        later = self._later.get(writer, _Later(self._lines.sources[event.hit.source].length))
        here = self._below(event, later.offset) if look and not self._lines.out_of_time() else []
        own_lines, began = _own_lines(here), event.origin.time
        rises, last = _rises(here, timed=self._held_back(event))
        printed = max(later.printed, own_lines)
        worked = rises >= LIMITS.rising_steps
        lasted = began is not None and last - began >= LIMITS.long_work
        long = later.long or (worked and (rises >= LIMITS.many_rising_steps or lasted))
        before_it = max(later.before_it, own_lines)
        one_writer = self._alone or bool(event.label)
        # the same one again may be another process's
        anew = later.error not in ("", event.rule) and before_it >= LIMITS.lines_before_another and one_writer
        excused = event.outlived == "perhaps"
        ended = event.order < self._ended and (excused or (one_writer and printed >= LIMITS.lines_printed))
        went_on = excused and (printed >= LIMITS.lines_excused or any(_WORK.search(line.text) for line in here))
        survived = event.retried or worked or anew or ended or went_on
        error, before = (later.error, before_it) if survived else (event.rule, 0)
        self._later[writer] = _Later(event.hit.offset, printed, long, error, before)
        perhaps = excused or printed >= LIMITS.lines_printed
        otherwise: Outlived = "perhaps" if perhaps else "maybe" if printed else ""
        return replace(event, outlived="long" if long else "shortly" if survived else otherwise)

    def made_steps(self, event: Event) -> bool:
        """Whether the event's rank, or the whole job, made a step after it."""
        steps = self._steps.get(event.hit.source, ())
        from_buffer = self._held_back(event) and _came_at_once(steps, event)
        return not from_buffer and made_steps(event, steps)

    def _held_back(self, event: Event) -> bool:
        """Whether the lines below a traceback may have been printed above it, and were held back until its process ended."""
        length = self._lines.sources[event.hit.source].length
        ended = event.traceback and _TOP.search(event.traceback[0]) is not None
        return bool(ended) and length - event.hit.offset <= LIMITS.held_back

    def _below(self, event: Event, stop: int) -> list[Line]:
        """The writer's lines after the event and before its next one: those near it."""
        near = self._lines.after(event.hit, _NEAR)
        return [line for line in takewhile(lambda line: line.offset < stop, near) if line.place not in self._known]


def made_steps(event: Event, steps: Sequence[Progress]) -> bool:
    """Whether the event's rank, or its whole job, made one of these steps, those of its file, after it."""
    time = event.origin.time
    first = bisect_right(steps, event.hit.offset, key=lambda step: step.offset)
    later = [s for s in steps[first:] if time is None or s.time is None or s.time > time]
    named = bool(event.label) or event.origin.rank is not None
    if any(s.rank == event.origin.rank is not None or s.label == event.label != b"" for s in later):
        return True
    # without labels, or from ranks that cannot go on alone: several steps, not one that was on its way to the pipe
    return len({(s.rank, s.step) for s in later}) >= (LIMITS.steps_of_others if named else LIMITS.steps_of_any)


def _came_at_once(steps: Sequence[Progress], event: Event) -> bool:
    """Whether no step is above it and none has a time, and the last one is not the job's last: all came from a buffer."""
    if not steps:
        return False
    first, last = steps[0], steps[-1]
    begins_below = first.offset > event.hit.offset and not first.skipped
    to_the_last = last.step is not None and last.step == last.steps
    return begins_below and not to_the_last and all(s.time is None and not s.label for s in steps)


def _own_lines(below: Iterable[Line]) -> int:
    """How many different lines are the program's own talk: no traceback, no stack, nothing that ends bring."""
    texts = (one.text for one in below if _WORDY.match(one.text))
    own = (shown for shown in texts if not any(pattern.search(shown) for pattern in _END_TALK))
    return len({template_of(shown[:80])[:40] for shown in own})


def _rises(lines: Sequence[Line], timed: bool = False) -> tuple[int, float]:
    """How often numbers rise behind the same words, and when they last did; `timed`: lines without a time show nothing."""
    highest: dict[str, tuple[float, ...]] = {}
    count: dict[str, int] = {}
    last = 0.0
    for number, line in enumerate(lines):
        if not count and number > len(lines) - LIMITS.rising_steps:
            break  # too few are left to show anything
        found = _WORK.search(line.text)
        if found is None or _NO_WORK.search(line.text) or (timed and line.origin.time is None):
            continue
        key = template_of(line.text[: found.start("at")])
        numbers = tuple(map(float, islice(_DECIMALS.findall(found["at"]), 6)))
        if numbers > highest.get(key, ()):
            highest[key] = numbers
            count[key] = count.get(key, 0) + 1
            last = max(last, line.origin.time or 0.0)
    return max(count.values(), default=0), last


AGAIN = Signal("start/first-line", "start", (), "")
"""A signal for a first line, and for each place at which it is printed again."""
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
            places = _places(data, *keys)
            if 2 <= len(places) <= _MOST_STARTS and places[1] > min(ends):
                yield from (SignalHit(AGAIN, lines.at(source, one), lines.order(source, one), {}) for one in places)
                return
        at += len(raw) + 1


def _tells(line: Line) -> bool:
    """Whether only who starts something may print it: no rank, of which there are many, and no error."""
    return not line.label and line.origin.rank is None and _ANYBODY.search(line.raw) is None


def _places(data: bytes, key: str, key_below: str) -> list[int]:
    """Where a line and the one below stand, but for numbers, paths and quoted texts."""
    fixed = max(key.split("#"), key=len).strip().encode()
    if key == key_below or len(fixed) < _RARE or "\ufffd" in key:  # twice in a row, and several processes print it
        return []
    places: list[int] = []
    at = 0
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
