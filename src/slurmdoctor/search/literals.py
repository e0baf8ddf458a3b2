"""Tells which matchers a line may satisfy: those of which it contains a literal.

Why: some 1,600 literals are found in one pass over a block, at half a second a gigabyte; the regexes of 600 rules are
not. So a rule's regex sees a line only if the line holds one of the rule's literals, the way ripgrep takes the literals out of a
regex before it runs it.

Example: the rules `cuda-oom/torch` and `cuda-oom/jax` ask for `CUDA out of memory` and `RESOURCE_EXHAUSTED`. Of
`[rank3]: torch.OutOfMemoryError: CUDA out of memory.` `wanted` gives the number of the first alone.

Limits:
- A line's *shape* has every digit as 0 (`shapes`). A literal that holds a digit (`code 137`) cannot be known from the shape: `hidden` says
  whether a shape might hold one, and then every line of that shape is searched again.
- `wanted` may name a matcher whose regex then refuses the line; it never leaves out one whose regex would take it, for each rule's
  regex holds one of its literals (`slurmdoctor rules check` proves it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from slurmdoctor.matching import DIGITS, Engine, engine_for
from slurmdoctor.model import Matcher


class Literals:
    """The literals of all matchers, the matchers of each literal, and the search for them."""

    def __init__(self, matchers: Sequence[Matcher]) -> None:
        self._users: dict[bytes, list[int]] = {}
        for number, matcher in enumerate(matchers):
            for literal in matcher.literals:
                self._users.setdefault(literal, []).append(number)
        shapes = b"\0".join(self._users).translate(DIGITS).split(b"\0")
        self._with_digits = sorted({shape for shape in shapes if b"0" in shape})
        """The shapes of those literals that a line's shape may seem to hold."""
        self._literals = list(self._users)
        self.engine, _, self._meant = engine_for(self._literals)
        self._of_shapes, _, self._meant_by_shape = engine_for(self._with_digits)

    def wanted(self, line: bytes) -> list[int]:
        """The numbers of the matchers of which the line contains a literal."""
        found: set[int] = set()
        for literal in _held(line, self.engine, self._meant, self._literals):
            found.update(self._users[literal])
        return sorted(found)

    def hidden(self, shape: bytes) -> bool:
        """Whether lines of this shape may differ in the literals that they hold."""
        return any(_held(shape, self._of_shapes, self._meant_by_shape, self._with_digits))


def _held(data: bytes, engine: Engine, meant: Sequence[Sequence[int]], literals: Sequence[bytes]) -> Iterator[bytes]:
    """The literals that the data hold: the engine finds words, each of which may stand for several."""
    for word in set(engine.which(data)):
        for number in meant[word]:
            if literals[number] in data:
                yield literals[number]
