"""Chooses what searches a block of bytes for all words at once: our own C, else plain Python.

Both find the same. `description`, for `slurmdoctor --version`, says which one searches here, and how to get a faster one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

from msgspec import DecodeError, msgpack

from slurmdoctor.search import extension, usercache
from slurmdoctor.search import words as choice
from slurmdoctor.search.extension import Engine

Name = Literal["native", "python"]

_VERSION = b"words 8"
"""Part of the cache's key: to be changed with what is kept."""
_KEPT = tuple[list[bytes], list[list[int]], list[int] | None]
"""The words, the literals of each by their numbers, and of each word the place of its window."""
_FEW = 64
"""So few literals are compiled as fast as they are read from the cache."""
_AGAIN = "install slurmdoctor again with a C compiler and Python's headers"
_DESCRIPTIONS: dict[Name, str] = {
    "native": "compiled C",
    "python": f"plain Python; some 600 times as fast on gigabytes: {_AGAIN}",
}


def available() -> Name:
    """What searches here."""
    return "native" if extension.native is not None else "python"


def description() -> str:
    """What searches here, for `--version`."""
    return _DESCRIPTIONS[available()]


def engine_for(literals: Sequence[bytes], name: Name | None = None) -> tuple[Engine, list[bytes], list[list[int]]]:
    """(the engine, the words that it searches for, for each word the numbers of the literals that it may stand for).

    What is slow to make is kept in the user's cache. `words` says how the words are chosen.
    """
    name = _able(literals, name)
    many = len(literals) > _FEW
    file = ""
    if many and name != "python":
        file = f"{usercache.name_for(msgpack.encode([_VERSION, name, *literals]))}.literals"
    words, meant, kept = _kept(file, literals)
    if not words and literals:
        words, meant = choice.choose(literals)
    engine, made = _engine(words, name, kept)
    if file and made != kept:
        usercache.put(file, msgpack.encode((words, meant, made)))
    return engine, words, meant


def engine_of(words: Sequence[bytes], name: Name | None = None) -> Engine:
    """A search for these words."""
    return _engine(words, _able(words, name))[0]


def engine_of_some(engine: Engine, words: Sequence[bytes], some: Sequence[int], name: Name | None = None) -> Engine:
    """The same search for some of its words alone, by their numbers."""
    kept = [words[number] for number in some]
    if kept and extension.native is not None and isinstance(engine, extension.native.Search):
        # the stride may be too short for what is left, and is right for all
        return _native(kept, [engine.offset(number) for number in some], choice.stride(words))
    return engine_of(kept, name)


def _able(words: Sequence[bytes], name: Name | None) -> Name:
    """The engine asked for, or the next one that can search for such words."""
    if not words:
        return "python"
    name = available() if name is None else name
    if name == "native" and (extension.native is None or min(map(len, words)) < choice.WINDOW):
        return "python"
    return name


def _engine(words: Sequence[bytes], name: Name, kept: Any = None) -> tuple[Engine, Any]:
    """(the engine, what was slow to make of it); `kept` is the latter from an earlier time."""
    if name == "native":
        offsets = kept or choice.rarest_windows(words)
        return _native(words, offsets, choice.stride(words)), offsets
    return _Portable(words), None


def _native(words: Sequence[bytes], offsets: Sequence[int], stride: int) -> Engine:
    assert extension.native is not None
    found: Engine = extension.native.Search(list(words), list(offsets), stride)
    return found


def _kept(file: str, literals: Sequence[bytes]) -> tuple[list[bytes], list[list[int]], Any]:
    """What was kept for these literals, where it fits them."""
    for read in (usercache.shipped, usercache.get) if file else ():
        with suppress(DecodeError):
            words, meant, made = msgpack.decode(read(file) or b"", type=_KEPT)
            if read is usercache.shipped or _fits(words, meant, made, literals):
                return words, meant, made
    return [], [], None


def _fits(words: Sequence[bytes], meant: Sequence[Sequence[int]], made: Any, literals: Sequence[bytes]) -> bool:
    """Whether each literal is found by a word that stands in it, and each word by a window that stands in that."""
    if len(words) != len(meant) or sorted(chain(*meant)) != list(range(len(literals))):
        return False
    pairs = ((word, literals[number]) for word, numbers in zip(words, meant, strict=True) for number in numbers)
    return all(word in literal for word, literal in pairs) and (not isinstance(made, list) or _stand_in(words, made))


def _stand_in(words: Sequence[bytes], offsets: Sequence[int]) -> bool:
    """Whether each word has a window at its offset."""
    window = choice.stride(words) + choice.WINDOW - 1
    return (
        window >= choice.WINDOW
        and len(words) == len(offsets)
        and all(0 <= at <= len(w) - window for w, at in zip(words, offsets, strict=True))
    )


class _Portable(Engine):
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
