"""Finds the rank that held up a collective, from what the watchdogs of the others print.

Formats: ProcessGroupNCCL.cpp of PyTorch 1.8 to 2.13. `[Rank 1]` inside a message is the rank within the process group;
the global rank stands in the line's label. StackDump-signal lines print the default group's numbers, whichever group timed out.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import CollectiveStatus, Line
from slurmdoctor.model.numbers import number
from slurmdoctor.search.shapes import Shaped, shape_of


class _Patterns(NamedTuple):
    group: Shaped
    timeout: Shaped
    status: Shaped
    work: Shaped


@cache
def _patterns() -> _Patterns:
    return _Patterns(*(Shaped(text(f"nccl-{name}").pattern) for name in _Patterns._fields))


_DUMP_SIGNAL = text("nccl-dump-signal")


def read(line: Line, order: int) -> CollectiveStatus | None:
    """One watchdog line; None where its global rank is not to be read, or it says nothing of a work."""
    rank = line.origin.rank
    if rank is None:
        return None
    patterns, shown, shape = _patterns(), line.text, shape_of(line.text)
    group = patterns.group.groups(shown, shape)
    name = (group.get("guid") or group["id"]) if group else None
    if group and group.get("name"):
        name = f"{name}({group['name']})"
    group_rank = number(group["rank"]) if group else None
    if (found := patterns.timeout.groups(shown, shape)) is not None:
        size = (number(found["numel_in"]), number(found["numel_out"])) if "numel_in" in found else None
        return CollectiveStatus(
            rank, name, group_rank, number(found["seq"]) if "seq" in found else None, found["op"], size, None, None, False,
            line.origin.time, order, number(found["timeout"]),
        )  # fmt: skip
    if (found := patterns.status.groups(shown, shape)) is not None:
        at = patterns.work.groups(shown, shape)
        return CollectiveStatus(
            rank, name, group_rank, number(at["seq"]) if at else None, None, None, number(found["enqueued"]), number(found["completed"]),
            _DUMP_SIGNAL.search(shown) is not None, line.origin.time, order, None,
        )  # fmt: skip
    return None
