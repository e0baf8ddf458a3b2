"""The keys of each part of a rule file, in the order in which they are best read, and how their values are read.

What a key takes follows from the type of its field in `model/knowledge.py`: msgspec checks it. `_READERS` has those that need
more than a type. A reader returns the value; where it is wrong, it adds to the mistakes and returns None.

A pattern is one text or a list of alternatives, which are joined by `|`; fragments are written out in it:

    regex:
      - 'slurmstepd: error: Detected \\d+ oom.kill events? in StepId=(?P<step>\\S+)'    # one alternative
      - - '{slurm_client}: error: (?P<node>\\S+): '                                     # another one, in two pieces
        - 'task (?P<tasks>[\\d,-]+): Out Of Memory'

    fragments:
      - {id: slurm_client, regex: '(?:sbatch|srun|salloc)', examples: {match: [srun], no_match: [sinfo]}}

Named groups may repeat: `regex`, unlike `re`, takes the one that took part. A fragment may use those defined before it; a cause's file
may define some for itself alone.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

import regex
from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import fields
from yaml import YAMLError

from slurmdoctor.knowledge.document import Node, is_list, is_table, is_text, pairs, place, plain
from slurmdoctor.knowledge.expressions import names_of
from slurmdoctor.knowledge.problems import Place, Problems, did_you_mean, nearest
from slurmdoctor.model import (
    FAILED,
    Cause,
    Derived,
    ExitFormat,
    Fix,
    Frozen,
    LineFormat,
    RankLine,
    Rule,
    SecretKind,
    Signal,
    Text,
)


class Mistakes(Problems):
    """The mistakes of the files that are read, and the fragments that their patterns may use."""

    def __init__(self) -> None:
        super().__init__()
        self.fragments: dict[str, str] = {}


Reader = Callable[[Node, str, Mistakes], Any]
"""(node, the key's name, mistakes) → the value."""

CAUSE_ID = re.compile(r"(?:site/)?[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
RULE_NAME = re.compile(r"[a-z0-9]+(?:[-.+][a-z0-9]+)*")
PATTERNS = frozenset({"regex", "pattern", "near", "writer", "behind", "unlike"})
"""The keys whose value is a pattern."""
LONGEST = 300
"""Characters of one alternative, with its fragments as they are written."""
_LONGEST_FILLED = 4000
"""Characters of a piece of a pattern with its fragments: those that use one another twice soon are endless."""
_TOKEN = re.compile(r"\\[pPN]\{[^}]*\}|\\.|\{(?P<name>[a-z]+(?:_[a-z]+)*)\}", re.S)
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
_NUMBERED_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")

# ── single values ────────────────────────────────────────────────────────────────────────────

Prose = Annotated[str, Meta(pattern=r"\S")]
Line = Annotated[str, Meta(max_length=10_000, pattern=r"^[^\n]*\S[^\n]*\Z")]
Title = Annotated[str, Meta(max_length=60, pattern=r"\A[^\n]*[^\n.]\Z")]
CauseId = Annotated[str, Meta(pattern=rf"\A{CAUSE_ID.pattern}\Z")]
Name = Annotated[str, Meta(pattern=r"\A[a-z]+(?:_[a-z]+)*\Z")]
Topic = Annotated[str, Meta(pattern=r"\A[a-z0-9]+(?:-[a-z0-9]+)*\Z")]

HINTS = {
    "id": "<cause>/<short name>; of a fragment small letters joined by `_`",
    "cause": "the file's name: small letters joined by hyphens, such as cuda-oom, or site/my-cause",
    "source": "the program that prints it, since which version, which file",
    "literals": "long, rare text that every such line holds, in a list: ['...']",
    "regex": "the pattern, searched in the line without its labels",
    "examples": "{match: ['...'], no_match: ['...']}",
    "match": "a line as the program prints it, in a list: ['...']",
    "samples": "[{line: 'the line as printed', rank: 3, text: 'what is left'}]",
    "ends_with": "a code, such as 127, or a signal, such as SIGABRT",
    "witness": "the program's name as the verdict shall show it",
    "title": 'what completes "rank 13 ...", in at most 60 characters, without a full stop',
    "exit_classes": "[python-error], or how its process ends",
    "explains": "ids of causes, in a list: [cuda-oom]",
    "role": "one of root, cascade, either, confirmation, hint",
    "retry": "one of as-is, elsewhere, after-fix, resume, unknown",
    "summary": "what happens and why, in a few plain sentences",
    "do": "what to do, as an imperative sentence",
    "why": "the reason in a few words; or remove the key",
    "falsepositives": "when the line does not mean what it says, in a list",
    "references": "where to read more, in a list",
    "when": "a condition, or {name: true} for what must be known, or {name: value}",
}
"""What to write for a key, where it is missing, wrong or still to do."""


def typed(kept: Any) -> Reader:
    """Reads what this type takes."""

    def read(node: Node, name: str, mistakes: Mistakes) -> Any:
        found = None
        try:
            found = plain(node)
            return convert(found, kept)
        except (ValidationError, ValueError, YAMLError) as error:
            mend = f"write {HINTS.get(name, 'it as docs/rules.md shows')}"
            if isinstance(found, (bool, int, float)) and str(error).startswith("Expected `str`"):
                mend = f"quote it: '{node.value}'"
            elif get_origin(kept) is Literal:
                known = get_args(kept)
                mend = did_you_mean(str(found), known, f"write one of {', '.join(known)}")
            mistakes.add(place(node), f"`{name}`: {error}", mend)
            return None

    return read


def expression(node: Node, name: str, mistakes: Mistakes) -> str | None:
    return next(iter(condition(node, name, mistakes) or ()), None)


def condition(node: Node, name: str, mistakes: Mistakes) -> dict[str, Any] | None:
    """`when`: a condition, or a table of names and the value that each must have, or a list of which one must hold."""
    wanted: dict[str, Any] | None = {node.value: True} if is_text(node) else typed(WHEN)(node, name, mistakes)
    try:
        for one in wanted or ():
            names_of(one)
    except ValueError as error:
        mistakes.add(place(node), str(error), "write a name, or a condition such as: num_experts % ep != 0")
        return None
    return wanted


def sample(node: Node, name: str, mistakes: Mistakes) -> dict[str, Any] | None:
    values: dict[str, Any] | None = typed(dict[str, Any])(node, name, mistakes)
    if values is not None and "line" not in values:
        mistakes.add(place(node), "a sample lacks `line`", f"write {HINTS['samples']}")
    return values


# ── lists and tables ─────────────────────────────────────────────────────────────────────────


def list_of(item: Reader) -> Reader:
    """Reads a list of such items, without those in which something is wrong."""

    def read(node: Node, name: str, mistakes: Mistakes) -> tuple[Any, ...] | None:
        if not is_list(node):
            short = is_text(node) and len(node.value) < 60 and "\n" not in node.value
            kept = f"['{node.value}']" if short else "['...']"
            mistakes.add(place(node), f"`{name}` must be a list", f"write {name}: {kept}")
            return None
        values = [item(row, name, mistakes) for row in node.value]
        return tuple(value for value in values if value is not None)

    return read


class Field(Frozen):
    read: Reader
    required: bool = False


Fields = Mapping[str, Field]


def record(node: Node, keys: Fields, noun: str, mistakes: Mistakes) -> dict[str, Any]:
    """The values of a table's keys, read in the order of the keys, without those in which something is wrong."""
    if not is_table(node):
        mend = f"write keys such as {', '.join(list(keys)[:3])}"
        mistakes.add(place(node), f"{noun} must be a table of keys", mend)
        return {}
    given = {key: (at, value) for key, at, value in pairs(node)}
    unknown = given.keys() - keys.keys()
    for key in unknown:
        mend = did_you_mean(key, keys.keys() - given.keys(), f"known here: {', '.join(keys)}")
        mistakes.add(place(given[key][0]), f"{noun} has no key `{key}`", mend)
    values: dict[str, Any] = {}
    for key, one in keys.items():
        if key in given:
            value = given[key][1]
            values[key] = one.read(value, key, mistakes)
            if one.required and is_list(value) and not value.value:
                mistakes.add(place(value), f"`{key}` is empty", "give at least one")
        # a misspelt key is reported once, as unknown; not again as missing
        elif one.required and not any(nearest(word, [key]) for word in unknown):
            mistakes.add(place(node), f"{noun} lacks `{key}`", f"add {key}: {HINTS.get(key, '...')}")
    return {key: value for key, value in values.items() if value is not None}


# ── patterns ─────────────────────────────────────────────────────────────────────────────────


def alternatives(node: Node) -> list[tuple[Place, str]]:
    """The alternatives of a pattern that was read without a mistake, each with its place."""
    rows = node.value if is_list(node) else (node,)
    pieces = ((row.value if is_list(row) else (row,)) for row in rows)
    return [(place(row[0]), "".join(plain(one) for one in row)) for row in pieces]


def pattern(node: Node, name: str, mistakes: Mistakes) -> str | None:
    """The whole pattern: its alternatives in their order, joined by `|`. In the node, too, the fragments are written out."""
    before = len(mistakes)
    _only_texts(node, name, mistakes)
    if len(mistakes) == before:
        for where, text in alternatives(node):
            if len(text) > LONGEST:
                what = f"this alternative has {len(text)} characters, more than {LONGEST}"
                mend = "write it as several alternatives, or name parts of it as fragments"
                mistakes.add(where, what, mend)
        _fill(node, mistakes)
        for number, (where, text) in enumerate(alternatives(node)):
            if _compiles(text, where, mistakes) and number:
                _fits_in_a_list(text, where, mistakes)
    return "|".join(text for _, text in alternatives(node)) if len(mistakes) == before else None


def _only_texts(node: Node, name: str, mistakes: Mistakes, depth: int = 0) -> None:
    """The node is a text, a list of texts, or a list with lists of texts in it."""
    if not is_list(node) or depth == 2:
        typed(Prose)(node, name, mistakes)
    elif not node.value:
        mistakes.add(place(node), f"`{name}` is empty", "give at least one")
    else:
        for row in node.value:
            _only_texts(row, name, mistakes, depth + 1)


def _fill(node: Node, mistakes: Mistakes) -> None:
    """Write out the fragments in each text of a pattern."""
    if is_list(node):
        for row in node.value:
            _fill(row, mistakes)
        return

    def put(found: re.Match[str]) -> str:
        name: str | None = found["name"]
        if name is None:
            return found[0]
        if name not in mistakes.fragments:
            mend = did_you_mean(name, mistakes.fragments, "rules/fragments.yaml names them all")
            mistakes.add(
                place(node), f"there is no fragment `{{{name}}}`", f"{mend}, or write \\{{{name}}} for the text"
            )
        return f"(?:{mistakes.fragments.get(name, '')})"

    node.value = _TOKEN.sub(put, node.value)
    if len(node.value) > _LONGEST_FILLED:
        what = f"with its fragments this is {len(node.value):,} characters long"
        mistakes.add(place(node), what, f"use at most {_LONGEST_FILLED:,}")


def _compiles(text: str, where: Place, mistakes: Mistakes) -> bool:
    error = _mistake_in(text)
    if error is not None:
        at = getattr(error, "pos", None) or 0
        after = f", after `{text[max(0, at - 24) : at]}`" if at else ""
        mend = "close what is open, and escape the signs that are meant as text: . * + ? ( ) [ ] { } | ^ $ \\"
        mistakes.add(where, f"the regex does not compile: {getattr(error, 'msg', error)}{after}", mend)
    return error is None


@lru_cache(maxsize=8192)  # of all rules, which a process may read again
def _mistake_in(text: str) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            regex.compile(text)
    except Exception as error:  # `regex` lets an internal error through for some broken patterns
        return error
    return None


def _fits_in_a_list(text: str, where: Place, mistakes: Mistakes) -> None:
    """What means one thing in a pattern of its own, and another one beside its neighbours."""
    if flags := _FLAGS.search(text):
        letters = flags[0][2:-1]
        mend = f"write (?{letters}:...) around the alternative, or set the flag in the first one for all"
        mistakes.add(where, f"the flag {flags[0]} would hold for the alternatives after this one too", mend)
    if number := _NUMBERED_GROUP.search(text):
        what = f"`{number[0]}` counts the groups of the whole list, not of this alternative"
        mistakes.add(where, what, "name the group: (?P<name>...), and repeat it by (?P=name)")


# ── the kinds of entries ─────────────────────────────────────────────────────────────────────


class Fragment(Frozen):
    """A pattern that several rules share."""

    id: str
    regex: str
    match: tuple[str, ...]
    """Texts that the whole fragment takes."""
    no_match: tuple[str, ...] = ()
    source: str = ""


class EntryKind(Frozen):
    """One kind of entry that a rule file may hold, in a list below a key of its own."""

    noun: str
    """What one entry is called in messages: `a signal`."""
    fields: Fields
    make: Callable[..., Any]
    """Makes the entry of the values of its fields; examples are given as `match` and `no_match`."""

    def read(self, node: Node, name: str, mistakes: Mistakes) -> tuple[Any, Node] | None:
        """The entry with its node."""
        before = len(mistakes)
        values = record(node, self.fields, self.noun, mistakes)
        examples = values.pop("examples", {})
        if len(mistakes) > before:
            return None
        made = self.make(**values, **examples)
        if isinstance(made, Fragment):
            mistakes.fragments[made.id] = made.regex
        return made, node


def _examples(node: Node, name: str, mistakes: Mistakes) -> dict[str, Any]:
    return record(node, EXAMPLES, "`examples`", mistakes)


EXAMPLES = {"match": Field(list_of(typed(Line)), required=True), "no_match": Field(list_of(typed(Line)))}
WHEN = next(one.type for one in fields(Rule) if one.name == "when")
_READERS: Mapping[str, Reader] = {
    **dict.fromkeys(PATTERNS, pattern),
    **dict.fromkeys(("do", "why", "summary"), typed(Prose)),
    **dict.fromkeys(("verify", "falsepositives", "no_match"), list_of(typed(Prose))),
    "title": typed(Title),
    "one_of": typed(Topic),
    "when": condition,
    "examples": _examples,
    "samples": list_of(sample),
    "explains": list_of(typed(CauseId)),
    "slurm_states": list_of(typed(Literal[tuple(sorted(FAILED | {"COMPLETED"}))])),
    "ends_with": typed(Annotated[int, Meta(ge=0, le=255)] | Annotated[str, Meta(pattern=r"\ASIG[A-Z]{2,6}\Z")]),
    "lock": typed(Annotated[float, Meta(ge=0, le=1)]),
}


def _reader(kept: Any) -> Reader:
    """The reader of a field's type."""
    if get_origin(kept) in (tuple, frozenset):
        return list_of(_reader(get_args(kept)[0]))
    if isinstance(kept, UnionType):
        return _reader(get_args(kept)[0])
    return typed({str: Line, int: Annotated[int, Meta(ge=0, le=40)]}.get(kept, kept))


def _keys(made: type[Struct], *without: str, optional: str = "", literals: int = 4, **own: Reader) -> dict[str, Field]:
    """The fields of a type as keys of a file, but for those that no file gives; `match` and `no_match` are its `examples`."""
    own["literals"] = list_of(typed(Annotated[Line, Meta(min_length=literals)]))
    kept = [one for one in fields(made) if one.name not in (*without, "of_site")]
    has_examples = any(one.name == "match" for one in kept)
    keys: dict[str, Field] = {}
    for one in kept:
        name = "examples" if one.name == "match" else one.name
        if name != "no_match" or not has_examples:
            read = own.get(name) or _READERS.get(name) or _reader(one.type)
            needed = name in ("examples", "samples") or (one.required and name != optional)
            keys[name] = Field(read, needed)
    return keys


RULES = EntryKind("a rule", _keys(Rule, "cause", optional="role", literals=6), dict)
"""Its values are kept as they are: what a rule does not say is then taken from its cause."""
DERIVATIONS = EntryKind("a derived name", _keys(Derived, id=typed(Name), value=expression), Derived)
FIXES = EntryKind("a fix", _keys(Fix), Fix)
_LABEL = _keys(LineFormat, "begins", literals=2)
TABLES: Mapping[str, EntryKind] = {
    "fragments": EntryKind("a fragment", _keys(Fragment, id=typed(Name)), Fragment),
    "formats": EntryKind("a format", _LABEL, LineFormat),
    "paths": EntryKind("a path", _LABEL, LineFormat),
    "rank_lines": EntryKind("a line that names ranks", _keys(RankLine, literals=6), RankLine),
    "signals": EntryKind("a signal", _keys(Signal, "value"), Signal),
    "facts": EntryKind("a fact", _keys(Signal, "kind"), partial(Signal, kind="fact")),
    "exit_reports": EntryKind("an exit report", _keys(ExitFormat), ExitFormat),
    "texts": EntryKind("a text", _keys(Text), Text),
    "secrets": EntryKind("a kind of secret", _keys(SecretKind, literals=1), SecretKind),
}
"""The tables by their keys: fragments first, which the others use.

A new table takes a frozen type for its entries and a field of `Knowledge` (slurmdoctor/model/knowledge.py), and an entry here.
Its `samples` are run by `prove_samples`, unless `workshop/proof.py` names another proof.
"""
CAUSE: Fields = {
    "cause": Field(typed(CauseId), required=True),
    "extends": Field(typed(bool)),
    "silence": Field(list_of(typed(Line))),
    "fragments": Field(list_of(TABLES["fragments"].read)),
    **_keys(
        Cause,
        "id",
        "family",
        optional="explains",
        rules=list_of(RULES.read),
        let=list_of(DERIVATIONS.read),
        fixes=list_of(FIXES.read),
    ),
}
_WHOLE = ("title", "role", "exit_classes", "retry", "summary", "slurm_states", "endings", "symptom")
ADDITIONS = {name: Field(one.read, required=name == "cause") for name, one in CAUSE.items() if name not in _WHOLE}
"""What a file with `extends: true` may hold."""
SHARED: Fields = {name: Field(list_of(kind.read)) for name, kind in TABLES.items()} | {"silence": CAUSE["silence"]}
"""What a file without a cause may hold."""
