"""One job of those that paths name: what it is called, and its files."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

KnownBy = Literal["name", "folder", "content", "only"]


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
    doubtful: bool = False
    """They may be of several jobs: nothing tells."""

    @property
    def label(self) -> str:
        """What to call it: its id, else its name, else its first file."""
        return self.id or self.name or (self.files[0] if self.files else "-")


class Glance(Struct, frozen=True):
    """What the head and the end of a file tell of its job."""

    ids: frozenset[str] = frozenset()
    """Slurm's ids of the job that wrote it."""
    ranks: frozenset[int] = frozenset()
    begins: float | None = None
    ends: float | None = None
    """The first and the last time that it shows."""
