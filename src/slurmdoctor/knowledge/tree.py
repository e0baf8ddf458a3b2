"""Parses YAML text into a tree in which every key and value has its line and column.

PyYAML composes and does not construct: nothing is guessed (the key `on` stays `on`), nothing is run.
"""

from __future__ import annotations

import re
from typing import Any

import yaml
from msgspec import Struct

from slurmdoctor.knowledge.problems import Place, Problems

Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 5000
"""Brackets and dashes. libyaml overflows the stack, and ends the process, at about ten times as many."""
_KINDS = {"str", "int", "float", "bool", "null", "timestamp", "merge", "value"}
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
    ("but found another document", "keep one document in a file: remove the `---`"),
)  # fmt: skip


class Scalar(Struct, frozen=True):
    place: Place
    text: str
    kind: str
    """What plain YAML takes it for: str, bool, int, float, null, timestamp..."""
    quoted: bool


class Rows(Struct, frozen=True):
    place: Place
    items: tuple[Tree, ...]


class Table(Struct, frozen=True):
    place: Place
    items: dict[str, Tree]
    keys: dict[str, Place]

    def at(self, *path: str | int) -> Place:
        """The place of what the path leads to, or of the last thing on the way there."""
        here: Tree = self
        for step in path:
            if isinstance(here, Table) and step in here.items:
                here = here.items[str(step)]
            elif isinstance(here, Rows) and isinstance(step, int) and step < len(here.items):
                here = here.items[step]
            else:
                break
        return here.place


Tree = Scalar | Rows | Table


def read(data: bytes, file: str, problems: Problems) -> Tree | None:
    """The file's tree, or None where it has none; mistakes go to `problems`."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        problems.add(Place(file, line), "not UTF-8 text", "save the file as UTF-8")
        return None
    try:
        if _depth(text) > _DEEPEST:
            raise RecursionError
        node = yaml.compose(text, Loader=Loader)
        if node is not None:
            return _grow(node, file, problems, set())
        mend = "begin with `cause:`; `slurmdoctor rules new NAME` writes a whole file"
        problems.add(Place(file), "the file is empty", mend)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file)
        what = error.problem or error.context or "this is not YAML"
        problems.add(place, f"YAML cannot be read here: {what}", _mend(f"{error.context} {error.problem}"))
    except yaml.reader.ReaderError as error:
        position = error.position if isinstance(error.position, int) else 0
        place = Place(file, text.count("\n", 0, position) + 1)
        problems.add(place, "a control character in the text", "write it as an escape, such as \\x1b")
    except RecursionError:
        problems.add(Place(file), "lists are nested too deep", "a rule file needs no more than six levels")
    return None


def _depth(text: str) -> int:
    """An upper bound of how deep the text nests: brackets in quotes count too."""
    depth = deepest = 0
    for char in text:
        if char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth = max(0, depth - 1)
    return max(deepest, *(line.count("- ") + line.count("? ") for line in text.split("\n")))


def _grow(node: Any, file: str, problems: Problems, seen: set[int]) -> Tree | None:
    place = Place(file, node.start_mark.line + 1, node.start_mark.column + 1)
    if id(node) in seen:  # composing resolves aliases: the same node comes again, maybe without end
        problems.add(place, "this part is repeated through an alias (`*name`)", "write it out where it is needed")
        return None
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        kind = node.tag.removeprefix(_TAG)
        if kind not in _KINDS:
            mend = "remove it, or quote a text that begins with !"
            problems.add(place, f"the tag `{node.tag}` means nothing here", mend)
            return None
        return Scalar(place, node.value, kind, node.style in ("'", '"', "|", ">"))
    if isinstance(node, yaml.SequenceNode):
        rows = (_grow(item, file, problems, seen) for item in node.value)
        return Rows(place, tuple(row for row in rows if row is not None))
    items: dict[str, Tree] = {}
    keys: dict[str, Place] = {}
    for key, value in node.value:
        at = Place(file, key.start_mark.line + 1, key.start_mark.column + 1)
        if not isinstance(key, yaml.ScalarNode):
            problems.add(at, "a key must be a plain word", "quote the text if it begins with a bracket")
            continue
        tree = _grow(value, file, problems, seen)
        if key.value in keys:
            what = f"`{key.value}` appears here a second time (first in line {keys[key.value].line})"
            problems.add(at, what, "keep one of them, or join their values")
        elif tree is not None:
            items[key.value], keys[key.value] = tree, at
    return Table(place, items, keys)


def _mend(error: str) -> str:
    error = re.sub(r"\s+", " ", error)
    return next((mend for words, mend in _MENDS if words in error), "check the indentation and the quotes just above")
