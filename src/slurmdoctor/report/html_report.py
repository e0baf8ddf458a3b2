"""The HTML page: one file that needs no script, no network and no other file. Its words and drawings are in `templates`."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from slurmdoctor import __version__
from slurmdoctor.model import (
    Diagnosis,
    Evidence,
    Mark,
    RankTimeline,
    RankTimelines,
    Span,
    Surroundings,
    fold_nodes,
    ranges,
)
from slurmdoctor.report import wording
from slurmdoctor.report.chat import pieces
from slurmdoctor.report.redaction import disarm, one_line
from slurmdoctor.report.wording import Row, best_frames, counted, delay, duration, ending, listed, plural

_LONGEST = 4000
"""Characters of one text; the rest of a longer one is cut."""
_LARGEST = 450_000
"""Characters of the whole reports on a page of several jobs."""
_UNITS = {"gib": "GiB", "mib": "MiB", "gb": "GB", "seconds": "s", "minutes": "min", "hours": "h"}
_PLAIN_LINK = re.compile(r"https://[\w./#?=&%+~:-]+")
"""An address of the rules that is nothing but one."""


def render_html(diagnosis: Diagnosis) -> str:
    """The page of one job."""
    return render_page("job.html.j2", found=diagnosis, drawing=Drawing.of(diagnosis.rank_timelines))


def render_jobs_html(found: Sequence[Diagnosis]) -> str:
    """One page of several jobs: a row each, and each job's own page folded below; of very many only those that failed first."""
    rows = [Row.of(one) for one in found]
    parts: Any = page_environment().get_template("job_parts.html.j2").module
    whole: dict[int, str] = {}
    room, drawn = _LARGEST, False
    for at in sorted(range(len(rows)), key=lambda at: rows[at].verdict == "no-failure"):
        drawing = Drawing.of(found[at].rank_timelines)
        own = parts.verdict(found[at], 2) + parts.details(found[at], drawing, f"job-{at}-", 3)
        room -= len(own)
        if room < 0:
            break
        whole[at], drawn = own, drawn or drawing is not None
    failed = sum(row.verdict == "failed" for row in rows)
    return render_page("jobs.html.j2", rows=rows, whole=whole, drawn=drawn, failed=failed, counted=counted(rows))


def render_page(template: str, package: str = "slurmdoctor.report", **values: Any) -> str:
    """A page of a template, in ASCII: no server and no locale can misread it."""
    page = page_environment(package).get_template(template).render(**values)
    return page.encode("ascii", "xmlcharrefreplace").decode("ascii")


@cache
def page_environment(package: str = "slurmdoctor.report") -> Environment:
    """Jinja's environment for the templates in a package's folder `templates`, which may use and extend those of this one.

    Every value that a template shows is disarmed, cut and escaped: nothing of a log becomes markup.
    """
    packages = dict.fromkeys((package, "slurmdoctor.report"))
    made = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (best_frames, delay, ending, plural, ranges):
        made.globals[function.__name__] = function
    made.globals |= {
        "version": __version__, "words": wording, "place": _place, "rows_of": _rows_of,
        "proofs_of": _proofs, "notes_of": _notes,
    }  # fmt: skip
    made.filters |= {"shown": shown, "one_line": one_line, "pieces": pieces, "advice": _advice, "fact_name": _fact_name}
    made.tests["plain_link"] = lambda text: bool(text and _PLAIN_LINK.fullmatch(text))
    return made


def shown(text: str, most: int = _LONGEST) -> Markup:
    """Text of any origin as what a browser shows, never as markup."""
    safe = disarm(text[: most + 1].replace("\r", "\ufffd"))
    return escape(safe if len(safe) <= most else safe[:most] + " …")


