"""Reads exit reports: lines in which a launcher, Slurm or a parent says how a process ended (rules/launchers.yaml).

srun: error: cn01: task 13: Killed
mpirun noticed that process rank 3 with PID 5120 on node cn07 exited on signal 9 (Killed).

torchelastic prints a table, with the first failure marked:

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

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec.structs import replace

from slurmdoctor.knowledge import text
from slurmdoctor.matching import captures
from slurmdoctor.model import (
    ExitFormat,
    ExitReport,
    Line,
    ProcessExit,
    RankMap,
    admits,
    expand,
    from_code,
    from_name,
    from_words,
    is_rank,
    number,
)
from slurmdoctor.ranks import Excerpts, parse_time
from slurmdoctor.readers.rule_events import is_quotation, own_words

_ROOT = text("torchelastic-root")
_FIELD = text("torchelastic-field")
_RANK = text("torchelastic-rank")
_SIGNAL = text("torchelastic-signal")
_FIELDS_ABOVE, _FIELDS_BELOW = 6, 8
"""Fields of a table's entry above its exit code, and below its heading."""
_HOW = ("code", "signal", "status", "words")
Groups = Mapping[str, str]


def read_report(form: ExitFormat, lines: Excerpts, line: Line) -> ExitReport | None:
    """The report that this line begins, if it begins one."""
    if is_quotation(line) or own_words(line) != line.text:
        return None
    if form.kind == "table":
        return _table_entry(form, lines, line)
    below = (after.text for after in lines.after(line, form.below))
    above = [before.text for before in lines.before(line, form.above)] if form.above else []
    found = _groups(form, line.text, below, above)
    if found is None:
        return None
    if {"node_rank", "local_rank"} <= found.keys():
        before = number(found["node_rank"]) * (lines.ranks_per_node(line.source) or 0)
        if before or not number(found["node_rank"]):  # the first node has the first ranks
            found = {"rank": str(before + number(found["local_rank"])), **found}
    return replace(_report(form, line, found, _exit(found)), how=_how(form, lines, line))


def _how(form: ExitFormat, lines: Excerpts, line: Line) -> Line | None:
    """The line near a report that tells how the process ended: of several the last one, which names the signal."""
    if not form.near or captures(form.near, line.text, form.of_site):
        return None
    near = (*lines.before(line, form.above), *lines.after(line, form.below))
    return next((one for one in reversed(near) if captures(form.near, one.text, form.of_site)), None)


def read_lines(form: ExitFormat, texts: Sequence[str]) -> Groups | None:
    """What the first of these lines says that is taken; for the proof of the table."""
    for at, shown in enumerate(texts):
        if admits(form, shown):
            found = _groups(form, shown, texts[at + 1 :], list(reversed(texts[:at])))
            if found is not None:
                return found
    return None


def _groups(form: ExitFormat, shown: str, below: Iterable[str], above: Sequence[str]) -> Groups | None:
    """The groups of a report, those of a line near it among them; None where it is none."""
    found = captures(form.pattern, shown, form.of_site)
    if found is None or not form.near:
        return found
    around = [shown, *islice(below, form.below), *above[: form.above]]
    ends = [end for one in around if (end := captures(form.near, one, form.of_site)) is not None]
    if not ends:
        return None
    best = max(ends, key=lambda end: ("signal" in end, "code" in end))
    more = {name: value for end in ends for name, value in end.items() if name not in _HOW}
    return {**more, **best, **found}


def _exit(found: Groups) -> ProcessExit:
    """How the process ended, which words, or a report without any, may leave open."""
    if "code" in found:
        return from_code(number(found["code"]))
    if signal := found.get("signal"):
        return from_code(-number(signal)) if signal.isdecimal() else from_name(signal)
    if "status" in found:
        return from_code(os.waitstatus_to_exitcode(number(found["status"])))
    return from_words(found.get("words", "")) or ProcessExit(None, None, "unknown")


def _report(form: ExitFormat, line: Line, found: Groups, ended: ProcessExit) -> ExitReport:
    def named(group: str, otherwise: int | None) -> int | None:
        if group in found:
            return number(found[group])
        return otherwise if group in form.from_label else None

    return ExitReport(
        line,
        form.witness,
        ended,
        rank=named("rank", line.origin.rank),
        # where `local_rank` is to come from the label, the rank that the label names is a local one
        local_rank=named("local_rank", line.origin.rank),
        node=found.get("node") or (line.origin.node if "node" in form.from_label else None),
        pid=named("pid", None) or None,  # Open MPI says 0 of what other nodes run
        tasks=expand(found.get("tasks", "").replace(" ", "")),
        time=line.origin.time if "time" in form.from_label else None,
        order=line.order,
        kind=form.kind,
        launcher=form.launcher,
    )


# ── torchelastic's table ──────────────────────────────────────────────────────────────────────


def _table_entry(form: ExitFormat, lines: Excerpts, line: Line) -> ExitReport | None:
    """An entry, from its `exitcode` line; the first failure's also where the log ends before that line."""
    if first := _ROOT.search(line.text) is not None:
        below = [found for after in lines.after(line, _FIELDS_BELOW) if (found := _FIELD.match(after.text))]
        fields = {found["name"]: found["value"].strip() for found in below}
        if "exitcode" in fields or not _RANK.search(fields.get("rank", "")):
            return None
        return _entry(form, line, fields, ProcessExit(None, None, "unknown"), first)
    code = captures(form.pattern, line.text, form.of_site)
    if code is None:
        return None
    fields = {}
    for above in lines.before(line, _FIELDS_ABOVE):
        if found := _FIELD.match(above.text):
            fields.setdefault(found["name"], found["value"].strip())
        elif first := _ROOT.search(above.text) is not None:
            break
    entry = _entry(form, line, fields, from_code(number(code["code"])), first)
    how = next((below for below in lines.after(line, 2) if _SIGNAL.match(below.text)), None)
    return replace(entry, pid=number(code["pid"]), how=how)


def _entry(form: ExitFormat, line: Line, fields: Groups, ended: ProcessExit, first: bool) -> ExitReport:
    rank = _RANK.search(fields.get("rank", ""))
    stamp = parse_time(fields.get("time", ""))
    found = {} if rank is None else {name: value for name, value in rank.groupdict().items() if is_rank(value)}
    report = _report(form, line, {**found, "node": fields.get("host", "")}, ended)
    return replace(report, time=stamp[0] if stamp else None, first=first)


def complete_reports(reports: Iterable[ExitReport], maps: RankMap) -> list[ExitReport]:
    """The exit reports in the log's order, with the global ranks that they are about."""
    found = []
    for report in sorted(reports, key=lambda report: report.order):
        ranks, basis = maps.ranks_of(report)
        found.append(replace(report, ranks=ranks, rank_basis=basis))
    return found
