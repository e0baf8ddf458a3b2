"""What could not be read, and why: a line of the coverage where other files were read, else the error."""

from __future__ import annotations

import errno
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from slurmdoctor.model import Reason, UserError, reason

Why = Literal[
    "dangling", "loop", "denied", "missing", "vanished", "replaced", "shrunk", "damaged", "no-decoder", "binary", "pipe",
    "device", "socket", "folder", "broken", "too-long", "too-many", "too-large",
    "foreign-link",
]  # fmt: skip
"""`report/reasons.py` has the words for each."""
_SHOWN = 3
"""Names of files that a note shows for each reason."""
_OWNER = "run as the job's owner, or ask for a copy"
_LOG = "name the job's .out, .err or .log file"
_DISK = "copy the log to a disk that answers"
_ERRORS: dict[Why, tuple[str, str]] = {
    "dangling": ("{path} is a link to a file that is not there", "name the log itself"),
    "loop": ("{path} is a link that leads to itself", "name the log itself"),
    "denied": ("cannot read {path}: permission denied", _OWNER),
    "missing": ("no such file: {path}", "check the path"),
    "vanished": ("{path} vanished while it was read", "name where it is now"),
    "replaced": ("{path} was replaced while it was read", "read it again"),
    "binary": ("{path} is not a text log (binary data)", _LOG),
    "pipe": ("{path} is a pipe", _LOG),
    "device": ("{path} is a device or a file of the kernel's, not a log", _LOG),
    "socket": ("{path} is a socket, not a log", _LOG),
    "folder": ("{path} is a folder", "name it without a trailing component"),
    "damaged": ("cannot decompress {path}: {text}", "is the file whole? decompress it by hand to see"),
    "no-decoder": (
        "{path} is zstd-compressed, and no decoder is installed",
        "pip install backports.zstd, or: zstd -dc LOG | slurmdoctor diagnose -",
    ),
    "foreign-link": (
        "{path} is, or lies behind, a link of a user who does not own what it leads to",
        "name the log itself",
    ),
    "broken": ("cannot read {path}: {text}", _DISK),
    "too-long": ("the path is longer than a path can be", "name the log by a shorter way"),
}
_OF_ERRNO: dict[int | None, Why] = {
    errno.ENOENT: "missing", errno.ENOTDIR: "missing", errno.ELOOP: "loop", errno.EACCES: "denied",
    errno.EPERM: "denied", errno.EISDIR: "folder", errno.ENAMETOOLONG: "too-long",
}  # fmt: skip


class UnreadError(UserError):
    """A file, or the rest of one, that cannot be read."""

    def __init__(self, path: str, why: Why, text: str = "") -> None:
        what, mend = _ERRORS.get(why, _ERRORS["broken"])
        super().__init__(what.format(path=path, text=text), mend)
        self.path, self.why = path, why


def unread(path: str, error: OSError) -> UnreadError:
    """The system's error as one of ours."""
    why = _OF_ERRNO.get(error.errno, "broken")
    if why == "missing" and Path(path).is_symlink():
        why = "dangling"
    return UnreadError(path, why, error.strerror or str(error))


def kind_of_file(mode: int) -> Why | None:
    """Why a file of this mode is no log; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    if stat.S_ISDIR(mode):
        return "folder"
    if stat.S_ISFIFO(mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def notes(skipped: Iterable[UnreadError], cut: Iterable[UnreadError]) -> tuple[Reason, ...]:
    """For the coverage: which files were not read, and of which only a part."""
    lines = (("files-not-read", list(skipped)), ("files-read-in-part", list(cut)))
    return tuple(reason(code, count=len(errors), kinds=_kinds(errors)) for code, errors in lines if errors)


def _kinds(errors: Iterable[UnreadError]) -> tuple[tuple[Why, int, tuple[str, ...]], ...]:
    """(why, number of files, the names of the first ones), the most frequent first."""
    names: dict[Why, list[str]] = {}
    for error in errors:
        names.setdefault(error.why, []).append(error.path.rstrip("/").rpartition("/")[2] or error.path)
    kinds = [(why, len(found), tuple(found[:_SHOWN])) for why, found in names.items()]
    return tuple(sorted(kinds, key=lambda kind: -kind[1]))
