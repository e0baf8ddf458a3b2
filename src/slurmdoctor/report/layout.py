"""Which lines a report of limited length has room for: blocks, the important ones first, and their labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from slurmdoctor.report.terminal import Line, cells, cut

INDENT = "  "
LABEL = 7
"""Columns of a label."""
_NUMBERED = "fix"
"""The label whose blocks are counted."""


class Block(Struct, frozen=True):
    """Lines that belong together. Each block gets `least` of them, then the rest of the room goes by `rank`, lowest first."""

    rows: list[Line]
    rank: int
    least: int = 0
    label: str | None = None
    """What stands before the first row; None where the rows are whole lines of their own."""
    kind: Literal["whole", "rows", "prose"] = "whole"
    """All of it or nothing; rows that stand for themselves; or text, of which the end may be left out."""
    follows: bool = False
    """It says more of the block before it, and nothing without that."""


def prose(label: str, rows: list[str], rank: int, least: int = 1) -> Block:
    """A text under its label, of which the end may be left out."""
    return Block([[("", row)] for row in rows], rank, least, label, "prose")


def fit(blocks: Sequence[Block], limit: int, width: int) -> list[Line]:
    """At most `limit` lines: first what each block needs, then more for the most important ones."""
    granted = _granted(blocks, limit)
    shown = [(block, _kept(block, count, width)) for block, count in zip(blocks, granted, strict=True) if count]
    many = sum(block.label == _NUMBERED for block, _ in shown) > 1
    lines: list[Line] = []
    number, last = 0, None
    for block, rows in shown:
        label = block.label
        if label is None:
            lines += rows
        else:
            text = "" if label == last else label
            if label == _NUMBERED and many:
                number += 1
                text = f"{label if number == 1 else '':{len(label)}} {number}"
            labels = [text, *[""] * len(rows)]
            lines += [[("", INDENT), ("key", f"{name:{LABEL}}"), *row] for name, row in zip(labels, rows, strict=False)]
        last = label or last
    return lines


def _granted(blocks: Sequence[Block], limit: int) -> list[int]:
    """How many lines each block gets."""
    granted = [min(block.least, len(block.rows)) for block in blocks]
    order = sorted(range(len(blocks)), key=lambda number: blocks[number].rank)
    for number in reversed(order):
        if sum(granted) > limit:
            granted[number] = 0
    for number in order:
        block, room = blocks[number], limit - sum(granted)
        wanted = len(block.rows) - granted[number]
        if block.follows and not granted[number - 1]:
            granted[number] = 0
        elif block.kind != "whole" or wanted <= room:
            granted[number] += min(wanted, room)
    return granted


def _kept(block: Block, count: int, width: int) -> list[Line]:
    """The first rows of a block; of a text that goes on, the last one says so."""
    if block.kind != "prose" or count == len(block.rows):
        return block.rows[:count]
    kept = [row[-1][1] for row in block.rows[:count]]
    if block.label is not None and (clauses := _whole_clauses(kept)):
        return [[*row[:-1], (row[-1][0], text)] for row, text in zip(block.rows, clauses, strict=False)]
    *rows, last = block.rows[:count]
    room = width - sum(cells(piece) for _, piece in last[:-1]) - (0 if block.label is None else len(INDENT) + LABEL)
    return [*rows, [*last[:-1], (last[-1][0], cut(f"{last[-1][1]} …", room))]]


def _whole_clauses(rows: Sequence[str]) -> list[str]:
    """A text's rows to the last semicolon that ends a clause; none where no clause is whole."""
    for number in range(len(rows) - 1, -1, -1):
        text = rows[number]
        ends = [
            at.start()
            for at in re.finditer(";(?: |$)", text)
            if _closed("\n".join([*rows[:number], text[: at.start()]]))
        ]
        if ends:
            return [*rows[:number], text[: ends[-1]]]
    return []


def _closed(text: str) -> bool:
    """Whether no bracket and no command is open at a text's end."""
    return text.count("`") % 2 == 0 and text.count("(") <= text.count(")")
