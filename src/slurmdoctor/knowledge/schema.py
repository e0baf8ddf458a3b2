"""What may stand in a rule file: trees → causes, rules, labels and signals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

from slurmdoctor.knowledge.fields import Field, flag, line, list_of, one_of, record, share, text
from slurmdoctor.knowledge.fragments import NAME, Fragment
from slurmdoctor.knowledge.problems import Problems
from slurmdoctor.knowledge.regexes import pattern
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree
from slurmdoctor.model import ExitClass, Fix, LineFormat, RetryAdvice, Role, Signal, Status, Trait

ROLES: tuple[str, ...] = get_args(Role)
EXIT_CLASSES: tuple[str, ...] = get_args(ExitClass)
RETRIES: tuple[str, ...] = get_args(RetryAdvice)
TRAITS: tuple[str, ...] = get_args(Trait)
STATUSES: tuple[str, ...] = get_args(Status)
SLURM_STATES = (
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "REVOKED",
    "TIMEOUT",
)
"""The job states of Slurm in which a job has ended."""
LABEL_GROUPS = (
    "rank",
    "local_rank",
    "group_rank",
    "node",
    "node_rank",
    "task",
    "attempt",
    "time",
    "pid",
    "level",
    "text",
)

CAUSE_ID = re.compile(r"(?:site/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
RULE_NAME = re.compile(r"[a-z0-9]+(?:[-.+][a-z0-9]+)*")
_SHORTEST = {"rule": 6, "signal": 4}


def _cause_id(tree: Tree, name: str, problems: Problems) -> str | None:
    value: str | None = line()(tree, name, problems)
    if value is not None and not CAUSE_ID.fullmatch(value):
        problems.add(
            tree.place,
            f"`{value}` is no cause's id",
            "write small letters joined by hyphens, such as cuda-oom, or site/my-cause",
        )
        return None
    return value


def _fragment_name(tree: Tree, name: str, problems: Problems) -> str | None:
    value: str | None = line()(tree, name, problems)
    if value is not None and not NAME.fullmatch(value):
        problems.add(tree.place, f"`{value}` is no fragment's name", "write small letters joined by `_`: slurm_client")
        return None
    return value


def _title(tree: Tree, name: str, problems: Problems) -> str | None:
    value: str | None = line(60)(tree, name, problems)
    if value is not None and value.endswith("."):
        problems.add(tree.place, "the title ends with a full stop", 'remove it: the title completes "rank 13 ..."')
        return None
    return value


def _literal(shortest: int) -> Callable[[Tree, str, Problems], str | None]:
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


def _wanted(tree: Tree, name: str, problems: Problems) -> dict[str, Any] | None:
    """`when`: names and the value that each must have, or a list of which one must hold."""
    if not isinstance(tree, Table):
        problems.add(
            tree.place,
            f"`{name}` must map names to values",
            "write {name: true} for present, or {name: value}",
        )
        return None
    wanted: dict[str, Any] = {}
    for key, value in tree.items.items():
        options = value.items if isinstance(value, Rows) else (value,)
        words = [_plain(option, key, problems) for option in options]
        wanted[key] = tuple(words) if isinstance(value, Rows) else words[0]
    return wanted


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


def _sample(tree: Tree, name: str, problems: Problems) -> dict[str, Any] | None:
    values = _wanted(tree, name, problems)
    if values is not None and "line" not in values:
        problems.add(
            tree.place,
            "a sample lacks `line`",
            "write {line: 'the line as printed', rank: 3, text: 'what is left'}",
        )
        return None
    return values


_EXAMPLES = {
    "match": Field(
        list_of(line(), least=1),
        required=True,
        default=(),
        hint="add match: ['a line as the program prints it']",
    ),
    "no_match": Field(list_of(line()), default=()),
}


def _examples(tree: Tree, name: str, problems: Problems) -> dict[str, Any] | None:
    return record(tree, _EXAMPLES, "`examples`", problems)


RULE = {
    "id": Field(line(), required=True, hint="add id: <cause>/<short name>"),
    "source": Field(
        line(), required=True, hint="add source: the program that prints it, since which version, which file"
    ),
    "literals": Field(
        list_of(_literal(_SHORTEST["rule"]), least=1),
        required=True,
        hint="add literals: ['text that every such line holds']",
    ),
    "regex": Field(pattern, required=True, hint="add regex: 'pattern', searched in the line without its labels"),
    "applies_to": Field(one_of("line", "exception", "frame"), default="line"),
    "role": Field(one_of(*ROLES)),
    "status": Field(one_of(*STATUSES)),
    "examples": Field(_examples, required=True, hint="add examples: {match: ['...'], no_match: ['...']}"),
}
OLD_NAMES = {"on": "applies_to"}
"""Keys of a rule that files written for 0.1 call otherwise."""
FIX = {
    "do": Field(text, required=True, hint="add do: what to do, as an imperative sentence"),
    "why": Field(text),
    "when": Field(_wanted, default={}),
    "reference": Field(line()),
    "retry": Field(one_of(*RETRIES)),
}
_RULES = list_of(lambda tree, name, problems: rule(tree, problems))
_FIXES = list_of(lambda tree, name, problems: fix(tree, problems), least=1)
_TEXTS = list_of(text)
ADDITIONS = {
    "cause": Field(_cause_id, required=True, hint="begin with cause: <the file's name>"),
    "extends": Field(flag, default=False),
    "silence": Field(list_of(line()), default=()),
    "explains": Field(list_of(_cause_id), default=()),
    "traits": Field(list_of(one_of(*TRAITS)), default=()),
    "rules": Field(_RULES, default=()),
    "verify": Field(_TEXTS, default=()),
    "fixes": Field(_FIXES, default=()),
    "falsepositives": Field(_TEXTS, default=()),
    "references": Field(list_of(line()), default=()),
}
"""What a file with `extends: true` may hold."""
CAUSE = {
    **ADDITIONS,
    "title": Field(_title, required=True, hint='add title: what completes "rank 13 ..."'),
    "role": Field(one_of(*ROLES), required=True, hint=f"add role: one of {', '.join(ROLES)}"),
    "exit_classes": Field(
        list_of(one_of(*EXIT_CLASSES)),
        required=True,
        hint="add exit_classes: [python-error], or how its process ends",
    ),
    "slurm_states": Field(list_of(one_of(*SLURM_STATES)), default=()),
    "status": Field(one_of(*STATUSES), default="stable"),
    "endings": Field(list_of(one_of(*EXIT_CLASSES)), default=()),
    "retry": Field(one_of(*RETRIES), required=True, hint=f"add retry: one of {', '.join(RETRIES)}"),
    "summary": Field(text, required=True, hint="add summary: what happens and why, in a few plain sentences"),
    "rules": Field(
        list_of(lambda tree, name, problems: rule(tree, problems), least=1),
        required=True,
        default=(),
        hint="add rules: with at least one",
    ),
    "fixes": Field(_FIXES, required=True, default=(), hint="add fixes: with at least one `do`"),
}
FORMAT = {
    "id": Field(line(), required=True),
    "source": Field(line(), default=""),
    "pattern": Field(pattern, required=True),
    "lock": Field(share, default=0.0),
    "after_time": Field(flag, default=False),
    "samples": Field(
        list_of(_sample, least=1),
        required=True,
        default=(),
        hint="add samples: [{line: '...', rank: 3, text: '...'}]",
    ),
    "no_match": Field(list_of(line()), default=()),
}
SIGNAL = {
    "id": Field(line(), required=True),
    "kind": Field(one_of("progress", "finished", "survived", "attempt"), required=True),
    "source": Field(line(), default=""),
    "literals": Field(list_of(_literal(_SHORTEST["signal"]), least=1), required=True),
    "regex": Field(pattern, required=True),
    "examples": Field(_examples, required=True, hint="add examples: {match: ['...'], no_match: ['...']}"),
}
FACT = {**{key: part for key, part in SIGNAL.items() if key != "kind"}, "value": Field(line())}


FRAGMENT = {
    "id": Field(_fragment_name, required=True),
    "source": Field(line(), default=""),
    "regex": Field(pattern, required=True),
    "examples": Field(_examples, required=True, hint="add examples: {match: ['a text that the whole fragment takes']}"),
}


@dataclass(frozen=True, slots=True)
class TableKind:
    """One kind of table that a rule file may hold: a list of entries below a key of its own."""

    noun: str
    """What one entry is called in messages: `a signal`."""
    fields: Mapping[str, Field]
    make: Callable[..., Any]
    """Makes the entry of the values of its fields; examples are given as `match` and `no_match`."""

    def read(self, tree: Tree, problems: Problems) -> Any:
        values = record(tree, self.fields, self.noun, problems)
        if values is None:
            return None
        examples = values.pop("examples", {})
        return self.make(**values, **examples)


TABLES: Mapping[str, TableKind] = {
    "formats": TableKind("a format", FORMAT, LineFormat),
    "paths": TableKind("a path", FORMAT, LineFormat),
    "signals": TableKind("a signal", SIGNAL, Signal),
    "facts": TableKind("a fact", FACT, partial(Signal, kind="fact")),
    "fragments": TableKind("a fragment", FRAGMENT, Fragment),
}
"""The tables by their keys.

A new table takes five lines: a frozen type for its entry and a field of `Knowledge` (slurmdoctor/model/knowledge.py),
an entry here, one in `knowledge/cache.py`, and one in `workshop/check.py`, which proves its samples.
"""


def rule(tree: Tree, problems: Problems) -> dict[str, Any] | None:
    values = record(tree, RULE, "a rule", problems, OLD_NAMES)
    if values is None:
        return None
    examples = values.pop("examples")
    return {**values, **examples}


def fix(tree: Tree, problems: Problems) -> Fix | None:
    values = record(tree, FIX, "a fix", problems)
    return Fix(**values) if values is not None else None
