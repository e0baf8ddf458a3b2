"""Finds the rank that held up a collective, from what the watchdogs of the others print.

Formats: ProcessGroupNCCL.cpp of PyTorch 1.8 to 2.13. `[Rank 1]` inside a message is the rank within the process group;
the global rank stands in the line's label. StackDump-signal lines print the default group's numbers, whichever group timed out.
"""

from __future__ import annotations

from slurmdoctor.model import CollectiveStatus, Line
from slurmdoctor.search.shapes import Shaped, shape_of

LITERALS = (b"Watchdog caught collective operation timeout", b"last enqueued ", b"Last enqueued ")

_GROUP = Shaped(
    r"\[PG (?:ID )?(?P<id>\d+)(?: PG GUID (?P<guid>[^\s(\]]+))?(?:\((?P<name>[^)]*)\))? Rank (?P<rank>\d+)\]"
)
_TIMEOUT = Shaped(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?(?:, TensorShape=\[(?P<shape>[^\]]*)\])?, Timeout\(ms\)=(?P<timeout>\d+)\)"
    r"(?: ran for (?P<ran>\d+) milliseconds)?"
)
_STATUS = Shaped(
    r"(?P<dump>dump signal)?.{0,300}?(?:[Tt]imeout at NCCL work: |detected by watchdog at work: |at work sequence id: )?(?P<seq>\d+)?"
    r"[^\d]{0,40}[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)
_AT = Shaped(r"(?:imeout at NCCL work: |detected by watchdog at work: |at work sequence id: )(?P<seq>\d+)")


def read(line: Line, order: int) -> CollectiveStatus | None:
    """One watchdog line; None where its global rank is not to be read, or it says nothing of a work."""
    rank = line.origin.rank
    if rank is None:
        return None
    text, shape = line.text, shape_of(line.text)
    group = _GROUP.groups(text, shape)
    name = (group.get("guid") or group["id"]) if group else None
    if group and group.get("name"):
        name = f"{name}({group['name']})"
    group_rank = int(group["rank"]) if group else None
    if (found := _TIMEOUT.groups(text, shape)) is not None:
        size = (int(found["numel_in"]), int(found["numel_out"])) if "numel_in" in found else None
        return CollectiveStatus(
            rank, name, group_rank, int(found["seq"]) if "seq" in found else None, found["op"], size, None, None, False,
            line.origin.time, order, int(found["timeout"]),
        )  # fmt: skip
    if (found := _STATUS.groups(text, shape)) is not None:
        at = _AT.groups(text, shape)
        return CollectiveStatus(
            rank, name, group_rank, int(at["seq"]) if at else None, None, None, int(found["enqueued"]), int(found["completed"]),
            "dump signal" in text, line.origin.time, order, None,
        )  # fmt: skip
    return None
