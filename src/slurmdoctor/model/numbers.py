"""Reads the numbers that a log prints, those that no job can have, too: a damaged line, or one made to do harm."""

from __future__ import annotations

MOST_RANKS = 1_000_000
"""No job has more: lists of ranks would fill the memory."""
_MOST_DIGITS = 18
"""Python refuses to read some thousands, and 64 bits hold these."""


def number(text: str) -> int:
    """The number that digits say, with or without a sign; of very many digits the first ones."""
    return int(text[:_MOST_DIGITS])


def is_rank(text: str) -> bool:
    """Whether this may name a rank: few digits. How many there are decides, so that lines of one shape agree."""
    return text.isdecimal() and len(text) < len(str(MOST_RANKS))
