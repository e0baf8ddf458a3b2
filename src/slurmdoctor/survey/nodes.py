"""Nodes on which more jobs fail than chance explains."""

from __future__ import annotations

import re
from typing import Any

from slurmdoctor.model import fold_nodes
from slurmdoctor.survey.answers import Nodes, Suspect
from slurmdoctor.survey.statistics import ALPHA, binomial_tail, holm

_FEWEST = 2
"""Failures without which no node is suspected."""
_MOST_BLAMED = 4
"""More nodes than these are the whole job rather than the ones at fault."""
_TEST = (
    "A node is named if it has more failures than chance explains: exact binomial test, one-sided, against the nodes of its "
    "partition. The expected number is the node's share of node hours or of started jobs, whichever is larger. Holm's "
    "correction for {tested:,} nodes keeps the chance of any false name below 5 %. Only failures that a node, a link or storage "
    "can bring about count: each user once per node, because the user's program may be the reason; hardware faults once per user, job "
    "name, cause and day."
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
"""What sbatch takes for a node; an address or a line of a log is none."""
_TABLES = f"""
    -- a node as records and logs both call it: without its domain, which an address does not have
    CREATE MACRO short_name(node) AS lower(if(regexp_full_match(node, '[0-9.]+|[^:\\n]*:.*'), node, split_part(node, '.', 1)));

    -- how much the jobs of a partition used a node; jobs of one user, name, day and the same nodes are one start
    CREATE TABLE uses AS
        WITH works AS (
            SELECT concat(cluster, '/', partition) AS part, nodes, sum(elapsed_s) / 3600 AS hours, count(*) AS jobs
            FROM jobs WHERE elapsed_s >= 0 GROUP BY part, nodes, "user", name, day
        ), used AS (SELECT part, unnest(nodes) AS called, hours, jobs FROM works)
        SELECT part, short_name(called) AS node, min(called) AS called, sum(hours) AS hours, count(*) AS starts, sum(jobs) AS jobs
        FROM used GROUP BY part, node;

    -- the nodes that a failure speaks against: where it was first, else those to leave out, else the job's only one
    CREATE TABLE blamed AS
        SELECT concat(cluster, '/', partition) AS part, coalesce("user", '') AS "user", cause, certain, name,
            coalesce(CAST(day AS VARCHAR), '') AS day, row_number() OVER (ORDER BY moment, key) AS place,
            list_intersect(list_transform(nodes, lambda one: short_name(one)), list_transform(
                CASE WHEN NOT coalesce(elapsed_s >= 0, false) THEN [] WHEN node IS NOT NULL THEN [node]
                    WHEN len(exclude_nodes) BETWEEN 1 AND {_MOST_BLAMED} THEN exclude_nodes WHEN len(nodes) = 1 THEN nodes ELSE [] END,
                lambda one: short_name(one))) AS blamed
        FROM jobs WHERE outcome = 'failed' AND machine;
    CREATE VIEW accusations AS SELECT part, unnest(blamed) AS node, "user", cause, certain, name, day, place FROM blamed;
"""
_ONCE = """
    -- a program that fails again on the node that its user likes speaks against the node once
    CREATE TABLE events AS
        SELECT DISTINCT ON (part, node, "user", certain, if(certain, [name, cause, day], [])) * FROM accusations ORDER BY place
"""
_TESTED = """
    CREATE TABLE tested AS
        WITH parts AS (
            SELECT part, any_value(failures) AS failures, sum(hours) AS hours, sum(starts) AS starts
            FROM uses JOIN (SELECT part, count(*) AS failures FROM events GROUP BY part) USING (part) GROUP BY part HAVING count(*) > 1
        ), used AS (
            SELECT u.*, failures, failures * greatest(coalesce(u.hours / nullif(p.hours, 0), 0), u.starts / p.starts) AS expected
            FROM uses u JOIN parts p USING (part)
        ), against AS (
            SELECT node, count(*) AS failures, count(*) FILTER (WHERE certain) AS certain, count(DISTINCT "user") AS users,
                histogram(cause) AS causes
            FROM events SEMI JOIN used USING (part, node) GROUP BY node
        )
        SELECT node, min(u.called) AS called, coalesce(any_value(a.failures), 0) AS failures, coalesce(any_value(certain), 0) AS certain,
            sum(expected) AS expected, CAST(sum(jobs) AS BIGINT) AS jobs, sum(hours) AS hours, coalesce(any_value(users), 0) AS users,
            any_value(causes) AS causes, CAST(sum(u.failures) AS BIGINT) AS trials
        FROM used u LEFT JOIN against a USING (node) GROUP BY node
"""


def nodes(connection: Any) -> Nodes:
    """The test over all chosen jobs."""
    connection.execute(_TABLES)
    tested, found = suspects(connection)
    valid = [one.node for one in found if _NAME.fullmatch(one.node)]
    failures, accused, hours, without, programs, left_out, healthy = connection.execute("""
        SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM accusations), (SELECT coalesce(sum(hours), 0) FROM uses),
            (SELECT count(*) FROM blamed WHERE len(blamed) = 0), count(*) FILTER (WHERE outcome = 'failed' AND NOT machine),
            count(*) FILTER (WHERE NOT coalesce(elapsed_s >= 0 AND len(nodes) > 0, false)),
            count(*) FILTER (WHERE outcome IN ('healthy', 'not-asked'))
        FROM jobs
    """).fetchone()
    return Nodes(
        tested=tested,
        failures=failures,
        hours=hours,
        test=_TEST.format(tested=tested),
        of_programs=programs,
        without_node=without,
        counted_already=accused - failures,
        jobs_left_out=left_out,
        failed_only=not healthy,
        suspects=tuple(found),
        exclude=f"#SBATCH --exclude={fold_nodes(sorted(valid))}" if valid else None,
        not_names=len(found) - len(valid),
    )


def suspects(connection: Any) -> tuple[int, list[Suspect]]:
    """How many nodes were tested, and those that did not pass: of the tables `uses` and `accusations`.

    A node of several partitions is expected to have the sum of what it is expected in each. That sum of binomials has a lighter
    tail than one binomial of the same mean (Hoeffding 1956), which is what is computed.
    """
    connection.execute(_ONCE)
    connection.execute(_TESTED)
    rows = connection.execute("SELECT * EXCLUDE (node) FROM tested ORDER BY node").fetchall()
    chances = holm(
        [binomial_tail(failures, trials, min(1.0, expected / trials)) for _, failures, _, expected, *_, trials in rows]
    )
    found = []
    for (name, failures, certain, expected, jobs, hours, users, causes, _), chance in zip(rows, chances, strict=True):
        if chance <= ALPHA and failures >= _FEWEST:
            ordered = tuple(sorted(causes.items(), key=lambda item: (-item[1], item[0])))
            found.append(Suspect(name, failures, certain, expected, jobs, hours, users, ordered, chance))
    return len(rows), sorted(found, key=lambda one: (one.chance, -one.failures, one.node))
