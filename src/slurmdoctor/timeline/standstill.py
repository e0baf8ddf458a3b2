"""Whether the job stood still, had finished, or made steps to its end: the one judge of it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from slurmdoctor.model import Event, JobRecord, Progress, RunState, RunStateKind, SignalHit, Timeline, parse_time

SHORTEST_STALL = 300.0
"""Seconds without a step below which nobody calls it a stall, however fast the steps were."""
_LONGEST_UNKNOWN = 900.0
"""The same where only one step is known, and so no usual pause; and before the first one."""
_ENOUGH = 4
_LONGEST_OF_FEW = 3 * 3600.0
"""The same where fewer than four are known, and not how long the job ran."""
_OTHER_CLOCK = 60.0
"""Seconds by which a step may come after the end, or before the start, before its clock is taken for another one."""
_ZONE = 1800.0
_FARTHEST_ZONE = 14 * 3600.0
"""Seconds between two time zones: multiples of half an hour, up to this."""
_LONGEST_JOB = 30 * 86400.0


def end_of(record: JobRecord | None, last: Event | None) -> float | None:
    """When the job ended: by Slurm's record, else by the line of Slurm's that ended it, its stamp or what it says.

    A stamp above the line is none of its own, and no end.
    """
    if record is not None and record.start is not None and record.elapsed is not None:
        return record.start + record.elapsed  # EndTime is a forecast while the job runs
    if record is not None and record.end is not None:
        return record.end
    if last is None:
        return None
    return parse_time(last.captures.get("at", "")) if last.bound or last.origin.time is None else last.origin.time


def run_state(timeline: Timeline, end: float | None, record: JobRecord | None = None) -> RunState:
    """How the job stood at its end, by the times of its steps."""
    done, last, began = timeline.finished, timeline.last_progress, timeline.began
    reached = max((one.order for one in (last, began) if one is not None), default=-1)
    if done is not None and done.order > reached:
        finished = done.line.origin.time
        idle = end - finished if end is not None and finished is not None else -1.0
        return RunState("finished", idle=idle if 0 <= idle < _LONGEST_JOB else None)
    if began is not None:
        return _before_the_first_step(began, end, record)
    if last is None:
        return RunState()
    if last.step is not None and last.step == last.steps:
        return RunState("finished", step=last.step)
    times = sorted({t for p in timeline.progress if (t := p.shown_time) is not None})
    started = record.start if record is not None else None
    elapsed = record.elapsed if record is not None else None
    if end is None or not times:
        return RunState()
    idle = end - times[-1]
    if (
        idle < -_OTHER_CLOCK
        or (record is None and by_zone(idle))
        or (started is not None and times[-1] < started - _OTHER_CLOCK)
    ):
        return RunState()
    from statistics import median  # here: it is slow to import, and a job that hung can wait for it

    pauses = _pauses(timeline.progress, times)
    if elapsed is None and len(times) < _ENOUGH:  # of so few steps it is not known how long one takes
        most = max(_LONGEST_OF_FEW, 10 * max(pauses, default=0.0))
        return RunState("hung", idle, times[-1], None, last.step) if idle > most else RunState()
    usual = max(_LONGEST_UNKNOWN, 0.25 * (elapsed or 0.0))
    if pauses:
        usual = max(SHORTEST_STALL, 3 * max(pauses), 10 * median(pauses))
    kind: RunStateKind = "hung" if idle > usual else "progressing"
    return RunState(kind, max(0.0, idle), times[-1], median(pauses) if pauses else None, last.step)


def _before_the_first_step(began: SignalHit, end: float | None, record: JobRecord | None) -> RunState:
    """The training loop had begun, and no step came: where it had the time for one, it hung."""
    since = began.line.origin.time
    idle = end - since if end is not None and since is not None else None
    said = began.captures.get("said", began.line.text).strip()
    if idle is None or idle < 0 or (record is None and by_zone(idle)):
        return RunState(began=said)
    if idle < SHORTEST_STALL:
        return RunState(idle=idle)
    return RunState("hung" if idle > _LONGEST_UNKNOWN else None, idle, since, began=said)


def by_zone(idle: float) -> bool:
    """Whether a time without steps looks like the distance of two clocks' time zones: Slurm's is local time."""
    off = (idle + _ZONE / 2) % _ZONE - _ZONE / 2
    return _ZONE - _OTHER_CLOCK <= idle <= _FARTHEST_ZONE and abs(off) <= _OTHER_CLOCK


def _pauses(progress: Sequence[Progress], times: Sequence[float]) -> list[float]:
    """Seconds from each of the times to the next, but for those between which steps were not read."""
    unread: list[tuple[float, float]] = []
    for before, step in pairwise(progress):
        a, b = before.shown_time, step.shown_time
        if step.skipped and before.source == step.source and a is not None and b is not None:
            unread.append((a, b))
    unread.sort()
    ends = list(accumulate((end for _, end in unread), max))

    def known(a: float, b: float) -> bool:
        last = bisect_right(unread, (a, math.inf))
        return not last or ends[last - 1] < b

    return [b - a for a, b in pairwise(times) if known(a, b)]
