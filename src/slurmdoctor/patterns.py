"""Searches a pattern in a line, within a bound of time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

SECONDS = 0.5
"""No pattern may take longer on one line; one that does is treated as not matching."""


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, compiled when first needed and kept: `regex` forgets all but 500, and a job may need more in turn."""
    import regex

    return regex.compile(pattern)


def captures(pattern: str, text: str) -> Mapping[str, str] | None:
    """The named groups of the first match; None where there is none."""
    try:
        found = compiled(pattern).search(text, timeout=SECONDS)
    except TimeoutError:
        return None
    return None if found is None else {name: value for name, value in found.groupdict().items() if value is not None}
