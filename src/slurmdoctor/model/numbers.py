"""Reads the numbers that a log prints, those that no job can have, too: a damaged line, or one made to do harm."""

from __future__ import annotations

import re

MOST_RANKS = 100_000
"""No job has more: lists of ranks would fill the memory."""
_MOST_DIGITS = 18
"""Python refuses to read some thousands, and 64 bits hold these."""
_SIZE = r"([+-]?\d+(?:\.\d*)?) ?(?:bytes|([kKMGT])(?:i?B)?)"
"""`30.00 GiB`, `512.00 MiB`, `18.5GB`, `67108864kB`, `14680064 bytes`."""
_IN_GIB = {"": 2.0**-30, "K": 2.0**-20, "M": 2.0**-10, "G": 1.0, "T": 2.0**10}
"""Who writes GB for memory means GiB, as Slurm does."""


def gib(text: str) -> float | None:
    """A size with its unit in GiB."""
    found = re.fullmatch(_SIZE, text.strip()) if len(text) < 40 else None
    return float(found[1]) * _IN_GIB[(found[2] or "").upper()] if found else None


def number(text: str) -> int:
    """The number that digits say, with or without a sign; of very many digits the first ones."""
    return int(text[:_MOST_DIGITS])


def is_rank(text: str) -> bool:
    """Whether this may name a rank: few digits. How many there are decides, so that lines of one shape agree."""
    return text.isdecimal() and len(text) < len(str(MOST_RANKS))
