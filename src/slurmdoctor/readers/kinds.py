"""Bounds how many kinds of exceptions are told apart: by class and first words, then by class, then not at all."""

from __future__ import annotations

from slurmdoctor.model import Reason, SearchResult, reason

MOST = 256
"""Kinds that are told apart by class and first words: no job breaks in so many ways."""
MOST_CLASSES = 64
"""Classes that are told apart among what comes after."""
_BETWEEN = ": "


class Kinds:
    """Names the kinds, in the order in which they come."""

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._classes: set[str] = set()

    def name(self, raised: str, words: str) -> str:
        """The kind of an exception of this class with these first words; empty where there are too many."""
        kind = f"{raised}{_BETWEEN}{words}"
        if kind in self._known:
            return kind
        if len(self._known) < MOST:
            self._known.add(kind)
            return kind
        if raised in self._classes:
            return raised
        if len(self._classes) < MOST_CLASSES:
            self._classes.add(raised)
            return raised
        return ""


def notes(found: SearchResult) -> tuple[Reason, ...]:
    """What to tell where kinds were not told apart."""
    merged = [g for g in found.groups if g.matcher.target == "exception" and _BETWEEN not in g.kind]
    count = sum(group.count for group in merged)
    return (reason("exceptions-alike", count=count, most=MOST),) if count else ()
