"""Patterns and words, compiled once and found natively: what reading, searching and knowing share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.matching.engine import (
        DIGITS,
        Engine,
        Portable,
        description,
        engine_for,
        engine_of,
        in_c,
    )
    from slurmdoctor.matching.kept_patterns import keep
    from slurmdoctor.matching.patterns import (
        LAZY,
        apart,
        bounded,
        captures,
        compiled,
        lazily,
        lazy,
        named,
        search,
        spans,
        unnamed,
    )
    from slurmdoctor.matching.usercache import get, name_for, put
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        engine="DIGITS Engine Portable description engine_for engine_of in_c",
        kept_patterns="keep",
        patterns="LAZY apart bounded captures compiled lazily lazy named search spans unnamed",
        usercache="get name_for put",
    )
