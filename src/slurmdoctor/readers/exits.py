"""Reads exit reports: lines in which a launcher, Slurm or a parent says how a process ended (rules/launchers.yaml).

srun: error: cn01: task 13: Killed
mpirun noticed that process rank 3 with PID 5120 on node cn07 exited on signal 9 (Killed).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from slurmdoctor.matching import captures
from slurmdoctor.model import (
    ExitFormat,
    ExitReport,
    Line,
    ProcessExit,
    expand,
    from_code,
    from_name,
    from_words,
    number,
)
from slurmdoctor.ranks import Lines
from slurmdoctor.readers import torchelastic
from slurmdoctor.readers.quoted import is_quotation, own_words

Groups = Mapping[str, str]


def read(form: ExitFormat, lines: Lines, line: Line) -> Iterator[ExitReport]:
    """The report that this line begins, if it begins one."""
    if is_quotation(line) or own_words(line) != line.text:
        return
    if form.kind == "table":
        yield from torchelastic.read(form, lines, line)
        return
    below = (after.text for after in lines.after(line, max(form.below, int(form.joins_next_line))))
    reach = max(form.above, int(bool(form.under)))
    above = [before.text for before in lines.before(line, reach)] if reach else []
    found = _groups(form, line.text, below, above)
    ended = _exit(found) if found is not None else None
    if found is not None and ended is not None:
        yield _report(form, line, found, ended)


def read_lines(form: ExitFormat, texts: Sequence[str]) -> Groups | None:
    """What the first of these lines says that is taken; for the proof of the table."""
    for at, text in enumerate(texts):
        if any(literal in text for literal in form.literals):
            found = _groups(form, text, texts[at + 1 :], list(reversed(texts[:at])))
            if found is not None and (form.kind == "table" or _exit(found) is not None):
                return found
    return None


def _groups(form: ExitFormat, text: str, below: Iterable[str], above: Sequence[str]) -> Groups | None:
    """The groups of a report, those of a line near it among them; None where it is none."""
    if form.under and (not above or captures(form.under, above[0]) is None):
        return None
    found = captures(form.pattern, text)
    if found is None and form.joins_next_line:
        rest = next(iter(below), None)
        found = captures(form.pattern, f"{text} {rest}") if rest is not None else None
    if found is None or not form.near:
        return found
    around = [text, *_first(below, form.below), *_first(above, form.above)]
    ends = [end for one in around if (end := captures(form.near, one)) is not None]
    end = max(ends, key=lambda end: ("signal" in end, len(end)), default=None)
    return None if end is None else {**end, **found}


def _first(texts: Iterable[str], count: int) -> list[str]:
    return [text for text, _ in zip(texts, range(count), strict=False)]


def _exit(found: Groups) -> ProcessExit | None:
    """How the process ended; None where the words name no ending."""
    if "code" in found:
        return from_code(number(found["code"]))
    if signal := found.get("signal"):
        return from_code(-number(signal)) if signal.isdecimal() else from_name(signal)
    return from_words(found.get("words", ""))


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
        pid=named("pid", None),
        tasks=tuple(expand(found.get("tasks", "").replace(" ", ""))),
        time=line.origin.time if "time" in form.from_label else None,
        kind=form.kind,
        by_rank=form.by_rank,
        launcher=form.launcher,
    )
