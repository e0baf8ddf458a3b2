"""Finds the rank that stands elsewhere than all others, from their stack dumps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from slurmdoctor.model import LIMITS


def odd_ones(dumps: Mapping[int, str]) -> tuple[tuple[int, ...], str] | None:
    """The few ranks that stand elsewhere than the many, and where the many stand. None where nobody stands out."""
    if len(dumps) < 3:
        return None
    (usual, most), *_ = Counter(dumps.values()).most_common()
    odd = tuple(sorted(rank for rank, where in dumps.items() if where != usual))
    if not odd or len(odd) > max(1, len(dumps) // LIMITS.few) or most < 2:
        return None
    return odd, usual
