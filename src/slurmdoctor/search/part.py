"""What was read from one source, or from a stretch of it."""

from __future__ import annotations

from msgspec import Struct, field

from slurmdoctor.search.tally import LineGroup, Match

Place = tuple[bytes, int]
"""(label, offset)."""


class Part(Struct):
    """What was read from one source, or from a stretch of it."""

    source: int
    start: int = 0
    groups: dict[tuple[Match, ...], LineGroup] = field(default_factory=dict)
    once: dict[Match, Place] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    lines: int = 0
    end: int = 0
    """Offset of the last byte read."""
    unasked: int = 0
    """Lines that were taken to mean what those before them with the same literals did."""
    cut: bool = False
    """Whether the time was over before all of it was read."""

    @property
    def searched(self) -> int:
        """Bytes read."""
        return self.end - self.start if self.offsets else 0

    def join(self, later: Part) -> None:
        """Take in the same source's next stretch. Behind text that was not read the lines have no numbers."""
        for key, group in later.groups.items():
            if key in self.groups:
                self.groups[key].join(group)
            else:
                self.groups[key] = group
        self.once = {**later.once, **self.once}
        numbered = later.start <= self.end and self.counts[-1:] != [-1]
        self.offsets += later.offsets
        self.counts += [count + self.lines if numbered and count >= 0 else -1 for count in later.counts]
        self.lines += later.lines
        self.unasked += later.unasked
        self.end = max(self.end, later.end)
