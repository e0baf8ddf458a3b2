"""Tells the lines of Python tracebacks from other lines: an exception's own, `pkg.SomeError: text`, and a frame.

The syntax is CPython's own (traceback.py, 3.8 to 3.14), with the tree that an exception group draws before it:

    | torch.OutOfMemoryError: CUDA out of memory.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from slurmdoctor.knowledge import text
from slurmdoctor.matching import lazy
from slurmdoctor.model import Line, Origin, number
from slurmdoctor.ranks import Excerpts

_EXCEPTION = lazy(
    r"^[ `>|]{0,8}(?P<class>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*))(?:\([\w.]+\))?(?::\s?(?P<text>.*)|\s*)$"
)
_NAMED_LIKE_ONE = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Failure|Timeout|Warning|Unavailable|Refused|Group|NotFound|(?:Invalid|Corrupt)\w{0,64}+)$"
)
TREE = lazy(r"^[ ]*(?:[|+](?:-[-+]*)?[ ]?)+")
"""What an exception group draws before its lines."""


def undecorated(text: str) -> str:
    """The line without an exception group's tree, a quote mark or a paste's backtick before it."""
    return TREE.sub("", text).lstrip(" `>")


def begins_frame(text: str) -> bool:
    """Whether a line begins as a traceback's frame does: `File "train.py", line 3, in main`."""
    return text.lstrip(" |").startswith("File ")


def exception_of(text: str, strict: bool = True) -> tuple[str, str] | None:
    """(class name, message) where a line begins as an exception's own line does.

    With `strict`, the class must be named like an exception, or be a class of a module; without, any name will do.
    """
    if text.startswith("\\"):
        return None
    found = _EXCEPTION.match(TREE.sub("", text))
    if found is None:
        return None
    named = _NAMED_LIKE_ONE.search(found["name"]) or (
        "." in found["class"] and (found["name"][0].isupper() or found["name"].endswith("error"))
    )
    if not named and (strict or (found["text"] is None and "." not in found["class"])):
        return None
    return found["name"], found["text"] or ""


HEADER = "Traceback (most recent call last)"
_FRAME = text("python-frame")
_MARKS = lazy(r"^\s*+(?:(?<= )|[\^~])[\^~ ]*+$")
_CHAINED = text("chained-traceback")
_HARMLESS = text("harmless-traceback")
_IN_THREAD = text("thread-traceback")
_SPAWNED = text("spawned-traceback")
_COLLECTED = text("collected-traceback")
_FROM_ONE = text("collected-from-one")
_LAUNCHER = text("launcher-frame")
_WRAPPING = text("wrapping-exception")
_RULED_OFF = text("held-traceback-ruled-off")
_HELD = text("held-traceback")
_RAY_TASK = text("ray-task")
_HELPER = text("helper-frame")
_TRACKER = text("tracker-frame")
_PARENT_GONE = text("parent-gone")
_LONGEST = 300
_MOST_SKIPPED = 40
_CHAIN_LINES = 12
_HELD_LINES = 8
_AT_THE_END = 4096
"""Bytes that other writers may add to a log after the line at which it was cut."""


class Traceback(Struct, frozen=True):
    """One traceback of one writer; a chain is several that share their writer and follow each other."""

    header: Line
    exception: Line | None
    """The exception's own line; None where the log ends before it."""
    name: str
    """The class without its module."""
    frames: tuple[str, ...]
    chained: bool
    """Whether the next traceback of the writer belongs to the same chain."""
    harmless: bool
    in_thread: bool
    holds: Literal["", "traceback", "frames"] = ""
    """What its message goes on with: the traceback of the process in which it began, or that one's frames without a header."""
    raiser: Origin = Origin()
    """The process that raised it, as far as the text tells: torch.multiprocessing.spawn's index, Ray's address and pid."""
    cut: Line | None = None
    """The last line of a traceback inside of which the log ends."""
    collected: int | None = None
    """torch.distributed.checkpoint prints what it collected from this rank, on any other one; -1: from others besides."""

    @property
    def wrapper(self) -> bool:
        """A launcher's or executor's error around a child's: never the cause."""
        return is_wrapper(self.name)

    @property
    def of_helper(self) -> bool:
        """Whether a helper process raised it because the process that started it, or its other end, was gone."""
        at = self.exception
        inside = any(_HELPER.search(frame) for frame in self.frames[-2:])
        return inside and at is not None and _PARENT_GONE.search(at.text) is not None

    @property
    def of_launcher(self) -> bool:
        """Whether a launcher raises it: it shows that a child failed, not why."""
        return any(_LAUNCHER.search(frame) for frame in self.frames)


