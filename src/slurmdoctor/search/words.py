"""Chooses the words that an engine searches for, so that a rule's line is found by the rarest part of one of its literals.

Why: the rules have some 1,600 literals, and the cost of a search is the number of places that it has to look at twice.

- A literal that contains another literal is not searched for: `CUDA out of memory. Tried` is found where `CUDA out of
  memory` is. So a word may stand for several literals.
- The compiled search looks for a window of four or five bytes of each word, and `rarest_windows` chooses the one that is rarest in
  what jobs print all the time (`usual.TEXT`): of `RuntimeError: NCCL` not `Runt` but `: NC`.

Limits: a word only says that its literals may stand there. Whoever gets one must look for the literals themselves. Whatever
`usual.TEXT` holds, the same lines are found: only speed depends on it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from slurmdoctor.search.shapes import DIGITS

WINDOW = 4
"""Bytes that the compiled search compares at once; `native/search.h` has the same number. No word may be shorter."""
_LONGEST_STRIDE = 2
"""A longer stride looks at fewer places, but for more of each word: measured with 1,600 words, 3 is a third slower."""


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
    """For each word the offset of the window that is rarest in usual text."""
    window = stride(words) + WINDOW - 1

    def common(piece: bytes) -> tuple[float, float]:
        return _commonness(piece, WINDOW), _commonness(
            piece, 2
        )  # most windows are not in it at all: then by their pairs

    def best(word: bytes) -> int:
        return min(range(len(word) - window + 1), key=lambda at: common(word[at : at + window]))

    return [best(word) for word in words]


def _commonness(text: bytes, length: int) -> float:
    """How often the pieces of this text, of so many bytes, occur in usual text: the sum of their logarithms."""
    weight, text = _weights(length), text.translate(DIGITS)
    return sum(weight.get(text[i : i + length], 0.0) for i in range(len(text) - length + 1))


@lru_cache(maxsize=2)
def _weights(length: int) -> dict[bytes, float]:
    from slurmdoctor.search.usual import TEXT

    usual = TEXT.translate(DIGITS)
    counts = Counter(usual[i : i + length] for i in range(len(usual) - length + 1))
    return {piece: math.log(count + 1) for piece, count in counts.items()}
