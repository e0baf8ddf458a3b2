"""Readers of single fields of a rule file: each takes a tree, returns its value, and adds a problem where it is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge.problems import Problems, did_you_mean, nearest
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree

Reader = Callable[[Tree, str, Problems], Any]
"""(tree, the field's name, problems) → the value, or None after adding a problem."""


_MANY = 40


class Field(Struct, frozen=True):
    read: Reader
    required: bool = False
    default: Any = None
    hint: str = ""
    """What to write, where the field is missing."""


def text(tree: Tree, name: str, problems: Problems) -> str | None:
    if not isinstance(tree, Scalar):
        problems.add(tree.place, f"`{name}` must be one text, and this is {_kind(tree)}", "write one text, in quotes")
        return None
    if tree.kind == "null" or not tree.text.strip():
        problems.add(tree.place, f"`{name}` is empty", "write its text, or remove the key")
        return None
    if tree.kind in ("bool", "int", "float") and not tree.quoted:
        meant = {"bool": "true or false", "int": "a number", "float": "a number"}[tree.kind]
        problems.add(
            tree.place,
            f"`{name}` must be text, and YAML reads `{tree.text}` as {meant}",
            f"quote it: '{tree.text}'",
        )
        return None
    return tree.text.strip("\n") if "\n" in tree.text else tree.text


def line(most: int = 10_000) -> Reader:
    def read(tree: Tree, name: str, problems: Problems) -> str | None:
        value = text(tree, name, problems)
        if value is not None and "\n" in value:
            problems.add(tree.place, f"`{name}` holds more than one line", "write it as one line")
            return None
        if value is not None and len(value) > most:
            problems.add(tree.place, f"`{name}` has {len(value)} characters", f"say it in at most {most}")
            return None
        return value

    return read


def one_of(*words: str) -> Reader:
    def read(tree: Tree, name: str, problems: Problems) -> str | None:
        if not isinstance(tree, Scalar):
            problems.add(
                tree.place,
                f"`{name}` must be one word, and this is {_kind(tree)}",
                f"write one of {', '.join(words)}",
            )
            return None
        if tree.text not in words:
            mend = did_you_mean(tree.text, words, f"write one of {', '.join(words)}")
            problems.add(tree.place, f"`{tree.text}` is no value of `{name}`", mend)
            return None
        return tree.text

    return read


def flag(tree: Tree, name: str, problems: Problems) -> bool | None:
    if isinstance(tree, Scalar) and tree.text in ("true", "false") and not tree.quoted:
        return tree.text == "true"
    problems.add(tree.place, f"`{name}` must be true or false", "write true or false, without quotes")
    return None


def share(tree: Tree, name: str, problems: Problems) -> float | None:
    if isinstance(tree, Scalar) and tree.kind in ("int", "float") and 0 <= float(tree.text) <= 1:
        return float(tree.text)
    problems.add(tree.place, f"`{name}` must be a share between 0 and 1", "write a number such as 0.6")
    return None


def few(tree: Tree, name: str, problems: Problems) -> int | None:
    if isinstance(tree, Scalar) and tree.kind == "int" and tree.text.isdecimal() and int(tree.text) <= _MANY:
        return int(tree.text)
    problems.add(tree.place, f"`{name}` must be a number of lines, at most {_MANY}", "write a number such as 3")
    return None


def list_of(item: Reader, *, least: int = 0) -> Reader:
    def read(tree: Tree, name: str, problems: Problems) -> tuple[Any, ...] | None:
        if not isinstance(tree, Rows):
            short = isinstance(tree, Scalar) and len(tree.text) < 60 and "\n" not in tree.text
            kept = f"['{tree.text}']" if isinstance(tree, Scalar) and short else "['...']"
            problems.add(tree.place, f"`{name}` must be a list, and this is {_kind(tree)}", f"write {name}: {kept}")
            return None
        if len(tree.items) < least:
            problems.add(tree.place, f"`{name}` is empty", "give at least one")
        values = [item(row, name, problems) for row in tree.items]
        return tuple(value for value in values if value is not None)

    return read


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
        problems.add(
            tree.place,
            f"{name} must be a table of keys, and this is {_kind(tree)}",
            f"write keys such as {', '.join(list(fields)[:3])}",
        )
        return None
    values: dict[str, Any] = {key: field.default for key, field in fields.items()}
    for written, value in tree.items.items():
        key = renamed.get(written, written)
        if key != written and key not in tree.items:
            problems.note(tree.keys[written], f"`{written}` is called `{key}` now", f"write {key}:")
        elif key != written:
            problems.add(tree.keys[written], f"`{written}` is the old name of `{key}`", "keep the new one")
        if key in fields:
            values[key] = fields[key].read(value, key, problems)
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


def _kind(tree: Tree) -> str:
    if isinstance(tree, Rows):
        return "a list"
    return "a table of keys" if isinstance(tree, Table) else "one value"
