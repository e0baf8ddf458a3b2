"""Compiles patterns when they are needed, keeps them in the user's cache, and searches them within a bound of time.

To compile our patterns takes ten times as long as to read them back compiled: for a pasted fragment it would be most of the time.
"""

from __future__ import annotations

import atexit
import marshal
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    import regex

SECONDS = 0.5
"""No pattern may take longer on one line; one that does is treated as not matching."""
_MOST_KEPT = 5000
_kept: dict[str, tuple[Any, ...]] | None = None
"""What `regex` itself pickles of a compiled pattern; None until it is read."""
_fresh: dict[str, tuple[Any, ...]] = {}


@cache
def compiled(pattern: str) -> regex.Pattern[str]:
    """The pattern, compiled when first needed and kept: `regex` forgets all but 500, and a job may need more in turn."""
    kept = _read().get(pattern)
    if kept is not None:
        with suppress(TypeError, ValueError, RuntimeError):
            return cast("regex.Pattern[str]", _compiled_half().compile(*kept))
    import regex

    made = regex.compile(pattern)
    if not _fresh:
        atexit.register(_write, os.getpid())
    with suppress(AttributeError):  # a version of `regex` that pickles otherwise
        _fresh[pattern] = made._pickled_data  # type: ignore[attr-defined]
    return made


def lazy(pattern: str) -> regex.Pattern[str]:
    """The pattern, compiled when it is first used."""
    return cast("regex.Pattern[str]", _Lazy(pattern))


class _Lazy:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        value = getattr(compiled(self._pattern), name)
        setattr(self, name, value)  # from now on it is found without coming here
        return value


@cache
def _compiled_half() -> Any:
    """The module in C of `regex`, without the one in Python, which is needed for new patterns alone.

    To import that one takes a sixth of the time that a pasted log does.
    """
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
    global _kept
    if _kept is None:
        _kept = _stored()
    return _kept


def _stored() -> dict[str, tuple[Any, ...]]:
    from slurmdoctor.search import usercache

    data = usercache.get(_name())
    if data is not None:
        with suppress(ValueError, EOFError, TypeError):
            found = marshal.loads(data)
            if isinstance(found, dict):
                return found
    return {}


def _write(process: int) -> None:
    """Keep what was compiled for the next start; what another process kept meanwhile stays."""
    if not _fresh or os.getpid() != process:
        return
    from slurmdoctor.search import usercache

    known = {**_stored(), **_fresh}
    with suppress(ValueError):
        usercache.put(_name(), marshal.dumps(known if len(known) <= _MOST_KEPT else _fresh))


def _name() -> str:
    """The file for these versions: compiled patterns are of no use to any other one."""
    from slurmdoctor.search import usercache

    half = _compiled_half()
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


def captures(pattern: str, text: str) -> Mapping[str, str] | None:
    """The named groups of the first match; None where there is none."""
    try:
        found = compiled(pattern).search(text, timeout=SECONDS)
    except TimeoutError:
        return None
    return None if found is None else {name: value for name, value in found.groupdict().items() if value is not None}
