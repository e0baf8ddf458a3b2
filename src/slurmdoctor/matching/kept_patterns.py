"""Keeps what `re` made of a pattern for the next start, of which compiling a hundred patterns would be a third.

That is the code in which `re` writes a pattern down for its search, and only the same Python reads it. Python checks the code that it is
given. Where it refuses, or names the functions used here otherwise, the pattern is compiled as usual.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from functools import lru_cache
from importlib import import_module

from msgspec import DecodeError, msgpack

from slurmdoctor.matching.usercache import get, name_for, put

_Parts = tuple[int, list[int], int, dict[str, int], tuple[str | None, ...]]
"""Flags, code, number of groups, numbers of the named groups, and names of the groups by number: what `_sre.compile` takes."""
_decoder = msgpack.Decoder(_Parts)
"""Made once: to learn the type takes longer than to read a pattern."""
_FEW = 16
"""So few new patterns are not worth a file."""
_MOST = 4_000
"""A file with more patterns than this is begun anew: ours are 1,300, and those of older versions stay in it."""
_new: dict[str, bytes] = {}


def compiled_by_re(pattern: str) -> re.Pattern[str]:
    """The pattern. Raises a re.error where it is none that `re` knows."""
    try:
        sre = import_module("_sre")
        parts = _kept().get(pattern)
        if parts is None:
            parts = _new[pattern] = msgpack.encode(_parts(pattern))
        made: re.Pattern[str] = sre.compile(pattern, *_decoder.decode(parts))
        return made
    except (AttributeError, ImportError, RuntimeError, TypeError, ValueError):
        return re.compile(pattern)


def keep() -> None:
    """Keep what this process compiled for later ones, if it is much."""
    if len(_new) > _FEW:
        put(_file(), msgpack.encode((_kept() if len(_kept()) < _MOST else {}) | _new))


def _parts(pattern: str) -> _Parts:
    new = sys.version_info >= (3, 11)
    parsed = import_module("re._parser" if new else "sre_parse").parse(pattern)
    code = import_module("re._compiler" if new else "sre_compile")._code(parsed, 0)
    groups, numbers = parsed.state.groups, parsed.state.groupdict
    names = {number: name for name, number in numbers.items()}
    return (
        int(parsed.state.flags),
        list(map(int, code)),
        groups - 1,
        numbers,
        tuple(names.get(number) for number in range(groups)),
    )


@lru_cache(maxsize=1)
def _kept() -> dict[str, bytes]:
    with suppress(DecodeError):
        return msgpack.decode(get(_file()) or b"\x80", type=dict[str, bytes])
    return {}


def _file() -> str:
    return f"{name_for(sys.version.encode())}.patterns"
