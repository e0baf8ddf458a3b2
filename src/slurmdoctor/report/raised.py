"""The names that a fix may use of the root's exception: its place, whose code it is, what its message holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.knowledge import text
from slurmdoctor.report.frames import Frame, best_frames, frames
from slurmdoctor.report.redactor import one_line

_DETAILS = text("exception-details")
_RAISES = text("raising-code")
_PACKAGE = re.compile(r"(?:site|dist)-packages/(\w+)")
_LONGEST_PLACE, _LONGEST_SAID, _LONGEST_CODE = 48, 90, 60


def of_the_exception(traceback: Sequence[str], exception: str, message: str) -> Mapping[str, Any]:
    """Its place and code in the user's own files, the package that raised it, and what its message names."""
    said = one_line(f"{exception}: {message}" if message else exception)
    names: dict[str, Any] = {"said": said} if len(said) <= _LONGEST_SAID else {}
    if found := _DETAILS.match(f"{exception}: {message}"):
        names |= {name: one_line(value) for name, value in found.groupdict().items() if value}
    stack = frames(traceback)
    if not stack:
        return names
    inner, nearest = stack[-1], best_frames(traceback, 1)[0]
    if nearest.own:
        names |= {"at": _at(nearest), **_code(nearest)}
    if not inner.own:
        package = _PACKAGE.search(inner.path)
        names |= {"raised_at": _at(inner), **({"package": package[1]} if package else {})}
    return names


def _at(frame: Frame) -> str:
    """`train.py:484 in Train`."""
    place = frame.place if len(frame.place) <= _LONGEST_PLACE else frame.short_place
    function = frame.function if re.fullmatch(r"[\w.]{1,40}", frame.function) else ""
    return f"{place} in {function}" if function else place


def _code(frame: Frame) -> Mapping[str, Any]:
    code = {"code": frame.code} if frame.code and len(frame.code) <= _LONGEST_CODE and "`" not in frame.code else {}
    return {**code, **({"checked": True} if _RAISES.match(frame.code) else {})}
