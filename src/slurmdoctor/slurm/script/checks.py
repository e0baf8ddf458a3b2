"""Reads the checks of batch scripts from `rules/lint`. `knowledge.expressions` has the language of their conditions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, get_args

from msgspec import Struct

from slurmdoctor.knowledge.expressions import names_of, placeholders
from slurmdoctor.knowledge.paths import LINT, builtin
from slurmdoctor.model import UserError

Level = Literal["error", "warning", "note"]
_FIELDS = frozenset({"id", "level", "when", "each", "at", "says", "why", "mend", "causes", "reference", "bad", "good"})


class Check(Struct, frozen=True):
    """One mistake that a script can hold."""

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
    """The checks. A UserError names the check in which something is wrong."""
    import yaml  # here: hardly any diagnosis has a script

    rows = yaml.safe_load((builtin() / LINT / "checks.yaml").read_text(encoding="utf-8"))["checks"]
    return tuple(_check(row) for row in rows)


def _check(row: Mapping[str, Any]) -> Check:
    name = str(row.get("id", "?"))
    unknown = row.keys() - _FIELDS
    if unknown or row.get("level") not in get_args(Level) or ("when" in row) == ("each" in row):
        raise UserError(
            f"rules/lint: the check `{name}` is wrong", "it needs level, says, why, mend, and one of when and each"
        )
    try:
        if "when" in row:
            names_of(row["when"])
        for part in ("says", "why", "mend"):
            placeholders(row[part])
    except ValueError as error:
        raise UserError(f"rules/lint: the check `{name}`: {error}", "mend its condition or its text") from None
    return Check(**{**row, "causes": frozenset(row.get("causes", ()))})
