"""Events → a timeline: in what order they came, which attempt they belong to, and whether the job stood still at its end.

How far the clocks of nodes (or files) are apart is learnt from the training steps that several of them report.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from msgspec.structs import replace

from slurmdoctor.model import (
    LIMITS,
    TICK,
    Clocks,
    Event,
    JobRecord,
    Observations,
    Order,
    Origin,
    Progress,
    RankMap,
    RunState,
    RunStateKind,
    SignalHit,
    Timeline,
    parse_time,
)
from slurmdoctor.timeline import attempts

_LEAST_APART = 3.0
"""Seconds: clocks that are nearer than this, or ranks that are that much slower, are left as they are."""
_LEAST_STEPS = 3


def order(observed: Observations) -> Timeline:
    """Cut into attempts, and order what is left."""
    progress = observed.progress
    ends = [mark for mark in observed.signals if mark.signal.kind == "finished"]
    finished = next((mark for mark in reversed(ends) if mark.by_program), ends[-1] if ends else None)
    events = observed.events
    went_on = sorted(
        [(p.source, p.order) for p in progress]
        + [(m.line.source, m.order) for m in observed.signals if m.signal.kind == "survived"]
    )
    attempt_spans = attempts.find(events, observed)
    clocks = learn_clocks(progress, observed.rank_map, [file.name for file in observed.files])
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
    end = min(ends, default=observed.files[last.line.source].bytes)
    return last if end - last.line.end <= LIMITS.few_words else None


def _within(span: attempts.Span, events: Sequence[Event], went_on: Sequence[tuple[int, int]]) -> list[Event]:
    """An earlier attempt's events: what only another attempt went on after was not survived."""
    found = []
    for event in events:
        if span[0] <= event.order < span[1]:
            source = event.hit.source
            here = bisect_right(went_on, (source, event.order - 1)) < bisect_right(went_on, (source, span[1] - 1))
            found.append(event if here else replace(event, survived=False, outlived=""))
    return found


def _part(span: attempts.Span, events: Sequence[Event], observed: Observations, clocks: Clocks) -> Timeline:
    """One attempt's events in order, and what the witnesses say of it."""
    low, high = span
    here = [e for e in events if low <= e.order < high]
    by, keys = _ordered(here, clocks)
    return Timeline(
        events=tuple(sorted(here, key=lambda e: keys[e.order])),
        reports=tuple(r for r in observed.reports if low <= r.order < high),
        collectives=tuple(w for w in observed.collectives if low <= w.order < high),
        order=by,
        keys=keys,
        span=span,
        clocks=clocks,
    )


def _ordered(events: Sequence[Event], clocks: Clocks) -> tuple[Order, dict[int, tuple[float, int]]]:
    """How events can be ordered, and each one's key. An event without a stamp takes the last one before it in its file."""
    weighty = [e for e in events if e.role != "hint"]
    times = {
        e.order: e.origin.time - clocks.ahead_of(e.hit.source, e.origin.rank, e.origin.node)
        for e in events
        if e.origin.time is not None
    }
    stamped = [e for e in weighty if e.order in times]
    if not weighty or len(stamped) * 2 < len(weighty) or len({e.origin.dated for e in stamped}) > 1:
        return "file" if weighty else "unknown", {e.order: (0.0, e.order) for e in events}
    keys: dict[int, tuple[float, int]] = {}
    begin = min(times[e.order] for e in stamped)
    last: dict[int, float] = {}
    for event in sorted(events, key=lambda e: e.order):
        time = last[event.hit.source] = times.get(event.order, last.get(event.hit.source, begin))
        keys[event.order] = (time, event.order)
    return "timestamps", keys


# ── clocks ───────────────────────────────────────────────────────────────────────────────────


