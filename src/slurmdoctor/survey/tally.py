"""How far a run is, in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Tally:
    """How far a run is."""

    found: int = 0
    unchanged: int = 0
    """Jobs whose rows are there already."""
    done: int = 0
    failed: int = 0
    errors: int = 0
    error: str | None = None
    """The first of these."""
    bytes_found: int = 0
    """Of the logs that are to be read."""
    bytes_done: int = 0
    listed: bool = False
    """Whether all jobs are found."""
    workers: int = 0
