"""Events → a timeline: in what order they came, which attempt they belong to, and what was survived."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Literal

from slurmdoctor.model import CollectiveStatus, Event, ExitReport, Observations, Progress, SignalHit
from slurmdoctor.records import dataclass
from slurmdoctor.timeline import attempts, skew
from slurmdoctor.timeline.skew import Skew
from slurmdoctor.timeline.steps import ProgressIndex

Order = Literal["timestamps", "file", "unknown"]

TICK = 1.0
"""Seconds within which two stamps of two clocks do not tell what came first."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The last attempt that failed, in order; what came before it is kept apart."""

    events: tuple[Event, ...] = ()
    reports: tuple[ExitReport, ...] = ()
    works: tuple[CollectiveStatus, ...] = ()
    earlier: tuple[Timeline, ...] = ()
    """The attempts that failed before, oldest first."""
    attempts: int = 1
    order: Order = "unknown"
    finished: SignalHit | None = None
    """The last line that says that the program completed."""
    last_progress: Progress | None = None
    progress: tuple[Progress, ...] = ()
    keys: Mapping[int, tuple[float, int]] = field(default_factory=dict)
    """Event order -> its sorting key."""
    notes: tuple[str, ...] = ()

    def key(self, event: Event) -> tuple[float, int]:
        return self.keys.get(event.order, (float("inf"), event.order))


def build(assembled: Observations) -> Timeline:
    """Cut into attempts, mark what was survived, and order what is left."""
    progress = assembled.progress
    finished = next((m for m in reversed(assembled.marks) if m.signal.kind == "finished"), None)
    course = ProgressIndex(progress)
    events = [replace(e, survived=e.retried or course.went_on(e)) for e in assembled.events]
    went_on = sorted([p.order for p in progress] + [m.order for m in assembled.marks if m.signal.kind == "survived"])
    tries = attempts.find(events, assembled)
    clocks = skew.learn(progress, assembled.maps, [file.name for file in assembled.files])
    story = _part(tries.last, events, assembled, clocks)
    return replace(
        story,
        earlier=tuple(_part(span, _within(span, events, went_on), assembled, clocks) for span in tries.earlier),
        attempts=tries.count,
        finished=finished,
        last_progress=progress[-1] if progress else None,
        progress=progress,
        notes=clocks.notes if story.order == "timestamps" else (),
    )


def _within(span: attempts.Span, events: Sequence[Event], went_on: Sequence[int]) -> list[Event]:
    """An earlier attempt's events: what only another attempt went on after was not survived."""
    found = []
    for event in events:
        if span[0] <= event.order < span[1]:
            after = bisect_left(went_on, event.order)
            here = after < len(went_on) and went_on[after] < span[1]
            found.append(replace(event, survived=event.survived and here))
    return found


def _part(span: attempts.Span, events: Sequence[Event], assembled: Observations, clocks: Skew) -> Timeline:
    """One attempt's events in order, and what the witnesses say of it."""
    low, high = span
    here = [e for e in events if low <= e.order < high]
    order, keys = _ordered(here, clocks)
    return Timeline(
        events=tuple(sorted(here, key=lambda e: keys[e.order])),
        reports=tuple(r for r in assembled.reports if low <= r.order < high),
        works=tuple(w for w in assembled.works if low <= w.order < high),
        order=order,
        keys=keys,
    )


# ── order ────────────────────────────────────────────────────────────────────────────────────


def _ordered(events: Sequence[Event], clocks: Skew) -> tuple[Order, dict[int, tuple[float, int]]]:
    """How events can be ordered, and each one's key. An event without a stamp takes the last one before it in its file."""
    weighty = [e for e in events if e.role != "hint"]
    stamped = [e for e in weighty if e.origin.time is not None]
    dated = {e.origin.dated for e in stamped}
    if not weighty:
        return "unknown", {e.order: (0.0, e.order) for e in events}
    if len(stamped) * 2 < len(weighty) or len(dated) > 1:
        return "file", {e.order: (0.0, e.order) for e in events}
    keys: dict[int, tuple[float, int]] = {}
    last: dict[int, float] = {}
    begin = min(e.origin.time - clocks.of(e) for e in stamped if e.origin.time is not None)
    for event in sorted(events, key=lambda e: e.order):
        seen = event.origin.time
        time = last.get(event.hit.source, begin) if seen is None else seen - clocks.of(event)
        last[event.hit.source] = time
        keys[event.order] = (time, event.order)
    return "timestamps", keys
