"""Compiles every pattern of ours, and keeps what came of it: for the wheel, and so for each start with the same Python."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from slurmdoctor.knowledge import builtin, load
from slurmdoctor.knowledge.schema import PATTERNS
from slurmdoctor.matching import LAZY, apart, compiled, keep


def precompile() -> None:
    """Compile the patterns of our rules and of the imported modules in the forms in which they are asked for, and keep them."""
    for pattern in (*LAZY, *(pattern for _, pattern in patterns_in(load((builtin(),), examples=False)))):
        compiled(pattern)
        compiled(apart(pattern))
    keep()


def patterns_in(value: object) -> Iterator[tuple[str, str]]:
    """Each pattern in knowledge or in a part of it: (type that has it, pattern)."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            part = getattr(value, name)
            found = name in PATTERNS and isinstance(part, str)
            yield from [(type(value).__name__, part)] if found else patterns_in(part)
    elif isinstance(value, (tuple, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from patterns_in(part)
