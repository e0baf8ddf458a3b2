"""Keeps compiled patterns in the user's cache, by internals of `regex`. The only module that touches any.

Why: to compile our patterns takes ten times as long as to read them back compiled. For a pasted fragment it would be most of the time
(344 ms instead of 222).

What is not promised by `regex`, and what happens where a version of it has changed it:

- `pattern._pickled_data`, what it pickles of a compiled pattern: nothing is kept, and each start compiles anew;
- `regex._regex`, its half in C, whose `compile` takes such data: the pattern is compiled anew;
- that this half can be loaded without the half in Python: the whole of `regex` is imported.

The cache file is named after the version, the file and the machine of that half, so that no other one reads it.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import regex

_MOST_KEPT = 5000
_stored: dict[str, tuple[Any, ...]] | None = None
"""Pattern -> what `regex` pickles of it, from earlier starts; None until it is read."""
_fresh: dict[str, tuple[Any, ...]] = {}
"""The same of those compiled now."""


def recall(pattern: str) -> regex.Pattern[str] | None:
    """The pattern as an earlier start compiled it; None where none did."""
    global _stored
    if _stored is None:
        _stored = _read()
    kept = _stored.get(pattern)
    if kept is not None:
        with suppress(TypeError, ValueError, RuntimeError):
            return cast("regex.Pattern[str]", _half_in_c().compile(*kept))
    return None


def remember(pattern: str, made: regex.Pattern[str]) -> None:
    """Keep a compiled pattern for the next start: written when this process ends."""
    if not _fresh:
        atexit.register(_write, os.getpid())
    with suppress(AttributeError):
        _fresh[pattern] = made._pickled_data  # type: ignore[attr-defined]


@cache
def _half_in_c() -> Any:
    """The module in C of `regex`, without the one in Python: new patterns alone need that, and its import is a sixth of a paste's time."""
    from importlib.machinery import PathFinder

    # it is in `sys.modules` for a moment, without its package: another thread's `import regex` must not find it there
    if "regex" not in sys.modules and threading.active_count() == 1:
        with suppress(ImportError, AttributeError, TypeError):
            home: Any = PathFinder.find_spec("regex")
            spec: Any = PathFinder.find_spec("regex._regex", home.submodule_search_locations)
            made = spec.loader.create_module(spec)
            spec.loader.exec_module(made)
            sys.modules.pop(spec.name, None)
            return made
    import regex

    return cast("Any", regex)._regex


def _read() -> dict[str, tuple[Any, ...]]:
    from slurmdoctor.search import usercache  # here and below: a program that compiles nothing does not need it

    data = usercache.get(_file_name())
    if data is not None:
        with suppress(ValueError, EOFError, TypeError):
            found = marshal.loads(data)
            if isinstance(found, dict):
                return found
    return {}


def _write(process: int) -> None:
    """Write what was compiled; what another process kept meanwhile stays. A forked process writes nothing."""
    if not _fresh or os.getpid() != process:
        return
    from slurmdoctor.search import usercache

    known = {**_read(), **_fresh}
    with suppress(ValueError):
        usercache.put(_file_name(), marshal.dumps(known if len(known) <= _MOST_KEPT else _fresh))


def _file_name() -> str:
    from slurmdoctor.search import usercache

    half = _half_in_c()
    file = Path(half.__file__).stat()
    made_by = (
        half.__file__,
        file.st_size,
        file.st_mtime_ns,
        half.MAGIC,
        sys.version,
        sys.byteorder,
        os.uname().machine,
    )
    return usercache.name_for(repr(made_by).encode()) + ".patterns"
