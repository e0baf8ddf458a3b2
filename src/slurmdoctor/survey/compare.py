"""Two sets of answers side by side: what got better or worse, and which changes chance does not explain."""

from __future__ import annotations

from typing import Any, Literal

from msgspec.structs import replace

from slurmdoctor.model import Frozen
from slurmdoctor.survey.answers import Answers
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


class Change(Frozen):
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


class Side(Frozen):
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


class Difference(Frozen):
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
        SELECT 'all' AS kind, 'all' AS what, block, count(*) FILTER (WHERE failed) AS failures, CAST(count(*) AS DOUBLE) AS "of",
            coalesce(sum(lost), 0) AS lost, NULL AS title FROM blocks GROUP BY ALL
        UNION ALL SELECT 'cause', what, block, count(*), 0, coalesce(sum(lost), 0), any_value(title) FROM blocks WHERE failed GROUP BY ALL
        UNION ALL SELECT 'size', if(largest = smallest, '1', concat(smallest, '-', largest)), block,
            count(*) FILTER (WHERE failed AND NOT ended_by), sum(elapsed_s) / 3600, 0, NULL FROM blocks WHERE smallest IS NOT NULL GROUP BY ALL
"""
"""Failures of each block, and what they are of: of any cause, of each cause, and of each size of jobs."""
_CHANGES = """
    WITH sides AS (
        SELECT kind, what, block, failures AS count, "of", 0 AS other, 0 AS other_of, lost, 0 AS other_lost, title FROM rates
        UNION ALL SELECT kind, what, block, 0, 0, failures, "of", 0, lost, title FROM others
    ), summed AS (
        SELECT kind, what, block, sum(count) AS count, sum("of") AS "of", sum(other) AS other, sum(other_of) AS other_of FROM sides GROUP BY ALL
    ), blocks AS (
        -- a size's failures are of its own hours, those of a cause of all jobs
        FROM summed WHERE kind <> 'cause'
        UNION ALL SELECT 'cause', c.what, a.block, coalesce(s.count, 0), a."of", coalesce(s.other, 0), a.other_of
        FROM (SELECT DISTINCT what FROM summed WHERE kind = 'cause') c CROSS JOIN (FROM summed WHERE kind = 'all') a
            LEFT JOIN summed s ON s.kind = 'cause' AND s.what = c.what AND s.block = a.block
    ), whole AS (
        SELECT kind, what, sum(count) AS count, sum("of") AS "of", sum(other) AS other, sum(other_of) AS other_of FROM blocks GROUP BY ALL
    ), without AS (
        SELECT w.*, b."of" >= w."of" OR b.other_of >= w.other_of AS is_all, (w.count - b.count) / (w."of" - b."of")
            - (w.other - b.other) / (w.other_of - b.other_of) - (w.count / w."of" - w.other / w.other_of) AS varied
        FROM blocks b JOIN whole w USING (kind, what)
    ), clustered AS (
        SELECT kind, what, count, "of", other, other_of,
            CASE WHEN count + other = 0 OR "of" <= 0 OR other_of <= 0 THEN 1 WHEN bool_or(is_all) THEN CAST('inf' AS DOUBLE)
                ELSE greatest(1, sum(varied ** 2) / (count / "of" ** 2 + other / other_of ** 2)) END AS clustering
        FROM without GROUP BY kind, what, count, "of", other, other_of
    ), costs AS (
        SELECT kind, what, sum(lost) AS lost, sum(other_lost) AS other_lost, any_value(title) AS title FROM sides GROUP BY ALL
    )
    SELECT kind, clustering, what, CAST(count AS BIGINT), "of", CAST(other AS BIGINT), other_of, lost, other_lost, title
    FROM clustered JOIN costs USING (kind, what)
    WHERE kind <> 'size' OR ("of" > 0 AND other_of > 0)
    ORDER BY try_cast(split_part(what, '-', 1) AS INTEGER), what
"""
"""The rates of both sides, and how much more their difference varies than single events would let it: its jackknife variance, a block left
out at a time, by that of Poisson. A size is compared where both sides have it."""


def compare(names: tuple[str, str], answers: tuple[Answers, Answers], sides: tuple[Any, Any]) -> Difference:
    """What changed from the first answers to the second, whose tables the connections of `sides` have."""
    named, block = _blocks(sides)
    for side in sides:
        side.execute(_RATES.format(block=block))
    sides[0].register("others", sides[1].table("rates").to_arrow_table())
    found = changes(sides[0])
    [whole] = found["all"]
    was, now = ({one.node for one in side.nodes.suspects} for side in answers)
    untested, untested_before = (
        these - {node for (node,) in side.execute("SELECT called FROM tested").fetchall()}
        for these, side in ((was - now, sides[1]), (now - was, sides[0]))
    )
    before, after = (_side(name, side) for name, side in zip(names, answers, strict=True))
    return Difference(
        before,
        after,
        all=whole,
        causes=tuple(
            sorted(found["cause"], key=lambda one: (one.trend == "chance", -abs(one.rates[1] - one.rates[0]), one.what))
        ),
        sizes=tuple(found["size"]),
        nodes_new=tuple(sorted(now - was - untested_before)),
        nodes_gone=tuple(sorted(was - now - untested)),
        nodes_still=tuple(sorted(was & now)),
        test=_TEST.format(block=named),
        nodes_not_tested=(tuple(sorted(untested)), tuple(sorted(untested_before))),
        same_rules=answers[0].rules == answers[1].rules,
    )


def _blocks(sides: tuple[Any, Any]) -> tuple[str, str]:
    """What the jobs of a block have in common: the first of the levels with enough blocks."""
    for level in _LEVELS:
        sql = f"SELECT count(DISTINCT hash({level[1]})) FROM jobs"
        if max(side.execute(sql).fetchone()[0] for side in sides) >= _FEWEST:
            break
    return level


def changes(connection: Any) -> dict[str, list[Change]]:
    """The changes of `all`, each `cause` and each `size`, of the tables `rates` and `others`: judged, with the correction for their table."""
    tables: dict[str, list[Change]] = {"all": [], "cause": [], "size": []}
    for kind, clustering, what, before, before_of, after, after_of, *costs in connection.execute(_CHANGES).fetchall():
        chance = rates_differ(before, before_of, after, after_of, clustering)
        tables[kind].append(Change(what, before, before_of, after, after_of, chance, "chance", *costs))
    return {kind: _judged(table) for kind, table in tables.items()}


def _side(name: str, of: Answers) -> Side:
    return Side(name, of.jobs, of.read, of.failed, of.gpu_hours, of.gpu_hours_lost, of.with_hours, of.unknown.jobs, of.repeated_jobs)  # fmt: skip


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
