"""Nodes on which more jobs fail than chance explains."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model.ranges import fold_nodes
from slurmdoctor.survey.answers import Nodes, Suspect
from slurmdoctor.survey.questions.statistics import ALPHA, binomial_tail, holm
from slurmdoctor.survey.questions.table import Kinds, listed

_FEWEST = 2
"""Failures without which no node is suspected."""
_TEST = (
    "A node is named if it has more failures than chance explains: exact binomial test, one-sided, against the nodes of its "
    "partition. The expected number is the node's share of node hours or of started jobs, whichever is larger. Holm's "
    "correction for {tested:,} nodes keeps the chance of any false name below 5 %. Only failures that a node, a link or storage "
    "can bring about count: each user once per node, because the user's program may be the reason; hardware faults once per user, job "
    "name, cause and day."
)
_SHORT = "lower(CASE WHEN regexp_full_match({0}, '[0-9.:]+') THEN {0} ELSE split_part({0}, '.', 1) END)"
"""A node as records and logs both call it: without its domain."""


class Exposure(Struct, frozen=True):
    """How much jobs of one partition used a node."""

    partition: str
    node: str
    hours: float
    starts: int
    """Jobs that ran on it, those of one user, name and day counted once."""
    jobs: int


class Event(Struct, frozen=True):
    """A failure that speaks against a node."""

    partition: str
    node: str
    user: str
    cause: str
    certain: bool
    """Nothing but the node brings it about."""
    name: str = ""
    day: str = ""


def nodes(connection: Any, kinds: Kinds) -> Nodes:
    """The test over all chosen jobs."""
    exposures, called, left_out = _exposures(connection)
    events, without, programs = _events(connection, kinds)
    kept = once(events)
    healthy = connection.execute("SELECT 1 FROM jobs WHERE outcome IN ('healthy', 'not-asked') LIMIT 1").fetchone()
    tested, found = suspects(exposures, kept)
    named = tuple(replace(one, node=called.get(one.node, one.node)) for one in found)
    return Nodes(
        tested=tested,
        failures=len(kept),
        hours=sum(one.hours for one in exposures),
        test=_TEST.format(tested=tested),
        of_programs=programs,
        without_node=without,
        counted_already=len(events) - len(kept),
        jobs_left_out=left_out,
        failed_only=healthy is None,
        suspects=named,
        exclude=f"#SBATCH --exclude={fold_nodes(sorted(one.node for one in named))}" if named else None,
    )


def _exposures(connection: Any) -> tuple[list[Exposure], dict[str, str], int]:
    """What each node was used for, what Slurm calls it, and how many jobs tell nothing of their nodes or hours."""
    rows = connection.execute(f"""
        WITH placed AS (
            SELECT coalesce(cluster, '') || '/' || coalesce(partition, '') AS part, unnest(list_distinct(nodes)) AS full_name,
                elapsed_s / 3600 AS hours, hash("user", name, day) AS work FROM jobs WHERE elapsed_s >= 0
        )
        SELECT part, {_SHORT.format("full_name")} AS node, min(full_name), sum(hours), count(DISTINCT work), count(*)
        FROM placed GROUP BY part, node ORDER BY part, node
    """).fetchall()
    out = connection.execute(
        "SELECT count(*) FROM jobs WHERE NOT coalesce(elapsed_s >= 0 AND len(nodes) > 0, false)"
    ).fetchone()[0]
    exposures = [Exposure(part, node, hours, starts, jobs) for part, node, _, hours, starts, jobs in rows]
    return exposures, {node: full for _, node, full, *_ in rows}, out


def _events(connection: Any, kinds: Kinds) -> tuple[list[Event], int, int]:
    """The failures with a node; how many there are without one, and how many that no node brings about."""
    short = _SHORT.format("x")
    rows = connection.execute(f"""
        WITH failures AS (
            SELECT *, [{short} FOR x IN nodes] AS own,
                [{short} FOR x IN CASE WHEN node IS NOT NULL THEN [node] WHEN len(exclude_nodes) BETWEEN 1 AND 4 THEN exclude_nodes
                    WHEN len(nodes) = 1 THEN nodes ELSE [] END] AS blamed
            FROM jobs WHERE outcome = 'failed' AND cause IN {listed(kinds.machine)}
        )
        SELECT coalesce(cluster, '') || '/' || coalesce(partition, ''),
            list_sort(list_distinct([x FOR x IN blamed IF list_contains(own, x) AND elapsed_s >= 0])),
            coalesce("user", ''), cause, name, coalesce(CAST(day AS VARCHAR), '') FROM failures ORDER BY ALL
    """).fetchall()
    programs = connection.execute(
        f"SELECT count(*) FROM jobs WHERE outcome = 'failed' AND NOT coalesce(cause IN {listed(kinds.machine)}, false)"
    ).fetchone()[0]
    events = [
        Event(part, node, user, cause, cause in kinds.certain, name, day)
        for part, blamed, user, cause, name, day in rows
        for node in blamed or ()
    ]
    return events, sum(not row[1] for row in rows), programs


def once(events: Iterable[Event]) -> list[Event]:
    """The failures that count: a program that fails again on the node that its user likes speaks against the node once."""
    kept: dict[tuple[object, ...], Event] = {}
    for one in events:
        again = (one.name, one.cause, one.day) if one.certain else ()
        kept.setdefault((one.partition, one.node, one.user, one.certain, *again), one)
    return list(kept.values())


def suspects(exposures: Sequence[Exposure], events: Sequence[Event]) -> tuple[int, list[Suspect]]:
    """How many nodes were tested, and those that did not pass.

    A node of several partitions is expected to have the sum of what it is expected in each. That sum of binomials has a lighter
    tail than one binomial of the same mean (Hoeffding 1956), which is what is computed.
    """
    failures = Counter(one.partition for one in events)
    hours: dict[str, float] = {}
    starts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for use in exposures:
        hours[use.partition] = hours.get(use.partition, 0.0) + use.hours
        starts[use.partition] += use.starts
        sizes[use.partition] += 1
    on: dict[str, list[Exposure]] = {}
    for use in exposures:
        if failures[use.partition] and sizes[use.partition] > 1:
            on.setdefault(use.node, []).append(use)
    against: dict[str, list[Event]] = {}
    for one in events:
        if sizes[one.partition] > 1:
            against.setdefault(one.node, []).append(one)
    names = sorted(on)
    expected = {
        node: sum(
            failures[u.partition] * max(u.hours / (hours[u.partition] or 1), u.starts / starts[u.partition])
            for u in on[node]
        )
        for node in names
    }
    chances = []
    for node in names:
        trials = sum(failures[use.partition] for use in on[node])
        chances.append(binomial_tail(len(against.get(node, ())), trials, min(1.0, expected[node] / trials)))
    found = [
        _suspect(node, against[node], on[node], expected[node], chance)
        for node, chance in zip(names, holm(chances), strict=True)
        if chance <= ALPHA and len(against.get(node, ())) >= _FEWEST
    ]
    return len(names), sorted(found, key=lambda one: (one.chance, -one.failures, one.node))


def _suspect(node: str, events: Sequence[Event], used: Sequence[Exposure], expected: float, chance: float) -> Suspect:
    causes = Counter(one.cause for one in events)
    return Suspect(
        node=node,
        failures=len(events),
        certain=sum(one.certain for one in events),
        expected=expected,
        jobs=sum(use.jobs for use in used),
        hours=sum(use.hours for use in used),
        users=len({one.user for one in events}),
        causes=tuple(sorted(causes.items(), key=lambda item: (-item[1], item[0]))),
        chance=chance,
    )
