"""Reads a `regex:` of a rule file: one text, or a list of alternatives, which are joined by `|`.

    regex:
      - 'slurmstepd: error: Detected \\d+ oom.kill events? in StepId=(?P<step>\\S+)'    # one alternative
      - - 'srun: error: (?P<node>\\S+): '                                             # another one, in two pieces
        - 'task (?P<tasks>[\\d,-]+): Out Of Memory'

Named groups may repeat: `regex`, unlike `re`, takes the one that took part.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import regex
from msgspec import Struct

from slurmdoctor.knowledge.fields import attempt
from slurmdoctor.knowledge.problems import Place, Problems
from slurmdoctor.knowledge.tree import Rows, Scalar, Tree
from slurmdoctor.knowledge.values import text

_FLAGS = re.compile(r"\(\?[a-zA-Z]+\)")
_NUMBERED_GROUP = re.compile(r"(?<!\\)(?:\\\\)*\\[1-9]")


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
        for place, piece in self.pieces:
            if position <= len(piece):
                return place
            position -= len(piece)
        return self.place


def alternatives(tree: Tree) -> list[Alternative]:
    """The alternatives of a pattern that was read without a problem."""
    rows = tree.items if isinstance(tree, Rows) else (tree,)
    return [Alternative(tuple(_pieces(row))) for row in rows]


def pattern(tree: Tree, name: str, problems: Problems) -> str | None:
    """The whole pattern: its alternatives in their order, joined by `|`."""
    before = len(problems)
    if not _only_texts(tree, name, problems):
        return None
    found = alternatives(tree)
    for at, one in enumerate(found):
        if _compiles(one, problems) and len(found) > 1:
            _fits_in_a_list(one, at, problems)
    return "|".join(one.text for one in found) if len(problems) == before else None


def _pieces(tree: Tree) -> Iterator[tuple[Place, str]]:
    for piece in tree.items if isinstance(tree, Rows) else (tree,):
        if isinstance(piece, Scalar):
            yield piece.place, piece.text.strip("\n") if "\n" in piece.text else piece.text


def _only_texts(tree: Tree, name: str, problems: Problems, depth: int = 0) -> bool:
    """Whether the tree is a text, a list of texts, or a list with lists of texts in it."""
    if not isinstance(tree, Rows) or depth == 2:
        return attempt(text, tree, name, problems) is not None
    if not tree.items:
        problems.add(tree.place, f"`{name}` is empty", "give at least one")
        return False
    wrong = [row for row in tree.items if not _only_texts(row, name, problems, depth + 1)]
    return not wrong


def _compiles(one: Alternative, problems: Problems) -> bool:
    whole = one.text
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            regex.compile(whole)
    except (regex.error, FutureWarning, DeprecationWarning) as error:
        at = getattr(error, "pos", None)
        where = f", after `{whole[max(0, at - 24) : at]}`" if at else ""
        reason = getattr(error, "msg", str(error))
        what = f"the regex does not compile: {reason}{where}"
        problems.add(one.place_of(at or 0), what, _mend(reason))
        return False
    except Exception as error:  # `regex` lets an internal error through for some broken patterns
        problems.add(one.place, f"the regex does not compile: {error}", "simplify it")
        return False
    return True


def _fits_in_a_list(one: Alternative, at: int, problems: Problems) -> None:
    """What means one thing in a pattern of its own, and another one beside its neighbours."""
    if at and (flags := _FLAGS.search(one.text)):
        letters = flags[0][2:-1]
        mend = f"write (?{letters}:...) around the alternative, or set the flag in the first one for all"
        problems.add(one.place, f"the flag {flags[0]} would hold for the alternatives after this one too", mend)
    if at and (number := _NUMBERED_GROUP.search(one.text)):
        what = f"`{number[0]}` counts the groups of the whole list, not of this alternative"
        problems.add(one.place, what, "name the group: (?P<name>...), and repeat it by (?P=name)")


def _mend(reason: str) -> str:
    for words, mend in (
        ("missing )", "close the group, or escape a bracket that is meant as text: \\("),
        ("unbalanced", "open the group, or escape a bracket that is meant as text: \\)"),
        ("unterminated character set", "close the set, or escape a bracket that is meant as text: \\["),
        ("nothing to repeat", "put something before the * + ? or {, or escape it"),
        ("multiple repeat", "group what is repeated, or escape the second sign"),
        ("nested set", "escape the inner bracket: \\["),
    ):
        if words in reason.lower():
            return mend
    return "escape the signs that are meant as text (. * + ? ( ) [ ] { } | ^ $ \\)"
