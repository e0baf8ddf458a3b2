"""Lists of numbers and nodes as Slurm writes them: `0-3,7` and `cn[01-03]`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

_NUMBERED = re.compile(r"(?!\d+(?:\.\d+){3}$)(.*?)(\d{1,9})((?:\.[a-zA-Z][^\[\]]*)?)")
"""A node's name with its number, and its domain; an address has none."""
MOST_TASKS = 65_536
"""No job of GPUs has more; a task with a higher number is a slip of the pen or of somebody's hand."""


@cache
def _numbers() -> tuple[int, ...]:
    return tuple(range(MOST_TASKS))


@lru_cache(maxsize=8)  # the same few lists again and again; each may be long
def expand(tasks: str) -> tuple[int, ...]:
    """Slurm's task list: `0-3,7` -> 0 1 2 3 7. Unreadable pieces are left out."""
    pieces = map(str.strip, tasks.split(","))
    return tuple(number for low, high in spans(pieces, 6) for number in _numbers()[int(low) : int(high) + 1])


def spans(pieces: Iterable[str], digits: int = 15) -> Iterator[tuple[str, str]]:
    """The first and the last number of each piece: `25-27` and `31`. Numbers of more digits, and what is none, are left out."""
    piece_form = re.compile(rf"(\d{{1,{digits}}})(?:-(\d{{0,{digits}}}))?")
    for piece in pieces:
        if found := piece_form.fullmatch(piece):
            yield found[1], found[2] or found[1]


SHORT = 8
"""Pieces of a list of ranks that a sentence has room for."""


def ranges(numbers: Iterable[int], most: int | None = None) -> str:
    """The reverse of `expand`: 0 1 2 3 7 -> `0-3,7`; of more than `most` pieces the first, `0,2,4 and 76 more`."""
    ordered = sorted(set(numbers))
    pieces: list[str] = []
    start = 0
    for i, number in enumerate(ordered):
        if i + 1 == len(ordered) or ordered[i + 1] != number + 1:
            pieces.append(str(number) if start == i else f"{ordered[start]}-{number}")
            start = i + 1
            if most is not None and len(pieces) == most and start < len(ordered):
                return f"{','.join(pieces)} and {len(ordered) - start:,} more"
    return ",".join(pieces)


def expand_nodes(names: str) -> list[str]:
    """Slurm's host list: `cn[01-03],gpu7` -> cn01 cn02 cn03 gpu7."""
    found: list[str] = []
    for name in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)?", names):
        bracket = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", name)
        if not bracket:
            found.append(name)
            continue
        for low, high in spans(bracket[2].split(",")):
            for number in range(int(low), min(int(high), int(low) + 10_000) + 1):
                found.append(f"{bracket[1]}{number:0{len(low)}d}{bracket[3]}")
    return found


def fold_nodes(names: Iterable[str]) -> str:
    """The reverse of `expand_nodes`: cn01 cn02 cn03 gpu7 -> `cn[01-03],gpu7`, which Slurm's commands take."""
    found = {name: _NUMBERED.fullmatch(name) for name in names}
    padded = {(m[1], m[3]) for m in found.values() if m and m[2][0] == "0" < m[2]}
    alike: dict[tuple[str, str, int], list[int]] = {}
    for name, m in found.items():
        if m is None:
            alike[name, "", 0] = []
        else:
            width = len(m[2]) if (m[1], m[3]) in padded else 0
            alike.setdefault((m[1], m[3], width), []).append(int(m[2]))
    pieces = []
    for (head, tail, width), numbers in alike.items():
        parts = (piece.split("-") for piece in ranges(numbers).split(",") if piece)
        listed = ",".join("-".join(number.zfill(width) for number in part) for part in parts)
        pieces.append(f"{head}[{listed}]{tail}" if len(numbers) > 1 else f"{head}{listed}{tail}")
    return ",".join(pieces)
