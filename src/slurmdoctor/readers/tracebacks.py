"""Tells the lines of Python tracebacks from other lines: an exception's own, `pkg.SomeError: text`, and a frame.

The syntax is CPython's own (traceback.py, 3.8 to 3.14), with the tree that an exception group draws before it:

    | torch.OutOfMemoryError: CUDA out of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Literal

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import (
    EXIT_CODE,
    PEER_LOST,
    PYTHON_ERROR,
    Event,
    Frozen,
    Line,
    Origin,
    ProcessExit,
    RankMap,
    Role,
    StackDump,
    Writer,
    from_signal,
    from_words,
    number,
    signal_name,
)
from slurmdoctor.ranks import Excerpts, Place
from slurmdoctor.readers.rule_events import HEADER, TREE, RuleEvents, begins_frame, event_at, exception_of

_FRAME = text("python-frame")
_MARKS = lazy(r"^\s*+(?:(?<= )|[\^~])[\^~ ]*+$")
_CHAINED = text("chained-traceback")
_HARMLESS = text("harmless-traceback")
_IN_THREAD = text("thread-traceback")
_SPAWNED = text("spawned-traceback")
_COLLECTED = text("collected-traceback")
_FROM_ONE = text("collected-from-one")
_LAUNCHER = text("launcher-frame")
_WRAPPING = text("wrapping-exception")
_RULED_OFF = text("held-traceback-ruled-off")
_HELD = text("held-traceback")
_RAY_TASK = text("ray-task")
_HELPER = text("helper-frame")
_TRACKER = text("tracker-frame")
_PARENT_GONE = text("parent-gone")
_SLURM = text("slurm-line")
_LEVEL = text("level-line")
_RULE = text("drawn-line")
_ERROR_FILE = text("torchelastic-error-file")
_WARNED = text("warned-label")
_LONGEST = 300
_MOST_SKIPPED = 40
_CHAIN_LINES = 12
_HELD_LINES = 8
_AT_THE_END = 4096
"""Bytes that other writers may add to a log after the line at which it was cut."""
_DRAWN = 40
"""Characters of a drawn line that parts what is above it from another program's block."""
_MESSAGE_LINES = 12
"""Lines below an exception's own that may belong to its message."""
_MOST_HELD = 8
"""Wrappers around each other of which the frames are read."""
_LAST_LINES = 8
"""Lines below an exception of which none but other exceptions may follow, where it is taken for its writer's last word."""


class Traceback(Frozen):
    """One traceback of one writer; a chain is several that share their writer and follow each other."""

    header: Line
    exception: Line | None
    """The exception's own line; None where the log ends before it."""
    name: str
    """The class without its module."""
    frames: tuple[str, ...]
    chained: bool
    """Whether the next traceback of the writer belongs to the same chain."""
    harmless: bool
    in_thread: bool
    holds: Literal["", "traceback", "frames"] = ""
    """What its message goes on with: the traceback of the process in which it began, or that one's frames without a header."""
    raiser: Origin = Origin()
    """The process that raised it, as far as the text tells: torch.multiprocessing.spawn's index, Ray's address and pid."""
    cut: Line | None = None
    """The last line of a traceback inside of which the log ends."""
    collected: int | None = None
    """torch.distributed.checkpoint prints what it collected from this rank, on any other one; -1: from others besides."""

    def of_helper(self, exception: Line) -> bool:
        """Whether a helper process raised it because the process that started it, or its other end, was gone."""
        inside = any(_HELPER.search(frame) for frame in self.frames[-2:])
        return inside and _PARENT_GONE.search(exception.text) is not None


def is_wrapper(name: str) -> bool:
    """Whether an exception of this class wraps that of a child."""
    return _WRAPPING.match(name) is not None


def read_traceback(lines: Excerpts, header: Line) -> Traceback:
    """Read the traceback that begins at this header, or at the exception of a wrapper below which frames stand."""
    above = list(lines.before(header, 2))
    body = _Body(lines, header)
    exception = body.exception
    spawned = next((m for line in above if (m := _SPAWNED.search(line.text))), None)
    collected = next((m for line in (header, *above[:1]) if (m := _COLLECTED.search(line.text))), None)
    alone = any(_FROM_ONE.search(line.text) for line in above)
    return Traceback(
        header,
        exception,
        body.name,
        tuple(body.frames),
        exception is not None and _is_chained(lines, exception),
        holds=_held_by(lines, exception) if exception else "",
        harmless=any(_HARMLESS.search(line.text) for line in above) or any(map(_TRACKER.search, body.frames[-2:])),
        in_thread=any(_IN_THREAD.match(line.text) for line in above[:1]),
        raiser=_raiser(header, spawned["local_rank"] if spawned else None),
        cut=body.cut,
        collected=None if collected is None else number(collected["rank"]) if alone else -1,
    )


