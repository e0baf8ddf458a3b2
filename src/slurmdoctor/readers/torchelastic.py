"""Reads torchelastic's table of failures: one exit report an entry, the first failure marked.

Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:00:00
  host      : cn02
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 41877)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import captures
from slurmdoctor.model import ExitFormat, ExitReport, Line, ProcessExit, from_code, is_rank, number
from slurmdoctor.ranks import Lines, parse_time

_ROOT = text("torchelastic-root")
_ENTRY = text("torchelastic-entry")
_FIELD = text("torchelastic-field")
_RANK = text("torchelastic-rank")
_ABOVE = 6
"""Fields of an entry above its exit code."""
_BELOW = 8
_TRACEBACK = 40
"""Lines of a traceback that are read as the entry's."""


def read(form: ExitFormat, lines: Lines, line: Line) -> Iterator[ExitReport]:
    """An entry, from its `exitcode` line; the first failure's also where the log ends before that line."""
    if _ROOT.search(line.text):
        yield from _cut_root(form, lines, line)
        return
    code = captures(form.pattern, line.text)
    if code is None:
        return
    fields, first = _fields_above(lines, line)
    entry = _entry(form, line, fields, from_code(number(code["code"])), first)
    yield replace(entry, pid=number(code["pid"]), traceback=_traceback_below(lines, line))


def _fields_above(lines: Lines, line: Line) -> tuple[dict[str, str], bool]:
    """The fields of the entry, and whether the heading of the first failure stands above them."""
    fields: dict[str, str] = {}
    for above in lines.before(line, _ABOVE):
        if found := _FIELD.match(above.text):
            fields.setdefault(found["name"], found["value"].strip())
        elif _ROOT.search(above.text):
            return fields, True
        elif not _ENTRY.match(above.text):
            break
    return fields, False


def _traceback_below(lines: Lines, line: Line) -> tuple[str, ...]:
    below: list[str] = []
    for after in lines.after(line, _TRACEBACK):
        if (found := _FIELD.match(after.text)) and found["name"] in ("error_file", "traceback"):
            if found["name"] == "traceback":
                below.append(found["value"])
        elif after.text.startswith(("[", "----", "====")) or not below:
            break
        else:
            below.append(after.text)
    return tuple(below)


def _cut_root(form: ExitFormat, lines: Lines, line: Line) -> Iterator[ExitReport]:
    """The first failure, where the log ends inside of its entry."""
    below = [found for after in lines.after(line, _BELOW) if (found := _FIELD.match(after.text))]
    fields = {found["name"]: found["value"].strip() for found in below}
    if "exitcode" in fields:
        return
    entry = _entry(form, line, fields, ProcessExit(None, None, "unknown"), first=True)
    if entry.rank is not None:
        yield entry


def _entry(form: ExitFormat, line: Line, fields: Mapping[str, str], ended: ProcessExit, first: bool) -> ExitReport:
    rank = _RANK.search(fields.get("rank", ""))
    stamp = parse_time(fields.get("time", ""))
    return ExitReport(
        line,
        form.witness,
        ended,
        rank=number(rank["rank"]) if rank and is_rank(rank["rank"]) else None,
        local_rank=number(rank["local_rank"]) if rank else None,
        node=fields.get("host") or None,
        time=stamp[0] if stamp else None,
        first=first,
        kind=form.kind,
        launcher=form.launcher,
    )
