"""The one language of rules: conditions (`when`) and placeholders (`{...}`), of fixes and of the checks of batch scripts. Pure.

    ep > 1 and num_experts % ep != 0                    a condition
    {framework: [megatron, nemo], ep: '> 1'}            a table of conditions, all of which must hold
    {num_experts / ep} experts per GPU on {node}        a template
    unallocated + free >= requested                     sizes such as `1.41 GiB`, `512.00 MiB`: GiB

Names are facts of the log or of the script. What depends on a fact that is not known is not known itself: such a condition
does not hold, and such a template cannot be filled. docs/rules.md is the reference.

Python's own parser reads the expressions; what is allowed of Python is listed here, and nothing is executed.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any

from slurmdoctor.matching import lazy
from slurmdoctor.model import MOST_RANKS, SHORT, gib, ranges

Facts = Mapping[str, Any]
"""What is known, by name: text, a number, true, or several of them."""

COMPARISON = lazy(r"(<=|>=|<|>)\s*(-?\d+(?:\.\d+)?|[a-z_][a-z0-9_]*)")
"""A wanted value such as `> 1`, or `> ep`."""
_PLAIN_ARGUMENT = lazy(r"[\w@%+=:,./~^\[\]-]*")
"""What every shell takes as it is."""
_WHOLE = lazy(r"[+-]?(?:\d+|\d{1,3}(?:,\d{3})+)")
_DECIMAL = lazy(r"[+-]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][+-]?\d{1,3})?")
_OF_THE_SHELL = lazy(r"\$\{([^{}]*)\}")
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ORDER: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_COMPARED = {*_ORDER, ast.Eq, ast.NotEq, ast.In, ast.NotIn}
_MOST = 1_000_000
"""The largest number whose divisors are looked for."""


def _divisor(number: float, least: float) -> int:
    """The smallest divisor of a number that is at least so large. A ValueError or StopIteration says that there is none."""
    if number > _MOST:
        raise ValueError(number)
    return next(one for one in range(max(1, math.ceil(least)), int(number) + 1) if number % one == 0)


def _gcd(*numbers: int) -> int:
    """The largest number that divides all of these, which are whole and positive. A ValueError says that one is not."""
    if min(numbers) <= 0:
        raise ValueError(numbers)
    return math.gcd(*numbers)


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": lambda *numbers: min(numbers),
    "max": lambda *numbers: max(numbers),
    "ceil": math.ceil,
    "floor": math.floor,
    "divisor": _divisor,
    "gcd": _gcd,
}


# ── conditions ───────────────────────────────────────────────────────────────────────────────


def holds(when: str | Mapping[str, Any], facts: Facts) -> bool:
    """Whether a condition, or every one of a table, holds of these facts."""
    if isinstance(when, str):
        return _is_there(value(when, facts))
    return all(_is(condition, wanted, facts) for condition, wanted in when.items())


def names_of(condition: str) -> frozenset[str]:
    """The names in a condition. A ValueError says what is wrong with it."""
    return _names(_parsed(condition))


def value(expression: str, facts: Facts) -> Any:
    """What an expression comes to; None where that is not known."""
    return facts.get(expression) if expression.isidentifier() else _value(_parsed(expression), facts)


def _is(condition: str, wanted: Any, facts: Facts) -> bool:
    """Whether the left side of a table's row is as it wants it: there, absent, `> 1`, a value, or any of a list."""
    if isinstance(wanted, (tuple, list)):
        return any(_is(condition, one, facts) for one in wanted)
    if isinstance(wanted, str) and COMPARISON.fullmatch(wanted):
        return holds(f"({condition}) {wanted}", facts)
    found = value(condition, facts)
    if isinstance(wanted, bool):
        return _is_there(found) is wanted
    return _is_there(found) and _same(found, wanted)


def _is_there(found: Any) -> bool:
    """Whether a fact is known, and neither false nor empty. The number 0 is known."""
    return found is not None and found is not False and found != "" and not (_several(found) and len(found) == 0)


