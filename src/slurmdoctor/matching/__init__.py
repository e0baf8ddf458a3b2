"""Patterns and words, compiled once and found natively: what reading, searching and knowing share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.matching.engine import (
        DIGITS as DIGITS,
        Engine as Engine,
        Portable as Portable,
        description as description,
        engine_for as engine_for,
        engine_of as engine_of,
        in_c as in_c,
    )
    from slurmdoctor.matching.patterns import (
        apart as apart,
        bounded as bounded,
        captures as captures,
        compiled as compiled,
        lazily as lazily,
        lazy as lazy,
        named as named,
        search as search,
        spans as spans,
        unnamed as unnamed,
    )
    from slurmdoctor.matching.usercache import get as get, name_for as name_for, put as put
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        engine="DIGITS Engine Portable description engine_for engine_of in_c",
        patterns="apart bounded captures compiled lazily lazy named search spans unnamed",
        usercache="get name_for put",
    )
