"""Events → a timeline: in what order they came, and which attempt they belong to."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from msgspec.structs import replace

from slurmdoctor.model import LIMITS, Clocks, Event, Observations, Order, SignalHit, Timeline
from slurmdoctor.timeline import attempts, skew


def order(observed: Observations) -> Timeline:
    """Cut into attempts, and order what is left."""
    progress = observed.progress
    ends = [mark for mark in observed.signals if mark.signal.kind == "finished"]
    finished = next((mark for mark in reversed(ends) if mark.by_program), ends[-1] if ends else None)
    events = observed.events
    went_on = sorted([p.order for p in progress] + [m.order for m in observed.signals if m.signal.kind == "survived"])
    attempt_spans = attempts.find(events, observed)
    clocks = skew.learn(progress, observed.rank_map, [file.name for file in observed.files])
    timeline = _part(attempt_spans.last, events, observed, clocks)
    return replace(
        timeline,
        earlier=tuple(_part(span, _within(span, events, went_on), observed, clocks) for span in attempt_spans.earlier),
        attempts=attempt_spans.count,
        finished=finished,
        last_progress=progress[-1] if progress else None,
        progress=progress,
        began=_began(observed, attempt_spans.last),
        cut=any(file.cut for file in observed.files),
    )


def _began(observed: Observations, span: attempts.Span) -> SignalHit | None:
    """Where the training loop of the last attempt began, if neither a step nor many other words came after it."""
    begun = [m for m in observed.signals if m.signal.kind == "begun" and span[0] <= m.order < span[1]]
    went_on = observed.progress[-1].order if observed.progress else -1
    if not begun or begun[-1].order < went_on:
        return None
    last = begun[-1]
    ends = (e.hit.offset for e in observed.events if e.order > last.order and e.hit.source == last.line.source)
    end = min(ends, default=observed.files[last.line.source].bytes if observed.files else last.line.end)
    return last if end - last.line.end <= LIMITS.few_words else None


def _within(span: attempts.Span, events: Sequence[Event], went_on: Sequence[int]) -> list[Event]:
    """An earlier attempt's events: what only another attempt went on after was not survived."""
    found = []
    for event in events:
        if span[0] <= event.order < span[1]:
            after = bisect_left(went_on, event.order)
            here = after < len(went_on) and went_on[after] < span[1]
            found.append(replace(event, survived=event.survived and here))
    return found


def _part(span: attempts.Span, events: Sequence[Event], observed: Observations, clocks: Clocks) -> Timeline:
    """One attempt's events in order, and what the witnesses say of it."""
    low, high = span
    here = [e for e in events if low <= e.order < high]
    order, keys = _ordered(here, clocks)
    return Timeline(
        events=tuple(sorted(here, key=lambda e: keys[e.order])),
        reports=tuple(r for r in observed.reports if low <= r.order < high),
        collectives=tuple(w for w in observed.collectives if low <= w.order < high),
        order=order,
        keys=keys,
        span=span,
        clocks=clocks,
    )


# ── order ────────────────────────────────────────────────────────────────────────────────────


def _ordered(events: Sequence[Event], clocks: Clocks) -> tuple[Order, dict[int, tuple[float, int]]]:
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
    begin = min(
        e.origin.time - clocks.ahead_of(e.hit.source, e.origin.rank, e.origin.node)
        for e in stamped
        if e.origin.time is not None
    )
    for event in sorted(events, key=lambda e: e.order):
        seen = event.origin.time
        time = (
            last.get(event.hit.source, begin)
            if seen is None
            else seen - clocks.ahead_of(event.hit.source, event.origin.rank, event.origin.node)
        )
        last[event.hit.source] = time
        keys[event.order] = (time, event.order)
    return "timestamps", keys
