"""Reads stack dumps and finds the rank that stands elsewhere than all others.

Formats: CPython's faulthandler (`Thread 0x... (most recent call first):`), as PYTHONFAULTHANDLER and dump_traceback_later
print it; `py-spy dump` (`Thread 4121 (idle): "MainThread"`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.model import (
    Event,
    Line,
    ProcessExit,
    StackDump,
    from_signal,
    from_words,
    number,
    signal_name,
)
from slurmdoctor.ranks import Excerpts

_FRAME = text("python-frame")
_PY_SPY_THREAD = text("py-spy-thread")
_PY_SPY_FRAME = text("py-spy-frame")
_DEPTH = 60


def read_stack(lines: Excerpts, header: Line) -> StackDump | None:
    """The dump that begins at this header; None where its rank is not to be read or it has no frame."""
    if header.origin.rank is None:
        return None
    pattern = _PY_SPY_FRAME if _PY_SPY_THREAD.search(header.text) else _FRAME
    for line in lines.after(header, _DEPTH):
        if (frame := pattern.search(line.text)) and frame["function"]:
            where = f"{frame['function']} ({frame['file']}"
            return StackDump(header.origin.rank, f"{where}:{frame['lineno']})", header, f"{where})", header.order)
        break
    return None


_HANDLER = text("crash-handler")
_DUMP = text("crash-dump")
_THREAD = text("dump-thread")
_JOB_END = text("job-end")
_DUMP_DEPTH = 160
"""Lines of a crash dump that are read."""
_MOST_DUMPS = 200


def add_stacks(events: Sequence[Event], lines: Excerpts) -> list[Event]:
    """The events, and with those whose line begins a crash dump its frames."""
    found: list[Event] = []
    left = _MOST_DUMPS
    for event in lines.meter.each("stacks", events):
        if left and not event.traceback and _DUMP.match(event.hit.text):
            event = _with_stack(event, lines)
            left -= 1
        found.append(event)
    return found


def _with_stack(event: Event, lines: Excerpts) -> Event:
    """The event with the frames of the thread that crashed; of a dump without one, those of the main thread, which is last."""
    threads: list[tuple[bool, list[Mapping[str, str]]]] = []
    for line in lines.after(lines.at(*event.hit.place), _DUMP_DEPTH):
        shown = line.text.strip()
        if thread := _THREAD.match(line.text):
            threads.append((thread["current"] is not None, []))
        elif threads and (frame := _FRAME.match(shown)):
            threads[-1][1].append(frame.groupdict())
        elif shown and threads and not shown.startswith("..."):
            break
    threads = [thread for thread in threads if thread[1]]
    if not threads:
        return event
    crashed, frames = next((thread for thread in threads if thread[0]), threads[-1])
    rows = [f'  File "{f["file"]}", line {f["lineno"]}, in {f["function"]}' for f in reversed(frames)]
    return replace(event, traceback=(*rows, event.hit.text.strip()), stack_of="current" if crashed else "main")


def add_endings(events: Sequence[Event]) -> list[Event]:
    """The events, and of each what its own line shows of an end: the signal that was caught, or that Slurm ends the job."""
    found = []
    for event in events:
        ends_job = _JOB_END.search(event.hit.text) is not None
        caught = from_handler(event.hit.text)
        found.append(replace(event, ends_job=ends_job, caught=caught) if ends_job or caught else event)
    return found


def from_handler(line: str) -> ProcessExit | None:
    """How a process ends whose crash handler prints this, for it hands the signal on: `Caught signal 11 (`."""
    found = _HANDLER.search(line)
    if found is None:
        return None
    if found["words"]:
        return from_words(found["words"])
    signal = found["signal"]
    return from_signal(signal_name(number(signal)) if signal.isdecimal() else signal)
