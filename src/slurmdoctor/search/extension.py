"""The part of the search that is written in C (`native/`), where the installation compiled it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Protocol

_INTERFACE = 3
native: ModuleType | None = None
"""None where it was not compiled, or from another version's source."""
with suppress(ImportError):
    from slurmdoctor.search import _native

    if getattr(_native, "INTERFACE", 0) == _INTERFACE:
        native = _native


class Engine(Protocol):
    """A search for words: where they end, or which they are."""

    def ends(self, data: bytes, /) -> Sequence[int]:
        """The offsets after all words in the data, rising; the same one twice where two words end together."""

    def which(self, data: bytes, /) -> Sequence[int]:
        """The numbers of the words in the data."""
