"""Reads what stood last: each rank's last line before a wait, the work it was busy with, and how a log ends where no line proves why.

Also the message around the line in which a program says that it stops: what failed, where the lines beside it tell.

     Error in routine davcio (10):
     error while writing from file "./tmp/out.wfc1"

Which causes' lines are such last words, their trait `own-words` says; the rules that apply to messages say what failed. A hint is
believed where the same program says below that it stops for it, or where nothing but a few lines follow it in the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from operator import itemgetter

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import compiled
from slurmdoctor.model import ABORTED, Busy, Ending, Event, Knowledge, Line, Origin, Rule, admits
from slurmdoctor.ranks import Excerpts
from slurmdoctor.readers.rule_events import event_at, rule_event

_AROUND = 256 * 1024
"""Bytes before and after a wait that are read,"""
_MOST_ASKED = 4000
"""and lines of them of which the rank is read."""
_LONGEST = 2000
"""Bytes of a line that is worth showing."""
_OF_THE_END = text("of-the-end")
"""What a rank prints of its end, or of the others' silence, does not show what it did meanwhile."""


def collect_last_words(events: Sequence[Event], knowledge: Knowledge, lines: Excerpts) -> Mapping[int, Line]:
    """Each rank's last line around the first wait; none where a failure that needs no such proof came before."""
    waits = [e for e in events if e.cause in knowledge.traits["timed-out"] and e.role != "hint"]
    if not waits:
        return {}
    first = min(waits, key=lambda e: (e.origin.time is None, e.origin.time or 0.0, e.order))
    settled = knowledge.traits["generic"] | knowledge.traits["scheduler"]
    if any(e.role == "root" and e.cause not in settled and e.order < first.order for e in events):
        return {}
    return _last_lines(first.hit.source, first.hit.offset, lines)


def _last_lines(source: int, offset: int, lines: Excerpts) -> dict[int, Line]:
    """Each rank's line, from the last one upwards: where its label names the rank, those above it are passed over."""
    found: dict[int, Line] = {}
    done: set[bytes] = set()
    left = _MOST_ASKED
    for begin, raw in reversed(lines.rows(source, offset - _AROUND, offset + _AROUND)):
        label = lines.label(source, raw)
        if len(raw) >= _LONGEST or label in done:
            continue
        line = lines.line(source, begin, raw)
        rank = line.origin.rank
        if rank is not None and rank not in found and _OF_THE_END.search(line.raw) is None:
            found[rank] = line
        if rank in found and lines.writer(source, label) is not None:
            done.add(label)
        left -= 1
        if not left:
            break
    return found


# ── work that others waited for ───────────────────────────────────────────────────────────────

_BAR = text("busy-bar")
_LINE = text("busy-line")
_KIND = text("busy-kind")
_ABOVE_WAIT = 64 * 1024
"""Bytes above the wait's first line, and"""
_MOST_ABOVE = 200
"""lines that are looked at."""


def find_busy(events: Sequence[Event], knowledge: Knowledge, lines: Excerpts) -> Busy | None:
    """The last word of such work above the first wait that timed out, or above what ended the job; None where there is none."""
    traits = knowledge.traits
    ends = [e for e in events if e.role != "hint" and e.cause in traits["timed-out"] | traits["scheduler"]]
    if not ends:
        return None
    first = min(ends, key=lambda e: e.order).hit  # a bar may stand before it, with or without a \r
    for line in (first, *_upwards(lines, first.source, first.offset, _ABOVE_WAIT, _MOST_ABOVE)):
        found = _work_in(line)
        if found and (found.elapsed is not None or found.time is not None):
            return found
    return None


def unfinished_work(line: Line | None) -> Busy | None:
    """The work that a process's last line tells of, and that was not done by then."""
    if line is None:
        return None
    bar = _BAR.search(line.text)
    return None if bar and bar["done"] == bar["all"] else _work_in(line)