def _shown(value: Any) -> Any:
    """What a template shows of a value."""
    if value is None:
        return ""
    return shown(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _place(file: str | None, line: int | None) -> str:
    """`job.log:48211`, or nothing."""
    return "" if file is None else one_line(file) + ("" if line is None else f":{line}")


def _rows_of(traceback: Sequence[str]) -> list[str]:
    return [row.rstrip().expandtabs(4) for entry in traceback for row in disarm(entry).split("\n")]


def _advice(text: str) -> tuple[str, list[str]]:
    """A sentence, and the commands of it that stand better by themselves: one in parentheses, or one that ends it."""
    apart: list[str] = []

    def lift(found: re.Match[str]) -> str:
        apart.append(found[1] or found[2])
        return ""

    plain = re.sub(r" \(`([^` ]* [^`]*)`\)|(?<=:) `([^` ]* [^`]*)`\.?$", lift, one_line(text))
    return plain, apart


def _fact_name(fact: str) -> str:
    """`timeout_ms` as `Timeout ms`, `requested_gib` as `Requested GiB`."""
    name = " ".join(_UNITS.get(word, word) for word in str(fact).split("_"))
    return name[:1].upper() + name[1:]


def _notes(found: Diagnosis) -> list[str]:
    """What is to be known of the reading."""
    seen = found.coverage
    notes = list(seen.notes)
    if seen.silent_ranks:
        notes.append(
            f"{'ranks' if len(seen.silent_ranks) > 1 else 'rank'} {ranges(seen.silent_ranks, 60)} printed nothing"
        )
    if seen.missing and wording.other_record(found) is None:
        notes.append(f"not checked: {listed(seen.missing)}")
    return notes


class _Proof(Struct, frozen=True):
    """A line of the evidence, with its neighbors where they are not on the page already."""

    item: Evidence
    around: Surroundings | None
    root: bool
    """Whether it is the first failure's own line."""


def _proofs(found: Diagnosis) -> tuple[list[_Proof], list[_Proof]]:
    """The lines that prove the verdict, the best first, and those of what came after the first failure."""
    around = {(item.file, item.line): item for item in found.surroundings}
    first = found.first_failure
    read: set[tuple[str, int]] = set()
    proofs = []
    for item in found.evidence:
        near = around.get((item.file, item.line))
        if near is not None and item.line is not None and near.numbered:
            known = (item.file, item.line) in read
            read |= {(item.file, n) for n in range(item.line - len(near.above), item.line + len(near.below) + 1)}
            near = None if known else near
        proofs.append(_Proof(item, near, (item.file, item.line) == (first.file, first.line)))
    telling = [one for one in proofs if one.root or one.item.role != "cascade"] or proofs[:1]
    return telling, [one for one in proofs if one not in telling]


MOST_ROWS = 48
"""Rows of a page: more are not read."""
_LEADS = ("first", "suspect")
"""Standings of the ranks that the verdict names."""
_GRAINS = (400, 100, 25, 0)
"""Parts of the shown time within which edges count as alike; at 0 only the order of the states counts."""
_MOST_STEPS = 12
"""Signs of training steps in one row."""
_STACKED = 6
"""Rows that a folded group shows at once."""
_LABEL = 12.0
"""Percent of the width that a label of the axis takes."""

_Ways = dict[tuple[bool, object], list[RankTimeline]]
"""(whether the first failure is in them, their shape) -> the timelines of one node."""


class RankRow(Struct, frozen=True):
    """Ranks that went alike, drawn as one of them went."""

    ranks: tuple[int, ...]
    rank_timeline: RankTimeline
    first: bool = False
    """The first failure is here."""

    @property
    def who(self) -> str:
        """`rank 3`, `ranks 0-2,4-7`."""
        if not self.ranks:
            return "a process" if self.rank_timeline.spans else "no rank named"
        return ("rank " if len(self.ranks) == 1 else "ranks ") + ranges(self.ranks, 8)

    @property
    def signs(self) -> list[Mark]:
        """What is drawn on the bars: some of the steps, and the first failure on top."""
        steps = [mark for mark in self.rank_timeline.marks if mark.kind == "step"]
        kept = steps[:: max(1, -(-len(steps) // _MOST_STEPS))]
        others = [mark for mark in self.rank_timeline.marks if mark.kind != "step"]
        return sorted([*kept, *others], key=lambda mark: (mark.kind == "first", mark.at))

    @property
    def told(self) -> list[Mark]:
        """The lines of the log that tell of it, each once."""
        marks = {
            (mark.file, mark.line, mark.text): mark
            for mark in reversed(self.rank_timeline.marks)
            if mark.kind != "step"
        }
        return list(reversed(marks.values()))


class Group(Struct, frozen=True):
    """Nodes whose ranks went alike, with a row for each way that they went; no node where none is known."""

    nodes: tuple[str, ...]
    rows: tuple[RankRow, ...]

    @property
    def first(self) -> bool:
        """Whether the first failure is here."""
        return any(row.first for row in self.rows)

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks of its nodes."""
        return tuple(sorted(rank for row in self.rows for rank in row.ranks))

    @property
    def listed(self) -> str:
        """`gpu[001-511]`."""
        return fold_nodes(map(one_line, self.nodes))


class Drawing:
    """The rows of a page, and where on it a time stands."""

    def __init__(self, rank_timelines: RankTimelines) -> None:
        self.groups, self.left_out, grain = fold(rank_timelines)
        self.named = any(one.ranks for one in rank_timelines.timelines)
        self.states = {span.state for one in rank_timelines.timelines for span in one.spans}
        self.kinds = {mark.kind for one in rank_timelines.timelines for mark in one.marks}
        leads = [row.rank_timeline for group in self.groups for row in group.rows if row.first]
        self.root = min((mark.at for one in leads for mark in one.marks if mark.kind == "first"), default=None)
        self._start = rank_timelines.start
        self._width = _length(rank_timelines) or 1.0
        self.ticks = list(self._labels(rank_timelines.ticks))
        self.notes = [f"The run began {duration(-rank_timelines.began)} before the left edge."] * (
            rank_timelines.began < 0
        )
        self.notes += ["Rows hold ranks whose states came in the same order; their times may differ."] * (grain == 0)

    @classmethod
    def of(cls, rank_timelines: RankTimelines) -> Drawing | None:
        """What is drawn; None where the log tells of no rank over time."""
        return cls(rank_timelines) if _length(rank_timelines) else None

    def place(self, at: float) -> str:
        """A time as a place in a strip."""
        return f"{self._share(at):.2f}%"

    def wide(self, span: Span) -> str:
        """A span's width."""
        return f"{max(self._share(span.end) - self._share(span.start), 0):.2f}%"

    def moment(self, at: float) -> str:
        """The time of day, as the log's clock shows it."""
        return time.strftime("%H:%M:%S", time.gmtime(self._start + at))

    def stacked(self, rows: Sequence[RankRow]) -> Sequence[RankRow]:
        """The rows of a group that are drawn above each other."""
        return [row for row in rows if row.rank_timeline.spans or row.first][:_STACKED] or rows[:1]

    @property
    def not_drawn(self) -> str:
        """How many ranks are in the table alone."""
        if not self.left_out:
            return ""
        nodes = {node for group in self.left_out for node in group.nodes}
        on = f" on {plural(len(nodes), 'node')}" if nodes else ""
        return f"{plural(sum(len(group.ranks) for group in self.left_out), 'rank')}{on}; the table has them all"

    def _share(self, at: float) -> float:
        return min(max(at / self._width * 100, 0.0), 100.0)

    def _labels(self, ticks: Sequence[tuple[float, str]]) -> list[tuple[str, str, str]]:
        """(place, anchor, label) along the top, as many as there is room for."""
        labels, taken = [], -_LABEL
        for at, label in ticks:
            x = self._share(at)
            if 0 <= at <= self._width and x - taken >= max(_LABEL, 1.2 * len(label)):
                anchor = "start" if x < _LABEL / 2 else "end" if x > 100 - _LABEL / 2 else "middle"
                labels.append((f"{x:.2f}%", anchor, label))
                taken = x
        return labels


def _length(rank_timelines: RankTimelines) -> float:
    """How long the shown time is, in the unit of the spans; 0 where there is none."""
    return max((span.end for one in rank_timelines.timelines for span in one.spans), default=0.0)


def fold(rank_timelines: RankTimelines, most: int = MOST_ROWS) -> tuple[list[Group], list[Group], int]:
    """The timelines in at most so many rows, the first failure first, then by rank; what is left out; and the grain.

    Rows are alike within this part of the shown time; at 0 only the order of their states is.
    """
    groups: list[Group] = []
    for grain in _GRAINS:
        groups = sorted(
            _alike(rank_timelines, grain), key=lambda group: (not group.first, not group.ranks, group.ranks[:1])
        )
        if sum(len(group.rows) for group in groups) <= most:
            return groups, [], grain
    shown, left_out = [], []
    for group in groups:
        shown += [Group(group.nodes, group.rows[:most])] if most else []
        left_out += [Group(group.nodes, group.rows[most:])] if len(group.rows) > most else []
        most = max(0, most - len(group.rows))
    return shown, left_out, 0


def _alike(rank_timelines: RankTimelines, grain: int) -> list[Group]:
    width = _length(rank_timelines) or 1.0
    led = any(one.standing in _LEADS for one in rank_timelines.timelines)
    by_node: dict[str | None, _Ways] = {}
    for one in rank_timelines.timelines:
        # the verdict says in which timeline the first failure is, or else the first line of it is that timeline's
        first = one.standing in _LEADS if led else any(mark.kind == "first" for mark in one.marks)
        by_node.setdefault(one.node, {}).setdefault((first, _shape(one, width, grain)), []).append(one)
    found: dict[object, list[tuple[str | None, _Ways]]] = {}
    for node, ways in by_node.items():
        # ranks of no known node fold among themselves alone
        found.setdefault((node is None, frozenset(ways)), []).append((node, ways))
    return [_group(nodes) for nodes in found.values()]


def _group(nodes: Sequence[tuple[str | None, _Ways]]) -> Group:
    rows = []
    for shape in nodes[0][1]:
        alike = [one for _, ways in nodes for one in ways[shape]]
        rows.append(RankRow(tuple(sorted(rank for one in alike for rank in one.ranks)), alike[0], shape[0]))
    rows.sort(key=lambda row: (not row.first, not row.ranks, row.ranks[:1]))
    return Group(tuple(node for node, _ in nodes if node is not None), tuple(rows))


def _shape(one: RankTimeline, width: float, grain: int) -> object:
    """What two timelines have in common that are drawn as one."""
    spans = tuple(
        (span.state, round(span.start / width * grain), round(span.end / width * grain)) for span in one.spans
    )
    return one.standing, one.ended, not one.ranks, spans
