"""Reads the checks of batch scripts from `rules/lint`. `knowledge.expressions` has the language of their conditions."""

from __future__ import annotations

from functools import cache
from typing import Literal

from msgspec import Struct, convert

from slurmdoctor.knowledge.paths import LINT, builtin

Level = Literal["error", "warning", "note"]


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """One mistake that a script can hold: `when` a condition holds, or for `each` item of a list."""

    id: str
    level: Level
    says: str
    why: str
    mend: str
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

    text = (builtin() / LINT / "checks.yaml").read_text(encoding="utf-8")
    return convert(yaml.safe_load(text)["checks"], tuple[Check, ...])
