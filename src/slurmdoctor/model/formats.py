"""What a source's lines have in common: the labels that it is believed to use."""

from __future__ import annotations

from msgspec import Struct

from slurmdoctor.model.knowledge import LineFormat

ASSUMED_YEAR = 2000
"""Stamps without a year are placed in this one (a leap year) unless the log names its year elsewhere."""


class SourceFormat(Struct, frozen=True):
    """What a source's lines have in common, learnt from a sample of them."""

    locked: frozenset[str] = frozenset()
    """Ids of the ambiguous formats that this source uses."""
    outer_rank_is_local: bool = False
    """`[rank4]:[rank12]:`, torchrun --tee with --role rank: the outer number is a local rank."""
    label_is_node: bool = False
    """srun's label counts torchrun agents, one a node: it is no rank."""
    year: int = ASSUMED_YEAR
    zone: int | None = None
    """Seconds east of UTC of the stamps that name a zone; UTC counts only where no other is named."""
    stamped: bool = False
    """A collector's time stamp stands before every line and its label."""
    learnt: tuple[LineFormat, ...] = ()
    """Labels that no list knows."""
    per_node: int | None = None
    """The ranks of a node: with them a node's number and a local rank make a rank."""
