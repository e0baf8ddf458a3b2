"""Jobs that wait, the biggest first, and the chunks in which they go to the workers."""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Sequence

from msgspec import Struct

from slurmdoctor.survey.rows import Item

_JOBS = 200
_FEW, _MANY = 5_000_000, 64_000_000
"""Bytes of a chunk. Only the rows of whole chunks are written, so a crash costs those that are read: some seconds of work,"""
_EACH = 64_000
"""and more of them for each worker: the chunks of a thousand do not come faster than one process takes them."""
_SHARES = 4
"""A chunk is at most such a part of what waits for a worker: at the end, all are busy."""


class Chunk(Struct, frozen=True):
    """What one task of an executor does. Jobs wait and travel packed, in a tenth of the room."""

    packed: tuple[bytes, ...]
    size: int
    """Bytes of their logs."""
    trial: int = 0
    """How often a worker died with it: 0 for a chunk, then for a job of its own."""

    @property
    def items(self) -> list[Item]:
        return [pickle.loads(one) for one in self.packed]


class Waiting:
    """The jobs that wait. `pop` gives the next chunk."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, bytes]] = []
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, item: Item) -> None:
        self._count += 1
        self._bytes += item.size
        heapq.heappush(self._heap, (-item.size, self._count, pickle.dumps(item, pickle.HIGHEST_PROTOCOL)))

    def pop(self, workers: int) -> Chunk:
        """The biggest job that waits, and those after it, up to so many jobs and bytes."""
        most = min(_JOBS, max(1, len(self._heap) // (workers * _SHARES)))
        largest = min(max(_FEW, workers * _EACH), _MANY, self._bytes // (workers * _SHARES))
        packed: list[bytes] = []
        size = 0
        while self._heap and (not packed or (len(packed) < most and size - self._heap[0][0] <= largest)):
            negative, _, one = heapq.heappop(self._heap)
            packed.append(one)
            size -= negative
        self._bytes -= size
        return Chunk(tuple(packed), size)


def one_by_one(chunk: Chunk) -> Sequence[Chunk]:
    """Each job of a chunk whose worker died as one of its own."""
    sizes = [item.size for item in chunk.items]
    return [Chunk((one,), size, chunk.trial + 1) for one, size in zip(chunk.packed, sizes, strict=True)]
