"""Events → a timeline: in what order they came, which attempt they belong to, and what was survived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import regex

from slurmdoctor.events import Assembled, Mark
from slurmdoctor.lines import Lines
from slurmdoctor.model import Event, Signal
from slurmdoctor.witnesses import Report

Order = Literal["timestamps", "file", "unknown"]

LOOK_AHEAD = 1024 * 1024
"""How far after an event progress is looked for."""
SMALL = 8 * 1024 * 1024
"""A job whose logs are smaller than this is searched for progress from end to end."""
NEAR = 6
"""Lines after an event within which `attempt 2/5 succeeded` or `PASSED` speaks of it."""
TICK = 1.0
"""Seconds within which two stamps of two clocks do not tell what came first."""


@dataclass(frozen=True, slots=True)
class Progress:
    """One step made by one writer."""

    source: int
    offset: int
    order: int
    rank: int | None
    label: bytes
    step: int | None
    steps: int | None
    time: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """The last attempt that failed, in order; what came before it is kept apart."""

    events: tuple[Event, ...] = ()
    reports: tuple[Report, ...] = ()
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
    progress = find_progress(assembled, lines, signals)
    cuts = _cuts(assembled, lines, progress)
    finished = next((m for m in reversed(assembled.marks) if m.signal.kind == "finished"), None)
    events = [replace(e, survived=_survived(e, assembled, lines, progress)) for e in assembled.events]
    last, attempts = _last_failed(events, assembled.reports, cuts, lines)
    low, high = last
    here = [e for e in events if low <= e.order < high]
    reports = [r for r in assembled.reports if low <= lines.order(r.line.source, r.line.offset) < high]
    order, keys = _ordered(here)
    return Timeline(
        events=tuple(sorted(here, key=lambda e: keys[e.order])),
        reports=tuple(reports),
        earlier=tuple(e for e in events if e.order < low),
        attempts=attempts,
        order=order,
        finished=finished,
        last_progress=progress[-1] if progress else None,
        progress=tuple(progress),
        keys=keys,
    )


# ── progress ─────────────────────────────────────────────────────────────────────────────────


def find_progress(assembled: Assembled, lines: Lines, signals: Sequence[Signal]) -> list[Progress]:
    """Steps made: everywhere in a small job, else around the events and at each log's end."""
    patterns = [s for s in signals if s.kind == "progress"]
    total = sum(source.length for source in lines.sources)
    found: list[Progress] = []
    for number, source in enumerate(lines.sources):
        if total <= SMALL:
            spans = [(0, source.length)]
        else:
            starts = sorted({e.hit.offset for e in _beginners(assembled.events, number)})
            spans = _joined(
                [(s - LOOK_AHEAD // 4, s + LOOK_AHEAD) for s in starts] + [(source.length - LOOK_AHEAD, source.length)]
            )
        for start, end in spans:
            found += _progress_in(lines, number, max(0, start), min(end, source.length), patterns)
    found.sort(key=lambda p: p.order)
    return found


def _beginners(events: Sequence[Event], source: int) -> list[Event]:
    """The few events that could be a root: the places where it matters what came after."""
    chosen = [e for e in events if e.hit.source == source and e.role in ("root", "either", "confirmation")]
    return chosen[:24] + chosen[-24:]


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    result: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _progress_in(lines: Lines, source: int, start: int, end: int, patterns: Sequence[Signal]) -> list[Progress]:
    data = lines.text(source, start, end - start)
    literals = sorted({x for s in patterns for x in s.literals}, key=len)
    admit = regex.compile("|".join(regex.escape(x) for x in literals).encode())
    found: list[Progress] = []
    at = 0
    while hit := admit.search(data, at):
        begin = max(data.rfind(b"\n", 0, hit.start()), data.rfind(b"\r", 0, hit.start())) + 1
        stop = data.find(b"\n", hit.end())
        stop = len(data) if stop < 0 else stop
        back = data.find(b"\r", hit.end(), stop)
        stop = back if back >= 0 else stop
        at = stop + 1
        if stop - begin > 4096:
            continue
        origin, text = lines.peeled(source, data[begin:stop])
        for signal in patterns:
            if step := regex.search(signal.regex, text, timeout=0.5):
                groups = step.groupdict()
                number = groups.get("step")
                steps = groups.get("steps")
                label = lines.label(source, data[begin : begin + 160])
                found.append(
                    Progress(
                        source,
                        start + begin,
                        lines.order(source, start + begin),
                        origin.rank,
                        label,
                        int(number) if number else None,
                        int(steps) if steps else None,
                        origin.time,
                    )  # fmt: skip
                )
                break
    return found


def _survived(event: Event, assembled: Assembled, lines: Lines, progress: Sequence[Progress]) -> bool:
    """Whether the rank, or the whole job, went on after the event."""
    source = event.hit.source
    last = max((p.offset for p in progress if p.source == source), default=-1)
    marks = [m for m in assembled.marks if m.signal.kind == "survived" and m.line.source == source and m.order >= event.order]
    if not marks and last < event.hit.offset:
        return False
    line = lines.at(source, event.hit.offset)
    if marks:
        near = {event.hit.offset, *(after.offset for after in lines.after(line, NEAR))}
        if marks[0].line.offset in near:
            return True
    later = [p for p in progress if p.source == source and p.offset > event.hit.offset]
    if event.origin.time is not None:
        later = [p for p in later if p.time is None or p.time > event.origin.time]
    own = [
        p for p in later if (p.rank is not None and p.rank == event.origin.rank) or (p.label and p.label == line.label)
    ]
    if own:
        return True
    others = {(p.rank, p.step) for p in later}
    # without labels, or from ranks that cannot go on alone: several steps, not one that was on its way to the pipe
    return len(others) >= (2 if event.origin.rank is None and not line.label else 4)


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
        cuts.update(a + 1 for a, b in zip(places, places[1:], strict=False) if not any(a < t < b for t in tables))
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
    spans = [(a, b) for a, b in zip(edges, edges[1:], strict=False) if b > a]
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
