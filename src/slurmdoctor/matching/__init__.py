"""Patterns and words, compiled once and found natively: what reading, searching and knowing share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmdoctor.doors import door

if TYPE_CHECKING:
    from slurmdoctor.matching.engine import DIGITS as DIGITS
    from slurmdoctor.matching.engine import Engine as Engine
    from slurmdoctor.matching.engine import Portable as Portable
    from slurmdoctor.matching.engine import description as description
    from slurmdoctor.matching.engine import engine_for as engine_for
    from slurmdoctor.matching.engine import engine_of as engine_of
    from slurmdoctor.matching.engine import engine_of_some as engine_of_some
    from slurmdoctor.matching.engine import in_c as in_c
    from slurmdoctor.matching.patterns import SECONDS as SECONDS
    from slurmdoctor.matching.patterns import bounded as bounded
    from slurmdoctor.matching.patterns import captures as captures
    from slurmdoctor.matching.patterns import compiled as compiled
    from slurmdoctor.matching.patterns import lazily as lazily
    from slurmdoctor.matching.patterns import lazy as lazy
    from slurmdoctor.matching.patterns import unnamed as unnamed
    from slurmdoctor.matching.usercache import get as get
    from slurmdoctor.matching.usercache import name_for as name_for
    from slurmdoctor.matching.usercache import put as put
else:
    __getattr__, __dir__, __all__ = door(
        __name__,
        engine="DIGITS Engine Portable description engine_for engine_of engine_of_some in_c",
        patterns="SECONDS bounded captures compiled lazily lazy unnamed",
        usercache="get name_for put",
    )
