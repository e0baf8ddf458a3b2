"""Readers of single values of a rule file: ids, titles, literals, conditions, samples."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from slurmdoctor.knowledge.expressions import names_of
from slurmdoctor.knowledge.fields import line, text
from slurmdoctor.knowledge.fragments import NAME
from slurmdoctor.knowledge.problems import Problems
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree

CAUSE_ID = re.compile(r"(?:site/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
RULE_NAME = re.compile(r"[a-z0-9]+(?:[-.+][a-z0-9]+)*")


def cause_id(tree: Tree, name: str, problems: Problems) -> str | None:
    value: str | None = line()(tree, name, problems)
    if value is not None and not CAUSE_ID.fullmatch(value):
        problems.add(
            tree.place,
            f"`{value}` is no cause's id",
            "write small letters joined by hyphens, such as cuda-oom, or site/my-cause",
        )
        return None
    return value


def fragment_name(tree: Tree, name: str, problems: Problems) -> str | None:
    value: str | None = line()(tree, name, problems)
    if value is not None and not NAME.fullmatch(value):
        problems.add(tree.place, f"`{value}` is no fragment's name", "write small letters joined by `_`: slurm_client")
        return None
    return value


def title(tree: Tree, name: str, problems: Problems) -> str | None:
    value: str | None = line(60)(tree, name, problems)
    if value is not None and value.endswith("."):
        problems.add(tree.place, "the title ends with a full stop", 'remove it: the title completes "rank 13 ..."')
        return None
    return value


def literal(shortest: int) -> Callable[[Tree, str, Problems], str | None]:
    def read(tree: Tree, name: str, problems: Problems) -> str | None:
        if isinstance(tree, Scalar) and not tree.quoted and tree.kind in ("int", "float"):
            return text(tree, name, problems)
        if not isinstance(tree, Scalar) or "\n" in tree.text:
            problems.add(tree.place, "a literal must be one line of plain text", "write it in single quotes")
            return None
        size = len(tree.text.encode())
        if size < shortest:
            problems.add(
                tree.place,
                f"the literal `{tree.text}` has {size} bytes",
                f"take a longer, rarer text: at least {shortest} bytes",
            )
            return None
        if not tree.text.strip():
            problems.add(tree.place, "the literal is blank", "take text that only these lines hold")
            return None
        return tree.text

    return read


def condition(tree: Tree, name: str, problems: Problems) -> dict[str, Any] | None:
    """`when`: a condition, or a table of names and the value that each must have, or a list of which one must hold."""
    if isinstance(tree, Scalar) and tree.kind == "str":
        return {tree.text: True} if _is_condition(tree.text, tree, problems) else None
    if not isinstance(tree, Table):
        problems.add(
            tree.place,
            f"`{name}` must map names to values",
            "write {name: true} for present, or {name: value}",
        )
        return None
    wanted: dict[str, Any] = {}
    for key, value in tree.items.items():
        if not _is_condition(key, value, problems):
            return None
        options = value.items if isinstance(value, Rows) else (value,)
        words = [_plain(option, key, problems) for option in options]
        wanted[key] = tuple(words) if isinstance(value, Rows) else words[0]
    return wanted


def _is_condition(text: str, tree: Tree, problems: Problems) -> bool:
    try:
        names_of(text)
    except ValueError as error:
        problems.add(tree.place, str(error), "write a name, or a condition such as: num_experts % ep != 0")
        return False
    return True


def _plain(tree: Tree, name: str, problems: Problems) -> bool | int | float | str | None:
    if not isinstance(tree, Scalar) or (tree.kind == "null" and not tree.quoted):
        problems.add(
            tree.place,
            f"`{name}` must have a plain value",
            "write true, false, a number, a word, or a list of them",
        )
        return None
    if tree.kind == "bool":
        if tree.text in ("true", "false"):
            return tree.text == "true"
        problems.add(
            tree.place,
            f"YAML reads `{tree.text}` as true or false",
            f"write true, false, or '{tree.text}' in quotes",
        )
        return None
    if tree.kind in ("int", "float"):
        try:
            return int(tree.text) if tree.kind == "int" else float(tree.text)
        except ValueError:  # YAML's 0x10, 1_000, 1:30
            problems.add(
                tree.place,
                f"`{tree.text}` is an unusual number",
                f"write it in plain digits, or '{tree.text}' in quotes",
            )
            return None
    return tree.text


def sample(tree: Tree, name: str, problems: Problems) -> dict[str, Any] | None:
    values = condition(tree, name, problems)
    if values is not None and "line" not in values:
        problems.add(
            tree.place,
            "a sample lacks `line`",
            "write {line: 'the line as printed', rank: 3, text: 'what is left'}",
        )
        return None
    return values
