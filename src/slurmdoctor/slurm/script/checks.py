"""Reads the checks of batch scripts from `rules/lint`. `knowledge.expressions` has the language of their conditions."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct, convert

from slurmdoctor.knowledge import LINT, builtin

Level = Literal["error", "warning", "note"]
Texts = str | tuple[str, ...]
"""One text, or several, of which the first one counts that can be filled in."""
_OLD_NAMES = {"mend": "fix"}


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """One mistake that a script can hold: `when` a condition holds, or for `each` item of a list."""

    id: str
    level: Level
    says: Texts
    why: Texts
    fix: Texts
    when: str | None = None
    each: str | None = None
    at: str | None = None
    causes: frozenset[str] = frozenset()
    reference: str | None = None
    bad: str | None = None
    good: str | None = None


@cache
def load() -> tuple[Check, ...]:
    """The checks."""
    import yaml  # here: hardly any diagnosis has a script

    return read(yaml.safe_load((builtin() / LINT / "checks.yaml").read_text(encoding="utf-8"))["checks"])


def read(rows: list[dict[str, object]]) -> tuple[Check, ...]:
    """The checks of a table; keys of older files are taken by their names of today."""
    return convert([{_OLD_NAMES.get(key, key): value for key, value in row.items()} for row in rows], tuple[Check, ...])
