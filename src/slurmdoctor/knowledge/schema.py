"""The keys of each part of a rule file, in the order in which `rules fmt` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, get_args

from msgspec import Struct

from slurmdoctor.knowledge.fields import Field, list_of, record
from slurmdoctor.knowledge.fragments import Fragment
from slurmdoctor.knowledge.problems import Problems
from slurmdoctor.knowledge.regexes import pattern
from slurmdoctor.knowledge.tree import Tree
from slurmdoctor.knowledge.values import (
    cause_id,
    condition,
    expression,
    few,
    flag,
    fragment_name,
    line,
    literal,
    one_of,
    sample,
    share,
    text,
    title,
    topic,
)
from slurmdoctor.model import (
    Derived,
    ExitClass,
    ExitFormat,
    ExitReporter,
    Fix,
    LineFormat,
    RankLine,
    RetryAdvice,
    Role,
    SecretKind,
    Signal,
    SignalKind,
    Text,
    Trait,
)
from slurmdoctor.model.record import FAILED

ROLES: tuple[str, ...] = get_args(Role)
EXIT_CLASSES: tuple[str, ...] = get_args(ExitClass)
RETRIES: tuple[str, ...] = get_args(RetryAdvice)
TRAITS: tuple[str, ...] = get_args(Trait)
SLURM_STATES = sorted(FAILED | {"COMPLETED"})
"""The job states of Slurm in which a job has ended."""
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


EXAMPLES = {
    "match": Field(
        list_of(line, least=1), required=True, default=(), hint="add match: ['a line as the program prints it']"
    ),
    "no_match": Field(list_of(line), default=()),
}


def _examples(tree: Tree, name: str, problems: Problems) -> dict[str, Any] | None:
    return record(tree, EXAMPLES, "`examples`", problems)


_EXAMPLES = Field(_examples, required=True, hint="add examples: {match: ['...'], no_match: ['...']}")
_SOURCE = "add source: the program that prints it, since which version, which file"
RULE = {
    "id": Field(line, required=True, hint="add id: <cause>/<short name>"),
    "source": Field(line, required=True, hint=_SOURCE),
    "role": Field(one_of(*ROLES)),
    "applies_to": Field(one_of("line", "exception", "frame", "message"), default="line"),
    "general": Field(flag, default=False),
    "when": Field(condition, default={}),
    "literals": Field(
        list_of(literal(shortest=6), least=1), required=True, hint="add literals: ['text that every such line holds']"
    ),
    "regex": Field(pattern, required=True, hint="add regex: 'pattern', searched in the line without its labels"),
    "examples": _EXAMPLES,
}
OLD_NAMES = {"on": "applies_to"}
"""Keys of a rule that files written for 0.1 call otherwise."""


DERIVED = {
    "id": Field(fragment_name, required=True),
    "when": Field(condition, default={}),
    "value": Field(expression, default=""),
    "parts": Field(list_of(line), default=()),
    "told": Field(flag, default=False),
}
FIX = {
    "when": Field(condition, default={}),
    "do": Field(text, required=True, hint="add do: what to do, as an imperative sentence"),
    "why": Field(text),
    "retry": Field(one_of(*RETRIES)),
    "one_of": Field(topic),
    "reference": Field(line),
}
FRAGMENT = {
    "id": Field(fragment_name, required=True),
    "source": Field(line, default=""),
    "regex": Field(pattern, required=True),
    "examples": Field(_examples, required=True, hint="add examples: {match: ['a text that the whole fragment takes']}"),
}
_SAMPLES = {
    "samples": Field(
        list_of(sample, least=1),
        required=True,
        default=(),
        hint="add samples: [{line: '...', rank: 3, text: '...'}]",
    ),
    "no_match": Field(list_of(text), default=()),
}
FORMAT = {
    "id": Field(line, required=True),
    "source": Field(line, default=""),
    "lock": Field(share, default=0.0),
    "after_time": Field(flag, default=False),
    "stamp": Field(flag, default=False),
    "writer": Field(pattern, default=""),
    "midline": Field(one_of("apart", "glued"), default=""),
    "outer_is_local": Field(flag, default=False),
    "launcher": Field(pattern, default=""),
    "pattern": Field(pattern, required=True),
    **_SAMPLES,
}
RANK_LINE = {
    "id": Field(line, required=True),
    "source": Field(line, default=""),
    "literals": Field(list_of(literal(shortest=6), least=1), required=True),
    "communicator": Field(flag, default=False),
    "pattern": Field(pattern, required=True),
    **_SAMPLES,
}
SIGNAL = {
    "id": Field(line, required=True),
    "kind": Field(one_of(*get_args(SignalKind)[:-1]), required=True),
    "source": Field(line, default=""),
    "literals": Field(list_of(literal(shortest=4), least=1), required=True),
    "regex": Field(pattern, required=True),
    "examples": _EXAMPLES,
}
FACT = {
    "id": Field(line, required=True),
    "source": Field(line, default=""),
    "value": Field(line),
    "literals": Field(list_of(literal(shortest=4), least=1), required=True),
    "regex": Field(pattern, required=True),
    "examples": _EXAMPLES,
}
EXIT_REPORT = {
    "id": Field(line, required=True),
    "witness": Field(line, required=True, hint="add witness: the program's name as the verdict shall show it"),
    "launcher": Field(line),
    "kind": Field(one_of(*get_args(ExitReporter)), default="launcher"),
    "source": Field(line, default=""),
    "from_label": Field(list_of(one_of("rank", "local_rank", "node", "time")), default=()),
    "by_rank": Field(flag, default=False),
    "joins_next_line": Field(flag, default=False),
    "literals": Field(list_of(literal(shortest=4), least=1), required=True),
    "under": Field(pattern, default=""),
    "pattern": Field(pattern, required=True),
    "near": Field(pattern, default=""),
    "below": Field(few, default=0),
    "above": Field(few, default=0),
    **_SAMPLES,
}
TEXT = {
    "id": Field(line, required=True),
    "source": Field(line, default=""),
    "literals": Field(list_of(literal(shortest=4)), default=()),
    "pattern": Field(pattern, required=True),
    **_SAMPLES,
}


SECRET = {
    "id": Field(line, required=True),
    "source": Field(line, required=True, hint="add source: where its maker or its program describes it"),
    "shown": Field(line, default=""),
    "literals": Field(list_of(literal(shortest=1), least=1), required=True),
    "behind": Field(pattern, default=""),
    "regex": Field(pattern, default=""),
    "names": Field(list_of(line), default=()),
    "but_not": Field(list_of(line), default=()),
    "value": Field(one_of("any", "mixed", "random", "dense"), default="random"),
    "check": Field(one_of("digit", "pair"), default=""),
    "unlike": Field(pattern, default=""),
    "strict": Field(flag, default=False),
    "command": Field(flag, default=False),
    "cut": Field(flag, default=False),
    "examples": _EXAMPLES,
}


class EntryKind(Struct, frozen=True):
    """One kind of entry that a rule file may hold, in a list below a key of its own."""

    noun: str
    """What one entry is called in messages: `a signal`."""
    fields: Mapping[str, Field]
    make: Callable[..., Any]
    """Makes the entry of the values of its fields; examples are given as `match` and `no_match`."""
    renamed: Mapping[str, str] = MappingProxyType({})

    def read(self, tree: Tree, name: str, problems: Problems) -> Any:
        values = record(tree, self.fields, self.noun, problems, self.renamed)
        if values is None:
            return None
        examples = values.pop("examples", {})
        return self.make(**values, **examples)


RULES = EntryKind("a rule", RULE, dict, OLD_NAMES)
"""Its values are kept as they are: what a rule does not say is then taken from its cause."""
DERIVATIONS = EntryKind("a derived name", DERIVED, Derived)
FIXES = EntryKind("a fix", FIX, Fix)
TABLES: Mapping[str, EntryKind] = {
    "formats": EntryKind("a format", FORMAT, LineFormat),
    "paths": EntryKind("a path", FORMAT, LineFormat),
    "rank_lines": EntryKind("a line that names ranks", RANK_LINE, RankLine),
    "signals": EntryKind("a signal", SIGNAL, Signal),
    "facts": EntryKind("a fact", FACT, partial(Signal, kind="fact")),
    "exit_reports": EntryKind("an exit report", EXIT_REPORT, ExitFormat),
    "texts": EntryKind("a text", TEXT, Text),
    "secrets": EntryKind("a kind of secret", SECRET, SecretKind),
    "fragments": EntryKind("a fragment", FRAGMENT, Fragment),
}
"""The tables by their keys.

