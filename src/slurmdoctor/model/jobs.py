"""One job of those that paths name: what it is called, and its files."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

KnownBy = Literal["name", "folder", "content", "time", "only"]


class JobFiles(Struct, frozen=True):
    """The files of one job."""

    id: str | None = None
    """As Slurm writes it: `4711`, `4711_3`; None where neither names nor lines tell."""
    array_task: int | None = None
    name: str | None = None
    """What its user called it: `%x` in a file's name, or the folder."""
    files: tuple[str, ...] = ()
    known_by: KnownBy = "only"
    """What told it from the other jobs; `only` where there was nothing to tell."""
    time: float | None = None
    """Its end as far as the log shows it, or when its files were last written; in seconds of local time."""