def _work_in(line: Line) -> Busy | None:
    """The work that this line, or piece of one, tells of."""
    bar = _BAR.search(line.raw) if "%|" in line.raw else None
    kind = _KIND.search(bar["what"] if bar else line.text) if bar or _LINE.search(line.text) else None
    if kind is None:
        return None
    if bar is None:
        return Busy(str(kind.lastgroup), line.text.strip()[:100], line.order, time=line.origin.time)
    words = f"{bar['what'].strip(' .:')}: {bar['done']} of {bar['all']} after {bar['elapsed']}"
    return Busy(str(kind.lastgroup), words, line.order, elapsed=_seconds(bar["elapsed"]))


def _seconds(clock: str) -> float:
    """Seconds of tqdm's `29:55`, `1:02:03` and `1 day, 2:03:04`."""
    days, _, rest = clock.rpartition("day")
    seconds = 0
    for part in re.findall(r"\d+", rest):
        seconds = 60 * seconds + int(part)
    return seconds + 86400.0 * int(days or 0)


# ── how a log ends ────────────────────────────────────────────────────────────────────────────

_FEW = 16
"""Files whose ends are read,"""
_END = 16 * 1024
"""so many bytes of each,"""
_MOST_LAST = 40
"""and so many lines."""
_SHOWN = 3
"""Last lines that are shown."""
_MOST_WORK = 4
"""Lines of work; what is above more of them was no end."""
_COMPLAINT = text("of-an-error")
_NAMES = "slurm-line low-level-label drawn-line harmless-traceback python-frame raising-code no-last-words"
_NO_COMPLAINT = tuple(map(text, _NAMES.split()))
"""What may hold words of an error, and tells none."""
_NO_END = tuple(map(text, ("script-talk", "tool-line")))
"""What a script says around its programs."""
_WORK = (text("work-line"), _BAR)


def find_ending(events: Iterable[Event], lines: Excerpts, knowledge: Knowledge) -> Ending:
    """Of the ends of the job's files the complaint nearest to its file's end, without one the last line that is no noise.

    Nothing, and no end is read, where an event may be what ended the job.
    """
    if any(event.role in ("root", "either", "confirmation") and not event.survived for event in events):
        return Ending()
    found: list[tuple[bool, int, Line]] = []
    shown: dict[int, tuple[Line, ...]] = {}
    for source in _last_files(lines):
        last = list(_upwards(lines, source, lines.sources[source].length, _END, _MOST_LAST))
        shown[source] = tuple(reversed(last[:_SHOWN]))
        found += _telling(last, knowledge)
    telling = min(found, key=itemgetter(0, 1), default=(True, 0, None))[2]
    source = telling.source if telling else max(shown, key=lambda one: lines.sources[one].length, default=0)
    return Ending(telling, shown.get(source, ()))


def ends_of_files(lines: Excerpts) -> Iterator[list[Line]]:
    """The last lines of each of the last files, the last one first."""
    for source in _last_files(lines):
        yield list(_upwards(lines, source, lines.sources[source].length, _FAR, _MOST_CANDIDATES))


_FAR, _MOST_CANDIDATES = 64 * 1024, 200


def _last_files(lines: Excerpts) -> list[int]:
    """The last of the job's own files: how a node's log ends tells nothing of the job's end."""
    return [number for number, source in enumerate(lines.sources) if source.witness is None][-_FEW:]


def _telling(last: Iterable[Line], knowledge: Knowledge) -> Iterator[tuple[bool, int, Line]]:
    """(whether it is no complaint, lines below it, line) of the last complaint, and of the last other line that is no noise."""
    work = 0
    reported = False
    for below, line in enumerate(last):
        if "\ufffd" in line.text or not line.text.strip() or _any(_NO_COMPLAINT, line):
            continue
        work += _is_work(line, knowledge)
        if work > _MOST_WORK:
            return
        complains = _COMPLAINT.search(line.text) is not None and not _any(_WORK, line)
        wanted = complains or not (work or reported or _any(_NO_END, line))
        if wanted and not _follows(line, knowledge):
            yield not complains, below, line
            reported = True
            if complains:
                return


