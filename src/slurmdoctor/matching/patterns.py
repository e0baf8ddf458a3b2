"""Compiles patterns when they are first needed, and searches them within a bound of time.

Two libraries know our patterns: Python's own `re` compiles one in 0.15 ms, `regex` in half a millisecond, of which a start
has a hundred, and is itself slow to import. So `compiled` asks `re` first, and `regex` where a pattern holds what `re` lacks. Only
`regex` takes a time limit: it searches long lines, and for what a site's rules look for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from slurmdoctor.matching.kept_patterns import compiled_by_re

if TYPE_CHECKING:
    import regex


SECONDS = 0.5
"""No pattern may take longer on one line; one that does is treated as not matching."""
SHORT = 2048
"""Characters of a line in which our own patterns need no limit: tests/test_regexes.py tries them on lines as long."""
_MOST = 2500
"""Patterns that are kept: all of ours, and hundreds of sites and of labels that were learnt."""

LAZY: list[str] = []
"""The patterns of all modules that were imported so far."""


@lru_cache(maxsize=_MOST)
def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, compiled when first needed and kept: the libraries forget all but some hundred, and a job may need more in turn."""
    try:
        return cast("regex.Pattern[str]", compiled_by_re(pattern))
    except re.error:
        return bounded(pattern)


_GROUP = re.compile(r"\(\?P<(\w+)>")


@lru_cache(maxsize=_MOST)
def bounded(pattern: str) -> regex.Pattern[str]:
    """The same for who gives it a time limit, or asks for a partial match."""
    import regex  # here: a start may do without it

    return regex.compile(pattern)


def lazy(pattern: str, *literals: str) -> regex.Pattern[str]:
    """The pattern of a module, compiled when it is first used on a text that contains one of the literals, where any are given."""
    LAZY.append(pattern)
    return lazily(lambda: (pattern, literals))


def lazily(source: Callable[[], tuple[str, Sequence[str]]]) -> regex.Pattern[str]:
    """The same of a pattern and literals that are only known later. What the pattern matches must hold one of the literals."""
    return cast("regex.Pattern[str]", _Lazy(source))


class _Lazy:
    def __init__(self, source: Callable[[], tuple[str, Sequence[str]]]) -> None:
        self._source = source

    def search(self, text: str, *within: int) -> regex.Match[str] | None:
        return self.__getattr__("search")(text, *within) if self._may_match(text) else None

    def match(self, text: str, *within: int) -> regex.Match[str] | None:
        return self.__getattr__("match")(text, *within) if self._may_match(text) else None

    def _may_match(self, text: str) -> bool:
        literals = self._source()[1]
        return not literals or any(literal in text for literal in literals)

    def __getattr__(self, name: str) -> Any:
        value = getattr(compiled(self._source()[0]), name)
        setattr(self, name, value)  # from now on it is found without coming here
        return value


def unnamed(pattern: str) -> str:
    """The pattern for those who only ask where it matches: `re` takes no group's name twice."""
    return _GROUP.sub("(?:", pattern)


@lru_cache(maxsize=_MOST)
def apart(pattern: str) -> str:
    """The pattern with a number at each group whose name stood before: `re` takes no name twice. `named` and `spans` read them as one."""
    if "(?P=" in pattern or "(?(" in pattern:
        return pattern
    seen: list[str] = []

    def numbered(group: re.Match[str]) -> str:
        seen.append(group[1])
        before = seen.count(group[1]) - 1
        return f"(?P<{group[1]}{_NUMBER}{before}>" if before else group[0]

    return _GROUP.sub(numbered, pattern)


_NUMBER = "__"


def named(found: regex.Match[str]) -> dict[str, str]:
    """The named groups that took part in a match of a pattern that `apart` made, or of any other."""
    groups = found.groupdict()
    return {name.partition(_NUMBER)[0]: value for name, value in groups.items() if value is not None}


def spans(found: regex.Match[str]) -> dict[str, tuple[int, int]]:
    """Where the same groups stand."""
    groups = found.groupdict()
    return {name.partition(_NUMBER)[0]: found.span(name) for name, value in groups.items() if value is not None}


def search(pattern: str, text: str, of_site: bool = False) -> regex.Match[str] | None:
    """The first match. Raises a TimeoutError where it takes too long to find out; nobody has proven a site's patterns."""
    if not of_site and len(text) <= SHORT:
        return compiled(pattern).search(text)
    return bounded(pattern).search(text, timeout=SECONDS)


def captures(pattern: str, text: str, of_site: bool = False) -> Mapping[str, str] | None:
    """The named groups of the first match; None where there is none."""
    try:
        found = search(apart(pattern), text, of_site)
    except TimeoutError:
        return None
    return None if found is None else named(found)
