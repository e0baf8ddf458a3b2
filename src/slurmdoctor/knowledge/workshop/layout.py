"""The layout of rule files: one order of keys, the schema's, and no pattern that is too wide.

Source text moves in whole lines, with its quotes and line breaks; a comment above a key moves with the key.

    - id: cuda-oom/torch              - id: cuda-oom/torch
      regex: 'out of memory'            # rare text
      # rare text                       literals: ['out of memory']
      literals: ['out of memory']       regex: 'out of memory'

Limits: what stands in braces, indentation, quotes and long prose stay as they are. What can only be mended by hand is returned as problems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge.document import Node, is_list, is_table, is_text, kind, pairs, parse, place
from slurmdoctor.knowledge.problems import Place, Problem, Problems
from slurmdoctor.knowledge.regexes import LINES
from slurmdoctor.knowledge.schema import CAUSE, DERIVATIONS, EXAMPLES, FIXES, PATTERNS, RULES, SHARED, TABLES

WIDTH = 160
"""Columns of the widest line that may hold a part of a pattern."""
_ORDERS: Mapping[str, Collection[str]] = {
    "rules": RULES.fields,
    "let": DERIVATIONS.fields,
    "fixes": FIXES.fields,
    "examples": EXAMPLES,
    **{name: table.fields for name, table in TABLES.items()},
}
"""The order of keys in the tables below a key of this name."""


class Layout(Struct, frozen=True):
    text: str
    """The file as it should be; as it is, where it cannot be read."""
    problems: list[Problem]


def arrange(data: bytes, file: str) -> Layout:
    problems = Problems()
    text = data.decode("utf-8-sig", "replace")
    before = parse(data, file, problems)
    if before is None or problems:
        return Layout(text, sorted(set(problems)))
    lines = text.replace("\r\n", "\n").splitlines(keepends=True)
    if is_table(before):
        _arrange(lines, before, CAUSE if any(key == "cause" for key, _, _ in pairs(before)) else SHARED)
    arranged = "".join(lines)
    after = parse(arranged.encode(), file, problems)
    if after is None or _plain(after) != _plain(before):
        problems.add(Place(file), "the keys cannot be put in order", "write each key on a line of its own")
        return Layout(text, problems)
    return Layout(arranged, sorted(_too_wide(after, arranged.splitlines())))


def _arrange(lines: list[str], node: Node, order: Collection[str]) -> None:
    """Put the keys of this table, and of those in it, in their order.

    What moves, moves within its table, so that the places of all that is outside stay as they are.
    """
    for key, _, value in pairs(node):
        for inner in (value.value if is_list(value) else (value,)) if key in _ORDERS else ():
            if is_table(inner):
                _arrange(lines, inner, _ORDERS[key])
    rank = {key: number for number, key in enumerate(order)}
    ranks = [rank.get(key, len(rank)) for key, _, _ in pairs(node)]
    if ranks != sorted(ranks) and not node.flow_style:
        _permute(lines, node, sorted(range(len(ranks)), key=ranks.__getitem__))


def _permute(lines: list[str], node: Node, wanted: Sequence[int]) -> None:
    """Each key with the comments above it is a block of whole lines; the first one keeps what stands before it, such as `- `."""
    first = node.value[0][0].start_mark
    head = lines[first.line][: first.column]
    lines[first.line] = " " * first.column + lines[first.line][first.column :]
    blocks, done = [], first.line
    for _, value in node.value:
        end = _last_line(value, lines) + 1
        blocks.append([line if line.endswith("\n") else line + "\n" for line in lines[done:end]])
        done = end
    moved = [line for number in wanted for line in blocks[number]]
    top = next(at for at, line in enumerate(moved) if line.strip() and not line.lstrip().startswith("#"))
    moved[top] = head + moved[top][first.column :]
    lines[first.line : done] = moved


def _last_line(node: Node, lines: Sequence[str]) -> int:
    """The last line of a value: its end mark is below the comments and blank lines that follow it."""
    if not is_text(node) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if is_table(node) else last, lines)
    line: int = node.end_mark.line
    if is_text(node) and node.style in ("|", ">"):
        line -= node.end_mark.column == 0
        while line > node.start_mark.line and not lines[line].strip():
            line -= 1
    return line


def _too_wide(node: Node, lines: Sequence[str], here: bool = False) -> Iterator[Problem]:
    """The lines of patterns that are too wide; `here`: below a key that holds one."""
    if is_text(node):
        for number in range(node.start_mark.line, node.end_mark.line + 1) if here else ():
            if len(lines[number]) > WIDTH:
                what = f"this line of a pattern has {len(lines[number])} columns, more than {WIDTH}"
                mend = "write the pattern as a list of alternatives, or of pieces, or name a part of it as a fragment"
                yield Problem(Place(place(node).file, number + 1, place(node).column), what, mend)
        return
    for row in node.value if is_list(node) else ():
        yield from _too_wide(row, lines, here)
    for key, _, value in pairs(node):
        if key not in LINES:
            yield from _too_wide(value, lines, key in PATTERNS)


def _plain(node: Node) -> Any:
    """What the file says, without its places and the order of its keys."""
    if is_text(node):
        return node.value, kind(node)
    if is_list(node):
        return [_plain(row) for row in node.value]
    return {key: _plain(value) for key, _, value in pairs(node)}
