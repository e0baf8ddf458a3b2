"""Replaces `{slurm_client}` in a pattern by the fragment of that name, a pattern that several rules share.

    fragments:
      - id: slurm_client
        regex: '(?:sbatch|srun|salloc)'
        examples: {match: [srun], no_match: [sinfo]}

    regex: '{slurm_client}: error: Batch job submission failed'

Ours are in rules/fragments.yaml; a site may define its own, for its own files, and a cause's file some for itself alone.
A fragment may use those defined before it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge.problems import MOST, Problems, did_you_mean
from slurmdoctor.knowledge.regexes import alternatives
from slurmdoctor.knowledge.tree import Rows, Scalar, Table, Tree
from slurmdoctor.knowledge.values import FRAGMENT_NAME

LINES = frozenset({"examples", "samples", "no_match"})
"""Keys below which lines of a log are kept: what is in braces there is text."""
_LONGEST = 4000
"""Characters that fragments may put into a pattern: those that use one another twice soon are endless."""
_TOKEN = re.compile(rf"\\[pPN]\{{[^}}]*\}}|\\.|\{{(?P<name>{FRAGMENT_NAME.pattern})\}}", re.S)


class Fragment(Struct, frozen=True):
    id: str
    regex: str
    match: tuple[str, ...]
    """Texts that the whole fragment takes."""
    no_match: tuple[str, ...] = ()
    source: str = ""


def expand_all(trees: Sequence[Tree], keys: Collection[str], known: dict[str, str], problems: Problems) -> list[Tree]:
    """The files of a folder with the fragments written out in all patterns, the values of these keys.

    The fragments that the files share are added to the known ones.
    """
    for tree in trees:
        if isinstance(tree, Table) and "cause" not in tree.items:
            known |= _defined(tree, known)
    return [_expanded(tree, keys, known | _defined(tree, known), problems) for tree in trees]


def _defined(tree: Tree, known: Mapping[str, str]) -> dict[str, str]:
    """The fragments of a file, by name. Mistakes in them are reported where they are read as a table."""
    found: dict[str, str] = {}
    rows = tree.items.get("fragments") if isinstance(tree, Table) else None
    for row in rows.items if isinstance(rows, Rows) else ():
        name = row.items.get("id") if isinstance(row, Table) else None
        written = row.items.get("regex") if isinstance(row, Table) else None
        if isinstance(name, Scalar) and written is not None:
            filled = _filled(written, {**known, **found}, Problems())
            found[name.text] = "|".join(one.text for one in alternatives(filled))
    return found


def _expanded(tree: Tree, keys: Collection[str], known: Mapping[str, str], problems: Problems) -> Tree:
    if isinstance(tree, Rows):
        return replace(tree, items=tuple(_expanded(row, keys, known, problems) for row in tree.items))
    if isinstance(tree, Scalar):
        return tree
    items = dict(tree.items)
    for key, value in items.items():
        if key in keys:
            items[key] = _filled(value, known, problems)
        elif key not in LINES:
            items[key] = _expanded(value, keys, known, problems)
    return replace(tree, items=items)


def _filled(tree: Tree, known: Mapping[str, str], problems: Problems) -> Tree:
    if isinstance(tree, Rows):
        return replace(tree, items=tuple(_filled(row, known, problems) for row in tree.items))
    if isinstance(tree, Table) or "{" not in tree.text:
        return tree

    def put(found: re.Match[str]) -> str:
        name = found["name"]
        if name is None:
            return found[0]
        if name not in known and len(problems.notes) >= MOST:
            return found[0]
        if name not in known:
            mend = did_you_mean(name, known, f"write \\{{{name}}} for the text; rules/fragments.yaml names them all")
            problems.note(tree.place, f"`{{{name}}}` is no fragment, and is taken as plain text", mend)
            return found[0]
        return f"(?:{known[name]})"

    size = sum(len(known.get(found["name"] or "", "")) for found in _TOKEN.finditer(tree.text))
    if size > _LONGEST:
        problems.add(tree.place, f"its fragments are {size:,} characters long", f"use at most {_LONGEST:,}")
        return tree
    return replace(tree, text=_TOKEN.sub(put, tree.text))
