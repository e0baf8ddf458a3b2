"""Whether all GPUs of the job take part: the processes that the program counts, against those that the job was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurmdoctor.model import Reason, reason


def launch_notes(facts: Mapping[str, Any]) -> tuple[Reason, ...]:
    """A note where the log's world size is a part of the GPUs that its batch script counted, or of nodes times GPUs per node."""
    world, total = facts.get("told_world"), facts.get("total_gpus")
    nodes, gpus = facts.get("nodes"), facts.get("gpus_per_node")
    if not isinstance(total, int) and world == 1 and isinstance(nodes, int) and isinstance(gpus, int):
        total = (
            nodes * gpus
        )  # who sets no total may use a part of the GPUs on purpose, but hardly one of several nodes' each
    if not isinstance(world, int) or not isinstance(total, int) or not 0 < world < total or total % world:
        return ()
    return (reason("launch-size", world=world, total=total, nodes=nodes if isinstance(nodes, int) else None),)
