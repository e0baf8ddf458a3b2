"""Folds lanes for drawing: nodes whose ranks went alike share a row, so that a page of 4,096 ranks stays small. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from slurmdoctor.model import Lane, Lanes

MOST_ROWS = 48
"""Rows of a page: more are not read."""
_LEADS = ("first", "suspect")
"""Standings of the ranks that the verdict names."""
_GRAINS = (400, 100, 25, 0)
"""Parts of the shown time within which edges count as alike; at 0 only the order of the states counts."""


_Ways = dict[tuple[bool, object], list[Lane]]
"""(whether the first failure is in them, their shape) -> the lanes of one node."""


class Row(Struct, frozen=True):
    """Ranks that went alike, drawn as one of them went."""

    ranks: tuple[int, ...]
    lane: Lane
    first: bool = False
    """The first failure is here."""


class Group(Struct, frozen=True):
    """Nodes whose ranks went alike, with a row for each way that they went; no node where none is known."""

    nodes: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def first(self) -> bool:
        """Whether the first failure is here."""
        return any(row.first for row in self.rows)

    @property
    def ranks(self) -> tuple[int, ...]:
        """All ranks of its nodes."""
        return tuple(sorted(rank for row in self.rows for rank in row.ranks))


class Folded(Struct, frozen=True):
    """What is drawn, and what is not."""

    groups: tuple[Group, ...]
    grain: int
    """Rows are alike within this part of the shown time; 0 where only the order of their states is."""
    left_out: tuple[Group, ...] = ()


def length(lanes: Lanes) -> float:
    """How long the shown time is, in the unit of the spans; 0 where there is none."""
    return max((span.end for lane in lanes.lanes for span in lane.spans), default=0.0)


def fold(lanes: Lanes, most: int = MOST_ROWS) -> Folded:
    """The lanes in at most so many rows: the first failure first, then by rank."""
    groups: list[Group] = []
    for grain in _GRAINS:
        groups = sorted(_alike(lanes, grain), key=lambda group: (not group.first, not group.ranks, group.ranks[:1]))
        if sum(len(group.rows) for group in groups) <= most:
            return Folded(tuple(groups), grain)
    shown: list[Group] = []
    left_out: list[Group] = []
    room = most
    for group in groups:
        if room:
            shown.append(Group(group.nodes, group.rows[:room]))
        if len(group.rows) > room:
            left_out.append(Group(group.nodes, group.rows[room:]))
        room = max(0, room - len(group.rows))
    return Folded(tuple(shown), 0, tuple(left_out))


def _is_first(lanes: Lanes) -> Callable[[Lane], bool]:
    """Whether the first failure is in a lane: the verdict says so, or else the first line of it is that lane's."""
    if any(lane.standing in _LEADS for lane in lanes.lanes):
        return lambda lane: lane.standing in _LEADS
    return lambda lane: any(mark.kind == "first" for mark in lane.marks)


def _alike(lanes: Lanes, grain: int) -> list[Group]:
    width, is_first = length(lanes) or 1.0, _is_first(lanes)
    by_node: dict[str | None, _Ways] = {}
    for lane in lanes.lanes:
        by_node.setdefault(lane.node, {}).setdefault((is_first(lane), _shape(lane, width, grain)), []).append(lane)
    found: dict[object, list[tuple[str | None, _Ways]]] = {}
    for node, ways in by_node.items():
        # ranks of no known node fold among themselves alone
        found.setdefault((node is None, frozenset(ways)), []).append((node, ways))
    return [_group(nodes) for nodes in found.values()]


def _group(nodes: Sequence[tuple[str | None, _Ways]]) -> Group:
    rows = [_row([lane for _, ways in nodes for lane in ways[shape]], shape[0]) for shape in nodes[0][1]]
    rows.sort(key=lambda row: (not row.first, not row.ranks, row.ranks[:1]))
    return Group(tuple(node for node, _ in nodes if node is not None), tuple(rows))


def _row(alike: Sequence[Lane], first: bool) -> Row:
    return Row(tuple(sorted(rank for lane in alike for rank in lane.ranks)), alike[0], first)


def _shape(lane: Lane, width: float, grain: int) -> object:
    """What two lanes have in common that are drawn as one."""

    def edge(at: float) -> int:
        return round(at / width * grain)

    spans = tuple((span.state, edge(span.start), edge(span.end)) for span in lane.spans)
    return lane.standing, lane.ended, not lane.ranks, spans
