"""What shows that the root came before the other errors: time stamps, the order of lines, or neither."""

from __future__ import annotations

from collections.abc import Sequence

from slurmdoctor.model import Event, Timeline

_DAY = 86_400.0


def how_ordered(root: Event, others: Sequence[Event], timeline: Timeline) -> str | None:
    """What shows that the root came before the others: `time`, `line`, `partly`; `below`: it stands below them."""
    if timeline.order == "unknown":
        return None
    if timeline.order == "timestamps":
        return "time" if all(timeline.key(root) <= timeline.key(other) for other in others) else "below"
    delays = {other.order: delay_to(root, other) for other in others}
    if all(order > root.order if delay is None else delay >= 0 for order, delay in delays.items()):
        if any(delay is not None for delay in delays.values()):
            return "time"
        return "line" if root.origin.time is None else "partly"
    return "partly" if min(delays) > root.order else "below"


def delay_to(root: Event, other: Event) -> float | None:
    """Seconds from the root to the other; by the time of day where only one of the two has a date."""
    start, time = root.origin.time, other.origin.time
    if start is None or time is None:
        return None
    if root.origin.dated == other.origin.dated and (start < _DAY) == (time < _DAY):
        return time - start
    return (time - start + _DAY / 2) % _DAY - _DAY / 2
