"""A word of bash → its text, with the variables filled in that the script itself sets.

`NODES=4`, `$((NODES * 8))` and `TRAIN_CMD="..."` are known; so is what Slurm sets from the directives. `$(hostname)` and
`$HOME` are not: they stay as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import fill
from slurmdoctor.slurm.script.model import Early
from slurmdoctor.slurm.script.programs import programs

if TYPE_CHECKING:
    from tree_sitter import Node

_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_WITH_DEFAULT = re.compile(r"\$\{(\w+):?([-=?+])(.*)\}", re.S)
_UNSPLIT = re.compile(r"(?:\$\{[^{}]*\}|\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\S)+")
"""A word of a value that is partly unknown: what is computed in it stays whole."""
NESTED = 50
"""Words and statements within each other."""
_OF_ARRAY = re.compile(r"\$\{(\w+)\[(@|\*|\d{1,3})\]\}")


class TooMuchError(Exception):
    """The script needs more than any script should."""


class Value(Struct, frozen=True):
    """The text of a word, and whether all of it is known."""

    text: str
    known: bool
    line: int = 0
    early: tuple[Early, ...] = ()
    """Per-task variables in it."""
    items: tuple[Value, ...] | None = None
    """The words of an array."""


class Words(Struct):
    """Reads the words of one piece of shell text, whose first line is line `first` of the script."""

    values: dict[str, Value]
    """What each variable holds at this place of the script."""
    substitute: Callable[[Node], None]
    """Called with each command in `$(...)`."""
    spend: Callable[[int], None]
    """Called with what each value costs."""
    data: bytes = b""
    first: int = 1
    nested: int = 0

    def enter(self) -> None:
        """One word or statement deeper."""
        self.nested += 1
        if self.nested > NESTED:
            raise TooMuchError

    def line(self, node: Node) -> int:
        return self.first + int(node.start_point[0])

    def text(self, node: Node) -> str:
        """The node as it is written."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def word(self, node: Node) -> Value:
        """The node's value."""
        self.enter()
        value = self._value(node)
        self.nested -= 1
        self.spend(cost(value))
        return value

    def _value(self, node: Node) -> Value:
        line, kind = self.line(node), node.type
        if kind == "raw_string":
            return Value(self.text(node)[1:-1], True, line)
        if kind == "ansi_c_string":
            return Value(self.text(node)[2:-1], True, line)
        if kind in ("string", "translated_string"):
            return self._joined(node, node.start_byte + 1, node.end_byte - 1, _unescape_quoted)
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node)
        if kind == "arithmetic_expansion":
            return self._arithmetic(node)
        if kind in ("command_substitution", "process_substitution"):
            for child in node.named_children:
                self.substitute(child)
            return Value(self.text(node), False, line)
        if kind == "array":
            return array([item for child in node.named_children for item in self.split(child)], line)
        plain = kind in ("word", "number", "test_operator")
        if kind in ("concatenation", "command_name") or (node.named_child_count and not plain):
            return self._joined(node, node.start_byte, node.end_byte, _unescape)
        return Value(_unescape(self.text(node)), True, line)

    def split(self, node: Node) -> list[Value]:
        """The words that a node makes: an array's, or those of an unquoted variable, split at its blanks."""
        found = _OF_ARRAY.fullmatch(self.text(node).strip('"'))
        if found and found[2] in "@*" and (held := self.values.get(found[1])) and held.items is not None:
            self.spend(sum(map(cost, held.items)))
            return list(held.items)
        value = self.word(node)
        if node.type in ("simple_expansion", "expansion") and " " in value.text:
            pieces = value.text.split() if value.known else _UNSPLIT.findall(value.text)
            self.spend(len(pieces) * cost(replace(value, text="")))
            return [replace(value, text=piece) for piece in pieces]
        return [value]

    def _joined(self, node: Node, start: int, end: int, literal: Callable[[str], str]) -> Value:
        """A word of several pieces: `"logs/$NAME.log"`."""
        text, known, early, at = "", True, list[Early](), start
        for child in node.children:
            if child.type in ('"', "string_content") or not child.is_named:
                continue
            text += literal(self.data[at : max(at, child.start_byte)].decode("utf-8", "replace"))
            value = self.word(child)
            if child.start_byte == start and child.end_byte == end:
                return value  # "$TRAIN_CMD": its lines are those of its assignment
            text, known, at = text + value.text, known and value.known, child.end_byte
            early += value.early
        text += literal(self.data[at : max(at, end)].decode("utf-8", "replace"))
        return Value(text, known, self.line(node), tuple(early))

    def _variable(self, node: Node) -> Value:
        line, written = self.line(node), self.text(node).strip()
        if found := _VARIABLE.fullmatch(written):
            early = _early(found[1], line, written)
            value = self.values.get(found[1])
            if value is None:
                return Value(written, False, line, early)
            brought = tuple(replace(one, through=one.through or found[1]) for one in value.early)
            return Value(value.text, value.known, value.line or line, (*brought, *early))
        if (found := _OF_ARRAY.fullmatch(written)) and (value := self.values.get(found[1])) and value.items is not None:
            items = value.items if found[2] in "@*" else value.items[int(found[2]) :][:1]
            return replace(array(items, line), items=None)
        default = _WITH_DEFAULT.fullmatch(written)
        if default and default[1] in self.values:
            return replace(self.values[default[1]], line=line)
        early = _early(default[1], line, written) if default else ()
        if default and default[2] in "-=":
            # the job's environment may set another: a likely value, not a known one
            return Value(_VARIABLE.sub(self._likely, default[3].strip("\"'")), False, line, early)
        name = re.match(r"\$\{[#!]?(\w+)", written)
        return Value(written, False, line, _early(name[1], line, written) if name else ())

    def _likely(self, variable: re.Match[str]) -> str:
        value = self.values.get(variable[1])
        self.spend(cost(value) if value else 0)
        return value.text if value else variable[0]

    def _arithmetic(self, node: Node) -> Value:
        """`$((NODES * 8))`."""
        line, written = self.line(node), self.text(node)
        inner = written.removeprefix("$((").removesuffix("))")
        names = dict.fromkeys(re.findall(r"\w+", inner))
        held = ((name, self.values[name]) for name in names if name in self.values)
        numbers = {name: one.text for name, one in held if one.known and re.fullmatch(r"\d{1,18}", one.text)}
        plain = _VARIABLE.sub(r"\1", inner).replace("/", "//")
        result = fill("{" + plain + "}", numbers) if re.fullmatch(r"[\w\s+*/%()-]{1,200}", plain) else None
        early = tuple(one for name in names for one in _early(name, line, written))
        return Value(written if result is None else result, result is not None, line, early)


def cost(value: Value) -> int:
    """What a value takes, in characters."""
    return 1 + len(value.text) + 10 * len(value.early)


def array(items: Sequence[Value], line: int) -> Value:
    """An array of words, or the words of one behind each other."""
    early = tuple(one for item in items for one in item.early)
    text = " ".join(item.text for item in items)
    return Value(text, all(item.known for item in items), line, early, tuple(items))


def _early(name: str, line: int, written: str) -> tuple[Early, ...]:
    return (Early(name, line, written),) if name in programs().per_task else ()


def _unescape(text: str) -> str:
    """Outside of quotes a backslash goes, and so does a line end behind it."""
    return re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], text)


def _unescape_quoted(text: str) -> str:
    """In double quotes a backslash before $ ` " and itself goes; before a line end it stays, for the lines' numbers."""
    return re.sub(r'\\([$`"\\])', r"\1", text)
