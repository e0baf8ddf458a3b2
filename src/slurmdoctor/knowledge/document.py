"""Reads a YAML file as PyYAML's nodes, each with its line and column, and refuses what a rule file does not need.

Nodes are composed and not constructed: nothing is guessed (the key `on` stays `on`), nothing is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import yaml

from slurmdoctor.knowledge.problems import Place, Problems

Node = Any
"""A ScalarNode, a SequenceNode or a MappingNode: PyYAML has no types."""
Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 900
"""Lists and tables within one another. Newer versions of PyYAML refuse about as many; older ones end the process at some more."""
_MENDS = (
    ("unknown escape character", "put a regex in single quotes: there a backslash is a backslash"),
    ("mapping values are not allowed", "quote the text: a colon with a blank after it begins a value"),
    ("cannot start any token", "indent with blanks, not tabs; quote text that begins with @ or `"),
    ("tab character", "indent with blanks, not tabs"),
    ("undefined alias", "quote the text: an unquoted * at its start means an alias"),
    ("expected <block end>", "bring the line to its neighbours' column; quote text that begins with [ or {"),
    ("end of stream", "close the quote or bracket that was opened above"),
    ("could not find expected ':'", "put a colon and a blank after the key, and close the quotes above it"),
    ("did not find expected", "close the quote or bracket above; within single quotes write '' for one"),
    ("nesting depth", "a rule file needs no more than six levels"),
    ("but found another document", "keep one document in a file: remove the `---`"),
)  # fmt: skip


class _Stream(BytesIO):
    def __init__(self, text: str, name: str) -> None:
        super().__init__(text.encode())
        self.name = name


def parse(data: bytes, file: str, problems: Problems) -> Node | None:
    """The file's outermost node, or None where it cannot be read; mistakes go to `problems`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(Place(file, line), "not UTF-8 text", "save the file as UTF-8")
        return None
    try:
        if not _is_plain(_Stream(text, file), problems):
            return None
        root = yaml.compose(_Stream(text, file), Loader=Loader)
        if root is not None:
            _refuse(root, problems)
            return root
        mend = "begin with `cause:`; `slurmdoctor rules new NAME` writes a whole file"
        problems.add(Place(file), "the file is empty", mend)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        words = re.sub(r"\s+", " ", f"{error.context} {error.problem}")
        mend = next((mend for part, mend in _MENDS if part in words), "check the indentation and the quotes just above")
        what = error.problem or error.context or "this is not YAML"
        problems.add(place, f"YAML cannot be read here: {what}", mend)
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        line = text.encode().count(b"\n", 0, position) + 1
        problems.add(Place(file, line), "a control character in the text", "write it as an escape, such as \\x1b")
    except RecursionError:
        problems.add(Place(file), "lists are nested too deep", "a rule file needs no more than six levels")
    return None


def _is_plain(stream: _Stream, problems: Problems) -> bool:
    """Whether nothing in the text is repeated by an alias, or has a tag. A RecursionError says that it nests too deep."""
    before, depth = len(problems), 0
    for event in yaml.parse(stream, Loader=Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise RecursionError
        if isinstance(event, yaml.AliasEvent):
            problems.add(
                place(event), "this part is repeated through an alias (`*name`)", "write it out where it is needed"
            )
        elif tag := getattr(event, "tag", None):
            mend = "remove it, or quote a text that begins with !"
            problems.add(place(event), f"the tag `{tag.removeprefix(_TAG)}` means nothing here", mend)
    return len(problems) == before


def _refuse(node: Node, problems: Problems) -> None:
    """Take out keys that are no words, and keys that stand twice."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse(item, problems)
    elif isinstance(node, yaml.MappingNode):
        first: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                problems.add(place(key), "a key must be a plain word", "quote the text if it begins with a bracket")
            elif key.value in first:
                what = f"`{key.value}` appears here a second time (first in line {place(first[key.value][0]).line})"
                problems.add(place(key), what, "keep one of them, or join their values")
            else:
                first[key.value] = key, value
                _refuse(value, problems)
        node.value = list(first.values())


# ── what stands in it, and where ─────────────────────────────────────────────────────────────


def place(node: Node) -> Place:
    mark = node.start_mark
    return Place(mark.name, mark.line + 1, mark.column + 1)


def pairs(node: Node) -> Iterator[tuple[str, Node, Node]]:
    """Each key as a word, its node, and its value's; none where the node is no table."""
    if isinstance(node, yaml.MappingNode):
        yield from ((key.value, key, value) for key, value in node.value)


def child(node: Node, *path: str | int) -> Node:
    """What the path leads to; None where it leads to nothing."""
    for step in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            node = next((value for key, _, value in pairs(node) if key == step), None)
        if node is None:
            break
    return node


def at(node: Node, *path: str | int) -> Place:
    """The place of what the path leads to, or of the last thing on the way there."""
    while path and child(node, *path) is None:
        path = path[:-1]
    return place(child(node, *path))


def is_text(node: Node) -> bool:
    return isinstance(node, yaml.ScalarNode)


def is_list(node: Node) -> bool:
    return isinstance(node, yaml.SequenceNode)


def is_table(node: Node) -> bool:
    return isinstance(node, yaml.MappingNode)


class _Plain(yaml.constructor.SafeConstructor):
    """Makes Python's own data of nodes; text is without the line ends around it, and a date is text."""

    def text(self, node: Node) -> str:
        return str(node.value.strip("\n") if "\n" in node.value else node.value)


for _kind in ("str", "timestamp", "value"):
    _Plain.add_constructor(_TAG + _kind, _Plain.text)  # type: ignore[type-var]


def plain(node: Node) -> Any:
    """The node as Python's own data: tables, lists, texts, numbers, true and false."""
    return _Plain().construct_document(node)
