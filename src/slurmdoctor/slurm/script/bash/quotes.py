"""Where a piece of a script stands: between which quotes, and how a text is written there. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from slurmdoctor.slurm.script.bash.syntax import parsed

if TYPE_CHECKING:
    from tree_sitter import Node

_tree = lru_cache(maxsize=1)(parsed)
Quotes = Literal["", "'", '"']


class Piece(NamedTuple):
    """A piece of a line, and the quotes that it stands between; a here-document has those of its first line."""

    text: str
    quotes: Quotes

    def written(self, text: str) -> str:
        """A text that a task's shell shall read, as it must be written in this place."""
        if self.quotes == '"':
            return re.sub(r'([$`"\\])', r"\\\1", text)
        return text.replace("'", "'\\''") if self.quotes == "'" else text


def piece(script: str, line: int, pattern: str) -> Piece | None:
    """What a pattern finds in a line of a script."""
    lines, data = _parts(script)
    found = re.search(pattern, lines[line - 1]) if 0 < line <= len(lines) else None
    if found is None:
        return None
    start = len("\n".join(lines[: line - 1]).encode("utf-8", "replace")) + (line > 1)
    start += len(lines[line - 1][: found.start()].encode("utf-8", "replace"))
    tree = _tree(data)
    return tree and Piece(found[0], _quotes(data, tree.root_node.descendant_for_byte_range(start, start + 1)))


@lru_cache(maxsize=1)
def _parts(script: str) -> tuple[list[str], bytes]:
    return script.split("\n"), script.encode("utf-8", "replace")


def _quotes(data: bytes, node: Node | None) -> Quotes:
    while node is not None:
        if node.type == "raw_string":
            return "'"
        if node.type in ("string", "translated_string"):
            return '"'
        if node.type == "heredoc_body":
            start = node.parent.children[1] if node.parent and len(node.parent.children) > 1 else node
            return "'" if re.search(rb"[\"'\\]", data[start.start_byte : start.end_byte]) else '"'
        node = node.parent
    return ""
