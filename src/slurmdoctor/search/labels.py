"""The words at a line's head that tell its writer apart from others: read fast, long before the line is understood."""

from __future__ import annotations

import re
from functools import lru_cache

HEAD = 160
"""Bytes of a line in which its label stands."""
Span = tuple[int, int, int, int]
"""Two slices of the head that together are the label; the second is empty for most."""

_RANK_TAG = rb"[^\n]{0,48}?\[(?:rank|RANK|Rank|default|trainer|worker)[ =:]{0,2}\d+(?:\|\d+)?\]"
_ALWAYS = (
    _RANK_TAG,
    rb"\[(?:[\w.@-]{1,80},)?\d+\]<",
    rb"\([\w.:-]{1,40}[ ,][^)\n]{3,80}\)",
    rb"[\w.-]{2,40}:\d+:\d+ \[",
)
_IF_LOCKED = {
    "srun-label": rb"[ ]{0,4}\d{1,5}: ",
    "bracket-rank": rb"\[\d{1,5}\][: ]",
    "pdsh": rb"[A-Za-z][\w.-]{1,40}: ",
}
STAMP = (
    rb"\[?\d{4}[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ \t]+"
    rb"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d[ \t]+|\[\d\d:\d\d:\d\d(?:\.\d+)?\][ \t]+"
)
"""What a collector (kubectl, docker, moreutils' ts, a script) writes before each line, its label too."""
_TAG = re.compile(rb"\[[^\[\]]*\]$")


class Labeller:
    """Finds the label in the heads of one source's lines.

    Digits decide nothing in it but the label's own: lines of one shape (`shapes`) have their labels at one place.
    """

    def __init__(self, locked: frozenset[str], several: bool, stamped: bool) -> None:
        outer = [pattern for name, pattern in _IF_LOCKED.items() if name in locked]
        self._find = re.compile(b"|".join(b"(?:%s)" % p for p in (*_ALWAYS, *outer))).match
        self._find_outer = re.compile(b"|".join(outer)).match if outer else None
        self._several = several
        self.whole = not several
        """Whether every label is one stretch of its line."""
        self._stamp = re.compile(STAMP).match if stamped else None

    def __call__(self, head: bytes) -> bytes:
        """The head of a line -> its label; empty where there is none."""
        start, end, start2, end2 = self.span(head)
        return head[start:end] + head[start2:end2]

    def span(self, head: bytes) -> Span:
        """Where the label stands."""
        stamp = self._stamp(head) if self._stamp else None
        at = stamp.end() if stamp else 0
        found = self._find(head, at, HEAD)
        if found is None:
            return 0, 0, 0, 0
        tag = _TAG.search(found[0])
        if tag is None:
            return at, found.end(), 0, 0
        first = self._find_outer(head, at, HEAD) if self._find_outer else None
        if first is None:
            return at + tag.start(), at + tag.end(), 0, 0
        # loggers tag some lines of a writer and not others; only where several ranks share the outer label does the tag tell
        # them apart
        return (at, first.end(), at + tag.start(), at + tag.end()) if self._several else (at, first.end(), 0, 0)


@lru_cache(maxsize=64)
def labeller(locked: frozenset[str], several: bool = False, stamped: bool = False) -> Labeller:
    """The labeller for a source that carries these ambiguous formats; `several` ranks may share an outer label."""
    return Labeller(locked, several, stamped)
