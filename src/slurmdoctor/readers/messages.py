"""Reads the message around the line in which a program says that it stops: what failed, where the lines beside it tell.

     Error in routine davcio (10):
     error while writing from file "./tmp/out.wfc1"

Which causes' lines are such last words, their trait `own-words` says; the rules that apply to messages say what failed. A hint is
believed where the same program says below that it stops for it, or where nothing but a few lines follow it in the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.model import Event, Knowledge, Line, Origin, Rule, Trait
from slurmdoctor.ranks import Lines
from slurmdoctor.readers.matches import rule_event

_MOST = 64
"""Messages that are read."""
_BELOW = 14
"""Lines below that may belong to a message, and"""
_TOLD = 6
"""of these with words in them."""
_ABOVE = 2
_NEAR = 8192
"""Bytes above a program's last word in which what it stops for stands."""
_TAIL = 2048
"""Bytes that may follow the last words of a log, and"""
_TAIL_LINES = 8
"""lines with words in them."""
_SHOWN = 2
"""Lines of a message that are shown beside its first one."""
_RULE = text("drawn-line")


def add_messages(events: Sequence[Event], knowledge: Knowledge, lines: Lines) -> list[Event]:
    """The events, with what their messages tell, and with the hints that are believed after all."""
    rules = knowledge.once(_message_rules)
    speaking = knowledge.traits["own-words"]
    told_apart = speaking | {rule.cause for rule in rules}
    vague = knowledge.once(_vague)
    believed = sorted(_believed(events, knowledge.traits, vague, lines), key=lambda event: event.order)
    chosen = [e for e in believed if e.cause in told_apart and e.role not in ("hint", "cascade")][:_MOST]
    read = {
        id(event): list(_read(event, _rules_beside(event, rules, knowledge), speaking, lines))
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
    if lines.sources[source].length - offset > _TAIL:
        return False
    below = lines.text(source, offset, _TAIL).splitlines()[1:]
    return sum(not line.isspace() and bool(line) for line in below) <= _TAIL_LINES


def _read(event: Event, rules: Sequence[Rule], speaking: frozenset[str], lines: Lines) -> Iterator[Event]:
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
    shown = [*own, *(below[:_SHOWN] if opens else ())]
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
    for line in lines.before(first, _ABOVE):
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
