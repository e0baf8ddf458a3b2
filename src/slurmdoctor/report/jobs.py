"""Several jobs in short: a row each for the terminal, and a list for a chat in which like causes are one line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from slurmdoctor.model import Diagnosis, Verdict, ranges
from slurmdoctor.report import words
from slurmdoctor.report.markdown_report import LIMIT, code, prose
from slurmdoctor.report.redactor import one_line
from slurmdoctor.report.terminal import Line, cells, cut

_COLOURS = {"✗": "bad", "✓": "good", "?": "doubt"}
_WIDEST, _LONGEST_LABEL = 140, 40
_COUNTED = 6
"""Causes that are counted each."""
_NAMED = 12
"""Jobs that a line of a chat names."""


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
    shown: Line = [("bold", label), ("", "  "), (_COLOURS[row.mark], row.mark), ("", f" {text}")]
    return [*shown, ("dim", gap + tag)] if tag else shown


def counted(rows: Sequence[Row]) -> str:
    """Like causes counted: `6 jobs: 3 cuda-oom, 1 time-limit; 2 without failure`."""
    failed = Counter(row.cause or "unknown cause" for row in rows if row.verdict == "failed").most_common()
    failed.sort(key=lambda one: (-one[1], one[0]))
    others = sum(count for _, count in failed[_COUNTED:])
    causes = ", ".join(f"{count:,} {cause}" for cause, count in failed[:_COUNTED]) + f", {others:,} others" * bool(
        others
    )
    parts = [causes] if causes else []
    for verdict, said in (("no-failure", "without failure"), ("unknown", "unknown")):
        if count := sum(row.verdict == verdict for row in rows):
            parts.append(f"{count:,} {said}")
    return f"{len(rows):,} job{'s' * (len(rows) != 1)}: " + "; ".join(parts)


class Alike(Struct, frozen=True):
    """Jobs that ended alike, and what the first of them says."""

    row: Row
    labels: tuple[str, ...]


def alike(rows: Sequence[Row]) -> tuple[Alike, ...]:
    """Jobs of one cause together: the most frequent failures first, what has none last."""
    groups: dict[tuple[int, str], list[Row]] = defaultdict(list)
    order = {"failed": 0, "unknown": 1, "no-failure": 2}
    for row in rows:
        groups[order[row.verdict], row.cause or ""].append(row)
    ordered = sorted(groups.items(), key=lambda one: (one[0][0], -len(one[1]), one[0][1]))
    return tuple(Alike(group[0], tuple(row.label for row in group)) for _, group in ordered)


def named(labels: Sequence[str], most: int = _NAMED) -> str:
    """Labels, with the tasks of an array as Slurm writes them: `4711_[0-2,7], 4720 and 3 more`."""
    tasks: dict[str, list[int]] = defaultdict(list)
    for label in labels:
        array, _, task = label.partition("_")
        if array.isdigit() and task.isdigit():
            tasks[array].append(int(task))
    shown: list[str] = []
    for label in labels:
        array = label.partition("_")[0]
        if len(tasks.get(array, ())) > 1 and label.partition("_")[2].isdigit():
            label = f"{array}_[{ranges(tasks[array])}]"
        if label not in shown:
            shown.append(label)
    more = len(shown) - most
    return ", ".join(shown[:most]) + (f" and {more:,} more" if more > 0 else "")


# ── for a chat ───────────────────────────────────────────────────────────────────────────────


def _fitting(rows: Sequence[Row], shown: Callable[[Sequence[Alike], int], str]) -> str:
    """The list with as many kinds and names as there is room for."""
    kinds = alike(rows)
    for names, most in ((_NAMED, len(kinds)), (_NAMED, 8), (6, 6), (3, 4), (1, 2)):
        text = shown(kinds[:most], names)
        if len(text) <= LIMIT:
            return text
    return text


def _ended(kind: Alike) -> str:
    """What the jobs of a kind say: the first one's headline, and the cause."""
    said = cut(kind.row.headline, 120)
    if len(kind.labels) > 1 and kind.row.verdict == "failed":
        said = f"the first: {said}"
    return f"{said} ({kind.row.cause})" if kind.row.cause else said


def markdown(rows: Sequence[Row]) -> str:
    """At most 1,500 characters of Markdown."""

    def shown(kinds: Sequence[Alike], names: int) -> str:
        lines = [f"**{prose(counted(rows))}**", ""]
        for kind in kinds:
            labels = code(cut(named(kind.labels, names), 160))
            lines.append(f"- {kind.row.mark} {labels}: {prose(_ended(kind))}")
        return "\n".join(lines) + "\n"

    return _fitting(rows, shown)


def slack(rows: Sequence[Row]) -> str:
    """The same for Slack's `chat.postMessage`, as JSON."""
    from slurmdoctor.report.slack_report import message

    kinds = alike(rows)[:8]
    items = [(f"{kind.row.mark} ", cut(named(kind.labels), 160), f": {_ended(kind)}") for kind in kinds]
    return message(counted(rows), items)
