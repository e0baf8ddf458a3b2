"""Collects what stands around events and exit reports, so that no later stage needs to open the log."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

from slurmdoctor.model import Event, ExitReport, Line, Progress, SignalHit
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.search.compiled import lazy

_FRAME = lazy(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)')
_MEMORY = lazy(r"(?i)\bmem(?:ory)?(?:[ _]\w+)?\s*[=:]\s*(\d[\d.]*\s?[GM]i?B(?:\s?/\s?\d[\d.]*\s?[GM]i?B)?)")
_DUMPS = ("Fatal Python error", "Timeout (", "*** SIG")
_DEPTH = 160
"""Lines of a crash dump that are read."""
_MOST_DUMPS = 200
_RETRY_LINES = 6
"""Lines after an event within which `attempt 2/5 succeeded` or `PASSED` is about it."""
_RETRY_BYTES = 64 * 1024
_ABOVE = 40
"""Lines above an exit report that are read."""
_MOST_REPORTS = 64


def add_stacks(events: Sequence[Event], lines: Lines) -> list[Event]:
    """The events, and with those whose line begins a crash dump its frames."""
    found: list[Event] = []
    left = _MOST_DUMPS
    for event in events:
        if left and not event.traceback and event.hit.text.strip().startswith(_DUMPS):
            event = _with_stack(event, lines)
            left -= 1
        found.append(event)
    return found


def _with_stack(event: Event, lines: Lines) -> Event:
    """The event with the frames of the thread that crashed; of a dump without one, those of the main thread, which is last."""
    threads: list[tuple[str, list[Mapping[str, str]]]] = []
    for line in lines.after(lines.at(event.hit.source, event.hit.offset), _DEPTH):
        text = line.text.strip()
        if text.endswith("(most recent call first):"):
            threads.append((text, []))
        elif threads and (frame := _FRAME.match(line.text)):
            threads[-1][1].append(frame.groupdict())
        elif text and threads and not text.startswith("..."):
            break
    told = [thread for thread in threads if thread[1]]
    if not told:
        return event
    head, frames = next((thread for thread in told if thread[0].startswith("Current thread")), told[-1])
    shown = [f'  File "{f["file"]}", line {f["line"]}, in {f["function"]}' for f in reversed(frames)]
    return replace(
        event,
        traceback=(*shown, event.hit.text.strip()),
        stack_of="current" if head.startswith("Current") else "main",
    )


def add_retries(events: Sequence[Event], signals: Sequence[SignalHit], lines: Lines) -> list[Event]:
    """The events, and of each whether a signal of kind `survived` stands just after it."""
    survived: dict[int, list[SignalHit]] = {}
    for signal in signals:
        if signal.signal.kind == "survived":
            survived.setdefault(signal.line.source, []).append(signal)
    return [
        replace(event, retried=True) if _retried(event, survived.get(event.hit.source, ()), lines) else event
        for event in events
    ]


def _retried(event: Event, survived: Sequence[SignalHit], lines: Lines) -> bool:
    after = bisect_left(survived, event.order, key=lambda signal: signal.order)
    if after == len(survived) or survived[after].order - event.order >= _RETRY_BYTES:
        return False
    line = lines.at(event.hit.source, event.hit.offset)
    near = {line.offset, *(below.offset for below in lines.after(line, _RETRY_LINES))}
    return survived[after].line.offset in near


def add_lines_above(reports: Sequence[ExitReport], lines: Lines) -> list[ExitReport]:
    """The exit reports in the log's order, with the lines above those that show no more than an exit code."""
    bare = [report for report in reports if report.exit.tells_nothing and report.exit.code != 0]
    half = _MOST_REPORTS // 2
    chosen = {report.order for report in (*bare[:half], *bare[-half:])}
    return [
        replace(report, above=tuple(_above(report, lines))) if report.order in chosen else report for report in reports
    ]


def _above(report: ExitReport, lines: Lines) -> list[Line]:
    """The lines above that a program printed, but for stamped ones, Slurm's and the frames of tracebacks."""
    found = []
    for line in lines.before(report.line, _ABOVE, same_writer=False):
        text = line.text.strip()
        if text and not line.origin.dated and not text.startswith(("srun:", "slurmstepd", "File ", "^", "~")):
            found.append(line)
    return found


def memory_of(progress: Sequence[Progress], lines: Lines) -> str | None:
    """The memory that the last step's line shows."""
    for step in progress[-1:]:
        if found := _MEMORY.search(lines.at(step.source, step.offset).text):
            return str(found[1])
    return None
