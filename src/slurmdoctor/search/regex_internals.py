"""Keeps compiled patterns, by internals of `regex`: those that the wheel brings, and others in the user's cache. The only module that touches any.

Why: to compile our patterns takes ten times as long as to read them back compiled. For a pasted fragment it would be most of the time
(344 ms instead of 222).

What is not promised by `regex`, and what happens where a version of it has changed it:

- `pattern._pickled_data`, what it pickles of a compiled pattern: nothing is kept, and each start compiles anew;
- `regex._regex`, its half in C, whose `compile` takes such data: the pattern is compiled anew;
- that this half can be loaded without the half in Python: the whole of `regex` is imported.

The files are named after the half in Python, which makes such data and holds its version: no other version's are read. The data do not
depend on Python's version, nor on the machine.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

from msgspec import DecodeError, Raw, msgpack

from slurmdoctor.search import usercache

if TYPE_CHECKING:
    import regex

MOST = 2500
"""Patterns that one process keeps: all of ours, and some hundreds of sites and of labels that were learnt."""
_MOST_KEPT = 5000
_VERSIONED = ("_main.py", "regex.py")
"""The file of the half in Python that holds the version, of newer and older versions."""
_PICKLED = tuple[
    str, int, bytes | list[int], dict[str, int], dict[int, str], dict[str, frozenset[str]], list[frozenset[str]],
    int, tuple[int, ...], int, int,
]  # fmt: skip
"""Pattern, flags, code, groups by name and by number, named lists, and what the code must find before all else."""
_fresh: dict[int, Raw] = {}
"""What `regex` pickles of the patterns that were compiled now, by their checksums."""


def recall(pattern: str) -> regex.Pattern[str] | None:
    """The pattern as the builder of the wheel or an earlier start compiled it; None where none did."""
    number = _number(pattern)
    kept = _shipped().get(number) or _own().get(number)
    if kept is not None:
        with suppress(DecodeError, TypeError, ValueError, RuntimeError, OverflowError):
            data = _decoder().decode(kept)
            if data[0] == pattern:
                return cast("regex.Pattern[str]", _half_in_c().compile(*data))
    return None


def _number(pattern: str) -> int:
    """Two patterns with one number: the later one is compiled at every start."""
    return crc32(pattern.encode("utf-8", "surrogatepass"))


def remember(pattern: str, made: regex.Pattern[str]) -> None:
    """Keep a compiled pattern for the next start: written when this process ends."""
    if not _fresh:
        atexit.register(_write, os.getpid())
    if len(_fresh) >= MOST:
        return
    with suppress(AttributeError, TypeError, UnicodeEncodeError):
        _fresh[_number(pattern)] = Raw(msgpack.encode(made._pickled_data))  # type: ignore[attr-defined]


@cache
def _decoder() -> msgpack.Decoder[Any]:
    return msgpack.Decoder(_PICKLED)


@cache
def _half_in_c() -> Any:
    """The module in C of `regex`, without the one in Python: new patterns alone need that, and its import is a sixth of a paste's time."""
    from importlib.machinery import PathFinder

    # it is in `sys.modules` for a moment, without its package: another thread's `import regex` must not find it there
    if "regex" not in sys.modules and threading.active_count() == 1:
        with suppress(ImportError, AttributeError, TypeError):
            spec: Any = PathFinder.find_spec("regex._regex", [_home()])
            made = spec.loader.create_module(spec)
            spec.loader.exec_module(made)
            sys.modules.pop(spec.name, None)
            return made
    import regex

    return cast("Any", regex)._regex


@cache
def _home() -> str:
    """The folder of `regex`."""
    from importlib.machinery import PathFinder

    if "regex" not in sys.modules:
        with suppress(AttributeError, TypeError, UnicodeEncodeError):
            home: Any = PathFinder.find_spec("regex")
            return str(home.submodule_search_locations[0])
    import regex

    return str(Path(regex.__file__).parent)


@cache
def _shipped() -> Mapping[int, Raw]:
    return _unpacked(usercache.shipped(_file_name()))


@cache
def _own() -> Mapping[int, Raw]:
    return _unpacked(usercache.get(_file_name()))


def _unpacked(data: bytes | None) -> Mapping[int, Raw]:
    if data is not None:
        with suppress(DecodeError):
            return msgpack.decode(data, type=dict[int, Raw])
    return {}


def _write(process: int) -> None:
    """Write what was compiled; what another process kept meanwhile stays. A forked process writes nothing."""
    if not _fresh or os.getpid() != process:
        return
    known = {**_unpacked(usercache.get(_file_name())), **_fresh}
    kept = known if len(known) <= _MOST_KEPT else _fresh
    usercache.put(_file_name(), msgpack.encode(dict(sorted(kept.items()))))


@cache
def _file_name() -> str:
    made_by = [b"patterns 2"]
    for name in _VERSIONED:
        with suppress(OSError), Path(_home(), name).open("rb") as file:
            made_by.append(file.read())
    with suppress(OSError):
        made_by.append(b"%d" % Path(_home(), "_regex_core.py").stat().st_size)
    return usercache.name_for(b"\0".join(made_by)) + ".patterns"
