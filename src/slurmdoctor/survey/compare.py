"""Two sets of answers side by side: what got better or worse, and which changes chance does not explain."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.survey.answers import Answers, Cost, SizeClass
from slurmdoctor.survey.statistics import ALPHA, holm, rates_differ

Trend = Literal["better", "worse", "new", "gone", "chance"]
"""`new`, `gone`: also beyond chance. `chance`: the difference may be one."""
_TEST = (
    "A change is called better or worse if chance explains it with less than 5 %: exact two-sided test of the two rates, Holm's correction "
    "for all lines of a table. Jobs of {block} may fail together, so the failures are first divided by how much more the rates vary between "
    "such blocks of jobs than single failures would (jackknife)."
)

_FEWEST = 20
"""Blocks below which their spread shows nothing: then smaller ones are taken."""
_LEVELS = (
    ("one user", 'cluster, coalesce("user", key)'),
    ("one user and job name (digits aside)", "cluster, \"user\", name, CASE WHEN name = '' THEN key END"),
    ("one user, job name (digits aside) and day", "cluster, \"user\", name, day, CASE WHEN name = '' THEN key END"),
)
"""What the jobs of a block have in common, and in SQL."""


class Change(Struct, frozen=True):
    """A rate before and after, each with what it is of."""

    what: str
    before: int
    before_of: float
    after: int
    after_of: float
    """Jobs, or for a size class the hours that its jobs ran."""
    chance: float
    """The probability of a difference as large as this by chance, corrected for the lines of its table."""
    trend: Trend = "chance"
    hours_before: float = 0.0
    hours_after: float = 0.0
    """GPU hours lost."""
    title: str | None = None

    @property
    def rates(self) -> tuple[float, float]:
        """Before and after."""
        return (
            self.before / self.before_of if self.before_of else 0.0,
            self.after / self.after_of if self.after_of else 0.0,
        )


class Side(Struct, frozen=True):
    """The sums of one side."""

    name: str
    jobs: int
    read: int
    """Jobs whose logs were read."""
    failed: int
    gpu_hours: float
    gpu_hours_lost: float
    with_hours: int
    unknown: int
    """Failed jobs whose cause is not known."""
    repeated: int
    """Jobs that died of what the run before died of."""


class Difference(Struct, frozen=True):
    """All that a comparison says."""

    before: Side
    after: Side
    all: Change
    """Failures of any cause."""
    causes: tuple[Change, ...]
    sizes: tuple[Change, ...]
    nodes_new: tuple[str, ...]
    """Nodes that fail more than chance explains only after,"""
    nodes_gone: tuple[str, ...]
    """only before,"""
    nodes_still: tuple[str, ...]
    """and on both sides."""
    same_rules: bool
    """The rows of both sides were made by the same rules; else a cause may be new because its rule is."""
    test: str
    """The test, in words."""
    nodes_not_tested: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Of the suspects of one side those that no job of the other side tests: after, and before."""


_RATES = """
    CREATE TABLE rates AS
        WITH blocks AS (SELECT *, CAST(hash({block}) AS VARCHAR) AS block FROM jobs)
        SELECT '' AS kind, block, count(*) FILTER (WHERE failed) AS failures, CAST(count(*) AS DOUBLE) AS "of" FROM blocks GROUP BY ALL
        UNION ALL SELECT concat('cause ', what), block, count(*), 0 FROM blocks WHERE failed GROUP BY ALL
        UNION ALL SELECT concat('size ', smallest), block, count(*) FILTER (WHERE failed AND NOT ended_by), sum(elapsed_s) / 3600
            FROM blocks WHERE smallest IS NOT NULL GROUP BY ALL
"""
"""Failures of each block, and what they are of: of any cause, of each cause, and of each size of jobs."""
_CLUSTERING = """
    WITH sides AS (
        SELECT kind, block, failures AS count, "of", 0 AS other, 0 AS other_of FROM rates
        UNION ALL SELECT kind, block, 0, 0, failures, "of" FROM others
    ), summed AS (
        SELECT kind, block, sum(count) AS count, sum("of") AS "of", sum(other) AS other, sum(other_of) AS other_of FROM sides GROUP BY ALL
    ), blocks AS (
        -- a size's failures are of its own hours, those of a cause of all jobs
        FROM summed WHERE NOT starts_with(kind, 'cause ')
        UNION ALL SELECT c.kind, a.block, coalesce(s.count, 0), a."of", coalesce(s.other, 0), a.other_of
        FROM (SELECT DISTINCT kind FROM summed WHERE starts_with(kind, 'cause ')) c CROSS JOIN (FROM summed WHERE kind = '') a
            LEFT JOIN summed s ON s.kind = c.kind AND s.block = a.block
    ), whole AS (
        SELECT kind, sum(count) AS count, sum("of") AS "of", sum(other) AS other, sum(other_of) AS other_of FROM blocks GROUP BY kind
    ), without AS (
        SELECT w.*, b."of" >= w."of" OR b.other_of >= w.other_of AS is_all, (w.count - b.count) / (w."of" - b."of")
            - (w.other - b.other) / (w.other_of - b.other_of) - (w.count / w."of" - w.other / w.other_of) AS varied
        FROM blocks b JOIN whole w USING (kind)
    )
    SELECT kind, CASE WHEN count + other = 0 OR "of" <= 0 OR other_of <= 0 THEN 1 WHEN bool_or(is_all) THEN CAST('inf' AS DOUBLE)
        ELSE greatest(1, sum(varied ** 2) / (count / "of" ** 2 + other / other_of ** 2)) END
    FROM without GROUP BY kind, count, "of", other, other_of
"""
"""How much more the difference of two rates varies than single events would let it: its jackknife variance, a block left out at a time,
by that of Poisson."""


