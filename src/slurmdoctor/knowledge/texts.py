"""Gives the readers the texts of programs that they look for: `text("python-frame")`, as rules/texts.yaml describes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from slurmdoctor.knowledge.loading import loaded
from slurmdoctor.knowledge.paths import builtin
from slurmdoctor.matching import compiled
from slurmdoctor.model import Text

if TYPE_CHECKING:
    import regex


def text(name: str) -> regex.Pattern[str]:
    """The pattern of this name, read and compiled when it is first used."""
    return cast("regex.Pattern[str]", _LazyText(name))


def literals(name: str) -> tuple[bytes, ...]:
    """What the search looks for to find this text."""
    return tuple(literal.encode() for literal in _texts()[name].literals)


@cache
def _texts() -> Mapping[str, Text]:
    """The texts by name. They come with the program: a site's rule files cannot change them."""
    return {entry.id: entry for entry in loaded((builtin(),)).texts}


class _LazyText:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(compiled(_texts()[self._name].pattern), attribute)
        setattr(self, attribute, value)  # from now on it is found without coming here
        return value
