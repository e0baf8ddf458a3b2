"""The sentences on what was not read: files, an earlier run's text, what was too much or came too late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slurmdoctor.report.quantities import plural, size
from slurmdoctor.report.redact import one_line, redact

Values = Mapping[str, Any]
_WHY = {
    "dangling": "dangling link", "loop": "circular link", "denied": "without permission", "missing": "vanished",
    "vanished": "vanished", "replaced": "replaced meanwhile", "shrunk": "cut short meanwhile", "damaged": "damaged",
    "no-decoder": "zstd without a decoder", "binary": "no text", "pipe": "pipe", "device": "device", "socket": "socket",
    "folder": "folder", "broken": "the disk does not answer", "too-long": "too long a name", "too-many": "one too many",
    "too-large": "too large",
}  # fmt: skip
_NOUNS = frozenset({"dangling", "loop", "pipe", "device", "socket", "folder"})


def _not_read(v: Values) -> str:
    """`2 files were not read: 1 pipe (live), 1 damaged (a.gz)`."""
    return f"{plural(v['count'], 'file')} {'was' if v['count'] == 1 else 'were'} not read: {_kinds(v)}"


def _read_in_part(v: Values) -> str:
    """`of 1 file only a part was read: 1 damaged (a.gz)`."""
    return f"of {plural(v['count'], 'file')} only a part was read: {_kinds(v)}"


def _kinds(v: Values) -> str:
    """`9 dangling links (latest.log, …), 3 damaged (a.gz, b.gz, c.gz)`."""
    kinds = []
    for why, count, names in v["kinds"]:
        word = _WHY[why] + "s" * (why in _NOUNS and count > 1)
        told = ", ".join(one_line(redact(name))[:60] for name in names) + ", …" * (count > len(names))
        kinds.append(f"{count:,} {word} ({told})")
    return ", ".join(kinds)


def _earlier_run(v: Values) -> str:
    lines, files = v["lines"], v["files"]
    many = size(v["bytes"]) if lines is None else plural(lines, "line")
    where = f"lines 1-{lines}" if files == 1 and lines and lines > 1 else many + f" in {files:,} files" * (files > 1)
    return f"an earlier run's text was left out: {where}"


def _out_of_time(v: Values) -> str:
    of = "" if v["total"] is None else f" of {size(v['total'])}"
    return f"the time limit of {v['seconds']:g} s was met: {size(v['searched'])}{of} were read"


UNREAD: Mapping[str, str | Callable[[Values], str]] = {
    "earlier-run": _earlier_run,
    "files-not-read": _not_read,
    "files-read-in-part": _read_in_part,
    "out-of-time": _out_of_time,
    "left-out": lambda v: (
        f"{one_line(redact(v['name']))[-60:]}: {size(v['bytes'])} between its head and its end were not read"
    ),
    "out-of-time-again": "the time limit was met before all lines that tell something were looked at",
    "part-read": "only a part of the log was looked at, and the rest may hold a failure",
    "not-read-again": "{count} of {total} lines that tell something were counted, not read again: the log holds too many",
    "tasks-left-out": "{count} exit reports were left out: those before them name {most} tasks already",
    "read-in-part": "around {count} lines that tell something not all was read: what belongs to them is too long, or too far away",
    "lines-alike": lambda v: (
        f"{v['count']:,} lines were counted with the hundreds before them that hold the same words"
    ),
    "exceptions-alike": (
        "after {most} kinds of exceptions, {count} lines of others were told apart by their class, or not at all"
    ),
    "steps-unread": lambda v: (
        f"the last training steps of {v['logs']:,} {'log' if v['logs'] == 1 else 'logs'} were not all read: "
        "too many logs whose lines differ"
    ),
}
"""Code -> a template of its values, or a function of them."""
