"""The checks of batch scripts, from `rules/lint`: data, and the small language of their conditions."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from slurmdoctor.knowledge.paths import LINT, builtin
from slurmdoctor.model import UserError
from slurmdoctor.report.remedies import names as placeholders

Level = Literal["error", "warning", "note"]
_FIELDS = frozenset({"id", "level", "when", "each", "at", "says", "why", "mend", "causes", "reference", "bad", "good"})
_OPERATIONS: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True, slots=True)
class Check:
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
            _known(ast.parse(row["when"], mode="eval").body)
        for part in ("says", "why", "mend"):
            placeholders(row[part])
    except (SyntaxError, ValueError) as error:
        raise UserError(f"rules/lint: the check `{name}`: {error}", "mend its condition or its text") from None
    return Check(**{**row, "causes": frozenset(row.get("causes", ()))})


def _known(part: ast.expr) -> None:
    for node in ast.walk(part):
        if not isinstance(
            node,
            (
                ast.BoolOp,
                ast.And,
                ast.Or,
                ast.UnaryOp,
                ast.Not,
                ast.Compare,
                ast.BinOp,
                ast.Name,
                ast.Load,
                ast.Constant,
                *_OPERATIONS,
            ),
        ):
            raise ValueError(f"`{ast.unparse(node)}` is no part of a condition")


def holds(condition: str, facts: Mapping[str, Any]) -> bool:
    """Whether a condition is true of these facts; a comparison with what is not known is not."""
    return bool(_value(ast.parse(condition, mode="eval").body, facts))


def _value(part: ast.expr, facts: Mapping[str, Any]) -> Any:
    if isinstance(part, ast.Constant):
        return part.value
    if isinstance(part, ast.Name):
        return facts.get(part.id)
    if isinstance(part, ast.UnaryOp):
        return not _value(part.operand, facts)
    if isinstance(part, ast.BoolOp):
        result: Any = None
        for value in part.values:
            result = _value(value, facts)
            if bool(result) is isinstance(part.op, ast.Or):
                return result
        return result
    if isinstance(part, ast.BinOp):
        return _applied(part.op, _value(part.left, facts), _value(part.right, facts))
    if isinstance(part, ast.Compare):
        left = _value(part.left, facts)
        for op, right in zip(part.ops, part.comparators, strict=True):
            value = _value(right, facts)
            if not _applied(op, left, value):
                return False
            left = value
        return True
    return None


def _applied(op: ast.AST, left: Any, right: Any) -> Any:
    if left is None or right is None:
        return None
    try:
        return _OPERATIONS[type(op)](left, right)
    except (TypeError, ZeroDivisionError):
        return None