def learn_clocks(progress: Sequence[Progress], maps: RankMap, names: Sequence[str]) -> Clocks:
    """Compare the stamps of the same step on different nodes; without nodes, in different files."""
    files = [name.rpartition("/")[2] for name in names] if len(set(names)) > 1 else [""] * len(names)

    def where(source: int, rank: int | None, node: str | None) -> str:
        return node or maps.resolve(Origin(rank=rank), source)[0].node or files[source]

    stamps = _stamps(progress, where)
    if len(stamps) < 2:
        return Clocks()
    reference = max(stamps, key=lambda name: (len(stamps[name]), name))
    ahead: dict[str, float] = {}
    steps: dict[str, int] = {}
    from statistics import median  # here: it is slow to import, and few logs have two clocks

    for name, own in stamps.items():
        apart = [own[step] - stamps[reference][step] for step in own.keys() & stamps[reference].keys()]
        if len(apart) < _LEAST_STEPS:
            continue
        middle = median(apart)
        # a clock's offset stays the same; what varies is slowness
        if abs(middle) >= _LEAST_APART and median(abs(one - middle) for one in apart) <= TICK:
            ahead[name], steps[name] = middle, len(apart)
    return Clocks(ahead, steps, reference, where)


def _stamps(
    progress: Sequence[Progress], where: Callable[[int, int | None, str | None], str]
) -> dict[str, dict[int, float]]:
    """For each clock the time of each step: of those that each of its writers reports but once."""
    once = Counter((p.source, p.label, p.rank, p.step) for p in progress)
    found: dict[str, dict[int, float]] = {}
    for p in progress:
        if p.step is None or p.time is None or once[(p.source, p.label, p.rank, p.step)] > 1:
            continue
        if name := where(p.source, p.rank, None):
            found.setdefault(name, {}).setdefault(p.step, p.time)
    return found


# ── whether the job stood still, had finished, or made steps to its end: the one judge of it ──


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
    if end is None or not times:
        return RunState()
    idle, started = end - times[-1], record.start if record is not None else None
    other_clock = idle < -LIMITS.other_clock or (record is None and by_zone(idle))
    if other_clock or (started is not None and times[-1] < started - LIMITS.other_clock):
        return RunState()
    return _by_pace(idle, times, timeline.progress, record.elapsed if record is not None else None)


def _by_pace(idle: float, times: Sequence[float], progress: Sequence[Progress], elapsed: int | None) -> RunState:
    """Whether the time without a step is long beside the pauses between the steps, or beside the time that the job ran."""
    from statistics import median  # here: it is slow to import, and a job that hung can wait for it

    resumed = {step.shown_time for step in progress if step.skipped}
    """Times before which steps were not read."""
    pauses = [b - a for a, b in pairwise(times) if b not in resumed]
    step = progress[-1].step
    if elapsed is None and len(times) < LIMITS.steps_for_a_pace:  # of so few steps it is not known how long one takes
        most = max(LIMITS.stall_of_few_steps, LIMITS.pauses_usual * max(pauses, default=0.0))
        return RunState("hung", idle, times[-1], None, step) if idle > most else RunState()
    usual = max(LIMITS.stall_of_unknown_pace, LIMITS.stall_share * (elapsed or 0.0))
    pause = median(pauses) if pauses else None
    if pause is not None:
        usual = max(LIMITS.stall, LIMITS.pauses_longest * max(pauses), LIMITS.pauses_usual * pause)
    kind: RunStateKind = "hung" if idle > usual else "progressing"
    return RunState(kind, max(0.0, idle), times[-1], pause, step)


def _before_the_first_step(began: SignalHit, end: float | None, record: JobRecord | None) -> RunState:
    """The training loop had begun, and no step came: where it had the time for one, it hung."""
    since = began.line.origin.time
    first_words = began.captures.get("said", began.line.text).strip()
    if end is None or since is None or end < since or (record is None and by_zone(end - since)):
        return RunState(began=first_words)
    idle = end - since
    if idle <= LIMITS.stall_of_unknown_pace:
        return RunState(idle=idle)
    return RunState("hung", idle, since, began=first_words)


def by_zone(idle: float) -> bool:
    """Whether a time without steps looks like the distance of two clocks' time zones: Slurm's is local time."""
    off = (idle + LIMITS.zone / 2) % LIMITS.zone - LIMITS.zone / 2
    return LIMITS.zone - LIMITS.other_clock <= idle <= LIMITS.farthest_zone and abs(off) <= LIMITS.other_clock