def is_wrapper(name: str) -> bool:
    """Whether an exception of this class wraps that of a child."""
    return _WRAPPING.match(name) is not None


def read_traceback(lines: Excerpts, header: Line) -> Traceback:
    """Read the traceback that begins at this header, or at the exception of a wrapper below which frames stand."""
    above = list(lines.before(header, 2))
    body = _Body(lines, header)
    exception = body.exception
    name = (exception_of(exception.text, strict=False) or ("", ""))[0] if exception else ""
    spawned = next((m for line in above if (m := _SPAWNED.search(line.text))), None)
    collected = _COLLECTED.search(header.text)
    alone = any(_FROM_ONE.search(line.text) for line in above)
    return Traceback(
        header,
        exception,
        name,
        tuple(body.frames),
        exception is not None and _is_chained(lines, exception),
        holds=_held_by(lines, exception) if exception else "",
        harmless=any(_HARMLESS.search(line.text) for line in above) or any(map(_TRACKER.search, body.frames[-2:])),
        in_thread=any(_IN_THREAD.match(line.text) for line in above[:1]),
        raiser=_raiser(header, spawned["local_rank"] if spawned else None),
        cut=body.cut,
        collected=None if collected is None else number(collected["rank"]) if alone else -1,
    )


class _Body:
    """The frames below a header, and the line of the exception or the line at which the log ends."""

    def __init__(self, lines: Excerpts, header: Line) -> None:
        self.frames: list[str] = []
        self.exception: Line | None = None
        self.cut: Line | None = None
        self._length = lines.sources[header.source].length
        self._decorated = TREE.match(header.text) is not None
        before = header.text.find(HEADER)
        self._indent = max(before, 0)
        self._loose = self._decorated or (before > 0 and header.text[:before].strip(" |+") != "")
        """Whether the header's indent does not show which lines belong to the frames."""
        self._code_follows = False
        self._skipped = 0
        self._last: Line | None = header
        """The line before, while no other line than the traceback's came between."""
        self._read(lines, header)

    def _read(self, lines: Excerpts, header: Line) -> None:
        for line in lines.after(header, _LONGEST):
            if self._ends_with(line):
                return
        near = self._last is not None and lines.sources[self._last.source].length - self._last.end < _AT_THE_END
        self.cut = self._last if near and self.frames else None

    def _ends_with(self, line: Line) -> bool:
        """Take in one line; whether the traceback ends with it, or ended before."""
        shown = TREE.sub("", line.text) if self._decorated else line.text
        if not shown.strip() or _MARKS.match(shown) or self._is_frame(line, shown):
            return False
        if HEADER in shown:
            return True
        inside = len(shown) - len(shown.lstrip()) > self._indent
        if (self._loose or not inside) and exception_of(shown, strict=self._loose or self._skipped > 0):
            self.exception = line
            return True
        self._last = None
        self._skipped += 1
        return self._skipped > _MOST_SKIPPED

    def _is_frame(self, line: Line, shown: str) -> bool:
        """Keep a frame, or the line after it: its source, or `[Previous line repeated 900 more times]`."""
        begins = _FRAME.match(shown.lstrip()) is not None or (begins_frame(shown) and line.end > self._length)
        inside = self._loose or len(shown) - len(shown.lstrip()) > self._indent
        if not begins and not (self._code_follows and inside):
            return False
        self._last = line
        self.frames.append(shown.rstrip())
        self._code_follows = begins
        return True


def _raiser(header: Line, spawned: str | None) -> Origin:
    task = _RAY_TASK.search(header.text)
    local_rank = None if spawned is None else number(spawned)
    return Origin(local_rank=local_rank, node=task["node"] if task else None, pid=number(task["pid"]) if task else None)


def _held_by(lines: Excerpts, exception: Line) -> Literal["", "traceback", "frames"]:
    """What stands in the message of an exception, below its first line."""
    unfinished = exception.text.rstrip().endswith(":")
    for line in lines.after(exception, _HELD_LINES):
        if begins_frame(line.text):
            return "frames" if _RAY_TASK.search(exception.text) else ""
        if HEADER in line.text:
            return "traceback" if unfinished or _HELD.search(line.text) else ""
        ruled_off = _RULED_OFF.search(line.text) is not None
        if line.text.strip() and not ruled_off:
            return ""
        unfinished = unfinished or ruled_off
    return ""


def _is_chained(lines: Excerpts, exception: Line) -> bool:
    for line in lines.after(exception, _CHAIN_LINES):
        if HEADER in line.text:
            return False
        if _CHAINED.search(line.text):
            return True
    return False
