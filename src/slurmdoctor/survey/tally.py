"""How far a run is, in numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import get_args

from slurmdoctor.survey.rows import Read


@dataclass(slots=True)
class Tally:
    """How far a run is."""

    found: int = 0
    unchanged: int = 0
    """Jobs whose rows are there already."""
    done: int = 0
    failed: int = 0
    read: dict[str, int] = field(default_factory=lambda: dict.fromkeys(get_args(Read), 0))
    """Rows by what was done with the logs."""
    error: str | None = None
    """The first reason why a job was not read."""
    bytes_found: int = 0
    """Of the logs that are to be read."""
    bytes_done: int = 0
    listed: bool = False
    """Whether all jobs are found."""
    workers: int = 0
