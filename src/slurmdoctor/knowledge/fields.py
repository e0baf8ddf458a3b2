"""Reads tables and lists of a rule file. The reader of a value returns it, or raises FieldError; every mistake is collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge.problems import FieldError, Problems, did_you_mean, nearest
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree

Reader = Callable[[Tree, str, Problems], Any]
"""(tree, the field's name, problems) → the value. FieldError says what is wrong with it as a whole."""


class Field(Struct, frozen=True):
    read: Reader
    required: bool = False
    default: Any = None
    hint: str = ""
    """What to write, where the field is missing."""


def list_of(item: Reader, *, least: int = 0) -> Reader:
    """Reads a list of such items, without those in which something is wrong."""

    def read(tree: Tree, name: str, problems: Problems) -> tuple[Any, ...]:
        if not isinstance(tree, Rows):
            short = isinstance(tree, Scalar) and len(tree.text) < 60 and "\n" not in tree.text
            kept = f"['{tree.text}']" if isinstance(tree, Scalar) and short else "['...']"
            raise FieldError(tree.place, f"`{name}` must be a list, and this is {kind(tree)}", f"write {name}: {kept}")
        if len(tree.items) < least:
            problems.add(tree.place, f"`{name}` is empty", "give at least one")
        values = [attempt(item, row, name, problems) for row in tree.items]
        return tuple(value for value in values if value is not None)

    return read


def attempt(read: Reader, tree: Tree, name: str, problems: Problems) -> Any:
    """What the reader makes of the tree; None where that is wrong, which is then among the problems."""
    try:
        return read(tree, name, problems)
    except FieldError as wrong:
        problems.append(wrong.problem)
        return None


def record(
    tree: Tree,
    fields: Mapping[str, Field],
    name: str,
    problems: Problems,
    renamed: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any] | None:
    """A table read by its fields; None where anything in it is wrong. `renamed`: keys of older files and their names now."""
    before = len(problems)
    if not isinstance(tree, Table):
        mend = f"write keys such as {', '.join(list(fields)[:3])}"
        problems.add(tree.place, f"{name} must be a table of keys, and this is {kind(tree)}", mend)
        return None
    values: dict[str, Any] = {key: field.default for key, field in fields.items()}
    for written, value in tree.items.items():
        key = renamed.get(written, written)
        if key != written and key not in tree.items:
            problems.note(tree.keys[written], f"`{written}` is called `{key}` now", f"write {key}:")
        elif key != written:
            problems.add(tree.keys[written], f"`{written}` is the old name of `{key}`", "keep the new one")
        if key in fields:
            values[key] = attempt(fields[key].read, value, key, problems)
        else:
            mend = did_you_mean(key, set(fields) - set(tree.items), f"known here: {', '.join(fields)}")
            problems.add(tree.keys[key], f"{name} has no key `{key}`", mend)
    given = {renamed.get(key, key) for key in tree.items}
    unknown = given - fields.keys()
    for key, field in fields.items():
        # A misspelt key is reported once, as unknown; not again as missing.
        if field.required and key not in given and not any(nearest(word, [key]) for word in unknown):
            problems.add(tree.place, f"{name} lacks `{key}`", field.hint or f"add `{key}:`")
    return values if len(problems) == before else None


def kind(tree: Tree) -> str:
    if isinstance(tree, Rows):
        return "a list"
    return "a table of keys" if isinstance(tree, Table) else "one value"
