"""Tells of an error's line whether who printed it went on: the batch script and its small tools, and who logs a warning.

A batch script without `set -e` goes on after `cp: cannot stat ...` or `bc: command not found`: what other programs print
around such a line shows that it ended nothing. Two lines at the end, `date` and `done`, show nothing.
An error within a record of level WARNING, `[WARNING] FileNotFoundError: ...`, was caught by who logs it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from msgspec.structs import replace

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Event
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.meter import PEELED
from slurmdoctor.readers import tracebacks
from slurmdoctor.search.compiled import lazy

_TOOL = text("tool-line")
_SHELL = text("shell-line")
_WARNING = text("warning-label")
_OF_AN_ERROR = text("of-an-error")
_MAIN = text("main-command")
_TALK = text("script-talk")
_TOOLS_NEED, _OTHERS_NEED = 3, 6
"""Lines of other programs that show that a script went on after a small tool, or after a command that may be its program."""
_LABEL = 200
"""Bytes of a line that may hold its label."""
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
_TELLING = ("root", "either")


def add_aftermath(events: Sequence[Event], lines: Lines, from_outside: Collection[str]) -> list[Event]:
    """The events, and whether those who printed them went on.

    `from_outside` are causes that come from Slurm or a person: they end a job at whatever level they are logged.
    """
    own = {(event.hit.source, event.hit.offset) for event in events}
    found = []
    for event in lines.meter.each("aftermath", events):
        if event.cause not in from_outside and _is_warning(event, lines):
            event = replace(event, warned=True, retried=event.retried or event.role in _TELLING)
        elif _went_on(event, own, lines):
            event = replace(event, retried=True)
        found.append(event)
    return found


def _is_warning(event: Event, lines: Lines) -> bool:
    """Whether its line is a record of level WARNING, or the rest of one."""
    raw, shown = event.hit.raw, event.hit.text.strip()
    label = raw[: raw.find(shown)] if shown in raw else ""
    if _WARNING.search(label or raw[:_LEVEL]):
        return True
    return event.role in _TELLING and not label and _is_rest_of_warning(event, lines)


def _is_rest_of_warning(event: Event, lines: Lines) -> bool:
    """Whether a record of level WARNING that tells of an error stands right above, and another record follows."""
    record = _record_above(event, lines)
    if record is None or not (_WARNING.search(record[:_LABEL]) and _OF_AN_ERROR.search(record)):
        return False
    if tracebacks.HEADER in record:
        return True
    below = (raw for _, _, raw in islice(_below(event, lines), _REST))
    stamped = (raw for raw in below if lines.peeled(event.hit.source, raw[:_LABEL])[0].time is not None)
    following = next(stamped, b"").decode("utf-8", "replace")
    return _label_form(following) == _label_form(record)


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


def _went_on(event: Event, own: set[tuple[int, int]], lines: Lines) -> bool:
    shown = event.hit.text
    if event.role not in _TELLING or event.traceback or event.retried or _MAIN.search(shown):
        return False
    tool = _TOOL.search(shown) is not None
    if not tool and not _SHELL.search(shown):
        return False
    need = _TOOLS_NEED if tool else _OTHERS_NEED
    if _enough(_below(event, lines), need, own, lines) or (tool and _enough(_above(event, lines), need, own, lines)):
        return True
    others = (source.lines for number, source in enumerate(lines.sources) if number != event.hit.source)
    return sum(others) >= need * _ELSEWHERE


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
