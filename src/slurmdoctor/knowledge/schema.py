"""The keys of each part of a rule file, in the order in which they are best read, and how their values are read.

What a key takes follows from the type of its field in `model/knowledge.py`; `_READERS` has those that need more than a type.
The reader of a value returns it, or raises Wrong; every mistake is collected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from slurmdoctor.knowledge.document import Node, is_list, is_table, is_text, kind, pairs, place
from slurmdoctor.knowledge.expressions import names_of
from slurmdoctor.knowledge.problems import Problems, did_you_mean, nearest
from slurmdoctor.knowledge.regexes import Fragment, Wrong, pattern, text
from slurmdoctor.model import (
    FAILED,
    Cause,
    Derived,
    ExitFormat,
    Fix,
    LineFormat,
    RankLine,
    Rule,
    SecretKind,
    Signal,
    Text,
)

Reader = Callable[[Node, str, Problems], Any]
"""(node, the key's name, problems) → the value."""

CAUSE_ID = re.compile(r"(?:site/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
RULE_NAME = re.compile(r"[a-z0-9]+(?:[-.+][a-z0-9]+)*")
_FRAGMENT = re.compile(r"[a-z]+(?:_[a-z]+)*")
_TOPIC = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
LABEL_GROUPS = (
    "rank",
    "local_rank",
    "group_rank",
    "node",
    "node_rank",
    "maybe_node",
    "maybe_task",
    "task",
    "attempt",
    "time",
    "pid",
    "level",
    "writer",
    "text",
)
PATTERNS = frozenset({"regex", "pattern", "near", "writer", "behind", "unlike"})
"""The keys whose value is a pattern."""

# ── single values ────────────────────────────────────────────────────────────────────────────


def line(node: Node, name: str, problems: Problems, most: int = 10_000) -> str:
    value = text(node, name)
    if "\n" in value:
        raise Wrong(node, f"`{name}` holds more than one line", "write it as one line")
    if len(value) > most:
        raise Wrong(node, f"`{name}` has {len(value)} characters", f"say it in at most {most}")
    return value


def prose(node: Node, name: str, problems: Problems) -> str:
    return text(node, name)


def title(node: Node, name: str, problems: Problems) -> str:
    value = line(node, name, problems, most=60)
    if value.endswith("."):
        raise Wrong(node, "the title ends with a full stop", 'remove it: the title completes "rank 13 ..."')
    return value


def named(form: re.Pattern[str], what: str, mend: str) -> Reader:
    """Reads a name of this form."""

    def read(node: Node, name: str, problems: Problems) -> str:
        value = line(node, name, problems)
        if not form.fullmatch(value):
            raise Wrong(node, f"`{value}` is no {what}", f"write small letters joined by {mend}")
        return value

    return read


cause_id = named(CAUSE_ID, "cause's id", "hyphens, such as cuda-oom, or site/my-cause")
fragment_name = named(_FRAGMENT, "fragment's name", "`_`: slurm_client")


def one_of(*words: str) -> Reader:
    def read(node: Node, name: str, problems: Problems) -> str:
        known = f"write one of {', '.join(words)}"
        if not is_text(node):
            raise Wrong(node, f"`{name}` must be one word, and this is {_noun(node)}", known)
        if node.value not in words:
            raise Wrong(node, f"`{node.value}` is no value of `{name}`", did_you_mean(node.value, words, known))
        return str(node.value)

    return read


def plain(node: Node, name: str, problems: Problems) -> bool | int | float | str:
    """True, false, a number or a word."""
    if not is_text(node) or kind(node) == "null":
        raise Wrong(node, f"`{name}` must have a plain value", "write true, false, a number, a word, or a list of them")
    if kind(node) == "bool":
        if node.value in ("true", "false"):
            return bool(node.value == "true")
        mend = f"write true, false, or '{node.value}' in quotes"
        raise Wrong(node, f"YAML reads `{node.value}` as true or false", mend)
    if kind(node) in ("int", "float"):
        try:
            return int(node.value) if kind(node) == "int" else float(node.value)
        except ValueError:  # YAML's 0x10, 1_000, 1:30
            mend = f"write it in plain digits, or '{node.value}' in quotes"
            raise Wrong(node, f"`{node.value}` is an unusual number", mend) from None
    return str(node.value)


def flag(node: Node, name: str, problems: Problems) -> bool:
    if kind(node) == "bool" and node.value in ("true", "false"):
        return bool(node.value == "true")
    raise Wrong(node, f"`{name}` must be true or false", "write true or false, without quotes")


def number(most: float) -> Reader:
    def read(node: Node, name: str, problems: Problems) -> float:
        value = plain(node, name, problems)
        if isinstance(value, str) or not 0 <= value <= most:
            raise Wrong(node, f"`{name}` must be a number between 0 and {most}", "write a number such as 0.6 or 3")
        return value

    return read


def literal(shortest: int) -> Reader:
    def read(node: Node, name: str, problems: Problems) -> str:
        if is_text(node) and kind(node) in ("int", "float"):
            return text(node, name)
        if not is_text(node) or "\n" in node.value:
            raise Wrong(node, "a literal must be one line of plain text", "write it in single quotes")
        size = len(node.value.encode())
        if size < shortest:
            mend = f"take a longer, rarer text: at least {shortest} bytes"
            raise Wrong(node, f"the literal `{node.value}` has {size} byte{'s' * (size != 1)}", mend)
        if not node.value.strip():
            raise Wrong(node, "the literal is blank", "take text that only these lines hold")
        return str(node.value)

    return read


def expression(node: Node, name: str, problems: Problems) -> str:
    return _expression(node.value if is_text(node) else "", node)


def _expression(written: str, node: Node) -> str:
    try:
        names_of(written)
    except ValueError as error:
        mend = "write a name, or a condition such as: num_experts % ep != 0"
        raise Wrong(node, str(error), mend) from None
    return written


def condition(node: Node, name: str, problems: Problems) -> dict[str, Any]:
    """`when`: a condition, or a table of names and the value that each must have, or a list of which one must hold."""
    if kind(node) == "str":
        return {_expression(node.value, node): True}
    if not is_table(node):
        raise Wrong(node, f"`{name}` must map names to values", "write {name: true} for present, or {name: value}")
    wanted: dict[str, Any] = {}
    for key, _, value in pairs(node):
        options = value.value if is_list(value) else (value,)
        words = tuple(attempt(plain, option, key, problems) for option in options)
        wanted[_expression(key, value)] = words if is_list(value) else words[0]
    return wanted


def sample(node: Node, name: str, problems: Problems) -> dict[str, Any]:
    values = condition(node, name, problems)
    if "line" not in values:
        mend = "write {line: 'the line as printed', rank: 3, text: 'what is left'}"
        raise Wrong(node, "a sample lacks `line`", mend)
    return values


# ── lists and tables ─────────────────────────────────────────────────────────────────────────


def attempt(read: Reader, node: Node, name: str, problems: Problems) -> Any:
    """What the reader makes of the node; None where that is wrong, which is then among the problems."""
    try:
        return read(node, name, problems)
    except Wrong as wrong:
        problems.add(place(wrong.node), wrong.what, wrong.mend)
        return None


def list_of(item: Reader, least: int = 0) -> Reader:
    """Reads a list of such items, without those in which something is wrong."""

    def read(node: Node, name: str, problems: Problems) -> tuple[Any, ...]:
        if not is_list(node):
            short = is_text(node) and len(node.value) < 60 and "\n" not in node.value
            kept = f"['{node.value}']" if short else "['...']"
            raise Wrong(node, f"`{name}` must be a list, and this is {_noun(node)}", f"write {name}: {kept}")
        if len(node.value) < least:
            problems.add(place(node), f"`{name}` is empty", "give at least one")
        values = [attempt(item, row, name, problems) for row in node.value]
        return tuple(value for value in values if value is not None)

    return read


class Field(Struct, frozen=True):
    read: Reader
    required: bool = False


Fields = Mapping[str, Field]


def record(node: Node, keys: Fields, noun: str, problems: Problems) -> dict[str, Any]:
    """The values of a table's keys, without those in which something is wrong."""
    if not is_table(node):
        mend = f"write keys such as {', '.join(list(keys)[:3])}"
        problems.add(place(node), f"{noun} must be a table of keys, and this is {_noun(node)}", mend)
        return {}
    given = {key for key, _, _ in pairs(node)}
    values: dict[str, Any] = {}
    for key, at, value in pairs(node):
        if key in keys:
            values[key] = attempt(keys[key].read, value, key, problems)
        else:
            mend = did_you_mean(key, set(keys) - given, f"known here: {', '.join(keys)}")
            problems.add(place(at), f"{noun} has no key `{key}`", mend)
    for key, one in keys.items():
        # a misspelt key is reported once, as unknown; not again as missing
        if one.required and key not in given and not any(nearest(word, [key]) for word in given - keys.keys()):
            problems.add(place(node), f"{noun} lacks `{key}`", _HINTS.get(key, f"add `{key}:`"))
    return {key: value for key, value in values.items() if value is not None}


_HINTS = {
    "id": "add id: <cause>/<short name>",
    "cause": "begin with cause: <the file's name>",
    "source": "add source: the program that prints it, since which version, which file",
    "literals": "add literals: ['text that every such line holds']",
    "regex": "add regex: 'pattern', searched in the line without its labels",
    "examples": "add examples: {match: ['...'], no_match: ['...']}",
    "match": "add match: ['a line as the program prints it']",
    "samples": "add samples: [{line: '...', rank: 3, text: '...'}]",
    "witness": "add witness: the program's name as the verdict shall show it",
    "title": 'add title: what completes "rank 13 ..."',
    "exit_classes": "add exit_classes: [python-error], or how its process ends",
    "role": "add role: one of root, cascade, either, confirmation, hint",
    "retry": "add retry: one of as-is, elsewhere, after-fix, resume, unknown",
    "summary": "add summary: what happens and why, in a few plain sentences",
    "do": "add do: what to do, as an imperative sentence",
}  # fmt: skip


def _noun(node: Node) -> str:
    if is_list(node):
        return "a list"
    return "a table of keys" if is_table(node) else "one value"


# ── the kinds of entries ─────────────────────────────────────────────────────────────────────


def _examples(node: Node, name: str, problems: Problems) -> dict[str, Any]:
    return record(node, EXAMPLES, "`examples`", problems)


EXAMPLES = {"match": Field(list_of(line, least=1), required=True), "no_match": Field(list_of(line))}
_READERS: Mapping[str, Reader] = {
    **dict.fromkeys(PATTERNS, pattern),
    **dict.fromkeys(("do", "why", "summary"), prose),
    **dict.fromkeys(("verify", "falsepositives", "no_match"), list_of(prose)),
    "title": title,
    "one_of": named(_TOPIC, "topic", "hyphens, such as timeout"),
    "when": condition,
    "examples": _examples,
    "samples": list_of(sample, least=1),
    "explains": list_of(cause_id),
    "slurm_states": list_of(one_of(*sorted(FAILED | {"COMPLETED"}))),
    "lock": number(1),
}


def _reader(kept: Any) -> Reader:
    """The reader of a field's type."""
    if get_origin(kept) in (tuple, frozenset):
        return list_of(_reader(get_args(kept)[0]))
    if get_origin(kept) is Literal:
        return one_of(*get_args(kept))
    if isinstance(kept, UnionType):
        return _reader(get_args(kept)[0])
    return {bool: flag, int: number(40)}.get(kept, line)


def _keys(made: type[Struct], names: str, **own: Reader) -> dict[str, Field]:
    """The fields of these names, as the type's fields say, but for those with readers of their own."""
    known = {one.name: one for one in fields(made)}
    needed = {"cause", "examples", "samples"} | {one.name for one in fields(made) if one.required}
    needed -= {"explains"} if made is Cause else {"role"}
    return {
        name: Field(
            own.get(name) or _READERS.get(name) or _reader(known[name].type),
            required=name in needed,
        )
        for name in names.split()
    }


class EntryKind(Struct, frozen=True):
    """One kind of entry that a rule file may hold, in a list below a key of its own."""

    noun: str
    """What one entry is called in messages: `a signal`."""
    fields: Fields
    make: Callable[..., Any]
    """Makes the entry of the values of its fields; examples are given as `match` and `no_match`."""

    def read(self, node: Node, name: str, problems: Problems) -> tuple[Any, Node] | None:
        """The entry with its node."""
        before = len(problems)
        values = record(node, self.fields, self.noun, problems)
        examples = values.pop("examples", {})
        return (self.make(**values, **examples), node) if len(problems) == before else None


_LITERALS = {size: list_of(literal(size), least=1) for size in (1, 4, 6)}
RULES = EntryKind(
    "a rule",
    _keys(Rule, "id source role applies_to general when literals regex examples", literals=_LITERALS[6]),
    dict,
)
"""Its values are kept as they are: what a rule does not say is then taken from its cause."""
DERIVATIONS = EntryKind(
    "a derived name", _keys(Derived, "id when value parts told", id=fragment_name, value=expression), Derived
)
FIXES = EntryKind("a fix", _keys(Fix, "when do why retry one_of reference"), Fix)
_LABEL = _keys(
    LineFormat,
    "id source lock after_time stamp writer pattern samples no_match",
)
TABLES: Mapping[str, EntryKind] = {
    "formats": EntryKind("a format", _LABEL, LineFormat),
    "paths": EntryKind("a path", _LABEL, LineFormat),
    "rank_lines": EntryKind(
        "a line that names ranks",
        _keys(RankLine, "id source literals pattern samples no_match", literals=_LITERALS[6]),
        RankLine,
    ),
    "signals": EntryKind(
        "a signal", _keys(Signal, "id kind source literals regex examples", literals=_LITERALS[4]), Signal
    ),
    "facts": EntryKind(
        "a fact",
        _keys(Signal, "id source value literals regex examples", literals=_LITERALS[4]),
        partial(Signal, kind="fact"),
    ),
    "exit_reports": EntryKind(
        "an exit report",
        _keys(
            ExitFormat,
            "id witness launcher kind source from_label literals pattern near below above samples no_match",
            literals=_LITERALS[4],
        ),
        ExitFormat,
    ),
    "texts": EntryKind(
        "a text",
        _keys(Text, "id source literals pattern samples no_match", literals=list_of(literal(4))),
        Text,
    ),
    "secrets": EntryKind(
        "a kind of secret",
        _keys(
            SecretKind,
            "id source shown literals behind regex names but_not value check unlike strict command cut examples",
            literals=_LITERALS[1],
        ),
        SecretKind,
    ),
    "fragments": EntryKind("a fragment", _keys(Fragment, "id source regex examples", id=fragment_name), Fragment),
}
"""The tables by their keys.

A new table takes a frozen type for its entries and a field of `Knowledge` (slurmdoctor/model/knowledge.py), and an entry here.
Its `samples` are run by `prove_samples`, unless `workshop/proof.py` names another proof.
"""
CAUSE = _keys(
    Cause,
    "cause extends silence title also role exit_classes explains retry traits slurm_states endings symptom summary fragments rules let verify fixes falsepositives references",
    cause=cause_id,
    extends=flag,
    silence=list_of(line),
    fragments=list_of(TABLES["fragments"].read),
    rules=list_of(RULES.read, least=1),
    let=list_of(DERIVATIONS.read),
    fixes=list_of(FIXES.read, least=1),
)
ADDITIONS = {
    name: Field(CAUSE[name].read, required=name == "cause")
    for name in [
        "cause",
        "extends",
        "silence",
        "also",
        "explains",
        "traits",
        "fragments",
        "rules",
        "let",
        "verify",
        "fixes",
        "falsepositives",
        "references",
    ]
}
"""What a file with `extends: true` may hold."""
SHARED = {
    **{name: Field(list_of(kind.read)) for name, kind in TABLES.items()},
    "silence": CAUSE["silence"],
}
"""What a file without a cause may hold."""
