"""Rows of a pasted text: what the steps that undo a paste have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

Row = tuple[int, str]
"""A line, and its number in what was pasted."""
Step = Callable[[Sequence[Row]], "list[Row] | None"]
"""Returns the changed rows, or None where the text shows no sign of what the step undoes."""
Mark = Callable[[str], bool]
"""Tells of a whole text, with a line end before its first line, whether a step may find anything in it; in a log mostly not."""


def always(_: str) -> bool:
    """The mark of a step that soon sees for itself that it has nothing to do."""
    return True


def share(rows: Sequence[Row], pattern: regex.Pattern[str]) -> float:
    """The share of the rows with text that begin as the pattern wants."""
    filled = [line for _, line in rows if line.strip()]
    return sum(pattern.match(line) is not None for line in filled) / len(filled) if filled else 0.0


def each(rows: Sequence[Row], change: Callable[[str], str]) -> list[Row] | None:
    """The rows with every line changed; None where none is."""
    changed = [(number, change(line)) for number, line in rows]
    return changed if changed != list(rows) else None