def blocks_of(before: Any, after: Any) -> tuple[str, Mapping[str, float]]:
    """What the jobs of a block have in common, and how many failures count as one: in all (``), by `cause ID`, and by `size SMALLEST`."""
    sides = before, after
    count = "SELECT count(DISTINCT hash({})) FROM jobs"
    enough = (
        one for one in _LEVELS if max(side.execute(count.format(one[1])).fetchone()[0] for side in sides) >= _FEWEST
    )
    named, block = next(enough, _LEVELS[-1])
    for side in sides:
        side.execute(_RATES.format(block=block))
    columns = {"kind": pa.string(), "block": pa.string(), "failures": pa.int64(), "of": pa.float64()}
    rows = [dict(zip(columns, row, strict=True)) for row in after.execute("FROM rates").fetchall()]
    before.register("others", pa.Table.from_pylist(rows, pa.schema(columns)))
    return named, clustering(before)


def clustering(connection: Any) -> dict[str, float]:
    """How many failures count as one, by their kind: of the tables `rates` and `others`."""
    return dict(connection.execute(_CLUSTERING).fetchall())


def compare(
    names: tuple[str, str],
    before: Answers,
    after: Answers,
    blocks: tuple[str, Mapping[str, float]] = ("one user", {}),
    tested: tuple[Container[str], Container[str]] | None = None,
) -> Difference:
    """What changed from the first answers to the second; `tested` are the nodes that the test of each side is of, if not all are."""
    named, together = blocks
    was, now = ({one.node for one in side.nodes.suspects} for side in (before, after))
    gone_to = {node for node in was - now if tested and node not in tested[1]}
    came_from = {node for node in now - was if tested and node not in tested[0]}
    of = before.jobs, after.jobs
    whole, whole_after = (Cost("all", side.failed, 0, gpu_hours_lost=side.gpu_hours_lost) for side in (before, after))
    costs, costs_after = ({one.what: one for one in side.causes} for side in (before, after))
    causes = []
    for what in sorted({*costs, *costs_after}):
        none = Cost(what, 0, 0)
        factor = together.get(f"cause {what}", 1.0)
        causes.append(_change(costs.get(what, none), costs_after.get(what, none), *of, factor))
    causes = _judged(causes)
    return Difference(
        before=_side(names[0], before),
        after=_side(names[1], after),
        all=_judged([_change(whole, whole_after, *of, together.get("", 1.0))])[0],
        causes=tuple(
            sorted(causes, key=lambda one: (one.trend == "chance", -abs(one.rates[1] - one.rates[0]), one.what))
        ),
        sizes=_sizes(before.sizes, after.sizes, together),
        nodes_new=tuple(sorted(now - was - came_from)),
        nodes_gone=tuple(sorted(was - now - gone_to)),
        nodes_still=tuple(sorted(was & now)),
        test=_TEST.format(block=named),
        nodes_not_tested=(tuple(sorted(gone_to)), tuple(sorted(came_from))),
        same_rules=not before.jobs or not after.jobs or before.rules == after.rules,
    )


def _side(name: str, of: Answers) -> Side:
    return Side(name, of.jobs, of.read, of.failed, of.gpu_hours, of.gpu_hours_lost, of.with_hours, of.unknown.jobs, of.repeated_jobs)  # fmt: skip


def _change(was: Cost, now: Cost, of_was: int, of_now: int, together: float) -> Change:
    chance = rates_differ(was.jobs, of_was, now.jobs, of_now, together)
    lost = was.gpu_hours_lost, now.gpu_hours_lost
    return Change(was.what, was.jobs, of_was, now.jobs, of_now, chance, "chance", *lost, now.title or was.title)


def _sizes(
    before: Iterable[SizeClass], after: Iterable[SizeClass], together: Mapping[str, float]
) -> tuple[Change, ...]:
    """Failures an hour by job size, of the classes that both sides have."""
    now = {one.smallest: one for one in after}
    found = []
    for a in before:
        if (b := now.get(a.smallest)) is not None:
            what = f"{a.smallest}" if a.largest == a.smallest else f"{a.smallest}-{a.largest or ''}"
            chance = rates_differ(a.failures, a.hours, b.failures, b.hours, together.get(f"size {a.smallest}", 1.0))
            found.append(Change(what, a.failures, a.hours, b.failures, b.hours, chance))
    return tuple(_judged(found))


def _judged(changes: list[Change]) -> list[Change]:
    """The changes of a table, with its correction for them all and the word for each."""
    found = []
    for one, chance in zip(changes, holm([one.chance for one in changes]), strict=True):
        was, now = one.rates
        trend: Trend = "chance"
        if chance <= ALPHA and was != now:
            trend = "new" if not one.before else "gone" if not one.after else "worse" if now > was else "better"
        found.append(replace(one, chance=chance, trend=trend))
    return found