def _value(node: ast.expr, facts: Facts) -> Any:
    """What an expression comes to; None where that is not known. A ValueError names a part that is none of this language."""
    match node:
        case ast.Constant(value=bool() | int() | float() | str() as found):
            return found
        case ast.Name(id=name):
            return facts.get(name)
        case ast.BoolOp(op=how, values=parts):
            known = [_is_there(_value(part, facts)) for part in parts]
            return all(known) if isinstance(how, ast.And) else any(known)
        case ast.Compare(left=left, ops=ways, comparators=others) if _COMPARED.issuperset(map(type, ways)):
            sides = [_value(side, facts) for side in (left, *others)]
            return all(map(_compares, ways, sides, sides[1:]))
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            return tuple(_value(part, facts) for part in parts)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not _is_there(_value(part, facts))
        case ast.UnaryOp(op=ast.USub(), operand=part):
            return _computed(operator.neg, _value(part, facts))
        case ast.BinOp(left=left, op=how, right=right) if type(how) in _ARITHMETIC:
            return _computed(_ARITHMETIC[type(how)], _value(left, facts), _value(right, facts))
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            return _computed(_FUNCTIONS[name], *(_value(part, facts) for part in parts))
    raise ValueError(f"`{ast.unparse(node)}` is no part of an expression")


def _computed(how: Callable[..., Any], *parts: Any) -> Any:
    """Arithmetic; None where a part is no number, or the result is none."""
    numbers = [_number(part) for part in parts]
    try:
        result = how(*numbers)
        return result if math.isfinite(result) else None
    except (ArithmeticError, TypeError, ValueError, StopIteration):
        return None


def _compares(how: ast.cmpop, left: Any, right: Any) -> bool:
    """Whether two values compare so. A fact that has several values does where one of them does."""
    if left is None or right is None:
        return False
    if isinstance(how, (ast.In, ast.NotIn)):
        among = any(_same(left, one) for one in (right if _several(right) else (right,)))
        return among is isinstance(how, ast.In)
    if isinstance(how, (ast.Eq, ast.NotEq)):
        return _same(left, right) is isinstance(how, ast.Eq)
    than = _number(right)
    numbers = map(_number, left if _several(left) else (left,))
    return than is not None and any(_ORDER[type(how)](number, than) for number in numbers if number is not None)


def _same(left: Any, right: Any) -> bool:
    """Whether two values are one: 16, "16" and 16.0 are, for a captured number is text."""
    if _several(left):
        return any(_same(one, right) for one in left)
    number = _number(left)
    return number == _number(right) if number is not None else str(left) == str(right)


def _several(found: Any) -> bool:
    return isinstance(found, Collection) and not isinstance(found, (str, bytes))


def _number(found: Any) -> int | float | None:
    if isinstance(found, bool):
        return None
    if isinstance(found, (int, float)):
        return found
    if isinstance(found, str) and len(found) < 40:
        if _WHOLE.fullmatch(found):
            return int(found.replace(",", ""))
        if _DECIMAL.fullmatch(found):
            return float(found)
        return gib(found)
    return None


# ── templates ────────────────────────────────────────────────────────────────────────────────


def fill(template: str, facts: Facts, *, to_paste: bool = False) -> str | None:
    """The text with its placeholders filled; None where one of them is not known.

    `to_paste`: what a log says becomes one argument of a command in backquotes, with any content; None where it cannot.
    """
    filled: list[str] = []
    try:
        for part in _parts(template):
            text = part if isinstance(part, str) else _printed(_value(part, facts))
            if to_paste and text is not None and not isinstance(part, str):
                text = _in_command("".join(filled), text)
            if text is None:
                return None
            filled.append(text)
    except ValueError:
        return None
    return "".join(filled)


def as_argument(text: str) -> str | None:
    """A text as one argument of a shell's command; None where a command in backquotes cannot hold it."""
    if _PLAIN_ARGUMENT.fullmatch(text):
        return text
    import shlex  # here: few fixes put a value into a command

    return None if "`" in text else shlex.quote(text)


def _in_command(before: str, text: str) -> str | None:
    """A text as it may stand behind `before`: within backquotes, and not first there, it is an argument."""
    outside, _, command = before.rpartition("`")
    if outside.count("`") % 2 or not command.strip() or "`" not in before or _PLAIN_ARGUMENT.fullmatch(text):
        return text
    return None if command.count('"') % 2 or command.count("'") % 2 else as_argument(text)


def placeholders(template: str) -> frozenset[str]:
    """The names that a template needs. A ValueError says what is wrong with it."""
    return frozenset[str]().union(*(_names(part) for part in _parts(template) if not isinstance(part, str)))


def _parts(template: str) -> Iterator[str | ast.expr]:
    """The template's plain text and its expressions, in order. `{{` and `}}` are braces, and `${NAME}` is the shell's."""
    for text, hole, form, how in Formatter().parse(_OF_THE_SHELL.sub(r"${{\1}}", template)):
        yield text
        if form or how:
            raise ValueError(f"`{{{hole}` holds more than a name or arithmetic")
        if hole is not None:
            yield _parsed(hole)


