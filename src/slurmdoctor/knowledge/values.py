"""Readers of single values of a rule file: words, numbers, ids, titles, literals, conditions, samples."""

from __future__ import annotations

import re
from typing import Any

from slurmdoctor.knowledge.expressions import names_of
from slurmdoctor.knowledge.fields import Reader, attempt, kind
from slurmdoctor.knowledge.problems import FieldError, Problems, did_you_mean
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree

CAUSE_ID = re.compile(r"(?:site/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
FRAGMENT_NAME = re.compile(r"[a-z]+(?:_[a-z]+)*")
RULE_NAME = re.compile(r"[a-z0-9]+(?:[-.+][a-z0-9]+)*")
TOPIC = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_MANY = 40


def text(tree: Tree, name: str, problems: Problems) -> str:
    if not isinstance(tree, Scalar):
        raise FieldError(
            tree.place, f"`{name}` must be one text, and this is {kind(tree)}", "write one text, in quotes"
        )
    if tree.kind == "null" or not tree.text.strip():
        raise FieldError(tree.place, f"`{name}` is empty", "write its text, or remove the key")
    if tree.kind in ("bool", "int", "float") and not tree.quoted:
        meant = "true or false" if tree.kind == "bool" else "a number"
        what = f"`{name}` must be text, and YAML reads `{tree.text}` as {meant}"
        raise FieldError(tree.place, what, f"quote it: '{tree.text}'")
    return tree.text.strip("\n") if "\n" in tree.text else tree.text


def line(tree: Tree, name: str, problems: Problems) -> str:
    return _line(tree, name, problems, most=10_000)


def title(tree: Tree, name: str, problems: Problems) -> str:
    value = _line(tree, name, problems, most=60)
    if value.endswith("."):
        mend = 'remove it: the title completes "rank 13 ..."'
        raise FieldError(tree.place, "the title ends with a full stop", mend)
    return value


def _line(tree: Tree, name: str, problems: Problems, most: int) -> str:
    value = text(tree, name, problems)
    if "\n" in value:
        raise FieldError(tree.place, f"`{name}` holds more than one line", "write it as one line")
    if len(value) > most:
        raise FieldError(tree.place, f"`{name}` has {len(value)} characters", f"say it in at most {most}")
    return value


def cause_id(tree: Tree, name: str, problems: Problems) -> str:
    value = line(tree, name, problems)
    if not CAUSE_ID.fullmatch(value):
        mend = "write small letters joined by hyphens, such as cuda-oom, or site/my-cause"
        raise FieldError(tree.place, f"`{value}` is no cause's id", mend)
    return value


def fragment_name(tree: Tree, name: str, problems: Problems) -> str:
    value = line(tree, name, problems)
    if not FRAGMENT_NAME.fullmatch(value):
        raise FieldError(
            tree.place, f"`{value}` is no fragment's name", "write small letters joined by `_`: slurm_client"
        )
    return value


def topic(tree: Tree, name: str, problems: Problems) -> str:
    value = line(tree, name, problems)
    if not TOPIC.fullmatch(value):
        raise FieldError(tree.place, f"`{value}` is no topic", "write small letters joined by hyphens, such as timeout")
    return value


def one_of(*words: str) -> Reader:
    def read(tree: Tree, name: str, problems: Problems) -> str:
        known = f"write one of {', '.join(words)}"
        if not isinstance(tree, Scalar):
            raise FieldError(tree.place, f"`{name}` must be one word, and this is {kind(tree)}", known)
        if tree.text not in words:
            raise FieldError(
                tree.place, f"`{tree.text}` is no value of `{name}`", did_you_mean(tree.text, words, known)
            )
        return tree.text

    return read


def flag(tree: Tree, name: str, problems: Problems) -> bool:
    if isinstance(tree, Scalar) and tree.text in ("true", "false") and not tree.quoted:
        return tree.text == "true"
    raise FieldError(tree.place, f"`{name}` must be true or false", "write true or false, without quotes")


def share(tree: Tree, name: str, problems: Problems) -> float:
    if isinstance(tree, Scalar) and tree.kind in ("int", "float") and 0 <= float(tree.text) <= 1:
        return float(tree.text)
    raise FieldError(tree.place, f"`{name}` must be a share between 0 and 1", "write a number such as 0.6")


def few(tree: Tree, name: str, problems: Problems) -> int:
    if isinstance(tree, Scalar) and tree.kind == "int" and tree.text.isdecimal() and int(tree.text) <= _MANY:
        return int(tree.text)
    raise FieldError(tree.place, f"`{name}` must be a number of lines, at most {_MANY}", "write a number such as 3")


def literal(shortest: int) -> Reader:
    def read(tree: Tree, name: str, problems: Problems) -> str:
        if isinstance(tree, Scalar) and not tree.quoted and tree.kind in ("int", "float"):
            return text(tree, name, problems)
        if not isinstance(tree, Scalar) or "\n" in tree.text:
            raise FieldError(tree.place, "a literal must be one line of plain text", "write it in single quotes")
        size = len(tree.text.encode())
        if size < shortest:
            mend = f"take a longer, rarer text: at least {shortest} bytes"
            raise FieldError(tree.place, f"the literal `{tree.text}` has {size} byte{'s' * (size != 1)}", mend)
        if not tree.text.strip():
            raise FieldError(tree.place, "the literal is blank", "take text that only these lines hold")
        return tree.text

    return read


def condition(tree: Tree, name: str, problems: Problems) -> dict[str, Any]:
    """`when`: a condition, or a table of names and the value that each must have, or a list of which one must hold."""
    if isinstance(tree, Scalar) and tree.kind == "str":
        _check_condition(tree.text, tree)
        return {tree.text: True}
    if not isinstance(tree, Table):
        mend = "write {name: true} for present, or {name: value}"
        raise FieldError(tree.place, f"`{name}` must map names to values", mend)
    wanted: dict[str, Any] = {}
    for key, value in tree.items.items():
        _check_condition(key, value)
        options = value.items if isinstance(value, Rows) else (value,)
        words = [attempt(_plain, option, key, problems) for option in options]
        wanted[key] = tuple(words) if isinstance(value, Rows) else words[0]
    return wanted


def expression(tree: Tree, name: str, problems: Problems) -> str:
    """What a derived name comes to."""
    written = tree.text if isinstance(tree, Scalar) else ""
    _check_condition(written, tree)
    return written


def _check_condition(text: str, tree: Tree) -> None:
    try:
        names_of(text)
    except ValueError as error:
        raise FieldError(
            tree.place, str(error), "write a name, or a condition such as: num_experts % ep != 0"
        ) from None


def _plain(tree: Tree, name: str, problems: Problems) -> bool | int | float | str:
    if not isinstance(tree, Scalar) or (tree.kind == "null" and not tree.quoted):
        mend = "write true, false, a number, a word, or a list of them"
        raise FieldError(tree.place, f"`{name}` must have a plain value", mend)
    if tree.kind == "bool":
        if tree.text in ("true", "false"):
            return tree.text == "true"
        mend = f"write true, false, or '{tree.text}' in quotes"
        raise FieldError(tree.place, f"YAML reads `{tree.text}` as true or false", mend)
    if tree.kind in ("int", "float"):
        try:
            return int(tree.text) if tree.kind == "int" else float(tree.text)
        except ValueError:  # YAML's 0x10, 1_000, 1:30
            mend = f"write it in plain digits, or '{tree.text}' in quotes"
            raise FieldError(tree.place, f"`{tree.text}` is an unusual number", mend) from None
    return tree.text


def sample(tree: Tree, name: str, problems: Problems) -> dict[str, Any]:
    values = condition(tree, name, problems)
    if "line" not in values:
        mend = "write {line: 'the line as printed', rank: 3, text: 'what is left'}"
        raise FieldError(tree.place, "a sample lacks `line`", mend)
    return values
