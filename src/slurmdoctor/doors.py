"""A package's door: the names that others use of it, each imported from its module when it is first asked for.

A start imports so only what it uses. The package names them twice: for mypy, and for `door` (PEP 562):

    if TYPE_CHECKING:
        from slurmdoctor.input.files import find_logs
    else:
        __getattr__, __dir__, __all__ = door(__name__, files="find_logs")
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def door(package: str, **names: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package: each module's names, split by blanks.

    `__getattr__` raises AttributeError for a name that is not among them.
    """
    homes = {name: module for module, given in names.items() for name in given.split()}
    every = sorted(homes)

    def give(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} shows no {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # asked for once
        return value

    return give, lambda: every, every