def _upwards(lines: Excerpts, source: int, end: int, reach: int, most: int) -> Iterator[Line]:
    """The lines above a place, the last one first. Of a bar the last state counts, as a terminal shows it."""
    rows = ((offset, raw.rstrip(b"\r")) for offset, raw in reversed(lines.rows(source, end - reach, end)))
    states = ((offset + row.rfind(b"\r") + 1, row.rpartition(b"\r")[2]) for offset, row in rows)
    some = ((offset, state) for offset, state in states if state.strip() and len(state) <= _LONGEST)
    for offset, state in islice(some, most):
        yield lines.line(source, offset, state)


def is_noise(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line is none that tells of an error: a frame, a rule, a row of a table, an exit of others, a good end."""
    return (
        not line.text.strip()
        or _any(_NO_COMPLAINT, line)
        or _follows(line, knowledge)
        or _tells(line, knowledge, "finished")
    )


def _any(patterns: Iterable[object], line: Line) -> bool:
    return any(pattern.search(line.raw) or pattern.search(line.text) for pattern in patterns)  # type: ignore[attr-defined]


def _is_work(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line counts steps."""
    return _any(_WORK, line) or _tells(line, knowledge, "progress")


def _tells(line: Line, knowledge: Knowledge, kind: str) -> bool:
    """Whether the line is a signal of this kind."""
    signals = (signal for signal in knowledge.signals if signal.kind == kind and admits(signal, line.raw))
    return any(compiled(signal.regex).search(line.text) for signal in signals)


def _follows(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line only tells that a process ended, or what others did because of it."""
    reports = [one.pattern for one in knowledge.exit_reports if admits(one, line.raw)]
    cascades = [rule.regex for rule in knowledge.rules if rule.role == "cascade" and admits(rule, line.raw)]
    return any(compiled(pattern).search(line.text) for pattern in (*reports, *cascades))


# ── messages ──────────────────────────────────────────────────────────────────────────────────

_MOST_MESSAGES = 64
"""Messages that are read."""
_BELOW = 14
"""Lines below that may belong to a message, and"""
_WORDED = 6
"""of these with words in them."""
_NEAR = 8192
"""Bytes above a program's last word in which the reason for its stop is."""
_TAIL = 2048
"""Bytes that may follow the last words of a log, and"""
_TAIL_LINES = 8
"""lines with words in them."""
_BESIDE = 2
"""Lines of a message that are shown beside its first one."""
_MPI_STACK = text("mpi-stack")
_LONGEST_WHAT = 200
"""Characters of a message that the advice repeats."""
_RULE = text("drawn-line")


def add_messages(events: Sequence[Event], knowledge: Knowledge, lines: Excerpts) -> list[Event]:
    """The events, with what their messages tell, and with the hints that are believed after all."""
    rules = [rule for rule in knowledge.rules if rule.applies_to == "message"]
    vague = {rule.id for rule in knowledge.rules if rule.general}
    speaking = knowledge.traits["own-words"]
    read = speaking | {rule.cause for rule in rules}
    found: list[Event] = []
    believed = sorted(_believed(events, knowledge, vague, lines), key=lambda event: event.order)
    chosen = [e for e in believed if e.cause in read and e.role not in ("hint", "cascade")][:_MOST_MESSAGES]
    messages = {id(event): _message(event, rules, knowledge, lines) for event in lines.meter.each("messages", chosen)}
    for event in believed:
        found += messages.get(id(event), (event,))
    return found


def _believed(events: Iterable[Event], knowledge: Knowledge, vague: Set[str], lines: Excerpts) -> Iterator[Event]:
    """The events, hints of what ended a program as errors. A vague one is not believed for standing at the end alone."""
    speaking, generic = knowledge.traits["own-words"], knowledge.traits["generic"]
    stops: dict[object, Event] = {}
    for event in sorted(events, key=lambda event: -event.order):
        writer = (event.hit.source, event.label, event.cause)
        if event.cause in speaking and event.role != "hint":
            stops[writer] = event
        elif event.cause in speaking:
            stop = stops.get(writer)
            if stop is not None and stop.order - event.order < _NEAR:
                event = replace(event, role=stop.role if event.cause in generic else "root")
            elif event.rule not in vague and _ends_its_log(event, lines):
                event = replace(event, role="either")
        yield event


def _ends_its_log(event: Event, lines: Excerpts) -> bool:
    source, offset = event.hit.place
    if lines.sources[source].length - offset > _TAIL:
        return False
    below = lines.text(source, offset, _TAIL).splitlines()[1:]
    return sum(not line.isspace() and bool(line) for line in below) <= _TAIL_LINES


def _message(event: Event, rules: Sequence[Rule], knowledge: Knowledge, lines: Excerpts) -> list[Event]:
    """The event with what its message says of it, the events of other causes that the message tells, and lines to show."""
    first = event.hit
    below = list(_below(first, lines))
    known, speaks = knowledge.causes.get(event.cause), event.cause in knowledge.traits["own-words"]
    own: list[Line] = []
    beside: dict[str, Event] = {}
    for line in (first, *below):
        for rule in rules:
            # a compiler's unknown option is its own, and no other cause's
            if (known and rule.cause in known.explains) or not admits(rule, line.raw):
                continue
            if (other := rule_event(rule, line)) is None:
                continue
            if other.cause == event.cause:
                own.append(line)
                captures = {**other.captures, **event.captures}
                event = replace(event, origin=_both(event.origin, other.origin), captures=captures)
            elif speaks:
                beside.setdefault(other.cause, other)
    opens = speaks and event.rule != ABORTED and ("what" not in event.captures or first.text.rstrip().endswith(":"))
    taken = known.rule_named(event.rule) if known else None
    message = [line for line in below if opens and not _any(_NO_COMPLAINT, line) and not _takes(taken, line)]
    calls = [(line, call["what"]) for line in below if (call := _MPI_STACK.match(line.text)) and call["what"]]
    if calls:  # the innermost call knows why, and the outermost with what it was called
        message = [line for line, _ in (calls[-1], calls[0])]
    if calls or (message and "what" not in event.captures):
        what = calls[-1][1] if calls else message[0].text.strip(" *!#")
        event = replace(event, captures={**event.captures, "what": what[:_LONGEST_WHAT]})
    found = [event]
    for other in beside.values():
        origin = _both(event.origin, other.origin)
        found.append(replace(other, origin=origin, count=event.count, others=event.others))
    for line in (*own, *message[:_BESIDE]):
        if line is not first:
            origin = _both(event.origin, line.origin)
            found.append(event_at(line, event.cause, "hint", f"{event.cause}/message", origin=origin))
    return found


def _takes(rule: Rule | None, line: Line) -> bool:
    """Whether the rule takes the line."""
    return rule is not None and admits(rule, line.raw) and rule_event(rule, line) is not None


def _below(first: Line, lines: Excerpts) -> Iterator[Line]:
    """The lines below that belong to the message: to the first drawn line under words, or empty one where there is none above."""
    above = next(lines.before(first, 1), None)
    boxed = above is not None and not above.text.isspace() and above.text and _RULE.match(above.text) is not None
    worded = 0
    # MPICH names the rank at the head of an error stack alone
    stacked = first.label and any(_MPI_STACK.match(line.text) for line in lines.below(first, 1))
    for line in lines.below(first, _BELOW) if stacked else lines.after(first, _BELOW):
        if _RULE.match(line.text):
            if worded and not (boxed and not line.text.strip()):
                return
            continue
        yield line
        worded += _MPI_STACK.match(line.text) is None
        if worded == _WORDED:
            return


def _both(one: Origin, other: Origin) -> Origin:
    """What is known of either."""
    rank = one.rank if one.rank is not None else other.rank
    return replace(one, rank=rank, node=one.node or other.node, pid=one.pid if one.pid is not None else other.pid)
