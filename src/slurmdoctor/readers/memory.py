"""Reads what the log shows of each GPU's memory: in each rank's last step, and in the reports that trainers print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.model import GPU_MEMORY, MemoryReading, Progress, SignalHit, gib, number
from slurmdoctor.ranks import Lines

_STEP = text("memory")
_PLACE = text("memory-place")
_MOST = 64
"""Steps at the log's end that are read for it."""


def find_memory(steps: Sequence[Progress], signals: Sequence[SignalHit], lines: Lines) -> tuple[MemoryReading, ...]:
    """Each rank's last step that shows it, and all reports."""
    last: dict[Any, MemoryReading] = {}
    before: dict[Any, float | None] = {}
    for step in reversed(steps[-_MOST:]):
        shown = lines.at(step.source, step.offset).text
        if found := _STEP.search(shown):
            place = _PLACE.search(shown) if step.rank is None else None
            gpu = (number(place["node"]), number(place["gpu"])) if place else None
            reading = _reading(step.rank, step.step, step.order, found.groupdict())
            last.setdefault(gpu or step.rank, replace(reading, gpu=gpu))
            before[gpu or step.rank] = reading.used
    read = (replace(reading, before=before[key]) for key, reading in last.items())
    return tuple(sorted([*read, *_reports(signals)], key=lambda reading: reading.order))


def _reports(signals: Sequence[SignalHit]) -> Iterator[MemoryReading]:
    for hit in signals:
        if hit.signal.kind == "fact" and hit.signal.id.partition("/")[0] == GPU_MEMORY:
            said = hit.captures
            rank = number(said["memory_rank"]) if said.get("memory_rank") else hit.line.origin.rank
            step = number(said["memory_step"]) if said.get("memory_step") else None
            yield _reading(rank, step, hit.order, said)


def _reading(rank: int | None, step: int | None, order: int, said: Mapping[str, str | None]) -> MemoryReading:
    """A reading of these groups; a size without a unit has that of the total, or the one that ends its group's name."""
    total_unit = (said.get("total") or "").lstrip("0123456789. ")
    sizes = {
        name: gib(value) if value[-1:].isalpha() else gib(f"{value}{total_unit}")
        for name in ("used", "total", "peak")
        if (value := said.get(name))
    }
    for unit in ("MiB", "GiB"):
        for name in ("used", "peak"):
            if value := said.get(f"{name}_{unit.lower()}"):
                sizes[name] = gib(f"{value} {unit}")
    share = said.get("share")
    used = sizes.get("used")
    if share and used and "total" not in sizes and float(share) > 0:
        sizes["total"] = used / float(share) * 100
    return MemoryReading(
        rank, step, said.get("memory") or "", order, sizes.get("used"), sizes.get("total"), sizes.get("peak")
    )