A new table takes a frozen type for its entries and a field of `Knowledge` (slurmdoctor/model/knowledge.py), an entry here and
one in `knowledge/cache.py`. Its `samples` are run by `check_samples`, unless `workshop/check.py` names another proof.
"""
PATTERNS = frozenset(
    key
    for fields in (RULE, *(kind.fields for kind in TABLES.values()))
    for key, field in fields.items()
    if field.read is pattern
)
"""The keys whose value is a pattern."""

_FIXES = list_of(FIXES.read, least=1)
_TEXTS = list_of(text)
_EXIT_CLASSES = list_of(one_of(*EXIT_CLASSES))
CAUSE = {
    "cause": Field(cause_id, required=True, hint="begin with cause: <the file's name>"),
    "extends": Field(flag, default=False),
    "silence": Field(list_of(line), default=()),
    "title": Field(title, required=True, hint='add title: what completes "rank 13 ..."'),
    "also": Field(list_of(line), default=()),
    "role": Field(one_of(*ROLES), required=True, hint=f"add role: one of {', '.join(ROLES)}"),
    "exit_classes": Field(
        _EXIT_CLASSES, required=True, hint="add exit_classes: [python-error], or how its process ends"
    ),
    "explains": Field(list_of(cause_id), default=()),
    "retry": Field(one_of(*RETRIES), required=True, hint=f"add retry: one of {', '.join(RETRIES)}"),
    "traits": Field(list_of(one_of(*TRAITS)), default=()),
    "slurm_states": Field(list_of(one_of(*SLURM_STATES)), default=()),
    "endings": Field(_EXIT_CLASSES, default=()),
    "symptom": Field(line, default=""),
    "summary": Field(text, required=True, hint="add summary: what happens and why, in a few plain sentences"),
    "fragments": Field(list_of(TABLES["fragments"].read), default=()),
    "rules": Field(list_of(RULES.read, least=1), required=True, default=(), hint="add rules: with at least one"),
    "let": Field(list_of(DERIVATIONS.read), default=()),
    "verify": Field(_TEXTS, default=()),
    "fixes": Field(_FIXES, required=True, default=(), hint="add fixes: with at least one `do`"),
    "falsepositives": Field(_TEXTS, default=()),
    "references": Field(list_of(line), default=()),
}
ADDITIONS = {
    **{key: CAUSE[key] for key in ("cause", "extends", "silence", "also", "explains", "traits", "fragments")},
    "rules": Field(list_of(RULES.read), default=()),
    "let": CAUSE["let"],
    "verify": CAUSE["verify"],
    "fixes": Field(_FIXES, default=()),
    "falsepositives": CAUSE["falsepositives"],
    "references": CAUSE["references"],
}
"""What a file with `extends: true` may hold."""
