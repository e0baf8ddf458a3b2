"""The keys of each part of a rule file, in the order in which they are best read, and how their values are read.

What a key takes follows from the type of its field in `model/knowledge.py`; `_READERS` has those that need more than a type.
The reader of a value returns it, or raises Wrong; every mistake is collected.

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
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import regex
from msgspec import Struct
from msgspec.structs import fields

from slurmdoctor.knowledge.document import Node, child, is_list, is_table, is_text, kind, pairs, place
from slurmdoctor.knowledge.expressions import names_of
from slurmdoctor.knowledge.problems import Place, Problems, did_you_mean, nearest
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
_LINES = frozenset({"examples", "samples", "no_match"})
"""Keys below which lines of a log are kept: what is in braces there is text."""
LONGEST = 300
"""Characters of one alternative, with its fragments as they are written."""
_LONGEST_FILLED = 4000
"""Characters that fragments may put into a pattern: those that use one another twice soon are endless."""
_TOKEN = re.compile(r"\\[pPN]\{[^}]*\}|\\.|\{(?P<name>[a-z]+(?:_[a-z]+)*)\}", re.S)
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
_NUMBERED_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")


class Wrong(Exception):  # noqa: N818 - it is caught where values are read
    """A value of a rule file that cannot be read."""

    def __init__(self, node: Node, what: str, mend: str) -> None:
        super().__init__(what)
        self.node, self.what, self.mend = node, what, mend


# ── single values ────────────────────────────────────────────────────────────────────────────


def text(node: Node, name: str, problems: Problems) -> str:
    """A value that is one text."""
    if not is_text(node):
        raise Wrong(node, f"`{name}` must be one text, and this is {_noun(node)}", "write one text, in quotes")
    if kind(node) == "null" or not node.value.strip():
        raise Wrong(node, f"`{name}` is empty", "write its text, or remove the key")
    if kind(node) in ("bool", "int", "float"):
        meant = "true or false" if kind(node) == "bool" else "a number"
        what = f"`{name}` must be text, and YAML reads `{node.value}` as {meant}"
        raise Wrong(node, what, f"quote it: '{node.value}'")
    return _unfolded(node)


def _unfolded(node: Node) -> str:
    return str(node.value.strip("\n") if "\n" in node.value else node.value)


def line(node: Node, name: str, problems: Problems, most: int = 10_000) -> str:
    value = text(node, name, problems)
    if "\n" in value:
        raise Wrong(node, f"`{name}` holds more than one line", "write it as one line")
    if len(value) > most:
        raise Wrong(node, f"`{name}` has {len(value)} characters", f"say it in at most {most}")
    return value


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
            return text(node, name, problems)
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


# ── patterns ─────────────────────────────────────────────────────────────────────────────────


class Alternative(Struct, frozen=True):
    """One alternative of a pattern, and the place of each of its pieces."""

    pieces: tuple[tuple[Place, str], ...]

    @property
    def text(self) -> str:
        return "".join(piece for _, piece in self.pieces)

    @property
    def place(self) -> Place:
        return self.pieces[0][0]

    def place_of(self, position: int) -> Place:
        """The piece that holds this position of the text."""
        for at, piece in self.pieces:
            if position <= len(piece):
                return at
            position -= len(piece)
        return self.place


def alternatives(node: Node) -> list[Alternative]:
    """The alternatives of a pattern that was read without a problem."""
    rows = node.value if is_list(node) else (node,)
    pieces = ((row.value if is_list(row) else (row,)) for row in rows)
    return [Alternative(tuple((place(one), _unfolded(one)) for one in row)) for row in pieces]


def pattern(node: Node, name: str, problems: Problems) -> str | None:
    """The whole pattern: its alternatives in their order, joined by `|`."""
    before = len(problems)
    if not _only_texts(node, name, problems):
        return None
    found = alternatives(node)
    for at, one in enumerate(found):
        if _compiles(one, problems) and at:
            _fits_in_a_list(one, problems)
    return "|".join(one.text for one in found) if len(problems) == before else None


def _only_texts(node: Node, name: str, problems: Problems, depth: int = 0) -> bool:
    """Whether the node is a text, a list of texts, or a list with lists of texts in it."""
    if not is_list(node) or depth == 2:
        try:
            return bool(text(node, name, problems))
        except Wrong as wrong:
            problems.add(place(node), wrong.what, wrong.mend)
            return False
    if not node.value:
        problems.add(place(node), f"`{name}` is empty", "give at least one")
        return False
    bad = [row for row in node.value if not _only_texts(row, name, problems, depth + 1)]
    return not bad


def _compiles(one: Alternative, problems: Problems) -> bool:
    error = _mistake_in(one.text)
    if error is not None:
        at = getattr(error, "pos", None) or 0
        where = f", after `{one.text[max(0, at - 24) : at]}`" if at else ""
        mend = "close what is open, and escape the signs that are meant as text: . * + ? ( ) [ ] { } | ^ $ \\"
        what = f"the regex does not compile: {getattr(error, 'msg', error)}{where}"
        problems.add(one.place_of(at), what, mend)
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


def _fits_in_a_list(one: Alternative, problems: Problems) -> None:
    """What means one thing in a pattern of its own, and another one beside its neighbours."""
    if flags := _FLAGS.search(one.text):
        letters = flags[0][2:-1]
        mend = f"write (?{letters}:...) around the alternative, or set the flag in the first one for all"
        problems.add(one.place, f"the flag {flags[0]} would hold for the alternatives after this one too", mend)
    if number := _NUMBERED_GROUP.search(one.text):
        what = f"`{number[0]}` counts the groups of the whole list, not of this alternative"
        problems.add(one.place, what, "name the group: (?P<name>...), and repeat it by (?P=name)")


# ── fragments ────────────────────────────────────────────────────────────────────────────────


class Fragment(Struct, frozen=True):
    """A pattern that several rules share."""

    id: str
    regex: str
    match: tuple[str, ...]
    """Texts that the whole fragment takes."""
    no_match: tuple[str, ...] = ()
    source: str = ""


def write_out(roots: Sequence[Node], known: dict[str, str], problems: Problems) -> None:
    """Replace the fragments in the patterns of a folder's files.

    The fragments that the files share are added to the known ones.
    """
    for root in roots:
        if child(root, "cause") is None:
            known |= _defined(root, known)
    for root in roots:
        own = known | _defined(root, known) if child(root, "cause") is not None else known
        _write_out(root, own, problems)


def _defined(root: Node, known: Mapping[str, str]) -> dict[str, str]:
    """The fragments of a file, by name. Mistakes in them are reported where they are read as a table."""
    found: dict[str, str] = {}
    rows = child(root, "fragments")
    for row in rows.value if is_list(rows) else ():
        name, written = child(row, "id"), child(row, "regex")
        if is_text(name) and written is not None and _only_texts(written, "regex", Problems()):
            whole = "|".join(one.text for one in alternatives(written))
            found[name.value] = _filled(whole, {**known, **found})
    return found


def _write_out(node: Node, known: Mapping[str, str], problems: Problems) -> None:
    for row in node.value if is_list(node) else ():
        _write_out(row, known, problems)
    for key, _, value in pairs(node):
        if key not in PATTERNS:
            if key not in _LINES:
                _write_out(value, known, problems)
        elif _only_texts(value, key, Problems()):
            for one in alternatives(value):
                if len(one.text) > LONGEST:
                    what = f"this alternative has {len(one.text)} characters, more than {LONGEST}"
                    problems.add(one.place, what, "write it as several alternatives, or name parts of it as fragments")
            _fill(value, known, problems)


def _fill(node: Node, known: Mapping[str, str], problems: Problems) -> None:
    if is_list(node):
        for row in node.value:
            _fill(row, known, problems)
        return
    for name in [found["name"] for found in _TOKEN.finditer(node.value) if found["name"]]:
        if name not in known:
            mend = did_you_mean(name, known, "rules/fragments.yaml names them all")
            what = f"there is no fragment `{{{name}}}`"
            problems.add(place(node), what, f"{mend}, or write \\{{{name}}} for the text")
    if (size := _size(node.value, known)) > _LONGEST_FILLED:
        problems.add(place(node), f"its fragments are {size:,} characters long", f"use at most {_LONGEST_FILLED:,}")
    node.value = _filled(node.value, known)


def _size(written: str, known: Mapping[str, str]) -> int:
    return sum(len(known.get(found["name"], "")) for found in _TOKEN.finditer(written))


def _filled(written: str, known: Mapping[str, str]) -> str:
    """The pattern with its fragments; as it is where they are too long."""
    if _size(written, known) > _LONGEST_FILLED:
        return written

    def put(found: re.Match[str]) -> str:
        name: Any = found["name"]
        return f"(?:{known[name]})" if name in known else found[0]

    return _TOKEN.sub(put, written)


# ── the kinds of entries ─────────────────────────────────────────────────────────────────────


def _examples(node: Node, name: str, problems: Problems) -> dict[str, Any]:
    return record(node, EXAMPLES, "`examples`", problems)


EXAMPLES = {"match": Field(list_of(line, least=1), required=True), "no_match": Field(list_of(line))}
_READERS: Mapping[str, Reader] = {
    **dict.fromkeys(PATTERNS, pattern),
    **dict.fromkeys(("do", "why", "summary"), text),
    **dict.fromkeys(("verify", "falsepositives", "no_match"), list_of(text)),
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
