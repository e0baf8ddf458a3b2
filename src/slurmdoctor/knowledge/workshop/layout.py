"""The layout of rule files: one order of keys, no blanks at line ends, no pattern that is too wide.

The order is the schema's. Source text moves as it stands, with its quotes and line breaks; a comment above a key moves with the key.

    - id: cuda-oom/torch              - id: cuda-oom/torch
      regex: 'out of memory'            # rare text
      # rare text                       literals: ['out of memory']
      literals: ['out of memory']       regex: 'out of memory'

Limits: indentation, quotes and long prose stay as they are. What can only be mended by hand is returned as problems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import yaml
from msgspec import Struct

from slurmdoctor.knowledge.fragments import LINES
from slurmdoctor.knowledge.problems import Place, Problem, Problems
from slurmdoctor.knowledge.schema import CAUSE, DERIVED, EXAMPLES, FIX, OLD_NAMES, PATTERNS, RULE, TABLES
from slurmdoctor.knowledge.tree import Loader, Rows, Scalar, Tree, read

WIDTH = 160
"""Columns of the widest line that may hold a part of a pattern."""
_ORDERS: Mapping[str, Collection[str]] = {
    "rules": RULE,
    "let": DERIVED,
    "fixes": FIX,
    "examples": EXAMPLES,
    **{name: kind.fields for name, kind in TABLES.items()},
}
"""The order of keys in the tables below a key of this name."""


class Layout(Struct, frozen=True):
    text: str
    """The file as it should be; as it is, where it cannot be read."""
    problems: list[Problem]


def arrange(data: bytes, file: str) -> Layout:
    problems = Problems()
    before = read(data, file, problems)
    text = data.decode("utf-8-sig", "replace")
    if before is None or problems:
        return Layout(text, problems.sorted())
    renamed = _renamed(text.replace("\r\n", "\n"))
    arranged = _trimmed(_ordered(renamed))
    after = read(arranged.encode(), file, problems)
    if after is None or _plain(after) != _plain(before):
        problems.add(Place(file), "the keys cannot be put in order", "write each key on a line of its own")
        return Layout(text, problems)
    return Layout(arranged, sorted(_too_wide(arranged, file)))


# ── the order of keys ────────────────────────────────────────────────────────────────────────


def _ordered(text: str) -> str:
    root = _compose(text)
    if isinstance(root, yaml.MappingNode):
        keys = {key.value for key, _ in root.value}
        text = _arrange(text, _starts(text), root, CAUSE if "cause" in keys else [*TABLES, "silence"])
    return text


def _arrange(text: str, starts: Sequence[int], node: Any, order: Collection[str]) -> str:
    """The text with the keys of this table, and of those in it, in their order.

    What moves, moves within its table, so that the places of all that is outside stay as they are.
    """
    for key, value in node.value:
        if key.value in _ORDERS:
            for inner in value.value if isinstance(value, yaml.SequenceNode) else (value,):
                if isinstance(inner, yaml.MappingNode):
                    text = _arrange(text, starts, inner, _ORDERS[key.value])
    rank = {key: at for at, key in enumerate(order)}
    wanted = sorted(range(len(node.value)), key=lambda at: rank.get(node.value[at][0].value, len(rank)))
    if wanted == sorted(wanted):
        return text
    if node.flow_style:
        return _permuted_in_braces(text, starts, node, wanted)
    return _permuted_lines(text, starts, node, wanted)


def _permuted_in_braces(text: str, starts: Sequence[int], node: Any, wanted: Sequence[int]) -> str:
    spans = [(_offset(starts, key.start_mark), _offset(starts, value.end_mark)) for key, value in node.value]
    parts = [text[start:end] for start, end in spans]
    made, done = [], 0
    for (start, end), at in zip(spans, wanted, strict=True):
        made += [text[done:start], parts[at]]
        done = end
    return "".join(made) + text[done:]


def _permuted_lines(text: str, starts: Sequence[int], node: Any, wanted: Sequence[int]) -> str:
    """Each key with the comments above it is a block of whole lines; the first one keeps what stands before it, such as `- `."""
    first = node.value[0][0].start_mark
    begin, indent = starts[first.line], first.column
    head = text[begin : begin + indent]
    blocks, done = [], begin
    for _, value in node.value:
        end = starts[_last_line(value, text, starts) + 1]
        blocks.append(text[done:end])
        done = end
    blocks[0] = " " * indent + blocks[0][indent:]
    if not blocks[-1].endswith("\n"):
        blocks[-1] += "\n"
    moved = [blocks[at] for at in wanted]
    key = len(moved[0]) - len(_without_comments(moved[0]))
    moved[0] = moved[0][:key] + head + moved[0][key + indent :]
    return text[:begin] + "".join(moved) + text[done:]


def _without_comments(block: str) -> str:
    lines = block.splitlines(keepends=True)
    while lines and (not lines[0].strip() or lines[0].lstrip().startswith("#")):
        lines.pop(0)
    return "".join(lines)


def _last_line(node: Any, text: str, starts: Sequence[int]) -> int:
    """The last line of a value: its end mark is below the comments and blank lines that follow it."""
    if not isinstance(node, yaml.ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _last_line(last[1] if isinstance(node, yaml.MappingNode) else last, text, starts)
    line: int = node.end_mark.line
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        line -= node.end_mark.column == 0
        while line > node.start_mark.line and not text[starts[line] : starts[line + 1]].strip():
            line -= 1
    return line


# ── names, blanks, widths ────────────────────────────────────────────────────────────────────


def _renamed(text: str) -> str:
    """Old names of a rule's keys are written as they are called now."""
    starts = _starts(text)
    root = _compose(text)
    rules = [value for key, value in root.value if key.value == "rules"] if isinstance(root, yaml.MappingNode) else []
    rows = [row for value in rules if isinstance(value, yaml.SequenceNode) for row in value.value]
    keys = [key for row in rows if isinstance(row, yaml.MappingNode) for key, _ in row.value if key.value in OLD_NAMES]
    for key in reversed(keys):
        start, end = _offset(starts, key.start_mark), _offset(starts, key.end_mark)
        text = text[:start] + OLD_NAMES[key.value] + text[end:]
    return text


