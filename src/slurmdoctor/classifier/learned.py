"""Reads what no rule knows: how much a line reads like what an expert would point to, and which cause it reads like.

Both are linear over hashed words, with small whole numbers as weights: a score is a sum of them, the same on every machine.
`python -m corpus.train` makes the weights from the rules' examples and the labelled logs.
"""

from __future__ import annotations

import math
import os
import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from zlib import decompress

from msgspec import msgpack

from slurmdoctor.classifier.features import columns, masked, pieces_of, words_of
from slurmdoctor.model import Frozen, Likeness, Line

SCALE = 8
"""What a line's features weigh together in the cause's model: long lines weigh no more than short ones."""
_TELLING = 3
"""Words of a line that are shown."""
_NEAR = 0.6
"""Cosine of their words from which an example is shown."""
_WORD = re.compile("[a-z]{3}")


class Weights(Frozen):
    """The file of weights, as `corpus.train` writes it."""

    causes: tuple[str, ...]
    bias: tuple[float, ...]
    unit: float
    """What a weight of 1 of the causes' is worth, as a logarithm of odds,"""
    line_unit: float
    """and of 1 of the lines'."""
    line_columns: bytes
    """Columns with a weight, rising, four bytes each,"""
    line_weights: bytes
    """and each one's weight, a signed byte."""
    cause_columns: bytes
    cause_starts: bytes
    """Where each column's weights begin in the two below, four bytes each; and their end."""
    cause_numbers: bytes
    cause_weights: bytes
    examples: tuple[tuple[str, ...], ...]
    """Each cause's lines from the rules' examples."""


class Classifier:
    """The weights, ready to be asked."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._columns = array("I", weights.line_columns)
        self._line = array("b", weights.line_weights)
        self._cause_columns = array("I", weights.cause_columns)
        self._starts = array("I", weights.cause_starts)
        self._numbers = array("B", weights.cause_numbers)
        self._cause_weights = array("b", weights.cause_weights)
        # ranks print the same lines, but for their numbers
        self._score_of = lru_cache(maxsize=1024)(self._score_anew)
        self._read = lru_cache(maxsize=1024)(self._read_anew)

    def decisive(self, text: str, *place: str) -> float:
        """How much a line without labels reads like the decisive one, as a logarithm of odds; `place` are the features of where it is."""
        return self._score_of(masked(text), place)

    def likeness(self, line: Line) -> Likeness:
        """The cause that a line most reads like."""
        cause, probability, words, example = self._read(masked(line.text))
        return Likeness(line, cause, probability, words, example=example)

    def _score_anew(self, text: str, place: tuple[str, ...]) -> float:
        return self.score(columns([*words_of(text), *place]))

    def _read_anew(self, text: str) -> tuple[str, float, tuple[str, ...], str | None]:
        """(cause, probability, the words that weighed most, the nearest example)."""
        cause, probability = self.cause_of(columns(pieces_of(text)))
        number = self._weights.causes.index(cause)
        shown = [word for word in words_of(text) if _WORD.search(word)]
        words = {word: dict(self._of_column(columns([word])[0])).get(number, 0) for word in shown}
        telling = sorted((word for word in words if words[word] > 0), key=lambda word: -words[word])
        return cause, probability, tuple(telling[:_TELLING]), self._nearest(cause, words_of(text))

    def _nearest(self, cause: str, words: Sequence[str]) -> str | None:
        """The example of the cause's rules that has the most words in common with a line, if those are enough."""
        own = set(words)
        scored = []
        for example in self._weights.examples[self._weights.causes.index(cause)]:
            other = set(words_of(masked(example)))
            scored.append((len(own & other) / math.sqrt(max(1, len(own) * len(other))), example))
        near, example = max(scored, default=(0, ""))
        return example if near >= _NEAR else None

    def score(self, asked: Sequence[int]) -> float:
        """The same of a line's columns."""
        found = (self._line[at] for column in asked if (at := _find(self._columns, column)) is not None)
        return self._weights.line_unit * sum(found)

    def cause_of(self, asked: Sequence[int]) -> tuple[str, float]:
        """The likeliest cause, and its probability, of a line's columns."""
        sums = [0] * len(self._weights.causes)
        for column in asked:
            for number, weight in self._of_column(column):
                sums[number] += weight
        scale = self._weights.unit * SCALE / math.sqrt(max(1, len(asked)))
        scores = [scale * one + bias for one, bias in zip(sums, self._weights.bias, strict=True)]
        top = max(scores)
        whole = sum(math.exp(score - top) for score in scores)
        return self._weights.causes[scores.index(top)], round(1 / whole, 4)

    def _of_column(self, column: int) -> Sequence[tuple[int, int]]:
        at = _find(self._cause_columns, column)
        if at is None:
            return ()
        here = slice(self._starts[at], self._starts[at + 1])
        return list(zip(self._numbers[here], self._cause_weights[here], strict=True))


def _find(rising: Sequence[int], column: int) -> int | None:
    at = bisect_left(rising, column)
    return at if at < len(rising) and rising[at] == column else None


@lru_cache(maxsize=1)
def classifier() -> Classifier:
    """The one that comes with the program, read when it is first asked for."""
    with open(f"{os.path.dirname(__file__)}/weights.bin", "rb") as file:  # noqa: PTH120, PTH123
        return Classifier(msgpack.decode(decompress(file.read()), type=Weights))
