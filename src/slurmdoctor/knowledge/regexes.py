"""Reads a `regex:` of a rule file, one text or a list of alternatives, which are joined by `|`, and writes out fragments in it.

    regex:
      - 'slurmstepd: error: Detected \\d+ oom.kill events? in StepId=(?P<step>\\S+)'    # one alternative
      - - '{slurm_client}: error: (?P<node>\\S+): '                                     # another one, in two pieces
        - 'task (?P<tasks>[\\d,-]+): Out Of Memory'

    fragments:
      - id: slurm_client
        regex: '(?:sbatch|srun|salloc)'
        examples: {match: [srun], no_match: [sinfo]}

Named groups may repeat: `regex`, unlike `re`, takes the one that took part. Our fragments are in rules/fragments.yaml; a site
may define its own, for its own files, and a cause's file some for itself alone. A fragment may use those defined before it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import regex
from msgspec import Struct

from slurmdoctor.knowledge.document import Node, child, is_list, is_table, is_text, kind, pairs, place
from slurmdoctor.knowledge.problems import Place, Problems, did_you_mean

LINES = frozenset({"examples", "samples", "no_match"})
"""Keys below which lines of a log are kept: what is in braces there is text."""
LONGEST = 300
"""Characters of one alternative, with its fragments as they are written."""
_LONGEST_FILLED = 4000
"""Characters that fragments may put into a pattern: those that use one another twice soon are endless."""
_TOKEN = re.compile(r"\\[pPN]\{[^}]*\}|\\.|\{(?P<name>[a-z]+(?:_[a-z]+)*)\}", re.S)
_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
_NUMBERED_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")
_MENDS = (
    ("missing )", "close the group, or escape a bracket that is meant as text: \\("),
    ("unbalanced", "open the group, or escape a bracket that is meant as text: \\)"),
    ("unterminated character set", "close the set, or escape a bracket that is meant as text: \\["),
    ("nothing to repeat", "put something before the * + ? or {, or escape it"),
    ("multiple repeat", "group what is repeated, or escape the second sign"),
    ("nested set", "escape the inner bracket: \\["),
)


class Wrong(Exception):  # noqa: N818 - it is caught where values are read
    """A value of a rule file that cannot be read."""

    def __init__(self, node: Node, what: str, mend: str) -> None:
        super().__init__(what)
        self.node, self.what, self.mend = node, what, mend


def text(node: Node, name: str) -> str:
    """A value that is one text."""
    if not is_text(node):
        form = "a list" if is_list(node) else "a table of keys"
        raise Wrong(node, f"`{name}` must be one text, and this is {form}", "write one text, in quotes")
    if kind(node) == "null" or not node.value.strip():
        raise Wrong(node, f"`{name}` is empty", "write its text, or remove the key")
    if kind(node) in ("bool", "int", "float"):
        meant = "true or false" if kind(node) == "bool" else "a number"
        what = f"`{name}` must be text, and YAML reads `{node.value}` as {meant}"
        raise Wrong(node, what, f"quote it: '{node.value}'")
    return str(node.value.strip("\n") if "\n" in node.value else node.value)


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
    return [Alternative(tuple(_piece(one) for one in (row.value if is_list(row) else (row,)))) for row in rows]


def _piece(node: Node) -> tuple[Place, str]:
    return place(node), node.value.strip("\n") if "\n" in node.value else node.value


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
            return bool(text(node, name))
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
    if error is None:
        return True
    if not isinstance(error, (regex.error, Warning)):  # `regex` lets an internal error through for some broken patterns
        problems.add(one.place, f"the regex does not compile: {error}", "simplify it")
        return False
    at = getattr(error, "pos", None)
    where = f", after `{one.text[max(0, at - 24) : at]}`" if at else ""
    reason = getattr(error, "msg", str(error))
    otherwise = "escape the signs that are meant as text (. * + ? ( ) [ ] { } | ^ $ \\)"
    mend = next((mend for words, mend in _MENDS if words in reason.lower()), otherwise)
    problems.add(one.place_of(at or 0), f"the regex does not compile: {reason}{where}", mend)
    return False


@lru_cache(maxsize=8192)  # of all rules, which a process may read again
def _mistake_in(text: str) -> Exception | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            regex.compile(text)
    except Exception as error:
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


def write_out(roots: Sequence[Node], known: dict[str, str], keys: frozenset[str], problems: Problems) -> None:
    """Replace the fragments in the patterns of a folder's files, the values of these keys.

    The fragments that the files share are added to the known ones.
    """
    for root in roots:
        if child(root, "cause") is None:
            known |= _defined(root, known)
    for root in roots:
        own = known | _defined(root, known) if child(root, "cause") is not None else known
        _write_out(root, keys, own, problems)


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


def _write_out(
    node: Node, keys: frozenset[str], known: Mapping[str, str], problems: Problems, here: bool = False
) -> None:
    if is_text(node):
        if here and "{" in node.value:
            _fill(node, known, problems)
    elif is_table(node):
        for key, _, value in pairs(node):
            if key not in LINES:
                _write_out(value, keys, known, problems, key in keys)
    else:
        for row in node.value:
            _write_out(row, keys, known, problems, here)


def _fill(node: Node, known: Mapping[str, str], problems: Problems) -> None:
    used = [found["name"] for found in _TOKEN.finditer(node.value) if found["name"]]
    for name in used:
        if name not in known:
            mend = did_you_mean(name, known, "rules/fragments.yaml names them all")
            problems.add(
                place(node), f"there is no fragment `{{{name}}}`", f"{mend}, or write \\{{{name}}} for the text"
            )
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
