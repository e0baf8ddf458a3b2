"""Nodes on which more jobs fail than chance explains."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import fold_nodes
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
_PART = "coalesce(cluster, '') || '/' || coalesce(partition, '')"
_ADDRESS = re.compile(r"[0-9.]+|[^:\n]*:.*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
"""What sbatch takes for a node; an address or a line of a log is none."""
_MOST_BLAMED = 4
"""More nodes than these are the whole job rather than the ones at fault."""
_BATCH = 10_000


class Exposure(Struct, frozen=True):
    """How much jobs of one partition used a node."""

    partition: str
    node: str
    hours: float
    starts: int
    """Jobs that ran on it, those of one user, name, day and the same nodes counted once."""
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
    valid = [name for one in found if _NAME.fullmatch(name := called.get(one.node, one.node))]
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
        exclude=f"#SBATCH --exclude={fold_nodes(sorted(valid))}" if valid else None,
        not_names=len(named) - len(valid),
    )


def tested(connection: Any, kinds: Kinds) -> set[str]:
    """The nodes that the test is of, in short."""
    exposures, _, _ = _exposures(connection)
    return set(_used(exposures, Counter(one.partition for one in once(_events(connection, kinds)[0]))))


def _exposures(connection: Any) -> tuple[list[Exposure], dict[str, str], int]:
    """What each node was used for, what Slurm calls it, and how many jobs tell nothing of their nodes or hours."""
    rows = connection.execute(f"""
        WITH works AS (
            SELECT {_PART} AS part, nodes, sum(elapsed_s) / 3600 AS hours, count(*) AS jobs
            FROM jobs WHERE elapsed_s >= 0 GROUP BY part, nodes, "user", name, day
        ), used AS (SELECT part, unnest(nodes) AS node, hours, jobs FROM works)
        SELECT part, node, sum(hours), count(*), CAST(sum(jobs) AS BIGINT) FROM used GROUP BY part, node ORDER BY part, node
    """).fetchall()
    out = connection.execute(
        "SELECT count(*) FROM jobs WHERE NOT coalesce(elapsed_s >= 0 AND len(nodes) > 0, false)"
    ).fetchone()[0]
    exposures: dict[tuple[str, str], Exposure] = {}
    called: dict[str, str] = {}
    for part, full, hours, starts, jobs in rows:
        node = short_name(full)
        called.setdefault(node, full)
        use = exposures.get((part, node), Exposure(part, node, 0.0, 0, 0))
        exposures[part, node] = Exposure(part, node, use.hours + hours, use.starts + starts, use.jobs + jobs)
    return list(exposures.values()), called, out


def _events(connection: Any, kinds: Kinds) -> tuple[list[Event], int, int]:
    """The failures with a node; how many there are without one, and how many that no node brings about."""
    programs = connection.execute(
        f"SELECT count(*) FROM jobs WHERE outcome = 'failed' AND NOT coalesce(cause IN {listed(kinds.machine)}, false)"
    ).fetchone()[0]
    connection.execute(f"""
        SELECT {_PART}, coalesce("user", ''), cause, name, coalesce(CAST(day AS VARCHAR), ''),
            node, exclude_nodes, CASE WHEN node IS NULL OR NOT list_contains(nodes, node) THEN nodes ELSE [node] END,
            coalesce(elapsed_s >= 0, false)
        FROM jobs WHERE outcome = 'failed' AND cause IN {listed(kinds.machine)} ORDER BY moment, key
    """)
    events, without = [], 0
    while rows := connection.fetchmany(_BATCH):
        for part, user, cause, name, day, node, excluded, own, counted in rows:
            blamed = _blamed(node, excluded or (), own or ()) if counted else []
            without += not blamed
            events += [Event(part, one, user, cause, cause in kinds.certain, name, day) for one in blamed]
    return events, without, programs


def _blamed(node: str | None, excluded: Sequence[str], own: Sequence[str]) -> list[str]:
    """The nodes of the job that a failure speaks against: where it was first, else those to leave out, else the only one."""
    told = (
        [node] if node is not None else excluded if 1 <= len(excluded) <= _MOST_BLAMED else own if len(own) == 1 else ()
    )
    return sorted({short_name(one) for one in told} & {short_name(one) for one in own})


@lru_cache(maxsize=100_000)
def short_name(node: str) -> str:
    """A node as records and logs both call it: without its domain. An address has none."""
    return (node if _ADDRESS.fullmatch(node) else node.partition(".")[0]).lower()


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
    for use in exposures:
        hours[use.partition] = hours.get(use.partition, 0.0) + use.hours
        starts[use.partition] += use.starts
    on = _used(exposures, failures)
    against: dict[str, list[Event]] = {}
    for one in events:
        if any(use.partition == one.partition for use in on.get(one.node, ())):
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


def _used(exposures: Sequence[Exposure], failures: Mapping[str, int]) -> dict[str, list[Exposure]]:
    """The nodes that can be tested, with their uses: those of partitions with failures and with other nodes."""
    sizes = Counter(use.partition for use in exposures)
    on: dict[str, list[Exposure]] = {}
    for use in exposures:
        if failures.get(use.partition) and sizes[use.partition] > 1:
            on.setdefault(use.node, []).append(use)
    return on


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
