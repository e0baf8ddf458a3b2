"""Finds thousands of literals in a block of bytes in one pass: in our own C, or natively where a library for it is installed."""

from __future__ import annotations

import marshal
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Protocol

from slurmdoctor.search import usercache, walk
from slurmdoctor.search.shapes import DIGITS

_NAMES = {
    "native": "compiled",
    "hyperscan": "Hyperscan; the compiled search is faster: install again where a C compiler and Python's headers are",
    "ahocorasick_rs": "ahocorasick-rs; the compiled search is faster: install again where a C compiler and Python's headers are",
    "": "pure Python, slow on gigabytes: pip install ahocorasick-rs",
}


def available() -> str:
    """What will search; empty for the standard library alone."""
    if walk.native is not None:
        return "native"
    return _library()


def _library() -> str:
    from importlib.util import find_spec

    return next((name for name in ("hyperscan", "ahocorasick_rs") if find_spec(name) is not None), "")


def description() -> str:
    """What searches on this machine, for `--version`."""
    return _NAMES[available()]


class Engine(Protocol):
    """A search for words: where they end, or which they are."""

    def ends(self, data: bytes, /) -> Sequence[int]:
        """The offsets after all words in the data, rising; the same one twice where two words end together."""

    def which(self, data: bytes, /) -> Sequence[int]:
        """The numbers of the words in the data."""


def engine_for(literals: Sequence[bytes], name: str | None = None) -> tuple[Engine, list[bytes], list[list[int]]]:
    """(the engine, the words that it searches for, for each of them the numbers of the literals that may stand there).

    What contains another literal is found with it, and is not searched for. Libraries are given the beginnings of
    literals, cut where they are rarest in usual text. So a literal may be in a line only if one of its words is; whoever
    gets a word must look for the literals themselves.
    """
    name = _able(literals, available() if name is None else name)
    many = len(literals) > _FEW
    file = ""
    if many and name in ("native", "hyperscan"):
        file = f"{usercache.name_for(marshal.dumps([_VERSION, name, *literals], 2))}.literals"
    kept = usercache.get(file) if file else None
    words, meant, made = _unpacked(kept)
    if not words and literals:
        words, meant = _words(literals, whole=name == "native" or not many)
    fresh = not made
    if name == "native":
        made = made or _offsets(words, _stride(words))
        engine: Engine = _native(words, made, _stride(words))
    elif name == "hyperscan":
        engine = found = _Hyperscan(words, made)
        fresh = found.fresh
        made = found.database_bytes() if file and fresh else made
    else:
        engine = engine_of(words, name)
    if file and fresh:
        usercache.put(file, marshal.dumps((words, meant, made)))
    return engine, words, meant


def engine_of(words: Sequence[bytes], name: str | None = None) -> Engine:
    """A search for these words."""
    name = _able(words, available() if name is None else name)
    if name == "native":
        return _native(words, _offsets(words, _stride(words)), _stride(words))
    if name == "hyperscan":
        return _Hyperscan(words, b"")
    return _Ahocorasick(words) if name == "ahocorasick_rs" else _Portable(words)


def engine_of_some(engine: Engine, words: Sequence[bytes], some: Sequence[int], name: str | None = None) -> Engine:
    """The same search for some of its words alone, by their numbers."""
    kept = [words[number] for number in some]
    if kept and walk.native is not None and isinstance(engine, walk.native.Search):
        # the stride may be too short for what is left, and is right for all
        return _native(kept, [engine.offset(number) for number in some], _stride(words))
    return engine_of(kept, name)


def _able(words: Sequence[bytes], name: str) -> str:
    """The engine itself, or the next one that can search for such words."""
    if not words:
        return ""
    if name == "native" and (walk.native is None or min(map(len, words)) < _GRAM):
        return _library()
    return name


_VERSION = b"words 6"
"""Part of the cache's key: to be changed with what is kept."""
_FEW = 64
"""So few literals are compiled as fast as they are read from the cache."""
_SHORTEST = 8
"""Bytes that are left of a literal at least."""
_TAIL = 9
"""Hyperscan sifts by a word's last eight bytes, and by how many words end alike: rare ends make it twice as fast."""


def _unpacked(kept: bytes | None) -> tuple[list[bytes], list[list[int]], Any]:
    if kept is not None:
        with suppress(ValueError, EOFError, TypeError):
            words, meant, made = marshal.loads(kept)
            return words, meant, made
    return [], [], b""


