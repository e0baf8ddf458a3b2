"""Searches a block of bytes for thousands of literals at once: in C where that was compiled, else in plain Python. Both find the same.

The rules have some 2,500 literals, and the cost of a search is the number of places that it has to look at twice. So

- a literal that contains another one is not searched for: `CUDA out of memory. Tried` is found where `CUDA out of memory` is. What is
  searched for is a *word*, which may stand for several literals;
- of each word a window of four or five bytes is looked for, the one that is rarest in what jobs print all the time (`usual.txt`): of
  `RuntimeError: NCCL` not `Runt` but `: NC`.

Limits: a word only says that its literals may stand there. Whoever gets one must look for the literals themselves.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Protocol

from msgspec import DecodeError, msgpack

from slurmdoctor.matching import usercache

_INTERFACE = 3
native: ModuleType | None = None
"""The part that is written in C (`native/`); None where it was not compiled, or from another version's source."""
with suppress(ImportError):
    _native = import_module("slurmdoctor.search._native")
    if getattr(_native, "INTERFACE", 0) == _INTERFACE:
        native = _native

WINDOW = 4
"""Bytes that the compiled search compares at once; `native/search.h` has the same number. It is for words that are as long."""
_LONGEST_STRIDE = 2
"""A longer stride looks at fewer places, but for more of each word: measured with 1,600 words, 3 is a third slower."""
_VERSION = b"words 9"
"""Part of the cache's key: to be changed with what is kept."""
_FEW = 64
"""So few literals are compiled as fast as they are read from the cache."""
DIGITS = bytes.maketrans(b"123456789", b"000000000")
"""For bytes.translate: makes all digits one."""


def in_c() -> ModuleType | None:
    """The part that is written in C; None where it was not compiled."""
    return native


class Engine(Protocol):
    """A search for words: where they end, or which they are."""

    def ends(self, data: bytes, /) -> Sequence[int]:
        """The offsets after all words in the data, rising; the same one twice where two words end together."""

    def which(self, data: bytes, /) -> Sequence[int]:
        """The numbers of the words in the data."""


def description() -> str:
    """What searches here, and how to get a faster one, for `slurmdoctor --version`."""
    if native is not None:
        return "compiled C"
    return "plain Python; some 600 times as fast on gigabytes: install slurmdoctor again with a C compiler and Python's headers"


def engine_for(literals: Sequence[bytes]) -> tuple[Engine, list[bytes], list[list[int]]]:
    """(the engine, the words that it searches for, for each word the numbers of the literals that it may stand for).

    What is slow to make is kept in the user's cache.
    """
    if len(literals) <= _FEW:
        words, meant = choose(literals)
        return engine_of(words), words, meant
    file = f"{usercache.name_for(msgpack.encode([_VERSION, *literals]))}.literals"
    with suppress(DecodeError, ValueError):
        kept = msgpack.decode(usercache.get(file) or b"", type=tuple[list[bytes], list[list[int]], list[int]])
        return engine_of(kept[0], kept[2]), kept[0], kept[1]
    words, meant = choose(literals)
    offsets = rarest_windows(words)
    usercache.put(file, msgpack.encode((words, meant, offsets)))
    return engine_of(words, offsets), words, meant


def engine_of(words: Sequence[bytes], offsets: Sequence[int] = ()) -> Engine:
    """A search for these words; `offsets` are their rarest windows, where those are known."""
    if native is None or min(map(len, words), default=0) < WINDOW:
        return Portable(words)
    made: Engine = native.Search(list(words), list(offsets or rarest_windows(words)), stride(words))
    return made


class Portable(Engine):
    """One `find` after the other: right for a paste, slow for a gigabyte."""

    def __init__(self, words: Sequence[bytes]) -> None:
        self._words = words

    def ends(self, data: bytes, /) -> Sequence[int]:
        found: list[int] = []
        for word in self._words:
            at = data.find(word)
            while at >= 0:
                found.append(at + len(word))
                at = data.find(word, at + 1)
        found.sort()
        return found

    def which(self, data: bytes, /) -> Sequence[int]:
        return [number for number, word in enumerate(self._words) if word in data]


# ── which words, and which of their bytes ────────────────────────────────────────────────────


def choose(literals: Sequence[bytes]) -> tuple[list[bytes], list[list[int]]]:
    """(words, for each word the numbers of the literals that it may stand for); no word contains another."""
    words: list[bytes] = []
    meant: list[list[int]] = []
    every = b"\0".join(set(literals))
    number_of: dict[bytes, int] = {}
    inside: list[bytes] = []
    """The words that stand in other literals, too."""
    for number in sorted(range(len(literals)), key=lambda number: (len(literals[number]), number)):
        literal = literals[number]
        word = literal if literal in number_of else next((short for short in inside if short in literal), literal)
        if word not in number_of:
            number_of[word] = len(words)
            words.append(word)
            meant.append([])
            if every.count(word) > 1:
                inside.append(word)
        meant[number_of[word]].append(number)
    return words, meant


def stride(words: Sequence[bytes]) -> int:
    """The number of bytes that the compiled search may step without missing a word."""
    return min(_LONGEST_STRIDE, min(map(len, words)) - WINDOW + 1)


def rarest_windows(words: Sequence[bytes]) -> list[int]:
    """For each word the offset of the window that is rarest in usual text. Only speed depends on that text."""
    window = stride(words) + WINDOW - 1

    def common(piece: bytes) -> tuple[float, float]:
        return _commonness(piece, WINDOW), _commonness(
            piece, 2
        )  # most windows are not in it at all: then by their pairs

    return [min(range(len(word) - window + 1), key=lambda at: common(word[at : at + window])) for word in words]


def _commonness(text: bytes, length: int) -> float:
    """How often the pieces of this text, of so many bytes, occur in usual text: the sum of their logarithms."""
    weight, text = _weights(length), text.translate(DIGITS)
    return sum(weight.get(text[i : i + length], 0.0) for i in range(len(text) - length + 1))


@lru_cache(maxsize=2)
def _weights(length: int) -> dict[bytes, float]:
    with open(f"{os.path.dirname(__file__)}/usual.txt", "rb") as file:  # noqa: PTH120, PTH123
        usual = file.read().translate(DIGITS)
    counts = Counter(usual[i : i + length] for i in range(len(usual) - length + 1))
    return {piece: math.log(count + 1) for piece, count in counts.items()}
