"""Lists of numbers and nodes as Slurm writes them: `0-3,7` and `cn[01-03]`."""

from __future__ import annotations

import re
from functools import cache, lru_cache

MOST_TASKS = 65_536
"""No job of GPUs has more; a task with a higher number is a slip of the pen or of somebody's hand."""


@cache
def _numbers() -> tuple[int, ...]:
    return tuple(range(MOST_TASKS))


@lru_cache(maxsize=8)  # the same few lists again and again; each may be long
def expand(tasks: str) -> tuple[int, ...]:
    """Slurm's task list: `0-3,7` -> 0 1 2 3 7. Unreadable pieces are left out."""
    found: list[int] = []
    for piece in tasks.split(","):
        low, _, high = piece.strip().partition("-")
        if low.isdigit() and (not high or high.isdigit()) and max(len(low), len(high)) <= 6:
            found += _numbers()[int(low) : int(high or low) + 1]
    return tuple(found)


def ranges(numbers: list[int] | tuple[int, ...]) -> str:
    """The reverse of `expand`: 0 1 2 3 7 -> `0-3,7`."""
    ordered = sorted(set(numbers))
    pieces: list[str] = []
    start = 0
    for i, number in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != number + 1:
            pieces.append(str(number) if start == i else f"{ordered[start]}-{number}")
            start = i + 1
    return ",".join(pieces)


def expand_nodes(names: str) -> list[str]:
    """Slurm's host list: `cn[01-03],gpu7` -> cn01 cn02 cn03 gpu7."""
    found: list[str] = []
    for name in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)?", names):
        bracket = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", name)
        if not bracket:
            found.append(name)
            continue
        for piece in bracket[2].split(","):
            low, _, high = piece.partition("-")
            if low.isdigit() and (not high or high.isdigit()):
                for number in range(int(low), min(int(high or low), int(low) + 10_000) + 1):
                    found.append(f"{bracket[1]}{number:0{len(low)}d}{bracket[3]}")
    return found
