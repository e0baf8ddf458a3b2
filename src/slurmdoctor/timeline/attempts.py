"""Cuts a log into attempts: torchrun's restarts, requeues appended to one file, two jobs in one file."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TypeVar

from msgspec.structs import replace

from slurmdoctor.model import (
    LIMITS,
    Busy,
    CollectiveStatus,
    Event,
    ExitReport,
    Frozen,
    Observations,
    Progress,
    SignalHit,
)

END = 1 << 62
Span = tuple[int, int]
Ordered = TypeVar("Ordered", Event, ExitReport, SignalHit, CollectiveStatus, Progress, Busy)
_MOST_EARLIER = 8
_ENDS = ("root", "either", "confirmation")
"""Roles of events by which a process or a job may have ended."""


class Attempts(Frozen):
    """Where the attempts stand in the job's text."""

    last: Span = (0, END)
    """The last one in which anything happened: the verdict is about it."""
    earlier: tuple[Span, ...] = ()
    """Those before it that failed, oldest first."""
    count: int = 1


def find(events: Sequence[Event], observed: Observations) -> Attempts:
    """The last attempt that failed, the ones before it, and how many there were."""
    went_on = _went_on(observed)
    failures = sorted([e.order for e in events if e.role != "hint"] + [r.order for r in observed.reports])
    signs = sorted([*failures, *(p.order for p in observed.progress)])
    edges = [0, *(observed.begins or _cuts(observed, went_on)), END]
    spans = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
    lived = [s for s in spans if any_within(signs, s)]
    failed = [s for s in spans if any_within(failures, s)]
    if not failed:
        return Attempts(spans[-1], (), len(spans))
    last = failed[-1]
    total = sum(file.bytes for file in observed.files) * (len(observed.begins) + 1)
    lives = max(went_on.values(), default=-1) >= last[1]
    if total - last[1] > (LIMITS.nothing_after_cut if lives else LIMITS.attempt_begins):
        last = (last[1], END)  # a later attempt ran: the failure before it was survived
    count = len([s for s in lived if s[1] <= last[0]]) + 1
    return Attempts(last, tuple(s for s in failed if s[1] <= last[0])[-_MOST_EARLIER:], count)


def side_by_side(observed: Observations) -> Observations:
    """What was read, ordered by attempt and then by file, where several files hold several attempts each."""
    starts = [0, *itertools.accumulate(file.bytes for file in observed.files)]
    marks = [e.order for e in observed.events] + [r.order for r in observed.reports]
    signs = sorted([*marks, *(p.order for p in observed.progress)])
    begins = defaultdict[int, list[int]](list)
    for cut in _cuts(observed, _went_on(observed)):
        source = bisect_right(starts, cut) - 1
        if any_within(signs, ((begins[source] or [starts[source]])[-1], cut)):
            begins[source].append(cut)
    most, total = max(map(len, begins.values()), default=0), starts[-1]
    if sum(map(bool, begins.values())) < 2 or not observed.complete:
        return observed

    def moved(found: Sequence[Ordered]) -> tuple[Ordered, ...]:
        return tuple(sorted((replace(one, order=place(one.order)) for one in found), key=attrgetter("order")))

    def place(order: int) -> int:
        here = begins[bisect_right(starts, order) - 1]
        # of a file that begins once it is not known in which attempt: the last one counts
        return order + total * (bisect_right(here, order) if here else most)

    return replace(
        observed,
        events=moved(observed.events),
        reports=moved(observed.reports),
        signals=moved(observed.signals),
        collectives=moved(observed.collectives),
        progress=moved(observed.progress),
        busy=observed.busy and moved((observed.busy,))[0],
        begins=tuple(total * number for number in range(1, most + 1)),
    )


def any_within(orders: Sequence[int], span: Span) -> bool:
    return bisect_right(orders, span[0] - 1) < bisect_right(orders, span[1] - 1)


def _went_on(observed: Observations) -> dict[int, int]:
    """Each file's last step or finish: that a job's .out comes after its .err says nothing of what came later."""
    found = {p.source: p.order for p in observed.progress}
    for mark in observed.signals:
        if mark.signal.kind == "finished":
            found[mark.line.source] = max(mark.order, found.get(mark.line.source, 0))
    return found


def _cuts(observed: Observations, went_on: Mapping[int, int]) -> list[int]:
    """Positions at which a new attempt begins."""
    cuts = _announced(observed) | _by_agents(observed, went_on) | _begun_again(observed) | _by_tasks(observed)
    for event in observed.events:
        if event.ends_job and event.role != "hint" and went_on.get(event.hit.source, 0) > event.order:
            cuts.add(event.order + 1)
    return sorted(cuts)


def _announced(observed: Observations) -> set[int]:
    """Where the log itself says that it begins again, or names another job than before."""
    cuts: set[int] = set()
    job: dict[int, str] = {}
    for mark in observed.signals:
        if mark.signal.kind != "attempt":
            continue
        source, name = mark.line.source, mark.captures.get("job")
        if name is None or job.get(source, name) != name:
            cuts.add(mark.order)
        if name is not None:
            job[source] = name
    return cuts


def _begun_again(observed: Observations) -> set[int]:
    """Where what a launcher, a script or a program prints as it begins is printed again, after something ended."""
    ended = (event.order for event in observed.events if event.role in _ENDS and not event.retried)
    ends = sorted([*ended, *(report.order for report in observed.reports)])
    cuts: set[int] = set()
    begun: dict[tuple[int, str], int] = {}
    many: set[tuple[int, str]] = set()
    for mark in observed.signals:
        if mark.signal.kind != "start":
            continue
        sign = (mark.line.source, mark.signal.id)
        before = begun.get(sign)
        if before is not None and any_within(ends, (before, mark.order)):
            if sign not in many:
                cuts.add(mark.order)
        elif before is not None and "once" in mark.captures:
            many.add(sign)  # twice before anything ended: several processes print it
        begun[sign] = mark.order
    return cuts


def _by_tasks(observed: Observations) -> set[int]:
    """A task ends once a step: one that ends again, with words of a program between, is another step's."""
    in_order = sorted(
        [(report.order, report) for report in observed.reports if report.kind == "step"]
        + [(event.order, None) for event in observed.events if event.role in _ENDS and not event.retried],
        key=lambda one: one[0],
    )
    cuts: set[int] = set()
    seen: set[tuple[int, str | None, tuple[int, ...]]] = set()
    after = 0
    reported = False
    for order, report in in_order:
        if report is None:
            reported = True
            continue
        key = (report.line.source, report.node, report.tasks)
        if reported and key in seen:
            cuts.add(after)
            seen.clear()
        seen.add(key)
        after, reported = order + 1, False
    return cuts


def _by_agents(observed: Observations, went_on: Mapping[int, int]) -> set[int]:
    """torchelastic's agent says `failed` once an attempt."""
    agents: dict[tuple[int, bytes, int | None], list[int]] = {}
    tables: list[int] = []
    for report in observed.reports:
        line = report.line
        if report.kind == "agent":
            agents.setdefault((line.source, line.label, line.origin.pid), []).append(report.order)
        elif report.kind == "table":
            tables.append(report.order)
    cuts: set[int] = set()
    for (source, *_), places in agents.items():
        # an agent that prints its table has given up: what comes after it is another agent's
        cuts.update(a + 1 for a, b in itertools.pairwise(places) if not any_within(tables, (a + 1, b)))
        if len(agents) == 1 and went_on.get(source, 0) > places[-1]:
            cuts.add(places[-1] + 1)
    return cuts
