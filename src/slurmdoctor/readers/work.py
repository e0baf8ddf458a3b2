"""Recognises a program's work: numbers that rise behind the same words, whatever it calls its steps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import Line

TELLING = ("root", "either")
"""Roles of events that may have ended something."""
STEPS, MANY_STEPS = 4, 24
"""Rising numbers behind the same words that show work, and so much of it that an earlier error ended nothing."""
WORK = text("work-line")
_NO_WORK = text("no-work-line")
VARIABLE = lazy(r"[\d.]+|'[^']*'?|\"[^\"]*\"?|/\S*")
_NUMBERS = lazy(r"\d+(?:\.\d+)?")


def rises(lines: Iterable[Line], above: Iterable[Line] = (), timed: bool = False) -> tuple[int, float]:
    """How often numbers rise behind the same words, and when they last did; `timed`: lines without a time show nothing.

    Where numbers rose behind other words `above`, only many show work: a checkpoint that is still written is none.
    """
    highest: dict[str, tuple[float, ...]] = {}
    count: dict[str, int] = {}
    last = 0.0
    for line in lines:
        found = WORK.search(line.text)
        if found is None or _NO_WORK.search(line.text) or (timed and line.origin.time is None):
            continue
        key = _words(line.text, found.start("at"))
        numbers = tuple(map(float, islice(_NUMBERS.findall(found["at"]), 6)))
        if numbers > highest.get(key, ()):
            highest[key] = numbers
            count[key] = count.get(key, 0) + 1
            last = max(last, line.origin.time or 0.0)
    most = max(count.values(), default=0)
    if STEPS <= most < MANY_STEPS:
        before = {_words(line.text, found.start("at")) for line in above if (found := WORK.search(line.text))}
        most = max((n for key, n in count.items() if key in before or not before), default=0)
    return most, last


def _words(shown: str, end: int) -> str:
    return VARIABLE.sub("#", shown[:end])
