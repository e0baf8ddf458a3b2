"""Collects what each rank printed last around the first wait for another rank: what the others waited for, perhaps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import compiled
from slurmdoctor.model import Busy, Ending, Event, Knowledge, Line, Origin, Rule, Trait
from slurmdoctor.ranks import Lines
from slurmdoctor.readers.rule_events import rule_event
from slurmdoctor.search import HEAD

_AROUND = 256 * 1024
"""Bytes before and after the wait that are read."""
_LONGEST = 2000
"""Bytes of a line that is worth showing."""
_MOST = 4000
"""Lines of which the rank is read."""
_OF_THE_END = text("of-the-end")
"""What a rank prints of its end, or of the others' silence, does not show what it did meanwhile."""


def collect_last_words(events: Sequence[Event], knowledge: Knowledge, lines: Lines) -> Mapping[int, Line]:
    """Each rank's last line around the first wait; none where a failure that needs no such proof came before."""
    waits = [e for e in events if e.cause in knowledge.traits["timed-out"] and e.role != "hint"]
    if not waits:
        return {}
    first = min(waits, key=lambda e: (e.origin.time is None, e.origin.time or 0.0, e.order))
    settled = knowledge.traits["generic"] | knowledge.traits["scheduler"]
    if any(e.role == "root" and e.cause not in settled and e.order < first.order for e in events):
        return {}
    return _last_lines(first.hit.source, first.hit.offset, lines)


def _last_lines(source: int, offset: int, lines: Lines) -> dict[int, Line]:
    """Each rank's line, from the last one upwards: where its label names the rank, those above it are passed over."""
    start = max(0, offset - _AROUND)
    data = lines.text(source, start, 2 * _AROUND)
    top = data.find(b"\n") + 1 if start else 0
    end = len(data) - data.endswith(b"\n")
    found: dict[int, Line] = {}
    done: set[bytes] = set()
    left = _MOST
    while end > top and left:
        begin = max(top, data.rfind(b"\n", top, end) + 1)
        label = lines.label(source, data[begin : min(end, begin + HEAD)])
        if end - begin < _LONGEST and label not in done:
            left -= 1
            rank = lines.peeled(source, data[begin:end])[0].rank
            if rank is not None and rank not in found:
                line = lines.at(source, start + begin)
                if _OF_THE_END.search(line.raw) is None:
                    found[rank] = line
            if rank in found and lines.writer(source, label) is not None:
                done.add(label)
        end = begin - 1
    return found


_FEW = 16
"""Files whose ends are read,"""
_BYTES = 16 * 1024
"""so many bytes of each,"""
_MOST_endings = 40
"""and so many lines."""
_LONGEST_endings = 2000
"""Characters of a line."""
_SHOWN = 3
"""Last lines that are shown."""
_MOST_WORK = 4
"""Lines of work; what stands above more of them was no end."""
_COMPLAINT = text("of-an-error")
_NAMES = "slurm-line low-level-label drawn-line harmless-traceback python-frame raising-code no-last-words"
_NO_COMPLAINT = tuple(map(text, _NAMES.split()))
"""What may hold words of an error, and tells none."""
_NO_END = tuple(map(text, ("script-talk", "tool-line")))
"""What a script says around its programs."""
_WORK = (text("work-line"), text("busy-bar"))


def find_ending(events: Iterable[Event], lines: Lines, knowledge: Knowledge) -> Ending:
    """Of the ends of the job's files the complaint nearest to its file's end, without one the last line that is no noise.

    Nothing where an event may be what ended the job.
    """
    if any(event.role in ("root", "either", "confirmation") and not event.survived for event in events):
        return Ending()
    complaints: list[tuple[int, Line]] = []
    others: list[tuple[int, Line]] = []
    shown: dict[int, tuple[Line, ...]] = {}
    for source in range(len(lines.sources))[-_FEW:]:
        last = list(_upwards_endings(lines, source))
        shown[source] = tuple(reversed(last[:_SHOWN]))
        complaint, other = _telling(last, knowledge)
        complaints += [complaint] if complaint else []
        others += [other] if other else []
    telling = min(complaints or others, default=(0, None), key=lambda one: one[0])[1]
    source = telling.source if telling else max(shown, key=lambda one: lines.sources[one].length, default=0)
    return Ending(telling, shown.get(source, ()))


def _telling(last: Iterable[Line], knowledge: Knowledge) -> tuple[tuple[int, Line] | None, tuple[int, Line] | None]:
    """The last complaint, and the last other line that is no noise; each with the number of lines below it."""
    work = 0
    other: tuple[int, Line] | None = None
    for below, line in enumerate(last):
        if "\ufffd" in line.text or not line.text.strip() or _any(_NO_COMPLAINT, line):
            continue
        work += _is_work(line, knowledge)
        if work > _MOST_WORK:
            break
        complains = _COMPLAINT.search(line.text) is not None and not _any(_WORK, line)
        wanted = complains or not (work or other or _any(_NO_END, line))
        if not wanted or _follows(line, knowledge):
            continue
        if complains:
            return (below, line), other
        other = (below, line)
    return None, other


