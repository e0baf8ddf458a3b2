"""Finds thousands of literals in a block of bytes in one pass: natively where a library for it is installed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from slurmdoctor import usercache

Hits = Sequence[tuple[int, int]]
"""(offset after the literal, the literal's number), in the order of the offsets."""
Search = Callable[[bytes], Hits]

_NAMES = {
    "hyperscan": "Hyperscan",
    "ahocorasick_rs": "ahocorasick-rs (two to three times slower than Hyperscan on gigabytes)",
    "": "pure Python (slow on gigabytes: pip install ahocorasick-rs)",
}


def available() -> str:
    """The module that will search; empty for the standard library alone."""
    from importlib.util import find_spec

    return next((name for name in ("hyperscan", "ahocorasick_rs") if find_spec(name) is not None), "")


def description() -> str:
    """What searches on this machine, for `--version`."""
    return _NAMES[available()]


def search_for(literals: Sequence[bytes], engine: str | None = None) -> Search:
    """A function that finds all places of all literals in a block, also those that overlap."""
    engines = {"hyperscan": _hyperscan, "ahocorasick_rs": _ahocorasick, "": _portable}
    if not literals:
        return lambda block: ()
    return engines[available() if engine is None else engine](literals)


def _hyperscan(literals: Sequence[bytes]) -> Search:
    import hyperscan

    database = _database(hyperscan, literals)
    scan = database.scan

    def search(block: bytes) -> Hits:
        found: list[tuple[int, int]] = []
        add = found.append

        # a call into Python a hit is the search's greatest cost: it must only note the hit
        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add((end, literal))

        scan(block, match_event_handler=on_match)
        return found

    return search


def _database(hyperscan: Any, literals: Sequence[bytes]) -> Any:
    """The compiled literals, from the user's cache where they are there: compiling takes longer than reading a paste."""
    key = hashlib.sha256(b"\0".join([hyperscan.__version__.encode(), *(b"%d:%s" % (len(x), x) for x in literals)]))
    name = f"{key.hexdigest()[:32]}.literals"
    if (kept := usercache.get(name)) is not None:
        try:
            database = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
            database.scratch = hyperscan.Scratch(database)
            return database
        except Exception:  # made on another kind of processor, or by another version of the library
            pass
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=list(literals), ids=list(range(len(literals))), elements=len(literals), literal=True)
    usercache.put(name, hyperscan.dumpb(database))
    return database


def _ahocorasick(literals: Sequence[bytes]) -> Search:
    from ahocorasick_rs import BytesAhoCorasick

    find = BytesAhoCorasick(list(literals)).find_matches_as_indexes

    def search(block: bytes) -> Hits:
        return [(end, literal) for literal, _, end in find(block, overlapping=True)]

    return search


def _portable(literals: Sequence[bytes]) -> Search:
    def search(block: bytes) -> Hits:
        found: list[tuple[int, int]] = []
        for number, literal in enumerate(literals):
            at = block.find(literal)
            while at >= 0:
                found.append((at + len(literal), number))
                at = block.find(literal, at + 1)
        found.sort()
        return found

    return search
