"""Chooses the frames of a traceback that a report shows: the innermost in the user's own code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from slurmdoctor.knowledge import text
from slurmdoctor.report.redaction import one_line

_FRAME = text("python-frame")
_FOREIGN = text("library-path")
_WRAPPER = text("wrapping-function")


class Frame(Struct, frozen=True):
    """`File "train.py", line 41, in main`, and the code below it."""

    path: str
    line: str
    function: str
    code: str = ""

    @property
    def own(self) -> bool:
        """Whether it is in no installed package and not in the standard library."""
        return not _FOREIGN.search(self.path)

    @property
    def place(self) -> str:
        """The place as an editor takes it; an installed package's from its own name on."""
        path = re.split(r"(?:site|dist)-packages/", self.path)[-1]
        return f"{one_line(path)}:{self.line}"

    @property
    def short_place(self) -> str:
        """The file's name and the line."""
        return f"{self.path.rpartition('/')[2]}:{self.line}"


def frames(traceback: Sequence[str]) -> list[Frame]:
    """All frames, outermost first; their code may stand in the same string, in the next, or nowhere."""
    lines = [line for entry in traceback for line in entry.split("\n")]
    found = []
    for number, line in enumerate(lines):
        if match := _FRAME.search(line):
            after = lines[number + 1] if number + 1 < len(lines) else ""
            code = after.strip() if after.startswith((" ", "\t")) and not _FRAME.search(after) else ""
            function = one_line(match["function"] or "")
            found.append(Frame(match["file"], match["lineno"], function, one_line(code) if code.strip("^~ ") else ""))
    return found


def best_frames(traceback: Sequence[str], count: int = 2) -> list[Frame]:
    """The innermost own frame and its own caller; the innermost of all where none is own."""
    every = frames(traceback)
    own = [frame for frame in every if frame.own]
    plain = [frame for frame in own if not _WRAPPER.match(frame.function)] or own
    chosen = list(dict.fromkeys(reversed(plain)))[:count]
    return chosen or every[-1:]


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