def _upwards_endings(lines: Lines, source: int) -> Iterator[Line]:
    """The last lines, the last one first. Of a bar the last state counts, as a terminal shows it."""
    end = lines.sources[source].length
    start = max(0, end - _BYTES)
    data = lines.text(source, start, end - start)
    stop, found = len(data), 0
    while stop > 0 and found < _MOST_endings:
        begin = data.rfind(b"\n", 0, stop) + 1
        row = data[begin:stop].rstrip(b"\r")
        state = begin + row.rfind(b"\r") + 1
        if row.strip() and (begin or not start) and len(row) <= _LONGEST_endings:
            found += 1
            yield lines.at(source, start + state)
        stop = begin - 1


def _any(patterns: Iterable[object], line: Line) -> bool:
    return any(pattern.search(line.raw) or pattern.search(line.text) for pattern in patterns)  # type: ignore[attr-defined]


def _is_work(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line counts steps."""
    steps = (s for s in knowledge.signals if s.kind == "progress" and any(word in line.raw for word in s.literals))
    return _any(_WORK, line) or any(compiled(one.regex).search(line.text) for one in steps)


def _follows(line: Line, knowledge: Knowledge) -> bool:
    """Whether the line only tells that a process ended, or what others did because of it."""
    reports = [one.pattern for one in knowledge.exit_reports if any(word in line.raw for word in one.literals)]
    cascades = [r.regex for r in knowledge.rules if r.role == "cascade" and any(w in line.raw for w in r.literals)]
    return any(compiled(pattern).search(line.text) for pattern in (*reports, *cascades))


_BAR = text("busy-bar")
_LINE = text("busy-line")
_KIND = text("busy-kind")
_ABOVE = 64 * 1024
"""Bytes above the wait's first line, and"""
_MOST_busy = 200
"""lines that are looked at."""
_LONGEST_busy = 1000
"""Characters of a line that is looked at."""


def find_busy(events: Sequence[Event], knowledge: Knowledge, lines: Lines) -> Busy | None:
    """The last word of such work above the first wait that timed out, or above what ended the job; None where there is none."""
    traits = knowledge.traits
    ends = [e for e in events if e.role != "hint" and e.cause in traits["timed-out"] | traits["scheduler"]]
    if not ends:
        return None
    first = min(ends, key=lambda e: e.order).hit
    start = max(0, first.offset - _ABOVE)
    above = lines.text(first.source, start, first.offset - start + len(first.raw.encode()))
    offset = start + len(above)
    for piece in reversed(re.split(rb"(?<=[\r\n])", above)[-_MOST_busy:]):
        offset -= len(piece)
        if found := _read(first.source, offset, piece, lines):
            return found
    return None


def work_told(line: Line | None) -> Busy | None:
    """The work that a process's last line tells of, and that was not done by then."""
    if line is None:
        return None
    bar = _BAR.search(line.text)
    if bar is None and not _LINE.search(line.text):
        return None
    if bar is not None and bar["done"] == bar["all"]:
        return None
    kind = _KIND.search(bar["what"] if bar else line.text)
    words = f"{bar['what'].strip(' .:')}: {bar['done']} of {bar['all']}" if bar else line.text.strip()[:100]
    return Busy(kind.lastgroup or "", words, line.offset) if kind else None


def _read(source: int, offset: int, piece: bytes, lines: Lines) -> Busy | None:
    """What this line, or piece of one, tells."""
    line = piece.decode("utf-8", "replace")[:_LONGEST_busy]
    order = lines.order(source, offset)
    bar = _BAR.search(line)
    if bar is not None and (kind := _KIND.search(bar["what"])):
        words = f"{bar['what'].strip(' .:')}: {bar['done']} of {bar['all']} after {bar['elapsed']}"
        return Busy(kind.lastgroup or "", words, order, elapsed=_seconds(bar["elapsed"]))
    if bar is None and _LINE.search(line):
        origin, words = lines.peeled(source, piece.rstrip(b"\r\n"))
        if (kind := _KIND.search(words)) and origin.time is not None:
            return Busy(kind.lastgroup or "", words.strip()[:100], order, time=origin.time)
    return None


def _seconds(clock: str) -> float:
    """Seconds of tqdm's `29:55`, `1:02:03` and `1 day, 2:03:04`."""
    days, _, rest = clock.rpartition("day")
    seconds = 0
    for part in re.findall(r"\d+", rest):
        seconds = 60 * seconds + int(part)
    return seconds + 86400.0 * int(days or 0)


_MOST_messages = 64
"""Messages that are read."""
_BELOW = 14
"""Lines below that may belong to a message, and"""
_TOLD = 6
"""of these with words in them."""
_ABOVE_messages = 2
_NEAR = 8192
"""Bytes above a program's last word in which what it stops for stands."""
_TAIL_messages = 2048
"""Bytes that may follow the last words of a log, and"""
_TAIL_LINES = 8
"""lines with words in them."""
_SHOWN_messages = 2
"""Lines of a message that are shown beside its first one."""
_RULE = text("drawn-line")


def add_messages(events: Sequence[Event], knowledge: Knowledge, lines: Lines) -> list[Event]:
    """The events, with what their messages tell, and with the hints that are believed after all."""
    rules = knowledge.once(_message_rules)
    speaking = knowledge.traits["own-words"]
    told_apart = speaking | {rule.cause for rule in rules}
    vague = knowledge.once(_vague)
    believed = sorted(_believed(events, knowledge.traits, vague, lines), key=lambda event: event.order)
    chosen = [e for e in believed if e.cause in told_apart and e.role not in ("hint", "cascade")][:_MOST_messages]
    read = {
        id(event): list(_read_messages(event, _rules_beside(event, rules, knowledge), speaking, lines))
        for event in lines.meter.each("messages", chosen)
    }
    return [one for event in believed for one in read.get(id(event), (event,))]


def _message_rules(knowledge: Knowledge) -> tuple[Rule, ...]:
    return tuple(rule for rule in knowledge.rules if rule.applies_to == "message")


def _vague(knowledge: Knowledge) -> frozenset[str]:
    return frozenset(rule.id for rule in knowledge.rules if rule.general)


def _rules_beside(event: Event, rules: Sequence[Rule], knowledge: Knowledge) -> list[Rule]:
    """The rules but those of causes that the event brings about: a compiler's unknown option is its own."""
    known = knowledge.causes.get(event.cause)
    return [rule for rule in rules if known is None or rule.cause not in known.explains]


def _believed(
    events: Iterable[Event], traits: Mapping[Trait, frozenset[str]], vague: Collection[str], lines: Lines
) -> Iterator[Event]:
    """The events, hints of what ended a program as errors. A vague one is not believed for standing at the end alone."""
    speaking, generic = traits["own-words"], traits["generic"]
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


def _ends_its_log(event: Event, lines: Lines) -> bool:
    source, offset = event.hit.place
    if lines.sources[source].length - offset > _TAIL_messages:
        return False
    below = lines.text(source, offset, _TAIL_messages).splitlines()[1:]
    return sum(not line.isspace() and bool(line) for line in below) <= _TAIL_LINES


def _read_messages(event: Event, rules: Sequence[Rule], speaking: frozenset[str], lines: Lines) -> Iterator[Event]:
    """The event with what its message says of it, the events of other causes that the message tells, and lines to show."""
    first = lines.at(*event.hit.place)
    below = list(_below(first, lines))
    own: list[Line] = []
    beside: dict[str, Event] = {}
    for line in (first, *below, *_above(first, lines)):
        for told in _told(line, rules, lines):
            if told.cause == event.cause:
                own.append(line)
                captures = {**told.captures, **event.captures}
                event = replace(event, origin=_both(event.origin, told.origin), captures=captures)
            elif event.cause in speaking:
                beside.setdefault(told.cause, told)
    yield event
    for told in beside.values():
        origin = _both(event.origin, told.origin)
        yield replace(told, origin=origin, label=event.label, count=event.count, others=event.others)
    opens = event.cause in speaking and ("what" not in event.captures or first.text.rstrip().endswith(":"))
    shown = [*own, *(below[:_SHOWN_messages] if opens else ())]
    yield from (_shown(line, event, lines) for line in shown if line is not first)


def _told(line: Line, rules: Sequence[Rule], lines: Lines) -> Iterator[Event]:
    for rule in rules:
        if any(literal in line.raw for literal in rule.literals) and (told := rule_event(rule, line, lines)):
            yield told


def _below(first: Line, lines: Lines) -> Iterator[Line]:
    """The lines below that belong to the message: to the first drawn line under words, or empty one where none stands above."""
    above = next(lines.before(first, 1), None)
    boxed = above is not None and not above.text.isspace() and above.text and _RULE.match(above.text) is not None
    told = 0
    for line in lines.after(first, _BELOW):
        if _RULE.match(line.text):
            if told and not (boxed and not line.text.strip()):
                return
            continue
        yield line
        told += 1
        if told == _TOLD:
            return


def _above(first: Line, lines: Lines) -> Iterator[Line]:
    """The lines above that the same program printed, by the name that it puts before them: `forrtl: No space left on device`."""
    name, colon, _ = first.text.partition(":")
    for line in lines.before(first, _ABOVE_messages):
        if not colon or not line.text.startswith(name + colon):
            return
        yield line


def _both(one: Origin, other: Origin) -> Origin:
    """What is known of either."""
    rank = one.rank if one.rank is not None else other.rank
    return replace(one, rank=rank, node=one.node or other.node, pid=one.pid if one.pid is not None else other.pid)


def _shown(line: Line, event: Event, lines: Lines) -> Event:
    origin = _both(event.origin, line.origin)
    order = lines.order(line.source, line.offset)
    return Event(event.cause, "hint", f"{event.cause}/message", origin, lines.hit(line), order, label=event.label)
