"""The sentences on what was not read: files, an earlier run's text, what was too much or came too late."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slurmdoctor.report.quantities import plural, size
from slurmdoctor.report.redactor import one_line, redact

Values = Mapping[str, Any]
_WHY = {
    "dangling": "dangling link", "loop": "circular link", "denied": "without read permission", "missing": "vanished",
    "vanished": "vanished", "replaced": "replaced while being read", "shrunk": "truncated while being read", "damaged": "damaged",
    "no-decoder": "zstd (no decoder installed)", "binary": "not text", "pipe": "pipe", "device": "device", "socket": "socket",
    "folder": "folder", "broken": "on a disk that does not answer", "too-long": "with too long a name", "too-many": "over the limit of files",
    "too-large": "too large", "foreign-link": "behind another user's link",
}  # fmt: skip
_NOUNS = frozenset({"dangling", "loop", "pipe", "device", "socket", "folder"})


def _not_read(v: Values) -> str:
    """`2 files were not read: 1 pipe (live), 1 damaged (a.gz)`."""
    return f"{plural(v['count'], 'file')} {'was' if v['count'] == 1 else 'were'} not read: {_kinds(v)}"


def _read_in_part(v: Values) -> str:
    """`1 file was read only in part: 1 damaged (a.gz)`."""
    return f"{plural(v['count'], 'file')} {'was' if v['count'] == 1 else 'were'} read only in part: {_kinds(v)}"


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
    return f"skipped the output of an earlier run: {where}"


def _several_jobs(v: Values) -> str:
    named = ", ".join(one_line(redact(job))[:40] for job in v["jobs"])
    more = v["count"] - len(v["jobs"])
    many = f"{named} and {more:,} more" if more > 0 else named
    return f"these are the files of {v['count']:,} jobs ({many}), read as one: name the files of one"


def _out_of_time(v: Values) -> str:
    of = "" if v["total"] is None else f" of {size(v['total'])}"
    return f"stopped reading after the limit of {v['seconds']:g} s: read {size(v['searched'])}{of}"


def _short(name: str) -> str:
    return one_line(redact(name))[-60:]


UNREAD: Mapping[str, str | Callable[[Values], str]] = {
    "earlier-run": _earlier_run,
    "several-jobs": _several_jobs,
    "perhaps-several-jobs": "several files were read as one job; if they are not, name one",
    "script-cut": lambda v: f"{_short(v['name'])} was read up to line {v['line']}: it is larger than batch scripts are",
    "script-unread": lambda v: f"{_short(v['name'])} was of no use: {v['why']}",
    "files-not-read": _not_read,
    "files-read-in-part": _read_in_part,
    "out-of-time": _out_of_time,
    "left-out": lambda v: f"{_short(v['name'])}: {size(v['bytes'])} between its start and its end were not read",
    "out-of-time-again": "the reading time limit was reached before all relevant lines were examined",
    "part-read": "only part of the log was read; the rest may hold a failure",
    "not-read-again": "{count} of {total} relevant lines were counted but not examined: too many in this log",
    "tasks-left-out": "{count} exit reports were skipped: those before them already name {most} tasks",
    "read-in-part": "not all text around {count} relevant lines was read: it is too long or too far away",
    "lines-alike": lambda v: f"{v['count']:,} repeated lines were counted together with the hundreds like them",
    "exceptions-alike": (
        "after {most} kinds of exceptions, {count} more lines were grouped by exception class only, or not at all"
    ),
    "steps-unread": lambda v: (
        f"the last training steps of {plural(v['logs'], 'log')} were not all read: too many logs with different line formats"
    ),
}
"""Code -> a template of its values, or a function of them."""
