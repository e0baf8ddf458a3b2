"""Turns tracebacks into events, and joins the events of rules with the tracebacks that they stand in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.model import EXIT_CODE, PEER_LOST, PYTHON_ERROR, Event, Line, Origin, Role, Writer
from slurmdoctor.ranks import Excerpts, Place
from slurmdoctor.readers.rule_events import RuleEvents, event_at
from slurmdoctor.readers.tracebacks import (
    HEADER,
    Traceback,
    begins_frame,
    exception_of,
    is_wrapper,
    read_traceback,
)

_SLURM = text("slurm-line")
_LEVEL = text("level-line")
_RULE = text("drawn-line")
_ERROR_FILE = text("torchelastic-error-file")
_WARNED = text("warned-label")
_DRAWN = 40
"""Characters of a drawn line that parts what stands above it from another program's block."""
_MESSAGE_LINES = 12
"""Lines below an exception's own that may belong to its message."""
_MOST_HELD = 8
"""Wrappers around each other of which the frames are read."""
_LAST_LINES = 8
"""Lines below an exception of which none but other exceptions may follow, where it is taken for its writer's last word."""
_FAR = 64 * 1024
"""Bytes: without a label, what stands farther apart than this is not one traceback."""

Recognise = Callable[[Line], None]
"""Lets the rules see a line that was not kept for them."""


def join_tracebacks(
    headers: Sequence[Line], loose: Sequence[Line], events: RuleEvents, lines: Excerpts, recognise: Recognise
) -> list[Event]:
    """All events: those of the rules, and a python-error of each traceback or exception that no rule knows.

    `headers` are the first lines of tracebacks, `loose` the lines of exceptions, with or without a traceback.
    """
    for line in loose:
        recognise(line)
    joiner = _Joiner(events, lines, recognise)
    for header in lines.meter.each("tracebacks", headers):
        joiner.add(header)
    found = joiner.found
    for line in loose:
        where = line.place
        if where in joiner.exceptions:
            continue
        if where not in events.at:
            found += _without_traceback(line, lines)
        elif _warned(line):
            events.doubt(where)
        elif where in events.general and not _framed(line, lines):
            events.doubt(where)
            found += [_ended(event, "last-word") for event in events.at[where][:1] if _is_last_word(line, lines)]
    return [*found, *events.all()]


class _Joiner:
    """Takes one traceback after another, in the log's order."""

    def __init__(self, events: RuleEvents, lines: Excerpts, recognise: Recognise) -> None:
        self._events = events
        self._lines = lines
        self._recognise = recognise
        self._groups = 0
        self._leads_to: dict[Writer, tuple[int, Origin]] = {}
        """Writer -> the group that its next traceback continues, and who raised what that one tells, if it is held."""
        self.found: list[Event] = []
        """The events of tracebacks that no rule knows."""
        self.exceptions: set[Place] = set()
        """The lines of exceptions that belong to a traceback."""

    def add(self, header: Line) -> None:
        for _ in range(_MOST_HELD):
            trace = read_traceback(self._lines, header)
            if trace.exception is None:
                if trace.cut is not None and not (trace.harmless or trace.in_thread):
                    self.found += _cut_short(trace, trace.cut)
                return
            self._take(trace, trace.exception)
            if trace.holds != "frames":
                return
            header = trace.exception

    def _take(self, trace: Traceback, exception: Line) -> None:
        where = exception.place
        self._recognise(exception)
        group, trace = self._group_of(trace)
        if trace.harmless or (trace.in_thread and where in self.exceptions):
            self.exceptions.add(where)
            self._events.drop(where)
            return
        if trace.of_helper and where not in self.exceptions:
            self.exceptions.add(where)
            self._events.drop(where)
            self.found.append(event_at(exception, PEER_LOST, "cascade", f"{PEER_LOST}/parent", group=group))
            return
        known = self._join_rules(trace, exception, group)
        if known and _warned(exception):
            self._events.doubt(where)
        if where in self.exceptions:
            return
        self.exceptions.add(where)
        if known:
            return
        if trace.wrapper or trace.holds:
            when = Origin(time=exception.origin.time)
            self.found.append(
                event_at(exception, EXIT_CODE, "cascade", f"{EXIT_CODE}/launcher", origin=when, group=group)
            )
            return
        error = _python_error(exception, "hint" if trace.in_thread or _warned(exception) else "root")
        self.found.append(replace(error, group=group, traceback=_shown(trace), origin=_raised_by(error.origin, trace)))

    def new_group(self) -> int:
        self._groups += 1
        return self._groups

    def _group_of(self, trace: Traceback) -> tuple[int, Traceback]:
        """The number that all tracebacks of one chain share; what a wrapper holds was raised where the wrapper says."""
        writer = (trace.header.source, trace.header.label)
        held_by = self._leads_to.pop(writer, None)
        group, raiser = (self.new_group(), Origin()) if held_by is None else held_by
        if trace.raiser != Origin():
            raiser = trace.raiser if trace.raiser.node else replace(raiser, local_rank=trace.raiser.local_rank)
        trace = replace(trace, raiser=raiser)
        if trace.holds or trace.chained:
            self._leads_to[writer] = group, raiser if trace.holds else Origin()
        return group, trace

    def _join_rules(self, trace: Traceback, exception: Line, group: int) -> bool:
        """Give the rules' events inside of a traceback its frames; whether any of them names a cause."""
        where = exception.place
        at = self._events.at
        inside = _events_inside(trace, exception, self._events, self._lines)
        matched = {event.rule for event in at.get(where, ())}
        for place in inside:
            # where the exception itself matches, the source line that raises it (`f"missing {key}"`) adds nothing
            kept = [event for event in at[place] if place >= where or event.rule not in matched]
            at[place] = [_in_traceback(event, trace, exception, group) for event in kept]
        return any(event.role != "hint" for place in inside for event in at[place])


