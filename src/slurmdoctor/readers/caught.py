"""Tells of an error whether the lines around it show that it was caught, or that who printed it goes on after such lines.

A batch script without `set -e` goes on after `cp: cannot stat ...` or `bc: command not found`: what other programs print
around such a line shows that it ended nothing. Two lines at the end, `date` and `done`, show nothing.
An error within a record of level WARNING, `[WARNING] FileNotFoundError: ...`, was caught by who logs it. One that a program
shows as its data, `generated: Traceback ...`, is none of its own.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import Event, SignalHit
from slurmdoctor.ranks import PEELED, Lines
from slurmdoctor.readers import tracebacks
from slurmdoctor.readers.work import STEPS, TELLING, WORK, rises

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
        if self._script_went_on(event) or tracebacks.HEADER in (record or ""):
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
    if tracebacks.HEADER in record:
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
            begun = tracebacks.HEADER in shown
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
