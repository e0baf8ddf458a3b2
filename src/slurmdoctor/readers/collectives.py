"""Reads what watchdogs say of a collective, and whose watchdog printed it.

Formats: ProcessGroupNCCL.cpp of PyTorch 1.8 to 2.13. `[Rank 1]` inside a message is the rank within the process group;
the global rank is in the line's label. Dump-signal lines print the default group's numbers, whichever group timed out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from msgspec.structs import replace

from slurmdoctor.knowledge import literals, text
from slurmdoctor.model import CollectiveStatus, Line, RankMap, number
from slurmdoctor.ranks import Place
from slurmdoctor.search import Shaped, shape_of


@cache
def shaped(name: str) -> Shaped:
    """The text of this name, searched once for all lines that differ in digits only."""
    return Shaped(text(name).pattern)


_DUMP_SIGNAL = text("nccl-dump-signal")
_GATHER = text("gather-op")
_SCATTER = text("scatter-op")
_ONE_PROCESS = 1024
"""A watchdog that reports several works reports those that stand in a row; numbers farther apart are two processes'."""


_KINDS = ("nccl-timeout", "fingerprint", "nccl-status")


def sought() -> Iterator[bytes]:
    """What the search looks for."""
    return (literal for kind in _KINDS for literal in literals(kind))


def watchdog_kind(line: bytes) -> str:
    """What a line of these tells, by its text: lines of each kind are kept apart."""
    return next(kind for kind in _KINDS if any(literal in line for literal in literals(kind)))


Read = tuple[Line, CollectiveStatus]
"""A watchdog's line, and what it says; its rank is not resolved yet."""


def read_collective(line: Line) -> Read | None:
    """One watchdog line; None where it says nothing of a work."""
    shape = shape_of(line.text)

    def read(name: str) -> Mapping[str, str]:
        return shaped(name).groups(line.text, shape) or {}

    timed_out = read("nccl-timeout")
    entered = {} if timed_out else read("fingerprint")
    last = {} if timed_out or entered else read("nccl-status")
    found = timed_out or entered or last
    if not found:
        return None
    group = read("nccl-group")
    name = group.get("guid") or group.get("id")
    size = (number(found["numel_in"]), number(found["numel_out"])) if "numel_in" in found else None
    signal = _DUMP_SIGNAL.search(line.text) if last else None
    status = CollectiveStatus(
        -1,
        f"{name}({group['name']})" if group.get("name") else name,
        _number(group, "rank") if group else _number(found, "group_rank"),
        line.origin.time,
        line.order,
        _number(read("nccl-work") if last else found, "seq"),
        timed_out.get("op"),
        size,
        _group_size(timed_out.get("op", ""), size),
        _number(found, "enqueued"),
        _number(found, "completed"),
        signal is not None,
        entered.get("op"),
        number(signal["from_rank"]) if signal and signal["from_rank"] else None,
        _number(found, "timeout"),
        _number(found, "ran"),
        line.source,
    )
    return line, status


def _number(found: Mapping[str, str], name: str) -> int | None:
    return number(found[name]) if name in found else None


def _group_size(op: str, size: tuple[int, int] | None) -> int | None:
    """How many ranks a group has, by a collective that gathers from each of them, or scatters to each."""
    if size is None or 0 in size:
        return None
    small, large = size if _GATHER.match(op) else size[::-1] if _SCATTER.match(op) else (1, 1)
    return large // small if large > small and large % small == 0 else None


def place_collectives(found: Sequence[Read], maps: RankMap) -> tuple[list[CollectiveStatus], Mapping[Place, int]]:
    """Each status with its global rank, and the ranks of the lines that only `[Rank N]` tells.

    What stays without a rank is left out.
    """
    known = [(line, status, maps.resolve(line.origin, line.source)[0].rank) for line, status in found]
    trusted = _count_in_the_job([(one, rank) for _, one, rank in known if not (one.dump or one.entered)], maps)
    placed: list[CollectiveStatus] = []
    by_message: dict[Place, int] = {}
    for line, status, rank in known:
        if rank is None and trusted and status.group_rank is not None:
            rank = by_message[line.place] = status.group_rank
        if rank is not None:
            placed.append(replace(status, rank=rank))
    return placed, by_message


def _count_in_the_job(known: Sequence[tuple[CollectiveStatus, int | None]], maps: RankMap) -> bool:
    """Whether `[Rank N]` is the global rank: nothing shows a process group that is smaller than the job."""
    numbers: dict[int, tuple[int, int]] = {}
    ran: dict[tuple[int, int | None, str | None], int] = {}
    for status, rank in known:
        within = status.group_rank
        if within is None:
            continue
        if rank not in (None, within) or (rank is None and not _is_default(status.group)):
            return False
        if within >= min(maps.world_size or within + 1, status.group_size or within + 1):
            return False
        if status.group_size and maps.world_size and status.group_size < maps.world_size:
            return False
        if status.seq is not None:
            low, high = numbers.get(within, (status.seq, status.seq))
            low, high = numbers[within] = min(low, status.seq), max(high, status.seq)
            if high - low > _ONE_PROCESS:
                return False
        work = (within, status.seq, status.op)
        if (
            status.ran_ms is not None
            and status.seq is not None
            and ran.setdefault(work, status.ran_ms) != status.ran_ms
        ):
            return False
    return True


def _is_default(group: str | None) -> bool:
    return group is None or group.partition("(")[0] == "0"
