"""Several jobs in short: a row each for the terminal, and those of one cause together for a chat."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from slurmdoctor.model import Diagnosis, Verdict, ranges
from slurmdoctor.report import words
from slurmdoctor.report.redaction import one_line
from slurmdoctor.report.terminal import COLOURS, Line, cells, cut

_WIDEST, _LONGEST_LABEL = 140, 40
_COUNTED = 6
"""Causes that are counted each."""


class Row(Struct, frozen=True):
    """One job in short."""

    label: str
    verdict: Verdict
    mark: str
    headline: str
    cause: str | None = None

    @classmethod
    def of(cls, found: Diagnosis) -> Row:
        """What a diagnosis says in a row; of files that could not be read, why."""
        unread = found.verdict == "unknown" and not found.coverage.files and found.coverage.notes
        headline = one_line(found.coverage.notes[0]) if unread else words.headline(found)
        cause = one_line(found.cause.id) if found.cause is not None and found.cause.id else None
        return cls(one_line(found.job.label), found.verdict, words.mark(found), headline, cause)


def room_for(labels: Iterable[str]) -> int:
    """Columns for the names of all jobs."""
    return min(max(map(cells, labels), default=0), _LONGEST_LABEL)


def line(row: Row, room: int, width: int) -> Line:
    """A row that fits the width; a label is never cut, for it is what picks the job."""
    width = min(width, _WIDEST)
    label = row.label + " " * (room - cells(row.label))
    tag = row.cause or ""
    left = width - cells(label) - 4 - (cells(tag) + 2 if tag else 0)
    text = cut(row.headline, max(left, 12))
    gap = " " * max(2, width - cells(label) - 4 - cells(text) - cells(tag))
    shown: Line = [("bold", label), ("", "  "), (COLOURS[row.mark], row.mark), ("", f" {text}")]
    return [*shown, ("dim", gap + tag)] if tag else shown


def counted(rows: Sequence[Row]) -> str:
    """Like causes counted: `6 jobs: 3 cuda-oom, 1 time-limit; 2 without failure`."""
    failed = Counter(row.cause or "unknown cause" for row in rows if row.verdict == "failed")
    causes = sorted(failed.items(), key=lambda one: (-one[1], one[0]))
    told = [f"{count:,} {cause}" for cause, count in causes[:_COUNTED]]
    told += [f"{sum(count for _, count in causes[_COUNTED:]):,} others"] if len(causes) > _COUNTED else []
    parts = [", ".join(told)] if told else []
    for verdict, said in (("no-failure", "without failure"), ("unknown", "unknown")):
        if count := sum(row.verdict == verdict for row in rows):
            parts.append(f"{count:,} {said}")
    return f"{words.plural(len(rows), 'job')}: " + "; ".join(parts)


class Rows(Struct, frozen=True):
    """Jobs of one cause: the first of them, and the names of all."""

    row: Row
    labels: tuple[str, ...]


def grouped(rows: Sequence[Row]) -> tuple[Rows, ...]:
    """Jobs of one cause together: the most frequent failures first, what has none last."""
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    order = {"failed": 0, "unknown": 1, "no-failure": 2}
    for row in rows:
        groups[order[row.verdict], row.cause or ""].append(row)
    ordered = sorted(groups.items(), key=lambda one: (one[0][0], -len(one[1]), one[0][1]))
    return tuple(Rows(group[0], tuple(row.label for row in group)) for _, group in ordered)


def named(labels: Sequence[str], most: int = 12) -> str:
    """Labels, with the tasks of an array as Slurm writes them: `4711_[0-2,7], 4720 and 3 more`."""
    tasks: dict[str, list[int]] = defaultdict(list)
    for label in labels:
        array, _, task = label.partition("_")
        if array.isdigit() and task.isdigit():
            tasks[array].append(int(task))
    shown: dict[str, None] = {}
    for label in labels:
        array, _, task = label.partition("_")
        folded = len(tasks.get(array, ())) > 1 and task.isdigit()
        shown[f"{array}_[{ranges(tasks[array])}]" if folded else label] = None
    more = len(shown) - most
    return ", ".join(list(shown)[:most]) + (f" and {more:,} more" if more > 0 else "")


def ended(kind: Rows) -> str:
    """What the jobs of a kind say: the first one's headline, and the cause."""
    said = cut(kind.row.headline, 120)
    if len(kind.labels) > 1 and kind.row.verdict == "failed":
        said = f"the first: {said}"
    return f"{said} ({kind.row.cause})" if kind.row.cause else said
