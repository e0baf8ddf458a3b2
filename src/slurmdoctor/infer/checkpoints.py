"""Facts of the job's checkpoints: the newest one that was saved, where each restart began, and how long a save takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from slurmdoctor.model import Observations, SignalHit, Timeline, format_time, number

EMERGENCY = "emergency_save"
"""The fact of a save that a signal brought about."""
_SHOWN = 60
"""Characters of a line that a fix quotes."""
_MOST_SAVE = 4 * 3600.0
"""Seconds beyond which two lines are not the begin and the end of one save."""


def checkpoint_facts(timeline: Timeline, observed: Observations) -> dict[str, Any]:
    """The newest checkpoint, by its step, its path and the time when it was saved, and the seconds of the longest save."""
    marks = {kind: [m for m in observed.signals if m.signal.kind == kind] for kind in ("saving", "saved", "resumed")}
    last = max((p.order for p in timeline.progress), default=-1)
    # a program that tells only that it begins to save, and goes on, has saved; what was loaded is there, too
    went_on = [m for m in marks["saving"] if m.order < last and not marks["saved"]]
    there = sorted([*marks["saved"], *went_on, *marks["resumed"]], key=lambda mark: mark.order)
    found: dict[str, Any] = {}
    newest = next((m for m in reversed(there) if "step" in m.captures or "path" in m.captures), None)
    if newest is not None:
        step, path = newest.captures.get("step"), newest.captures.get("path")
        found["checkpoint_step"] = number(step) if step else None
        found["checkpoint"] = path or f"step {number(step or '0')}"
    saved = next((m.line.origin for m in reversed(there) if m.signal.kind != "resumed"), None)
    if saved is not None and saved.dated:
        found["checkpoint_time"] = format_time(saved.time)
    # a save after a failure or a signal may be cut off by the end that follows
    begun, ended = marks["saving"][-1:], max((m.order for m in marks["saved"]), default=-1)
    if begun and max(last, ended) < begun[0].order < min((e.order for e in observed.events), default=0):
        found["save_open"] = begun[0].line.text[:_SHOWN]
    emergency = [m.order for m in observed.signals if m.signal.id == EMERGENCY]
    if emergency and any(m.order > emergency[-1] for m in marks["saved"]):
        found["emergency_saved"] = "yes"
    found["save_s"] = _longest_save(marks["saving"], marks["saved"])
    return {name: value for name, value in found.items() if value is not None}


def _longest_save(begins: Sequence[SignalHit], ends: Sequence[SignalHit]) -> int | None:
    """Seconds, as the program tells them or by the stamps of a save's two lines."""
    told = [float(m.captures["seconds"]) for m in ends if m.captures.get("seconds", "").replace(".", "", 1).isdecimal()]
    both = sorted([*begins, *ends], key=lambda mark: mark.order)
    for begin, end in pairwise(both):
        a, b = begin.line.origin.time, end.line.origin.time
        if begin.signal.kind == "saving" and end.signal.kind == "saved" and a is not None and b is not None:
            told.append(b - a)
    usual = [seconds for seconds in told if 0 < seconds < _MOST_SAVE]
    return round(max(usual)) or None if usual else None


def restart_facts(timeline: Timeline, observed: Observations) -> dict[str, Any]:
    """How often the job was started anew, how many steps it gained since the first time, and where it began the last time."""
    begins = [m for m in observed.signals if m.signal.kind == "attempt" and m.captures.get("restart")]
    counted = max((number(m.captures["restart"]) for m in begins), default=0)
    cuts = sorted({m.order for m in begins} | {e.order for e in observed.events if e.ends_job and e.role != "hint"})
    runs = _runs(timeline, observed, cuts)
    restarts = counted or (len(runs) - 1 if any(e.ends_job for e in observed.events) else 0)
    if restarts < 1:
        return {}
    facts: dict[str, Any] = {"restarts": restarts}
    if len(runs) > 1:
        (_, first_end), (last_begin, last_end) = runs[0], runs[-1]
        again = len(runs) > 2 and last_begin <= runs[1][0]  # each from the same checkpoint, however far it came
        facts["gained"] = 0 if again else max(0, max(end for _, end in runs[1:]) - first_end)
        facts["begins_at"], facts["came_to"] = last_begin, last_end
    return facts


def _runs(timeline: Timeline, observed: Observations, cuts: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last step of each run in which steps were made; the first is what it resumed from, where told."""
    resumed = [m for m in observed.signals if m.signal.kind == "resumed" and m.captures.get("step")]
    edges = [0, *cuts, 1 << 62]
    found: list[tuple[int, int]] = []
    for start, end in pairwise(edges):
        steps = [p.step for p in timeline.progress if p.step is not None and start <= p.order < end]
        if steps:
            told = [number(m.captures["step"]) for m in resumed if start <= m.order < end]
            found.append((min([*told, *steps]), max(steps)))
    return found
