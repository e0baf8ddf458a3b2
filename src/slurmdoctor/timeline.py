"""Events → a timeline: in what order they came, which attempt they belong to, and what was survived."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from slurmdoctor import clock, steps
from slurmdoctor.collectives import Work
from slurmdoctor.events import Assembled, Mark
from slurmdoctor.lines import Lines
from slurmdoctor.model import Event, Signal
from slurmdoctor.steps import Course, Progress
from slurmdoctor.witnesses import Report

Order = Literal["timestamps", "file", "unknown"]

NEAR = 6
"""Lines after an event within which `attempt 2/5 succeeded` or `PASSED` speaks of it."""
_NEAR_BYTES = 64 * 1024
TICK = 1.0
"""Seconds within which two stamps of two clocks do not tell what came first."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The last attempt that failed, in order; what came before it is kept apart."""

    events: tuple[Event, ...] = ()
    reports: tuple[Report, ...] = ()
    works: tuple[Work, ...] = ()
    earlier: tuple[Event, ...] = ()
    """Events of earlier attempts."""
    attempts: int = 1
    order: Order = "unknown"
    finished: Mark | None = None
    """The last line that says that the program completed."""
    last_progress: Progress | None = None
    progress: tuple[Progress, ...] = ()
    keys: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    """Event order -> its sorting key."""
    notes: tuple[str, ...] = ()

    def key(self, event: Event) -> tuple[float, int]:
        return self.keys.get(event.order, (float("inf"), event.order))


def build(assembled: Assembled, lines: Lines, signals: Sequence[Signal]) -> Timeline:
    """Cut into attempts, mark what was survived, and order what is left."""
    progress = steps.find(assembled.events, lines, signals)
    cuts = _cuts(assembled, lines, progress)
    finished = next((m for m in reversed(assembled.marks) if m.signal.kind == "finished"), None)
    course = Course(progress)
    marks: dict[int, list[Mark]] = {}
    for mark in assembled.marks:
        if mark.signal.kind == "survived":
            marks.setdefault(mark.line.source, []).append(mark)
    events = clock.date(assembled.events, lines, clock.Clock(lines))
    events = [replace(e, survived=_survived(e, marks.get(e.hit.source, ()), lines, course)) for e in events]
    last, attempts = _last_failed(events, assembled.reports, cuts, lines)
    low, high = last
    here = [e for e in events if low <= e.order < high]
    reports = [r for r in assembled.reports if low <= lines.order(r.line.source, r.line.offset) < high]
    order, keys = _ordered(here)
    return Timeline(
        events=tuple(sorted(here, key=lambda e: keys[e.order])),
        reports=tuple(reports),
        works=tuple(w for w in assembled.works if low <= w.order < high),
        earlier=tuple(e for e in events if e.order < low),
        attempts=attempts,
        order=order,
        finished=finished,
        last_progress=progress[-1] if progress else None,
        progress=tuple(progress),
        keys=keys,
    )


# ── what was survived ────────────────────────────────────────────────────────────────────────


def _survived(event: Event, marks: Sequence[Mark], lines: Lines, course: Course) -> bool:
    """Whether the rank, or the whole job, went on after the event. `marks` are the `survived` ones of its source."""
    source = event.hit.source
    after = bisect_left(marks, event.order, key=lambda mark: mark.order)
    if after == len(marks) and course.last(source) < event.hit.offset:
        return False
    line = lines.at(source, event.hit.offset)
    if after < len(marks) and marks[after].order - event.order < _NEAR_BYTES:
        near = {event.hit.offset, *(line.offset for line in lines.after(line, NEAR))}
        if marks[after].line.offset in near:
            return True
    return course.went_on(event, line.label)


# ── attempts ─────────────────────────────────────────────────────────────────────────────────


def _cuts(assembled: Assembled, lines: Lines, progress: Sequence[Progress]) -> list[int]:
    """Positions at which a new attempt begins."""
    cuts = {m.order for m in assembled.marks if m.signal.kind == "attempt"}
    agents: dict[tuple[int, bytes, int | None], list[int]] = {}
    for report in assembled.reports:
        if report.witness == "torchelastic agent":
            who = (report.line.source, report.line.label, report.line.origin.pid)
            agents.setdefault(who, []).append(lines.order(report.line.source, report.line.offset))
    tables = [lines.order(r.line.source, r.line.offset) for r in assembled.reports if r.witness == "torchelastic table"]
    for places in agents.values():
        # an agent that prints its table has given up: what comes after it is another agent's
        cuts.update(a + 1 for a, b in itertools.pairwise(places) if not any(a < t < b for t in tables))
        went_on = [p.order for p in progress] + [m.order for m in assembled.marks if m.signal.kind == "finished"]
        if any(order > places[-1] for order in went_on) and len(agents) == 1:
            cuts.add(places[-1] + 1)
    for event in assembled.events:
        if event.cause == "preempted" and "REQUEUE" in event.hit.text and any(p.order > event.order for p in progress):
            cuts.add(event.order + 1)
    return sorted(cuts)


def _last_failed(
    events: Sequence[Event], reports: Sequence[Report], cuts: Sequence[int], lines: Lines
) -> tuple[tuple[int, int], int]:
    """The span of the last attempt in which anything happened, and the number of attempts."""
    edges = [0, *cuts, 1 << 62]
    spans = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
    places = [lines.order(r.line.source, r.line.offset) for r in reports]
    if any(r.death.code == 0 for r in reports):
        places = places or []
    total = sum(s.length for s in lines.sources)
    for low, high in reversed(spans):
        if any(low <= e.order < high and e.role != "hint" for e in events) or any(low <= p < high for p in places):
            if high < 1 << 62 and _went_on(high, total, events):
                return (high, 1 << 62), len(spans)
            return (low, high), len(spans)
    return spans[-1], len(spans)


def _went_on(cut: int, total: int, events: Sequence[Event]) -> bool:
    """Whether a later attempt ran at all: then the failure before it was survived."""
    return total - cut > 200


# ── order ────────────────────────────────────────────────────────────────────────────────────


def _ordered(events: Sequence[Event]) -> tuple[Order, dict[int, tuple[float, int]]]:
    """How events can be ordered, and each one's key. An event without a stamp takes the last one before it in its file."""
    weighty = [e for e in events if e.role != "hint"]
    stamped = [e for e in weighty if e.origin.time is not None]
    clocks = {e.origin.dated for e in stamped}
    if not weighty:
        return "unknown", {e.order: (0.0, e.order) for e in events}
    if len(stamped) * 2 < len(weighty) or len(clocks) > 1:
        return "file", {e.order: (0.0, e.order) for e in events}
    keys: dict[int, tuple[float, int]] = {}
    last: dict[int, float] = {}
    begin = min(e.origin.time for e in stamped if e.origin.time is not None)
    for event in sorted(events, key=lambda e: e.order):
        time = event.origin.time
        if time is None:
            time = last.get(event.hit.source, begin)
        last[event.hit.source] = time
        keys[event.order] = (time, event.order)
    return "timestamps", keys
