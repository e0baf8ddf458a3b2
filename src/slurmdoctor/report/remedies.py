"""The fixes of a cause that fit this log, filled with its numbers. Pure.

A template's `{placeholders}` hold names and arithmetic, `{num_experts / ep}`. `{{` and `}}` stand for single
braces, and a shell's `${NAME}` is left alone.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from slurmdoctor.model import Cause, Fix, Remedy, RetryAdvice
from slurmdoctor.search.compiled import lazy

MOST = 3
"""So many fixes are shown: the ones that say most about this log."""
_SAME = 0.6
"""The share of words in common from which a reader takes two fixes for one."""

_PARTS = lazy(r"(?P<brace>\{\{|\}\})|(?P<shell>\$\{[^{}]*\})|\{(?P<hole>[^{}]*)\}|(?P<stray>[{}])")
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
COMPARISON = lazy(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?|[a-z_][a-z0-9_]*)")
"""A `when` value such as `> 1`, or `> ep`."""
_COMPARE = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
FUNCTIONS: Mapping[str, Callable[..., Any]] = {"min": min, "max": max, "ceil": math.ceil, "floor": math.floor}


class _UnfillableError(Exception):
    """A name without a value, or a sum that has no result here."""


def choose(cause: Cause, facts: Mapping[str, Any]) -> tuple[Remedy, ...]:
    """At most three fixes: those with the most conditions first, then in the file's order.

    `facts`: the root event's captures, the job's facts, `rule` (the root's), `seen` (all causes in the log).
    """
    return tuple(remedy for _, remedy in _best(cause, facts))


def advice(cause: Cause, facts: Mapping[str, Any]) -> RetryAdvice:
    """What to do with the job: the word of the fix that comes first, or its cause's."""
    return next((fix.retry for fix, _ in _best(cause, facts)[:1] if fix.retry), cause.retry)


def _best(cause: Cause, facts: Mapping[str, Any]) -> list[tuple[Fix, Remedy]]:
    fitting = [fix for fix in cause.fixes if all(_holds(facts.get(key), want, facts) for key, want in fix.when.items())]
    # that something is absent says nothing of this log
    fitting.sort(key=lambda fix: -sum(want is not False for want in fix.when.values()))
    best: list[tuple[Fix, Remedy]] = []
    for fix in fitting:
        remedy = _remedy(fix, facts)
        if remedy is not None and not any(_plainer(fix, other) or _same_words(remedy, said) for other, said in best):
            best.append((fix, remedy))
        if len(best) == MOST:
            break
    return best


def _plainer(fix: Fix, than: Fix) -> bool:
    """Whether a fix says the same for a log that tells less: of one rule, and with fewer conditions."""
    return "rule" in fix.when and all(
        key in than.when and (want is True or set(_all(than.when[key])) <= set(_all(want)))
        for key, want in fix.when.items()
    )


def _same_words(one: Remedy, other: Remedy) -> bool:
    """Whether two fixes come to the same once they are filled."""
    mine, others = (set(re.findall(r"\w+", fix.do.lower())) for fix in (one, other))
    return len(mine & others) >= _SAME * min(len(mine), len(others))


def _all(want: Any) -> tuple[Any, ...]:
    return tuple(want) if isinstance(want, (tuple, list)) else (want,)


def verify(cause: Cause, facts: Mapping[str, Any]) -> tuple[str, ...]:
    """How to make sure; what cannot be filled from this log is left out."""
    return tuple(text for template in cause.verify if (text := fill(template, facts)) is not None)


def _remedy(fix: Fix, facts: Mapping[str, Any]) -> Remedy | None:
    do = fill(fix.do, facts)
    if do is None:
        return None
    return Remedy(do=do, why=fill(fix.why, facts) if fix.why else None, reference=fix.reference)


def _holds(fact: Any, want: Any, facts: Mapping[str, Any]) -> bool:
    """Whether a fact is as `when` wants it: there, absent, `> 1`, more than another fact, a value, or any of a list."""
    if isinstance(want, (tuple, list)):
        return any(_holds(fact, one, facts) for one in want)
    present = fact is not None and fact is not False and fact != "" and (not _many(fact) or len(fact) > 0)
    if isinstance(want, bool):
        return present is want
    if not present:
        return False
    if isinstance(want, str) and (compared := COMPARISON.fullmatch(want)):
        than = _number(compared[2]) if _number(compared[2]) is not None else _number(facts.get(compared[2]))
        numbers = map(_number, fact if _many(fact) else (fact,))
        return than is not None and any(_COMPARE[compared[1]](number, than) for number in numbers if number is not None)
    return any(_same(one, want) for one in (fact if _many(fact) else (fact,)))


def _many(fact: Any) -> bool:
    return isinstance(fact, Collection) and not isinstance(fact, (str, bytes))


def _same(fact: Any, want: Any) -> bool:
    """A capture is text and a fact may be a number: 16, "16" and 16.0 are one."""
    left, right = _number(fact), _number(want)
    return left == right if left is not None and right is not None else str(fact) == str(want)


# ── templates ────────────────────────────────────────────────────────────────────────────────


def fill(template: str, facts: Mapping[str, Any]) -> str | None:
    """The text with its placeholders filled; None where the log does not tell one of them."""
    try:
        return "".join(part if isinstance(part, str) else _printed(_value(part, facts)) for part in _parts(template))
    except (_UnfillableError, ArithmeticError, ValueError):
        return None


def names(template: str) -> frozenset[str]:
    """The names that a template needs. A ValueError says what is wrong with it."""
    found = set()
    for part in _parts(template):
        if isinstance(part, ast.expr):
            _check(part)
            found |= {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    return frozenset(found - FUNCTIONS.keys())


def _parts(template: str) -> Iterator[str | ast.expr]:
    """The template's plain text and its expressions, in order."""
    at = 0
    for found in _PARTS.finditer(template):
        yield template[at : found.start()]
        at = found.end()
        if found["stray"]:
            raise ValueError(f"the brace `{found['stray']}` has no partner")
        if found["hole"] is None:
            yield found[0][0] if found["brace"] else found[0]
            continue
        try:
            yield ast.parse(found["hole"].strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"`{found[0]}` is neither a name nor arithmetic") from None
    yield template[at:]


def _check(part: ast.expr) -> None:
    """Refuse all but names, numbers, + - * / // %, and the few functions."""
    if isinstance(part, ast.BinOp) and type(part.op) in _OPERATORS:
        _check(part.left)
        _check(part.right)
    elif isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.USub):
        _check(part.operand)
    elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and not part.keywords:
        if part.func.id not in FUNCTIONS:
            raise ValueError(f"`{part.func.id}()` is not known; there are {', '.join(FUNCTIONS)}")
        for argument in part.args:
            _check(argument)
    elif not isinstance(part, ast.Name) and not (isinstance(part, ast.Constant) and type(part.value) in (int, float)):
        raise ValueError(f"`{ast.unparse(part)}` is neither a name nor arithmetic")


def _value(part: ast.expr, facts: Mapping[str, Any]) -> Any:
    if isinstance(part, ast.Name):
        value = facts.get(part.id)
        if value is None or value == "" or isinstance(value, bool):
            raise _UnfillableError(part.id)
        return value
    _check(part)
    return _computed(part, facts)


def _computed(part: ast.expr, facts: Mapping[str, Any]) -> int | float:
    if isinstance(part, ast.Constant):
        result: Any = part.value
    elif isinstance(part, ast.Name):
        result = _number(_value(part, facts))
    elif isinstance(part, ast.BinOp):
        result = _OPERATORS[type(part.op)](_computed(part.left, facts), _computed(part.right, facts))
    elif isinstance(part, ast.UnaryOp):
        result = -_computed(part.operand, facts)
    elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.args:
        values = [_computed(argument, facts) for argument in part.args]
        # min and max of a single number are that number
        result = values[0] if len(values) == 1 and part.func.id in ("min", "max") else FUNCTIONS[part.func.id](*values)
    else:
        result = None
    if not isinstance(result, (int, float)) or not math.isfinite(result):
        raise _UnfillableError
    return result


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str) and len(value) < 40:
        if re.fullmatch(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)", value):
            return int(value.replace(",", ""))
        if re.fullmatch(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d{1,3})?", value):
            return float(value)
    return None


def _printed(value: Any) -> str:
    """As a person writes it: 64, not 64.0; 10.7, not 10.666666666666666; `0-3, 7` for ranks."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _UnfillableError
        if value == int(value):
            return str(int(value))
        short = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3g}"
        return short.rstrip("0").rstrip(".") if "." in short and "e" not in short else short
    if _many(value):
        if not value:
            raise _UnfillableError
        numbers = all(isinstance(one, int) for one in value)
        return _runs(sorted(value)) if numbers else ", ".join(str(one) for one in value)
    return str(value)


def _runs(numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number <= runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
