"""The page's part on ranks: the lanes over time, grouped by node, and the same as a table."""

from __future__ import annotations

from slurmdoctor.model import Diagnosis, RankGroup, fold_nodes, ranges
from slurmdoctor.report.page import strips
from slurmdoctor.report.page.folding import Folded, Group, Row, fold, length
from slurmdoctor.report.page.strips import Scale
from slurmdoctor.report.page.tags import Markup, join, place, tag
from slurmdoctor.report.page.tags import fold as folded
from slurmdoctor.report.quantities import plural
from slurmdoctor.report.redactor import one_line

STANDING = {
    "first": "failed first",
    "suspect": "held up the others",
    "collateral": "failed after it",
    "waiting": "waited",
    "silent": "printed nothing",
    "finished": "finished",
}
"""Standing -> what it means in the table."""
_SHORT = 32
"""Characters of a list of nodes beside a strip."""
_LISTED = 60
"""Pieces of a list of ranks in the table."""


def lanes_of(diagnosis: Diagnosis) -> Markup | None:
    """The lanes, with their legend and axis."""
    lanes = diagnosis.lanes
    drawn = fold(lanes)
    if not drawn.groups or not length(lanes):
        return None
    scale = strips.Scale.of(lanes)
    leads = [row.lane for group in drawn.groups for row in group.rows if row.first]
    root = min((mark.at for lane in leads for mark in lane.marks if mark.kind == "first"), default=None)
    notes = [
        strips.earlier(lanes),
        _rough(drawn),
    ]
    body = [_group(group, scale, root) for group in drawn.groups]
    if drawn.left_out:
        body.append(tag("p", f"Not drawn: {_left_out(drawn)}", class_="note"))
    return tag(
        "div",
        strips.legend(lanes),
        tag("p", " ".join(filter(None, notes)), class_="note") if any(notes) else None,
        tag("div", tag("span", "clock"), strips.axis(lanes, scale), class_="lane head"),
        *body,
        class_="lanes",
    )


def heading(diagnosis: Diagnosis) -> str:
    """What the part is about: a job of one process has no ranks to tell apart."""
    named = diagnosis.ranks or any(lane.ranks for lane in diagnosis.lanes.lanes)
    return "What each rank did" if named else "What happened over time"


def table(groups: tuple[RankGroup, ...]) -> Markup | None:
    """What happened to every rank, in words."""
    if not groups:
        return None
    rows = [
        tag(
            "tr",
            tag("th", STANDING.get(group.standing, group.standing), scope="row"),
            tag("td", ranges(group.ranks, _LISTED), class_="numbers"),
            tag("td", f"{len(group.ranks):,}", class_="count"),
            tag("td", one_line(group.why)),
            tag("td", place(group.file, group.line), class_="place"),
        )
        for group in groups
    ]
    head = [tag("th", name, scope="col") for name in ("What happened", "Ranks", "Count", "Why", "Where")]
    return tag(
        "table", tag("caption", "What happened to every rank"), tag("thead", tag("tr", *head)), tag("tbody", *rows)
    )


def _group(group: Group, scale: Scale, root: float | None) -> Markup:
    """A node, or nodes that went alike: a strip, and below it a row for each way that its ranks went."""
    if not group.nodes:
        return tag("div", *(_row(row, scale, root) for row in group.rows), class_="node")
    listed = fold_nodes(map(one_line, group.nodes))
    short = listed if len(listed) <= _SHORT else f"{len(group.nodes):,} nodes"
    about = [plural(len(group.ranks), "rank") if group.ranks else ""]
    about += [f"{len(group.nodes):,} nodes"] if len(group.nodes) > 1 and short == listed else []
    body: list[Markup | None] = [] if short == listed else [tag("p", listed, class_="numbers")]
    if len(group.rows) > 1:
        body += [_row(row, scale, root) for row in group.rows]
    else:
        about.append(_end(group.rows[0]))
        body += [tag("p", tag("b", _who(group.rows[0])), class_="who"), strips.marks(group.rows[0].lane, scale)]
    name = _name(short, ", ".join(filter(None, about)))
    drawn = strips.strip(group.rows, scale, root)
    return folded(tag("span", name, drawn, class_="lane"), *body, open_=group.first, class_="node")


def _row(row: Row, scale: Scale, root: float | None) -> Markup:
    drawn = tag("div", _name(_who(row), _end(row)), strips.strip([row], scale, root),
                class_="lane culprit" if row.first else "lane")  # fmt: skip
    return join((drawn, strips.marks(row.lane, scale)))


def _name(who: str, about: str) -> Markup:
    return tag("span", tag("b", who), tag("span", about, class_="about") if about else None, class_="name")


def _who(row: Row) -> str:
    if not row.ranks:
        return "a process" if row.lane.spans else "no rank named"
    return ("rank " if len(row.ranks) == 1 else "ranks ") + ranges(row.ranks, 8)


def _end(row: Row) -> str:
    return ", ".join(filter(None, (STANDING.get(row.lane.standing, ""), one_line(row.lane.ended))))


def _rough(drawn: Folded) -> str:
    if drawn.grain == 0:
        return "Rows hold ranks whose states came in the same order; their times may differ."
    return ""


def _left_out(drawn: Folded) -> str:
    ranks = sum(len(group.ranks) for group in drawn.left_out)
    nodes = {node for group in drawn.left_out for node in group.nodes}
    return plural(ranks, "rank") + (f" on {plural(len(nodes), 'node')}" if nodes else "") + "; the table has them all"