def _words(literals: Sequence[bytes], whole: bool) -> tuple[list[bytes], list[list[int]]]:
    """The words to search for, none of which contains another, and the literals that each of them may stand for."""
    begins = list(literals) if whole else _beginnings(literals)
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
    from slurmdoctor.search.usual import TEXT

    def common(word: bytes) -> float:
        return _commonness(word[-_TAIL:], 2)

    def best(literal: bytes) -> bytes:
        able = [literal[:end] for end in range(_SHORTEST, len(literal))]
        return min((literal, *(word for word in able if word not in TEXT)), key=common)

    return [best(literal) for literal in literals]


def _commonness(text: bytes, length: int) -> float:
    """How often usual text says what this says, in pieces of so many bytes."""
    weight, text = _weights(length), text.translate(DIGITS)
    return sum(weight.get(text[i : i + length], 0.0) for i in range(len(text) - length + 1))


@lru_cache(maxsize=2)
def _weights(length: int) -> dict[bytes, float]:
    from slurmdoctor.search.usual import TEXT

    usual = TEXT.translate(DIGITS)
    counts = Counter(usual[i : i + length] for i in range(len(usual) - length + 1))
    return {piece: math.log(count + 1) for piece, count in counts.items()}


# ── our own ──

_GRAM = 4
"""Bytes of a word that are looked for; `native/search.h` has the same number."""
_LONGEST_STRIDE = 2
"""Longer ones look at fewer places, but for more of each word: measured with 1,600 words, 3 is a third slower."""


def _native(words: Sequence[bytes], offsets: Sequence[int], stride: int) -> Engine:
    assert walk.native is not None
    found: Engine = walk.native.Search(list(words), list(offsets), stride)
    return found


def _stride(words: Sequence[bytes]) -> int:
    """In steps of so many bytes, no word is missed."""
    return min(_LONGEST_STRIDE, min(map(len, words)) - _GRAM + 1)


def _offsets(words: Sequence[bytes], stride: int) -> list[int]:
    """Where each word says what usual text does not."""
    window = stride + _GRAM - 1

    def common(piece: bytes) -> tuple[float, float]:
        return _commonness(piece, _GRAM), _commonness(piece, 2)  # most are new to it as a whole: then by their pairs

    def best(word: bytes) -> int:
        return min(range(len(word) - window + 1), key=lambda at: common(word[at : at + window]))

    return [best(word) for word in words]


# ── libraries, and none ──


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

    def _loaded(self, kept: bytes) -> Any:
        try:
            database = self._hyperscan.loadb(kept, self._hyperscan.HS_MODE_BLOCK)
            database.scratch = self._hyperscan.Scratch(database)
            return database
        except Exception:  # made on another kind of processor, or by another version of the library
            return None

    def database_bytes(self) -> bytes:
        return bytes(self._hyperscan.dumpb(self._database))

    def ends(self, data: bytes, /) -> Sequence[int]:
        found: list[int] = []
        add = found.append

        # a call into Python for each hit is what the search costs most: it must only note the place
        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add(end)

        self._scan(data, match_event_handler=on_match)
        return found

    def which(self, data: bytes, /) -> Sequence[int]:
        found: list[int] = []
        add = found.append

        def on_match(literal: int, start: int, end: int, flags: int, context: object) -> None:
            add(literal)

        self._scan(data, match_event_handler=on_match)
        return found


class _Ahocorasick(Engine):
    def __init__(self, literals: Sequence[bytes]) -> None:
        from ahocorasick_rs import BytesAhoCorasick

        self._find = BytesAhoCorasick(list(literals)).find_matches_as_indexes

    def ends(self, data: bytes, /) -> Sequence[int]:
        return [end for _, _, end in self._find(data, overlapping=True)]

    def which(self, data: bytes, /) -> Sequence[int]:
        return [literal for literal, _, _ in self._find(data, overlapping=True)]


class _Portable(Engine):
    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals

    def ends(self, data: bytes, /) -> Sequence[int]:
        found: list[int] = []
        for literal in self._literals:
            at = data.find(literal)
            while at >= 0:
                found.append(at + len(literal))
                at = data.find(literal, at + 1)
        found.sort()
        return found

    def which(self, data: bytes, /) -> Sequence[int]:
        return [number for number, literal in enumerate(self._literals) if literal in data]
