"""Events, exit reports and timelines made by hand: what inference is given, without a log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slurmdoctor.infer.case import Case
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import (
    Event,
    ExitReport,
    Finding,
    Hit,
    Incident,
    Line,
    Observations,
    Order,
    Origin,
    RankMap,
    Timeline,
    from_code,
)

KNOWLEDGE = load([builtin()])


def event(cause: str, rank: int | None = None, at: float | None = None, order: int = 0, **more: Any) -> Event:
    """One event: of `rank`, at the second `at`, at byte `order`; its role is the cause's own."""
    source, node = more.pop("source", 0), more.pop("node", None)
    role = more.pop("role", KNOWLEDGE.causes[cause].role)
    rule = more.pop("rule", f"{cause}/made")
    origin = Origin(rank=rank, node=node, time=at, dated=at is not None, local_rank=more.pop("local_rank", None))
    text = f"{cause} at {order}"
    return Event(cause, role, rule, origin, Hit(source, order, text, text), order, **more)


def incident(cause: str, rank: int | None = None, at: float | None = None, order: int = 0, **more: Any) -> Incident:
    """An incident of one event."""
    report = more.pop("report", None)
    main = event(cause, rank, at, order, **more)
    return Incident(main, (main,), report)


def line(text: str = "", source: int = 0, offset: int = 0, origin: Origin | None = None, label: bytes = b"") -> Line:
    return Line(source, offset, offset + len(text) + 1, text, text, origin or Origin(), label)


def report(code: int, *ranks: int, order: int = 0, at: float | None = None, **more: Any) -> ExitReport:
    """An exit report about these ranks."""
    witness = more.pop("witness", "srun")
    printed = more.pop("line", None) or line(f"exit {code}", more.pop("source", 0), order)
    return ExitReport(printed, witness, from_code(code), ranks=ranks, order=order, time=at, **more)


def timeline(
    incidents: Sequence[Incident] = (), reports: Sequence[ExitReport] = (), order: Order = "timestamps", **more: Any
) -> Timeline:
    """The timeline of these incidents; without stamps they are in the file's order."""
    events = [e for i in incidents for e in i.events] + list(more.pop("events", ()))
    keys = {e.order: ((e.origin.time or 0.0) if order == "timestamps" else 0.0, e.order) for e in events}
    events.sort(key=lambda e: keys[e.order])
    return Timeline(tuple(events), tuple(reports), order=order, keys=keys, **more)


def failed(root: Incident | None, **more: Any) -> Finding:
    """A finding with its root chosen."""
    cause = more.pop("cause", root.cause if root is not None else None)
    return Finding("failed", root, cause, **more)


def observed(rank_map: RankMap | None = None, **more: Any) -> Observations:
    return Observations(
        (), more.pop("reports", ()), more.pop("collectives", ()), more.pop("signals", ()), rank_map or RankMap(), **more
    )


def case(log: Timeline | None = None, seen: Observations | None = None) -> Case:
    return Case(log or timeline(), seen or observed(), KNOWLEDGE)
