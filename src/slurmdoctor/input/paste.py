"""Restores a pasted log: undoes what a chat, a mail, a viewer or a terminal did to it.

Each step works on numbered rows. It looks for one thing (`> ` before each line, line numbers, a chat's names) and returns
the rows without it, or None where the text does not clearly show it: an ordinary log must stay as it is. The outermost
damage is undone first, and the steps run again until none applies, for a paste may be quoted, fenced and numbered at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from slurmdoctor.input.chats import people, signed
from slurmdoctor.input.line_starts import LineStarts
from slurmdoctor.input.markup import characters, encoded, entities, fenced, fences, indents, odd, quoted, quotes
from slurmdoctor.input.records import recorded, records
from slurmdoctor.input.rewrap import joined, opened
from slurmdoctor.input.rows import Mark, Row, Step, always
from slurmdoctor.input.sources import Source, Text
from slurmdoctor.input.terminals import numbers, prompts
from slurmdoctor.matching import lazy
from slurmdoctor.model import Knowledge

LIMIT = 1024 * 1024
"""Characters; nobody pastes more, and what is longer is taken for a log."""
_MOST_LINES = 20_000
_ROUNDS = 4
_GAP = lazy(r"(?i)^\s*(?:\[?(?:\.{3,}|…)\]?|<snip>|\[snip\]|\(snip\)|-{2,} ?(?:snip|8<) ?-{2,})\s*$")
"""`[...]`, `<snip>`: text was left out here."""


class Undone(Struct, frozen=True):
    """The log behind a paste."""

    text: str
    done: tuple[str, ...] = ()
    """What was undone, in words; empty where nothing was."""
    numbers: tuple[int, ...] = ()
    """For each line of `text`, its number in what was pasted."""

    @property
    def note(self) -> str:
        """For the coverage: what was undone, in a sentence."""
        return f"read as a paste: {', '.join(self.done)}" if self.done else ""


def undo(text: str, knowledge: Knowledge) -> Undone:
    """The log behind a paste. Text that shows no sign of pasting comes back as it is."""
    if not text or len(text) > LIMIT or "\0" in text or text.count("\n") > _MOST_LINES:
        return Undone(text)
    rows: list[Row] = list(enumerate(text.replace("\r\n", "\n").split("\n"), 1))
    whole = _whole(rows)
    done: list[str] = []
    steps = _steps(knowledge.once(LineStarts))
    for _ in range(_ROUNDS):
        before = len(done)
        for words, marked, step in steps:
            if marked(whole) and (better := step(rows)) is not None and better != rows:
                rows, whole = better, _whole(better)
                done.append(words)
        if len(done) == before:
            break
    done += [] if not done else _fragments(rows)
    if not done:
        return Undone(text)
    return Undone("\n".join(line for _, line in rows), tuple(dict.fromkeys(done)), tuple(n for n, _ in rows))


def unwrap(sources: Sequence[Source], knowledge: Knowledge) -> tuple[list[Source], str]:
    """The sources as they are; or, where there is but one and it is a paste, the log behind it, and a note about it."""
    if len(sources) != 1 or sources[0].gap or (sources[0].size is not None and sources[0].size > LIMIT):
        return list(sources), ""
    source = sources[0]
    data = source.peek(LIMIT + 1)
    undone = undo(data.decode("utf-8", "replace"), knowledge) if len(data) <= LIMIT else Undone("")
    if not undone.done:
        return [source], ""
    source.close()
    unwrapped = Text.source(undone.text, source.name)
    unwrapped.path, unwrapped.numbers, unwrapped.lines_above = source.path, undone.numbers, source.lines_above
    unwrapped.fault = source.fault
    return [unwrapped], undone.note


def _whole(rows: Sequence[Row]) -> str:
    return "".join(["\n" + line for _, line in rows])


def _steps(starts: LineStarts) -> tuple[tuple[str, Mark, Step], ...]:
    """What was done to a paste, what every such paste holds, and what undoes it, the outermost first."""
    return (
        ("odd blanks and quotes made plain", odd, characters),
        ("chat names and times taken off", signed, people),
        ("quotation marks taken off", quoted, quotes),
        ("Markdown fences taken off", fenced, fences),
        ("records of JSON unpacked", recorded, records),
        ("HTML entities decoded", encoded, entities),
        ("line numbers taken off", always, numbers),  # before the indentation, which may be theirs
        ("indentation taken off", always, indents),
        ("lost line ends put back", always, partial(opened, starts=starts)),
        # before the prompts, which had their room in the line
        ("hard-wrapped lines joined", always, partial(joined, starts=starts)),
        ("shell prompts taken off", always, prompts),
    )


def _fragments(rows: Sequence[Row]) -> list[str]:
    """A note on the gaps where somebody left text out."""
    gaps = sum(_GAP.match(line) is not None for _, line in rows)
    return [f"{gaps} gap{'s' * (gaps > 1)} where text was left out"] if gaps else []
