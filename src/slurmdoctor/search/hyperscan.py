"""Searches with Hyperscan (extra `[hyperscan]`), where our own C was not compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hyperscan


class Hyperscan:
    """A compiled database of literals. `kept` is what `dump` gave an earlier process; `fresh` says that it was of no use."""

    def __init__(self, literals: Sequence[bytes], kept: bytes = b"") -> None:
        database = _loaded(kept) if kept else None
        self.fresh = database is None
        if database is None:
            database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
            numbers = list(range(len(literals)))
            database.compile(expressions=list(literals), ids=numbers, elements=len(literals), literal=True)
        self._database = database

    def dump(self) -> bytes:
        return bytes(hyperscan.dumpb(self._database))

    def ends(self, data: bytes, /) -> Sequence[int]:
        found: list[int] = []
        add = found.append

        # a call into Python for each hit is the largest cost of this search: it only notes the place
        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add(end)

        self._database.scan(data, match_event_handler=on_match)
        return found

    def which(self, data: bytes, /) -> Sequence[int]:
        found: list[int] = []
        add = found.append

        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add(literal)

        self._database.scan(data, match_event_handler=on_match)
        return found


def _loaded(kept: bytes) -> Any:
    try:
        database = hyperscan.loadb(kept, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
        return database
    except Exception:  # made on another kind of processor, or by another version of the library
        return None
