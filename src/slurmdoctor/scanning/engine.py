"""Finds thousands of literals in a block of bytes in one pass: natively where a library for it is installed."""

from __future__ import annotations

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
    """A search for words: where they end, or which they are."""

    ends: Callable[[bytes], Sequence[int]]
    """A block -> the offsets after all words in it, rising; the same one twice where two words end together."""
    which: Callable[[bytes], Sequence[int]]
    """A stretch of bytes -> the numbers of the words in it."""


def engine_for(literals: Sequence[bytes], name: str | None = None) -> tuple[Engine, list[bytes], list[list[int]]]:
    """(the engine, the words that it searches for, for each of them the numbers of the literals that may stand there).

    Searched are the beginnings of literals, cut where they are rarest in usual text; what contains another one is found
    with it, and is not searched for. So a literal may be in a line only if one of its words is; whoever gets a word
    must look for the literals themselves.
    """
    name = available() if name is None else name
    key = usercache.name_for(marshal.dumps([_VERSION, *literals], 2))
    kept = usercache.get(f"{key}.literals") if len(literals) > _FEW else None
    words, meant, database = _unpacked(kept)
    if not words and literals:
        words, meant = _words(literals)
    if name == "hyperscan" and words:
        found = _Hyperscan(words, database)
        if found.fresh and len(literals) > _FEW:
            usercache.put(f"{key}.literals", marshal.dumps((words, meant, found.database_bytes())))
        return found, words, meant
    return engine_of(words, name), words, meant


def engine_of(words: Sequence[bytes], name: str | None = None) -> Engine:
    """A search for these words."""
    name = available() if name is None else name
    if name == "hyperscan" and words:
        return _Hyperscan(words, b"")
    return _Ahocorasick(words) if name == "ahocorasick_rs" and words else _Portable(words)


_VERSION = b"words 2"
"""Part of the cache's key: to be changed with what is kept."""
_FEW = 64
"""So few literals are compiled as fast as they are read from the cache."""
_SHORTEST = 8
"""Bytes that are left of a literal at least."""
_TAIL = 9
"""Hyperscan sifts by a word's last eight bytes, and by how many words end alike: rare ends make it twice as fast."""


def _unpacked(kept: bytes | None) -> tuple[list[bytes], list[list[int]], bytes]:
    if kept is not None:
        with suppress(ValueError, EOFError, TypeError):
            words, meant, database = marshal.loads(kept)
            return words, meant, database
    return [], [], b""


def _words(literals: Sequence[bytes]) -> tuple[list[bytes], list[list[int]]]:
    """The words to search for, none of which contains another, and the literals that each of them may stand for."""
    begins = _beginnings(literals) if len(literals) > _FEW else list(literals)
    words: list[bytes] = []
    meant: list[list[int]] = []
    every = b"\0".join(set(literals))
    number_of: dict[bytes, int] = {}
    inside: list[bytes] = []
    for literal in sorted(range(len(literals)), key=lambda number: (len(begins[number]), number)):
        begin = begins[literal]
        word = begin if begin in number_of else next((short for short in inside if short in literals[literal]), begin)
        if word not in number_of:
            number_of[word] = len(words)
            words.append(word)
            meant.append([])
            if every.count(word) > 1:
                inside.append(word)
        meant[number_of[word]].append(literal)
    return words, meant


def _beginnings(literals: Sequence[bytes]) -> list[bytes]:
    """Each literal, cut behind bytes that are rare in usual text."""
    import math
    from collections import Counter

    from slurmdoctor.scanning.usual import TEXT

    pairs = Counter(TEXT[i : i + 2] for i in range(len(TEXT) - 1))
    weight = {pair: math.log(count + 1) for pair, count in pairs.items()}

    def common(word: bytes) -> float:
        tail = word[-_TAIL:]
        return sum(weight.get(tail[i : i + 2], 0.0) for i in range(len(tail) - 1))

    def best(literal: bytes) -> bytes:
        able = [literal[:end] for end in range(_SHORTEST, len(literal))]
        return min((literal, *(word for word in able if word not in TEXT)), key=common)

    return [best(literal) for literal in literals]


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