def _events_inside(trace: Traceback, exception: Line, events: RuleEvents, lines: Excerpts) -> list[Place]:
    """The lines with events in a traceback's frames, on its exception's line, and in the message's following lines."""
    where = exception.place
    found = [where] if where in events.at else []
    start, end = trace.header.offset, exception.offset
    if exception.label or end - start < _FAR:
        found += [
            place
            for place in events.between(exception.source, start, end)
            if any(event.rule and event.label == trace.header.label for event in events.at[place])
        ]
    bare = ":" not in exception.text  # it has no message
    for line in lines.after(exception, _MESSAGE_LINES):
        if bare or HEADER in line.text or not line.text.strip() or exception_of(line.text) or _of_its_own(line):
            break
        if line.place in events.at:
            found.append(line.place)
    return found


def _of_its_own(line: Line) -> bool:
    """Whether a line after an exception is no part of its message: it has a stamp, or a launcher prints it, in a block of its own, too."""
    drawn = len(line.text) > _DRAWN and _RULE.match(line.text)
    return bool(drawn or line.origin.time is not None or _SLURM.match(line.text) or _LEVEL.match(line.text))


def _in_traceback(event: Event, trace: Traceback, exception: Line, group: int) -> Event:
    """The event as its traceback's: a match in a frame is shown by the exception's own line."""
    if event.hit.offset < exception.offset:
        event = replace(event, hit=exception.hit)
    return replace(event, group=group, traceback=_shown(trace), origin=_raised_by(event.origin, trace))


def _raised_by(origin: Origin, trace: Traceback) -> Origin:
    """Who failed, where the traceback names another process than the one that prints it."""
    if trace.collected is not None:
        rank = trace.collected if trace.collected >= 0 else None
        return replace(origin, rank=rank, local_rank=None, node=None, pid=None)
    at = trace.raiser
    if origin.rank is not None or (at.node is None and origin.local_rank is not None):
        return origin
    if at.node is not None:
        origin = replace(origin, node=at.node, pid=at.pid)
    return origin if at.local_rank is None else replace(origin, local_rank=at.local_rank)


def _shown(trace: Traceback) -> tuple[str, ...]:
    assert trace.exception is not None
    return (*trace.frames, trace.exception.text)


def _without_traceback(line: Line, lines: Excerpts) -> list[Event]:
    """The event of an exception's line that belongs to no traceback that was read."""
    name = (exception_of(line.text) or ("", ""))[0]
    if name.endswith("Warning") or is_wrapper(name):
        return []
    warned, framed = _warned(line), _framed(line, lines)
    error = _python_error(line, "root" if framed and not warned else "hint")
    return [error] if framed or warned or not _is_last_word(line, lines) else [error, _ended(error, "last-word")]


def _warned(line: Line) -> bool:
    """Whether the line's own label says that it is a warning or less: what was caught, and shown."""
    return line.text != "" and _WARNED.search(line.raw[: line.raw.find(line.text)]) is not None


def _framed(line: Line, lines: Excerpts) -> bool:
    """Whether frames of a traceback, or what torchelastic writes into its error file, stand around an exception's line."""
    above = next(lines.before(line), None)
    framed = above is not None and (begins_frame(above.text) or above.text.startswith("    "))
    return framed or _ERROR_FILE.search(line.raw) is not None


def _is_last_word(line: Line, lines: Excerpts) -> bool:
    """Whether a writer's lines end with this exception, and Slurm tells nothing of its end.

    What a logger tells may have been dealt with.
    """
    if len(lines.sources) > 1 or line.origin.time is not None or _LEVEL.match(line.raw):
        return False
    below = (later.text for later in lines.after(line, _LAST_LINES) if later.text.strip())
    return all(exception_of(text) is not None for text in below)


def _ended(hint: Event, how: str) -> Event:
    """The end of the process that the hint is about, where nobody else tells of it."""
    return replace(hint, cause=EXIT_CODE, role="cascade", rule=f"{EXIT_CODE}/{how}")


def _python_error(line: Line, role: Role) -> Event:
    name, message = exception_of(line.text, strict=False) or ("", "")
    found = {"exception": name, "message": message}
    return event_at(line, PYTHON_ERROR, role, f"{PYTHON_ERROR}/traceback", captures=found)


def _cut_short(trace: Traceback, last: Line) -> list[Event]:
    """Where the log ends inside of a traceback: the process failed, and what was raised is not shown."""
    hint = replace(_python_error(last, "hint"), captures={}, traceback=trace.frames)
    ending = _ended(hint, "cut-traceback")
    return [ending] if trace.of_launcher else [hint, ending]