def _printed(found: Any) -> str | None:
    """As a person writes it: 64, not 64.0; 10.7, not 10.666666666666666; `0-3, 7` for ranks. None for what is no answer."""
    if isinstance(found, bool) or not _is_there(found):
        return None
    if isinstance(found, float):
        short = f"{found:.1f}" if abs(found) >= 10 else f"{found:.2f}" if abs(found) >= 0.1 else f"{found:.3g}"
        return short.rstrip("0").rstrip(".") if "." in short and "e" not in short else short
    if _several(found):
        numbers = all(isinstance(one, int) for one in found)
        return ranges(tuple(found), SHORT).replace(",", ", ") if numbers else ", ".join(map(str, found))
    return str(found)


# ── syntax ───────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    """The expression. A ValueError names the part that is none."""
    try:
        found = ast.parse(text.strip(), mode="eval").body
        _value(found, {})
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"`{text}` is no expression") from None
    return found


def _names(node: ast.expr) -> frozenset[str]:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name)) - _FUNCTIONS.keys()


# ── sizes of a parallel layout: what is unknown constrains nothing, and is named ─────────────

_GIVEN = {
    "heads": ("heads", "num_heads"),
    "layers": ("layers", "num_layers"),
    "experts": ("experts", "num_experts"),
    "GPUs of a node": ("gpus_per_node", "world_gpus"),
    "processes": ("processes", "world_size", "world"),
}
"""What a size must divide, and the facts and captures that tell it."""
_LIMITS = {
    "tp": ("heads", "GPUs of a node", "processes"),
    "pp": ("layers", "processes"),
    "ep": ("experts", "processes"),
}
_SHOWN = 2


def layouts(facts: Mapping[str, Any]) -> dict[str, str]:
    """`layouts`: the nearest that fit, as `TP 4 or TP 2`; what they fit (`layout_fits`), and what is not known (`layout_lacks`)."""
    known = {name: size for name, size in facts.items() if type(size) is int and 0 < size <= MOST_RANKS}
    given = {limit: {known[name] for name in names if name in known} for limit, names in _GIVEN.items()}
    # in Megatron-LM, experts are split as the rest is unless told otherwise
    expert_tp = "tp" if facts.get("framework") == "megatron" and "etp" not in known else "etp"
    models = (("tp", "pp", "cp"), (expert_tp, "pp", "ep"))
    nearest = sorted(
        # a divisor of the size that stood there still divides what that one did; 1 splits nothing
        (known[name] % size > 0 or size == 1, abs(math.log2(size / known[name])), name, size)
        for name in _LIMITS.keys() & known
        for size in _divisors(math.gcd(*(number for limit in _LIMITS[name] for number in given[limit])))
        if size != known[name] and _fits({**known, name: size}, given, models)
    )[:_SHOWN]
    if not nearest:
        return {}
    limits = dict.fromkeys(limit for *_, name, _ in nearest for limit in _LIMITS[name])
    fits = [f"{min(given[limit])} {limit}" for limit in limits if given[limit]]
    lacks = [limit for limit in limits if not given[limit] and any(new for new, *_ in nearest)]
    names = {"layouts": " or ".join(f"{name.upper()} {size}" for *_, name, size in nearest)}
    return names | {"layout_fits": ", ".join(fits), "layout_lacks": ", ".join(lacks)}


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _fits(sizes: Mapping[str, int], given: Mapping[str, set[int]], models: tuple[tuple[str, ...], ...]) -> bool:
    """Whether each size divides what it must, the ranks of a model's copy and of its experts the processes, and the copies the batch."""
    kv, tp = sizes.get("kv_heads", 1), sizes.get("tp", 1)
    parts: list[tuple[int, tuple[str, ...]]] = [
        (math.prod(sizes.get(name, 1) for name in names), ("processes",)) for names in models
    ]
    parts += [(sizes[name], limits) for name, limits in _LIMITS.items() if name in sizes]
    whole = all(number % size == 0 for size, limits in parts for limit in limits for number in given[limit])
    copies = (number // parts[0][0] for number in given["processes"])
    fed = all(sizes.get("global_batch", 0) % (sizes.get("micro_batch", 1) * count) == 0 for count in copies if count)
    return whole and fed and (kv % tp == 0 or tp % kv == 0)
