"""Finds thousands of literals in a block of bytes in one pass: natively where a library for it is installed."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from slurmdoctor import usercache

_NAMES = {
    "hyperscan": "Hyperscan",
    "ahocorasick_rs": "ahocorasick-rs",
    "": "pure Python, slow on gigabytes: pip install ahocorasick-rs",
}


def available() -> str:
    """The module that will search; empty for the standard library alone."""
    from importlib.util import find_spec

    return next((name for name in ("hyperscan", "ahocorasick_rs") if find_spec(name) is not None), "")


def description() -> str:
    """What searches on this machine, for `--version`."""
    return _NAMES[available()]


class Engine:
    """A search for literals: where they end, or which they are."""

    ends: Callable[[bytes], Sequence[int]]
    """A block -> the offsets after all literals in it, rising; the same one twice where two literals end together."""
    which: Callable[[bytes], Sequence[int]]
    """A stretch of bytes -> the numbers of the literals in it."""


def engine_for(
    literals: Sequence[bytes], name: str | None = None
) -> tuple[Engine, Sequence[int], dict[int, list[int]]]:
    """(the engine, the literals that it searches for, those that each of these stands in).

    What contains another literal is found with it, and is not searched for.
    """
    name = available() if name is None else name
    key = hashlib.sha256(b"".join(b"%d:%s" % (len(x), x) for x in literals)).hexdigest()[:32]
    kept = usercache.get(f"{key}.literals") if len(literals) > _FEW else None
    searched, inner, database = _unpacked(kept)
    if not searched and literals:
        searched, inner = _nested(literals)
    chosen = [literals[number] for number in searched]
    if name == "hyperscan" and chosen:
        found = _Hyperscan(chosen, database)
        if found.fresh and len(literals) > _FEW:
            usercache.put(f"{key}.literals", marshal.dumps((list(searched), inner, found.database_bytes())))
        return found, searched, inner
    return (_Ahocorasick(chosen) if name == "ahocorasick_rs" and chosen else _Portable(chosen)), searched, inner


_FEW = 64
"""So few literals are compiled as fast as they are read from the cache."""


def _unpacked(kept: bytes | None) -> tuple[list[int], dict[int, list[int]], bytes]:
    if kept is not None:
        with suppress(ValueError, EOFError, TypeError):
            searched, inner, database = marshal.loads(kept)
            return searched, inner, database
    return [], {}, b""


def _nested(literals: Sequence[bytes]) -> tuple[list[int], dict[int, list[int]]]:
    """The literals that contain no other one, and for some of these those that contain it."""
    every = b"\0".join(literals)
    inside = [number for number, literal in enumerate(literals) if every.count(literal) > 1]
    inside.sort(key=lambda number: len(literals[number]))
    searched: list[int] = []
    outer: dict[int, list[int]] = {}
    for number, literal in enumerate(literals):
        within = (k for k in inside if len(literals[k]) < len(literal) and literals[k] in literal)
        shortest = next(within, None)
        if shortest is None:
            searched.append(number)
        else:
            outer.setdefault(shortest, []).append(number)
    return searched, outer


class _Hyperscan(Engine):
    def __init__(self, literals: Sequence[bytes], kept: bytes) -> None:
        import hyperscan

        self._hyperscan: Any = hyperscan
        self.fresh = False
        self._database = self._loaded(kept) if kept else None
        if self._database is None:
            self.fresh = True
            self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            numbers = list(range(len(literals)))
            self._database.compile(expressions=list(literals), ids=numbers, elements=len(literals), literal=True)
        self._scan = self._database.scan
        self.ends = self._ends
        self.which = self._which

    def _loaded(self, kept: bytes) -> Any:
        try:
            database = self._hyperscan.loadb(kept, self._hyperscan.HS_MODE_BLOCK)
            database.scratch = self._hyperscan.Scratch(database)
            return database
        except Exception:  # made on another kind of processor, or by another version of the library
            return None

    def database_bytes(self) -> bytes:
        return bytes(self._hyperscan.dumpb(self._database))

    def _ends(self, block: bytes) -> Sequence[int]:
        found: list[int] = []
        add = found.append

        # a call into Python for each hit is what the search costs most: it must only note the place
        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add(end)

        self._scan(block, match_event_handler=on_match)
        return found

    def _which(self, block: bytes) -> Sequence[int]:
        found: list[int] = []
        add = found.append

        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add(literal)

        self._scan(block, match_event_handler=on_match)
        return found


class _Ahocorasick(Engine):
    def __init__(self, literals: Sequence[bytes]) -> None:
        from ahocorasick_rs import BytesAhoCorasick

        find = BytesAhoCorasick(list(literals)).find_matches_as_indexes
        self.ends = lambda block: [end for _, _, end in find(block, overlapping=True)]
        self.which = lambda block: [literal for literal, _, _ in find(block, overlapping=True)]


class _Portable(Engine):
    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals
        self.ends = self._ends
        self.which = lambda block: [number for number, literal in enumerate(literals) if literal in block]

    def _ends(self, block: bytes) -> Sequence[int]:
        found: list[int] = []
        for literal in self._literals:
            at = block.find(literal)
            while at >= 0:
                found.append(at + len(literal))
                at = block.find(literal, at + 1)
        found.sort()
        return found
