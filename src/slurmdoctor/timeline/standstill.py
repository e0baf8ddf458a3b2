"""Whether the job stood still, had finished, or made steps to its end: the one judge of it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from slurmdoctor.model import (
    LIMITS,
    Event,
    JobRecord,
    Progress,
    RunState,
    RunStateKind,
    SignalHit,
    Timeline,
    parse_time,
)


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
        return RunState("finished", idle=idle if 0 <= idle < LIMITS.longest_job else None)
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
        idle < -LIMITS.other_clock
        or (record is None and by_zone(idle))
        or (started is not None and times[-1] < started - LIMITS.other_clock)
    ):
        return RunState()
    from statistics import median  # here: it is slow to import, and a job that hung can wait for it

    pauses = _pauses(timeline.progress, times)
    if elapsed is None and len(times) < LIMITS.steps_for_a_pace:  # of so few steps it is not known how long one takes
        most = max(LIMITS.stall_of_few_steps, LIMITS.pauses_usual * max(pauses, default=0.0))
        return RunState("hung", idle, times[-1], None, last.step) if idle > most else RunState()
    usual = max(LIMITS.stall_of_unknown_pace, LIMITS.stall_share * (elapsed or 0.0))
    if pauses:
        usual = max(LIMITS.stall, LIMITS.pauses_longest * max(pauses), LIMITS.pauses_usual * median(pauses))
    kind: RunStateKind = "hung" if idle > usual else "progressing"
    return RunState(kind, max(0.0, idle), times[-1], median(pauses) if pauses else None, last.step)


def _before_the_first_step(began: SignalHit, end: float | None, record: JobRecord | None) -> RunState:
    """The training loop had begun, and no step came: where it had the time for one, it hung."""
    since = began.line.origin.time
    idle = end - since if end is not None and since is not None else None
    said = began.captures.get("said", began.line.text).strip()
    if idle is None or idle < 0 or (record is None and by_zone(idle)):
        return RunState(began=said)
    if idle < LIMITS.stall:
        return RunState(idle=idle)
    return RunState("hung" if idle > LIMITS.stall_of_unknown_pace else None, idle, since, began=said)


def by_zone(idle: float) -> bool:
    """Whether a time without steps looks like the distance of two clocks' time zones: Slurm's is local time."""
    off = (idle + LIMITS.zone / 2) % LIMITS.zone - LIMITS.zone / 2
    return LIMITS.zone - LIMITS.other_clock <= idle <= LIMITS.farthest_zone and abs(off) <= LIMITS.other_clock


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
