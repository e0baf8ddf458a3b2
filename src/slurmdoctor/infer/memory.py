"""What the log shows of the memory of the GPU that ran out: of its own rank, else the peak of another. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.model import MemoryReading

_ALIKE = 0.9
"""The least share of the fullest GPU's memory that each of them uses where all stood alike."""


def memory_facts(rank: int | None, readings: Sequence[MemoryReading], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The failing rank's last reading and its peak. Another rank's says nothing of this one, unless all GPUs stood alike."""
    alone = facts.get("world_size") in (None, 1)
    own = [r for r in readings if _rank_of(r, facts) == rank and (rank is not None or (alone and r.gpu is None))]
    used = [reading.used or 0 for reading in readings if reading.rank is None]
    alike = len(used) == len(readings) > 0 and min(used) >= _ALIKE * max(used)
    return _shown(own or (readings if alike else ()), readings) | (
        {"memory_elsewhere": True} if alike and not own else {}
    )


def _rank_of(reading: MemoryReading, facts: Mapping[str, Any]) -> int | None:
    """The rank that a reading is about, also where its line names node and GPU."""
    each, world, nodes = (facts.get(name) for name in ("gpus_per_node", "world_size", "nodes"))
    if each is None and isinstance(world, int) and isinstance(nodes, int):
        each = world // nodes
    if reading.gpu is None or not isinstance(each, int):
        return reading.rank
    return reading.gpu[0] * each + reading.gpu[1]


def _shown(own: Sequence[MemoryReading], readings: Sequence[MemoryReading]) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if last := next((reading for reading in reversed(own) if reading.used and reading.text), None):
        facts |= {"memory": last.text, "memory_gib": last.used, "memory_of_gib": last.total, "memory_step": last.step}
        facts["memory_before_gib"] = last.before
    peaks = [reading for reading in own if reading.peak]
    others = [reading for reading in readings if reading.peak and reading.rank is not None]
    if peaks:
        facts["peak_gib"] = max(reading.peak or 0.0 for reading in peaks)
    elif others:
        most = max(others, key=lambda reading: reading.peak or 0.0)
        facts |= {"other_peak_gib": most.peak, "peak_rank": most.rank}
    found = {name: value for name, value in facts.items() if value is not None}
    return {name: round(value, 1) if isinstance(value, float) else value for name, value in found.items()}
