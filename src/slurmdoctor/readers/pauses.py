"""Searches among the steps that were not read for the longest pauses: an evaluation now and then is no stall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise

from msgspec.structs import replace

from slurmdoctor.model import Progress

_SHORT = 100.0
"""Seconds of a pause that decides nothing (`timeline/standstill.py`)."""
FirstStep = Callable[[int, int, int], "Progress | None"]
"""(source, start, end) -> the first step that begins there; None where there is none."""
Gap = tuple[float, int, Progress, Progress, int, int]
"""(seconds, negative, and order of) two steps, and the bytes between them where others may stand."""


def search(progress: Sequence[Progress], first_step: FirstStep, may_go_on: Callable[[], bool]) -> list[Progress]:
    """The steps, and those around long pauses among the ones that were skipped. The longest time is halved again and again."""
    gaps = [gap for a, b in pairwise(progress) if b.skipped and a.source == b.source for gap in _gap(a, b)]
    heapify(gaps)
    found: list[Progress] = []
    followed: set[int] = set()
    while gaps and may_go_on():
        *_, a, b, low, high = heappop(gaps)
        if low >= high:
            followed.add(b.order)
            continue
        middle = (low + high) // 2
        step = first_step(a.source, middle, high)
        if step is None:
            for gap in _gap(a, b, low, middle):
                heappush(gaps, gap)
            continue
        found.append(step)
        for gap in (*_gap(a, step, low, middle), *_gap(step, b, step.offset + 1)):
            heappush(gaps, gap)
    whole = sorted((*progress, *found), key=lambda step: step.order)
    return [replace(step, skipped=False) if step.order in followed else step for step in whole]


def _gap(a: Progress, b: Progress, low: int | None = None, high: int | None = None) -> list[Gap]:
    """The time from one step to the next, where it is known and long."""
    start, end = a.shown_time, b.shown_time
    if start is None or end is None or end - start < _SHORT:
        return []
    low, high = a.offset + 1 if low is None else low, b.offset if high is None else high
    return [(start - end, a.order, a, b, low, high)]
