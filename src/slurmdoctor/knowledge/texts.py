"""Gives the readers the texts of programs that they look for: `text("python-frame")`, as rules/texts.yaml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

from slurmdoctor.knowledge.loading import loaded
from slurmdoctor.knowledge.paths import builtin
from slurmdoctor.matching import lazily
from slurmdoctor.model import Text

if TYPE_CHECKING:
    import regex


def text(name: str) -> regex.Pattern[str]:
    """The pattern of this name, read when it is first used, and compiled when a text holds one of its literals."""

    def entry() -> tuple[str, tuple[str, ...]]:
        one = _texts()[name]
        return one.pattern, one.literals

    return lazily(entry)


def literals(name: str) -> tuple[bytes, ...]:
    """What the search looks for to find this text."""
    return tuple(literal.encode() for literal in _texts()[name].literals)


@cache
def _texts() -> Mapping[str, Text]:
    """The texts by name. They come with the program: a site's rule files cannot change them."""
    return {entry.id: entry for entry in loaded((builtin(),)).texts}
