"""Chooses the frames of a traceback that a report shows: the innermost in the user's own code."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from slurmdoctor.knowledge import text
from slurmdoctor.report.redactor import one_line

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
