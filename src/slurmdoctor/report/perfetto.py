"""The lanes as Chrome's trace JSON (Trace Event Format), which ui.perfetto.dev and chrome://tracing open.

A process is a node and a thread is a rank; a slice is what the rank did, an instant is a line of the log. After its end a rank has
no slice. An arrow leads from the first failure to each rank that followed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from slurmdoctor import __version__
from slurmdoctor.model import Diagnosis
from slurmdoctor.model.lanes import Lane, Lanes, Mark, State
from slurmdoctor.model.times import format_time

_SLICES: dict[State, tuple[str, str]] = {
    "running": ("running", "thread_state_running"),
    "waiting": ("waiting for others", "thread_state_iowait"),
    "failed": ("failed first", "terrible"),
    "followed": ("failed after it", "bad"),
    "silent": ("silent", "grey"),
    "finished": ("finished", "good"),
}
"""State -> a slice's name, and one of the colours that chrome://tracing knows."""
_JOB = 0
"""The process of what names no rank."""
_SECOND = 1_000_000
_LINE = 1_000
"""Microseconds of a second, and what stands for a line where the log has no clock."""

Event = dict[str, Any]


def render(diagnosis: Diagnosis) -> str:
    """One JSON object, an event a line."""
    events = [json.dumps(event, separators=(",", ":"), allow_nan=False) for event in _events(diagnosis)]
    about = json.dumps(_about(diagnosis), allow_nan=False)
    listed = ",\n".join(events)
    return f'{{"traceEvents":[\n{listed}\n],\n"displayTimeUnit":"ms",\n"otherData":{about}}}\n'


def _about(diagnosis: Diagnosis) -> dict[str, Any]:
    lanes, first, cause = diagnosis.lanes, diagnosis.first_failure, diagnosis.cause
    start = format_time(lanes.start) if lanes.start is not None else None
    return {
        "slurmdoctor": __version__,
        "verdict": diagnosis.verdict,
        "cause": cause.id,
        "rank": first.rank,
        "node": first.node,
        "begins": start,
        "unit": "time" if lanes.clock else "1 ms is one line of the log: it has no usable time stamps",
    }


def _events(diagnosis: Diagnosis) -> Iterator[Event]:
    lanes = diagnosis.lanes
    nodes = _nodes(lanes)
    yield from _process(_JOB, "job")
    for node, pid in nodes.items():
        yield from _process(pid, f"node {node}" if node is not None else "node unknown")
    for lane in lanes.lanes:
        pid = nodes[lane.node] if lane.ranks else _JOB
        for rank in lane.ranks or (None,):
            yield from _thread(pid, rank, lane, _unit(lanes))
        yield from (_instant(pid, mark, lane, _unit(lanes)) for mark in lane.marks)
    yield from _arrows(lanes, nodes)
    yield _headline(diagnosis)


def _nodes(lanes: Lanes) -> dict[str | None, int]:
    """Each node's process; its number is no rank's, for viewers take the thread of the same number for the main one."""
    above = 10 ** len(str(max((rank for lane in lanes.lanes for rank in lane.ranks), default=0)))
    names = dict.fromkeys(lane.node for lane in lanes.lanes if lane.ranks)
    return {name: number for number, name in enumerate(names, above + 1)}


def _unit(lanes: Lanes) -> int:
    return _SECOND if lanes.clock else _LINE


def _process(pid: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}


def _thread(pid: int, rank: int | None, lane: Lane, unit: int) -> Iterator[Event]:
    """One rank's name, place and slices."""
    tid = _tid(rank)
    name = "no rank named" if rank is None else f"rank {rank}"
    yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
    free = 0
    for span in lane.spans:
        begin = max(round(span.start * unit), free)
        free = max(round(span.end * unit), begin + 1)  # a failure that ended at once is still to be seen
        if span.state != "gone":
            shown, colour = _SLICES[span.state]
            told = {"ended": lane.ended} if lane.ended and span is lane.spans[-1] else {}
            yield {
                "ph": "X", "name": shown, "cat": span.state, "cname": colour,
                "pid": pid, "tid": tid, "ts": begin, "dur": free - begin, **({"args": told} if told else {}),
            }  # fmt: skip


def _tid(rank: int | None) -> int:
    return rank or 0


def _instant(pid: int, mark: Mark, lane: Lane, unit: int) -> Event:
    """A line of the log, on its rank."""
    names = {
        "first": f"first failure: {mark.cause}",
        "error": mark.cause,
        "exit": lane.ended or "ended",
        "step": mark.text,
    }
    told = {"text": mark.text, "file": mark.file, "line": mark.line, "cause": mark.cause}
    if lane.left_out and mark is lane.marks[-1]:
        told["lines of this lane that are not shown"] = lane.left_out
    return {
        "ph": "i", "s": "t", "name": names[mark.kind], "cat": mark.kind, "pid": pid, "tid": _tid(_rank(mark, lane)),
        "ts": round(mark.at * unit), "args": {key: value for key, value in told.items() if value is not None},
    }  # fmt: skip


def _rank(mark: Mark, lane: Lane) -> int | None:
    return mark.rank if mark.rank is not None else next(iter(lane.ranks), None)


def _arrows(lanes: Lanes, nodes: dict[str | None, int]) -> Iterator[Event]:
    """From the first failure to the first line of each lane that followed."""
    marks = [(mark, lane) for lane in lanes.lanes for mark in lane.marks]
    first = min((one for one in marks if one[0].kind == "first"), key=lambda one: one[0].at, default=None)
    if first is None:
        return
    followers = [(lane, _first_error(lane.marks)) for lane in lanes.lanes if lane.ranks]
    arrows = [(lane, mark) for lane, mark in followers if mark is not None and mark.at >= first[0].at]
    for number, (lane, mark) in enumerate(arrows, 1):
        yield _end(first[0], first[1], nodes, _unit(lanes)) | {"ph": "s", "id": number}
        yield _end(mark, lane, nodes, _unit(lanes)) | {"ph": "f", "bp": "e", "id": number}


def _first_error(marks: Sequence[Mark]) -> Mark | None:
    if any(mark.kind == "first" for mark in marks):
        return None
    return next((mark for mark in marks if mark.kind in ("error", "exit")), None)


def _end(mark: Mark, lane: Lane, nodes: dict[str | None, int], unit: int) -> Event:
    pid = nodes[lane.node] if lane.ranks else _JOB
    at = {"pid": pid, "tid": _tid(_rank(mark, lane)), "ts": round(mark.at * unit)}
    return {"name": "followed", "cat": "cascade", **at}


def _headline(diagnosis: Diagnosis) -> Event:
    """The verdict, across all tracks at the first failure."""
    lanes, cause = diagnosis.lanes, diagnosis.cause
    firsts = [mark.at for lane in lanes.lanes for mark in lane.marks if mark.kind == "first"]
    name = f"{cause.id}: {cause.title}" if cause else diagnosis.verdict
    at = round(min(firsts, default=0.0) * _unit(lanes))
    return {"ph": "i", "s": "g", "name": name, "cat": "verdict", "pid": _JOB, "tid": _tid(None), "ts": at}
