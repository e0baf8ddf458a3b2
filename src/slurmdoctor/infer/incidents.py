"""Events → incidents: what happened to one writer at one time, and the event that names it."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from slurmdoctor.model import COLLECTIVE_TIMEOUT, LIMITS, PYTHON_ERROR, Event, Incident, Knowledge, Timeline

_RECENT = 40
"""Incidents of one writer that its next event may still belong to."""


def gather_incidents(events: Sequence[Event], timeline: Timeline, knowledge: Knowledge) -> list[Incident]:
    """Events of one chain, or of one writer at one time, are one incident; its most telling event names it."""
    generic = knowledge.traits["generic"]
    parts: dict[object, list[Event]] = {}
    recent: dict[object, deque[object]] = defaultdict(lambda: deque(maxlen=_RECENT))
    for event in sorted(events, key=lambda e: e.order):
        if event.role == "hint":
            continue
        key = _belongs_to(event, parts, recent, generic)
        parts.setdefault(key, []).append(event)
        mine = recent[_writer(event)]
        if not mine or mine[-1] != key:
            mine.append(key)
    found = [Incident(_main(part, knowledge), tuple(part)) for part in parts.values()]
    return sorted(found, key=lambda i: timeline.key(i.main))


def _writer(event: Event) -> object:
    origin = event.origin
    return (
        (event.hit.source, "rank", origin.rank) if origin.rank is not None else (event.hit.source, "node", origin.node)
    )


def _belongs_to(
    event: Event,
    parts: Mapping[object, list[Event]],
    recent: Mapping[object, deque[object]],
    generic: frozenset[str],
) -> object:
    if event.group and ("group", event.group) in parts:
        return ("group", event.group)
    known = event.origin.rank is not None
    for key in reversed(recent[_writer(event)]):
        last = parts[key][-1]
        if event.group and last.group and event.group != last.group and not known:
            continue
        if "confirmation" in (event.role, last.role) and event.role != last.role:
            continue
        if _only_waited(parts[key]) and event.role == "root" and event.cause not in generic:
            continue  # what a rank meets after it gave up waiting is another incident
        near = event.order - last.order < LIMITS.one_incident_bytes
        if known and event.origin.time is not None and last.origin.time is not None:
            near = near or abs(event.origin.time - last.origin.time) <= LIMITS.one_incident_seconds
        if near:
            return key
    return ("group", event.group) if event.group else ("event", event.order, event.rule)


def was_not_made(built: Event, lacked: Event, knowledge: Knowledge) -> bool:
    """Whether the shell or a launcher, and no program's exception, lacked below what a failed build should have made."""
    makes = built.cause in knowledge.traits["made-before"] and lacked.cause in knowledge.causes[built.cause].explains
    return makes and not lacked.traceback and built.hit.source == lacked.hit.source and built.order < lacked.order


def _only_waited(part: Sequence[Event]) -> bool:
    return part[0].cause == COLLECTIVE_TIMEOUT and part[0].role == "either" and all(e.role != "root" for e in part)


def _main(part: Sequence[Event], knowledge: Knowledge) -> Event:
    """The event that names an incident: the first telling one; a victim's words make what it leads to a victim's too."""
    generic = knowledge.traits["generic"]
    by_role = sorted(part, key=lambda e: e.role not in ("root", "either"))
    first = next((e for e in part if e.cause not in generic), by_role[0])
    if first.role == "cascade":
        same_chain = [e for e in part if e.role in ("root", "confirmation") and e.cause not in generic]
        before = [e for e in part if e.cause == PYTHON_ERROR and e.order < first.order and e.group != first.group]
        # on one line, as in a paste that lost its line ends, no order is to be seen
        beside = [e for e in part if e.role == "either" and e.order == first.order and e.cause not in generic]
        # of one cause, the line that can start a failure tells more than the one that only follows
        own = [e for e in part if e.role == "either" and e.cause == first.cause]
        return next(iter((*same_chain, *before, *beside, *own)), first)
    if first.role == "either":
        telling = [e for e in part if e.role == "root" and e.cause not in generic]
        telling = [e for e in telling if not was_not_made(first, e, knowledge)]
        return telling[0] if telling else first
    return first
