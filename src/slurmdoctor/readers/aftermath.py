"""Tells of a line that the batch script or one of its small tools printed whether the script went on after it.

A batch script without `set -e` goes on after `cp: cannot stat ...` or `bc: command not found`: what other programs print
around such a line shows that it ended nothing. Two lines at the end, `date` and `done`, show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Event
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.meter import PEELED

_TOOL = text("tool-line")
_SHELL = text("shell-line")
_MAIN = text("main-command")
_TALK = text("script-talk")
_TOOLS_NEED, _OTHERS_NEED = 3, 6
"""Lines of other programs that show that a script went on after a small tool, or after a command that may be its program."""
_ELSEWHERE = 6
"""In another file of the job, so many times more."""
_BYTES = 8 * 1024
"""Bytes that are read after the line, and before it."""
_MOST = 60
"""Lines of them that are looked at."""
_TELLING = ("root", "either")


def add_aftermath(events: Sequence[Event], lines: Lines) -> list[Event]:
    """The events, and of those of the script itself and its tools whether it went on after them."""
    own = {(event.hit.source, event.hit.offset) for event in events}
    return [
        replace(event, retried=True) if _went_on(event, own, lines) else event
        for event in lines.meter.each("aftermath", events)
    ]


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
