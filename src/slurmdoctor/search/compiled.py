"""Compiles patterns when they are first needed, and searches them within a bound of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from slurmdoctor.search import regex_internals

if TYPE_CHECKING:
    import regex

SECONDS = 0.5
"""No pattern may take longer on one line; one that does is treated as not matching."""

LAZY: list[str] = []
"""The patterns of all modules that were imported so far."""


@lru_cache(maxsize=regex_internals.MOST)
def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, compiled when first needed and kept: `regex` forgets all but 500, and a job may need more in turn.

    All of ours are kept; those of labels that were learnt from thousands of logs are not.
    """
    kept = regex_internals.recall(pattern)
    if kept is not None:
        return kept
    import regex  # here: where all patterns are in the cache, most of it is not needed

    made = regex.compile(pattern)
    regex_internals.remember(pattern, made)
    return made


def lazy(pattern: str) -> regex.Pattern[str]:
    """The pattern of a module, compiled when it is first used."""
    LAZY.append(pattern)
    return later(pattern)


def later(pattern: str) -> regex.Pattern[str]:
    """A pattern that was made of data, compiled when it is first used."""
    return cast("regex.Pattern[str]", _Lazy(pattern))


class _Lazy:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        value = getattr(compiled(self._pattern), name)
        setattr(self, name, value)  # from now on it is found without coming here
        return value


def captures(pattern: str, text: str) -> Mapping[str, str] | None:
    """The named groups of the first match; None where there is none."""
    try:
        found = compiled(pattern).search(text, timeout=SECONDS)
    except TimeoutError:
        return None
    return None if found is None else {name: value for name, value in found.groupdict().items() if value is not None}