def _trimmed(text: str) -> str:
    """No blanks at the ends of lines but within a text, and one line end at the file's end."""
    kept = {line for node in _scalars(_compose(text)) for line in range(node.start_mark.line, node.end_mark.line)}
    lines = text.splitlines(keepends=True)
    while not lines[-1].strip():
        lines.pop()
    return "".join((line.rstrip("\n") if at in kept else line.rstrip()) + "\n" for at, line in enumerate(lines))


def _too_wide(text: str, file: str) -> Iterator[Problem]:
    lines = text.splitlines()
    for node in _patterns(_compose(text)):
        for at in range(node.start_mark.line, node.end_mark.line + 1):
            if len(lines[at]) > WIDTH:
                what = f"this line of a pattern has {len(lines[at])} columns, more than {WIDTH}"
                mend = "write the pattern as a list of alternatives, or of pieces, or name a part of it as a fragment"
                yield Problem(Place(file, at + 1, node.start_mark.column + 1), what, mend)


def _patterns(node: Any, here: bool = False) -> Iterator[Any]:
    """The texts below a key that holds a pattern."""
    if isinstance(node, yaml.ScalarNode):
        yield from [node] if here else []
    elif isinstance(node, yaml.SequenceNode):
        for row in node.value:
            yield from _patterns(row, here)
    else:
        for key, value in node.value:
            if key.value not in LINES:
                yield from _patterns(value, key.value in PATTERNS)


def _scalars(node: Any) -> Iterator[Any]:
    if isinstance(node, yaml.ScalarNode):
        yield node
        return
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            yield from _scalars(part)


def _plain(tree: Tree) -> Any:
    """What the file says, without its places and the order of its keys."""
    if isinstance(tree, Scalar):
        return tree.text, tree.kind, tree.quoted
    if isinstance(tree, Rows):
        return [_plain(row) for row in tree.items]
    return {OLD_NAMES.get(key, key): _plain(value) for key, value in tree.items.items()}


def _compose(text: str) -> Any:
    return yaml.compose(text, Loader=Loader)


def _starts(text: str) -> list[int]:
    """Where each line begins; at last, where the text ends."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [*starts, starts[-1]]


def _offset(starts: Sequence[int], mark: Any) -> int:
    offset: int = starts[mark.line] + mark.column
    return offset