class _Body:
    """The frames below a header, and the line of the exception or the line at which the log ends."""

    def __init__(self, lines: Excerpts, header: Line) -> None:
        self.frames: list[str] = []
        self.exception: Line | None = None
        self.name = ""
        self.cut: Line | None = None
        self._length = lines.sources[header.source].length
        self._decorated = TREE.match(header.text) is not None
        before = header.text.find(HEADER)
        self._indent = max(before, 0)
        self._loose = self._decorated or (before > 0 and header.text[:before].strip(" |+") != "")
        """Whether the header's indent does not show which lines belong to the frames."""
        self._code_follows = False
        self._skipped = 0
        self._last: Line | None = header
        """The line before, while no other line than the traceback's came between."""
        self._read(lines, header)

    def _read(self, lines: Excerpts, header: Line) -> None:
        for line in lines.after(header, _LONGEST):
            if self._ends_with(line):
                return
        near = self._last is not None and lines.sources[self._last.source].length - self._last.end < _AT_THE_END
        self.cut = self._last if near and self.frames else None

    def _ends_with(self, line: Line) -> bool:
        """Take in one line; whether the traceback ends with it, or ended before."""
        shown = TREE.sub("", line.text) if self._decorated else line.text
        if not shown.strip() or _MARKS.match(shown) or self._is_frame(line, shown):
            return False
        if HEADER in shown:
            return True
        inside = len(shown) - len(shown.lstrip()) > self._indent
        if (self._loose or not inside) and (raised := exception_of(shown, strict=self._loose or self._skipped > 0)):
            self.exception, self.name = line, raised[0]
            return True
        self._last = None
        self._skipped += 1
        return self._skipped > _MOST_SKIPPED

    def _is_frame(self, line: Line, shown: str) -> bool:
        """Keep a frame, or the line after it: its source, or `[Previous line repeated 900 more times]`."""
        begins = _FRAME.match(shown.lstrip()) is not None or (begins_frame(shown) and line.end > self._length)
        inside = self._loose or len(shown) - len(shown.lstrip()) > self._indent
        if not begins and not (self._code_follows and inside):
            return False
        self._last = line
        self.frames.append(shown.rstrip())
        self._code_follows = begins
        return True


def _raiser(header: Line, spawned: str | None) -> Origin:
    task = _RAY_TASK.search(header.text)
    local_rank = None if spawned is None else number(spawned)
    return Origin(local_rank=local_rank, node=task["node"] if task else None, pid=number(task["pid"]) if task else None)


def _held_by(lines: Excerpts, exception: Line) -> Literal["", "traceback", "frames"]:
    """What an exception's message holds below its first line."""
    unfinished = exception.text.rstrip().endswith(":")
    for line in lines.after(exception, _HELD_LINES):
        if begins_frame(line.text):
            return "frames" if _RAY_TASK.search(exception.text) else ""
        if HEADER in line.text:
            return "traceback" if unfinished or _HELD.search(line.text) else ""
        ruled_off = _RULED_OFF.search(line.text) is not None
        if line.text.strip() and not ruled_off:
            return ""
        unfinished = unfinished or ruled_off
    return ""


