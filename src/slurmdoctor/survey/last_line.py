"""Chooses the line that tells most where a job's cause is not known: what its program said of its end, else what it printed last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slurmdoctor.input.glance import END, HEAD, ends_of, read_at
from slurmdoctor.knowledge.load import current
from slurmdoctor.knowledge.texts import text
from slurmdoctor.model import Knowledge
from slurmdoctor.ranks.labels import LabelReader, labels_of
from slurmdoctor.ranks.source_format import learn
from slurmdoctor.report.redact import redact
from slurmdoctor.report.result import Diagnosis
from slurmdoctor.search.compiled import compiled
from slurmdoctor.survey.alike import flat
from slurmdoctor.survey.rows import Log

if TYPE_CHECKING:
    import regex

_FEW = 16
"""Logs of a job whose ends are read,"""
_MOST = 40
"""and the lines of each."""
_LONGEST = 2000
"""Characters of a line."""
_MOST_WORK = 4
"""Lines of work; what stands above more of them was no end."""
_COMPLAINT = text("of-an-error")
_NAMES = "slurm-line low-level-label drawn-line harmless-traceback python-frame raising-code no-last-words"
_NO_COMPLAINT = tuple(map(text, _NAMES.split()))
"""What may hold words of an error, and tells none."""
_NO_END = tuple(map(text, ("script-talk", "tool-line")))
"""What a script says around its programs."""
_WORK = (text("work-line"), text("busy-bar"))


def last_line(found: Diagnosis, logs: Sequence[Log], rules: Iterable[str] = ()) -> str | None:
    """The line of a job of which no cause is known; None where one is, or where nothing tells."""
    knowledge = current(map(Path, rules))
    cause = found.cause.id
    if found.verdict == "no-failure" or not (cause is None or cause in knowledge.traits["catch-all"]):
        return None
    if found.first_failure.text and cause not in knowledge.traits["exit-only"]:
        return flat(found.first_failure.text)[:_LONGEST]
    line = last_words([_end(log) for log in logs[-_FEW:]], knowledge)
    return flat(redact(line))[:_LONGEST] if line else None


def last_words(ends: Iterable[str], knowledge: Knowledge) -> str | None:
    """Of the ends of a job's logs the complaint that stands nearest to its end; without one the last line that is no noise."""
    labels = knowledge.once(labels_of)
    complaints: list[tuple[int, str]] = []
    others: list[tuple[int, str]] = []
    for end in ends:
        work = 0
        other: tuple[int, str] | None = None
        for below, (raw, line) in enumerate(_upwards(end, labels)):
            if _any(_NO_COMPLAINT, raw, line):
                continue
            work += _is_work(raw, line, knowledge)
            if work > _MOST_WORK:
                break
            complains = _COMPLAINT.search(line) is not None and not _any(_WORK, raw, line)
            wanted = complains or not (work or other or _any(_NO_END, raw, line))
            if not wanted or _follows(raw, line, knowledge):
                continue
            if complains:
                complaints.append((below, line))
                break
            other = (below, line)
        others += [other] if other else []
    return min(complaints or others, default=(0, None), key=lambda one: one[0])[1]


def _end(log: Log) -> str:
    """The end of this run's text. Of a compressed log that is longer than what is read of it nothing is known."""
    if log.ends:
        return read_at(log.path, max(log.begins, log.ends - END), log.ends)
    head, end = ends_of(log.path)
    if not end:
        return "" if len(head.encode()) >= HEAD else head[-max(0, log.size - log.begins) :] if log.begins else head
    whole = head + end if log.size <= 2 * HEAD else end
    return whole[-max(1, log.size - log.begins) :] if log.begins else whole


def _upwards(end: str, labels: LabelReader) -> Iterator[tuple[str, str]]:
    """The last lines, the last one first: as printed, and without their labels. A terminal shows a bar's last state."""
    lines = [shown for line in end.split("\n") if (shown := line.rstrip("\r").rpartition("\r")[2].strip())][-_MOST:]
    form = learn(lines, labels)
    for raw in reversed(lines):
        line = labels.strip_labels(raw, form)[1].strip()
        if line and len(line) <= _LONGEST and "\ufffd" not in line:
            yield raw, line


def _any(patterns: Iterable[regex.Pattern[str]], raw: str, line: str) -> bool:
    return any(pattern.search(raw) or pattern.search(line) for pattern in patterns)


def _is_work(raw: str, line: str, knowledge: Knowledge) -> bool:
    """Whether the line counts steps."""
    steps = (one for one in knowledge.signals if one.kind == "progress" and any(word in raw for word in one.literals))
    return _any(_WORK, raw, line) or any(compiled(one.regex).search(line) for one in steps)


def _follows(raw: str, line: str, knowledge: Knowledge) -> bool:
    """Whether the line only tells that a process ended, or what others did because of it."""
    reports = [one.pattern for one in knowledge.exit_reports if any(word in raw for word in one.literals)]
    cascades = [one.regex for one in knowledge.rules if one.role == "cascade" and any(w in raw for w in one.literals)]
    return any(compiled(pattern).search(line) for pattern in (*reports, *cascades))
