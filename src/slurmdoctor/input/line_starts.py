"""Finds where lines begin in a text whose line ends are lost or doubtful: at labels, stamps and programs' first words.

    step 5 done [rank3]: KeyError srun: error: n1: task 3: Exited

holds two more beginnings, `[rank3]: ` and `srun: error: `. Labels and stamps are those of `rules/formats.yaml`, words those
of `rules/texts.yaml`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from slurmdoctor.matching import compiled, lazy, unnamed
from slurmdoctor.model import Knowledge, LineFormat

if TYPE_CHECKING:
    import regex

_NAMED = r"(?:Error|Exception|Interrupt|Exit|Failure|Timeout|Unavailable|StopIteration)"
EXCEPTION = rf"(?:[A-Za-z_]\w*\.)*[A-Z]\w*{_NAMED}|(?:[a-z_]\w*\.)+[A-Z]?\w*{_NAMED}|[A-Z]\w*{_NAMED}"
"""A Python exception's class, named like one."""
_UNLABELLED = lazy(rf'(?:{EXCEPTION})(?:: |:?$)|File "|[=*#~_-]{{8}}')
"""Tracebacks and rules across a line begin so."""
_OUTSIDE = r"(?<![A-Za-z_](?=[a-z]))"
"""No label begins inside a word: four of five places are passed over by this alone."""
_TASK = r"(?:(?<![\w.\]:-])\d{1,4}: +)?"
"""srun's label, before another beginning."""
_APART = r"(?<!AT )(?<!at )(?<!on )(?<! : )(?<!['\"(=,:\w-])"
"""What stands here is no part of a word, a quotation, a table or a sentence about a time."""
_BLANK = r"(?:(?<! ) )?"
"""Behind a label that does not end with one."""
_SHARE = 0.3
"""Share of the lines that carry an ambiguous label where it is believed."""


class LineStarts:
    """How lines begin by what is known of labels and of programs' texts."""

    def __init__(self, knowledge: Knowledge) -> None:
        self._formats = knowledge.formats
        self._texts = {entry.id: entry.pattern for entry in knowledge.texts}

    def text(self, name: str) -> regex.Pattern[str]:
        """A text of a program: `line-start` are the words that lines begin with."""
        return compiled(self._texts[name])

    def within(self, line: str) -> Iterator[int]:
        """Where lines begin in a text that has lost its line ends."""
        return (found.start() for found in self._within.finditer(line))

    def label_end(self, line: str) -> int:
        """Where the labels end that a line begins with."""
        found = self._labels.match(line)
        return found.end() if found else 0

    def believed_by(self, lines: Sequence[str]) -> Callable[[str], bool]:
        """Whether a line of this text is one of its own, and no rest of the line above it."""
        filled = sum(bool(line.strip()) for line in lines)

        def has(form: LineFormat, line: str) -> bool:
            return form.may_begin(line) and compiled(unnamed(form.pattern)).match(line) is not None

        ambiguous = [form for form in self._formats if form.lock and "rank" in form.groups]
        believed = [form for form in ambiguous if sum(has(form, line) for line in lines) >= _SHARE * filled]
        believed += [form for form in self._formats if not form.lock]
        words = self.text("line-start")

        def begins(line: str) -> bool:
            bare = line.lstrip()
            if not bare or len(line) - len(bare) > 1 or words.match(bare) or _UNLABELLED.match(bare):
                return True
            return any(has(form, line) for form in believed)

        return begins

    @cached_property
    def _within(self) -> regex.Pattern[str]:
        labels = f"(?:{self._any('glued')}{_BLANK})"
        stamp, words = self._any("apart"), f"(?:{self._texts['line-start']})"
        return compiled(
            # labels, a stamp and the first words stand together at the head of one line
            rf"{_OUTSIDE}{_TASK}(?:(?:{labels}++{stamp}?|{_APART}{stamp}{_BLANK}{labels}*+)(?: *{words})?"
            rf"|(?<![\w./'\"-]){words})|{self._texts['line-start-glued']}"
        )

    @cached_property
    def _labels(self) -> regex.Pattern[str]:
        return compiled(rf"(?:[ ]*\d{{1,4}}: )?(?:{self._any('glued')}{_BLANK})*")

    def _any(self, midline: str) -> str:
        patterns = [f"(?:{unnamed(form.pattern)})" for form in self._formats if form.midline == midline]
        return f"(?:{'|'.join(patterns) or '(?!)'})"