def _is_chained(lines: Excerpts, exception: Line) -> bool:
    for line in lines.after(exception, _CHAIN_LINES):
        if HEADER in line.text:
            return False
        if _CHAINED.search(line.text):
            return True
    return False


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
    return [*found, *chain.from_iterable(events.at.values())]


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
        again = where in self.exceptions
        self.exceptions.add(where)
        if trace.harmless:
            self._events.drop(where)
            return
        if trace.of_helper(exception) and not again:
            self._events.drop(where)
            self.found.append(event_at(exception, PEER_LOST, "cascade", f"{PEER_LOST}/parent", group=group))
            return
        known = self._join_rules(trace, exception, group)
        if known and _warned(exception):
            self._events.doubt(where)
        if known or again:
            return
        if is_wrapper(trace.name) or trace.holds:
            when = Origin(time=exception.origin.time)
            self.found.append(
                event_at(exception, EXIT_CODE, "cascade", f"{EXIT_CODE}/launcher", origin=when, group=group)
            )
            return
        error = _python_error(exception, "hint" if trace.in_thread or _warned(exception) else "root")
        self.found.append(replace(error, group=group, traceback=_shown(trace), origin=_raised_by(error.origin, trace)))

    def _group_of(self, trace: Traceback) -> tuple[int, Traceback]:
        """The number that all tracebacks of one chain share; what a wrapper holds was raised where the wrapper says."""
        writer = (trace.header.source, trace.header.label)
        held_by = self._leads_to.pop(writer, None)
        if held_by is None:
            self._groups += 1
        group, raiser = held_by or (self._groups, Origin())
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
    found += [
        place
        for place in events.between(exception.source, trace.header.offset, exception.offset)
        if any(event.label == trace.header.label for event in events.at[place])
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
        event = replace(event, hit=exception)
    return replace(event, group=group, traceback=_shown(trace), origin=_raised_by(event.origin, trace))


def _raised_by(origin: Origin, trace: Traceback) -> Origin:
    """Who failed, where the traceback names another process than the one that prints it."""
    if trace.collected is not None:
        rank = trace.collected if trace.collected >= 0 else None
        return replace(origin, rank=rank, local_rank=None, node=None, pid=None)
    at, head = trace.raiser, trace.header.origin
    if origin.rank is None and origin.worker is None:  # SGLang labels the first line alone
        origin = replace(origin, rank=head.rank, worker=head.worker)
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
    warned, framed = _warned(line), _framed(line, lines)
    error = _python_error(line, "root" if framed and not warned else "hint")
    name = error.captures["exception"]
    if name.endswith("Warning") or is_wrapper(name):
        return []
    return [error] if framed or warned or not _is_last_word(line, lines) else [error, _ended(error, "last-word")]


def _warned(line: Line) -> bool:
    """Whether the line's own label says that it is a warning or less: what was caught, and shown."""
    return _WARNED.search(line.raw[: line.raw.find(line.text)]) is not None


def _framed(line: Line, lines: Excerpts) -> bool:
    """Whether frames of a traceback, or what torchelastic writes into its error file, stand around an exception's line."""
    above = next(lines.before(line), None)
    framed = above is not None and (begins_frame(above.text) or above.text.startswith("    "))
    return framed or _ERROR_FILE.search(line.raw) is not None


def _is_last_word(line: Line, lines: Excerpts) -> bool:
    """Whether a writer's lines end with this exception, and Slurm tells nothing of its end.

    What a logger tells may have been dealt with.
    """
    if len(lines.sources) > 1 or line.origin.time is not None:
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
    of_launcher = any(map(_LAUNCHER.search, trace.frames))  # a child failed, and why is not shown
    return [ending] if of_launcher else [hint, ending]


_STACK_PROCESS = text("stack-process")
_STACK_END = text("stack-end")
_STACK_FRAME = text("stack-frame")
_PASSED_OVER = text("stack-passed-over")
_WAITS = text("stack-waits")
_NO_RANK = text("stack-of-helper")
_STACK_DEPTH = 64
"""Frames of a stack that are read, and lines above it in which its process is looked for."""


def read_stack(lines: Excerpts, header: Line, maps: RankMap) -> StackDump | None:
    """The dump that begins at this header; None where its rank is not to be read, it has no frame, or it is a helper's."""
    above = (header, *lines.before(header, _STACK_DEPTH))
    pid = next((number(found["pid"]) for row in above if (found := _STACK_PROCESS.search(row.text))), None)
    rank = maps.resolve(replace(header.origin, pid=pid or header.origin.pid), header.source)[0].rank
    rows = takewhile(lambda row: not _STACK_END.search(row.text), lines.after(header, _STACK_DEPTH))
    read = [frame for row in rows if (frame := _STACK_FRAME.search(row.text))]
    frames = [(f"{one['function']} ({one['file'] or '?'}", one["lineno"]) for one in read]
    if rank is None or not frames or any(_NO_RANK.search(f"{place})") for place, _ in frames):
        return None
    place, row = next((one for one in frames if not _PASSED_OVER.search(f"{one[0]})")), frames[0])
    where = f"{place})"
    shown = f"{place}:{row})" if row else where
    return StackDump(rank, shown, header, where, header.order, _WAITS.search(where) is not None)


_HANDLER = text("crash-handler")
_DUMP = text("crash-dump")
_THREAD = text("dump-thread")
_JOB_END = text("job-end")
_DUMP_DEPTH = 160
"""Lines of a crash dump that are read."""
_MOST_DUMPS = 200


def add_endings(events: Sequence[Event], lines: Excerpts) -> list[Event]:
    """The events, and of each what its own lines show of an end: a crash dump's frames, the signal that was caught, that Slurm ends the job."""
    found: list[Event] = []
    left = _MOST_DUMPS
    for event in lines.meter.each("stacks", events):
        if left and _DUMP.match(event.hit.text):
            event = _with_stack(event, lines)
            left -= 1
        shown = event.hit.text
        found.append(replace(event, ends_job=_JOB_END.search(shown) is not None, caught=from_handler(shown)))
    return found


def _with_stack(event: Event, lines: Excerpts) -> Event:
    """The event with the frames of the thread that crashed; of a dump without one, those of the main thread, which is last."""
    threads: list[tuple[bool, list[Mapping[str, str]]]] = []
    for line in lines.after(event.hit, _DUMP_DEPTH):
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


def from_handler(line: str) -> ProcessExit | None:
    """How a process ends whose crash handler prints this, for it hands the signal on: `Caught signal 11 (`."""
    found = _HANDLER.search(line)
    if found is None:
        return None
    if found["words"]:
        return from_words(found["words"])
    signal = found["signal"]
    return from_signal(signal_name(number(signal)) if signal.isdecimal() else signal)
