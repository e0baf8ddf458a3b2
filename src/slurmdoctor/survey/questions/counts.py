"""Counts of jobs and GPU hours: in all, by cause, partition, user, and over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from itertools import chain
from typing import Any

from msgspec.structs import replace

from slurmdoctor.survey.answers import Cost, Period, Unknown
from slurmdoctor.survey.questions.table import Kinds, listed
from slurmdoctor.survey.unknown import kinds_of

UNKNOWN = "unknown"
"""What is called so where a job has none: a cause, a partition, a user."""
MOST = 200
"""Partitions and users that are listed."""
_KINDS = 50
"""Kinds of last lines that are listed."""
_BATCH = 10_000
_COLUMNS = 36
"""Periods that a report has room for."""
_COST = """
    count(*) FILTER (WHERE outcome = 'failed'), count(DISTINCT "user") FILTER (WHERE outcome = 'failed'),
    coalesce(sum(gpu_hours_lost) FILTER (WHERE outcome = 'failed'), 0),
    count(gpu_hours_lost) FILTER (WHERE outcome = 'failed')
"""


def headline(connection: Any) -> dict[str, Any]:
    """The counts of all rows, by the names of `Answers`."""
    names = {
        "jobs": "count(*)",
        "read": "count(*) FILTER (WHERE read = 'yes')",
        **{name: f"count(*) FILTER (WHERE outcome = '{name}')" for name in ("failed", "healthy", "undecided")},
        "errors": "count(*) FILTER (WHERE outcome = 'error')",
        "not_asked": "count(*) FILTER (WHERE outcome = 'not-asked')",
        "no_log": "count(*) FILTER (WHERE read = 'no-log')",
        "completed_but_failed": "count(*) FILTER (WHERE outcome = 'failed' AND state = 'COMPLETED')",
        "undated": "count(*) FILTER (WHERE moment IS NULL)",
        "first": "min(moment)",
        "last": "max(moment)",
        "gpu_hours": "coalesce(sum(gpu_hours), 0)",
        "with_hours": "count(gpu_hours)",
        "gpu_hours_lost": "coalesce(sum(gpu_hours_lost) FILTER (WHERE outcome = 'failed'), 0)",
        "failed_with_hours": "count(gpu_hours_lost) FILTER (WHERE outcome = 'failed')",
        "partitions_in_all": f"count(DISTINCT coalesce(partition, '{UNKNOWN}'))",
        "users_in_all": f"count(DISTINCT coalesce(\"user\", '{UNKNOWN}'))",
        "rules_versions": "count(DISTINCT rules_version)",
    }
    row = connection.execute(f"SELECT {', '.join(names.values())} FROM jobs").fetchone()
    found = dict(zip(names, row, strict=True))
    how = "SELECT lost_counted, count(*) FROM jobs WHERE outcome = 'failed' AND gpu_hours_lost IS NOT NULL GROUP BY ALL ORDER BY ALL"
    found["lost_counted"] = tuple((name or UNKNOWN, count) for name, count in connection.execute(how).fetchall())
    undated = connection.execute("SELECT count(*) FROM at_any_time WHERE moment IS NULL").fetchone()[0]
    found["undated_left_out"] = undated - found["undated"]
    clusters = connection.execute("SELECT DISTINCT cluster FROM jobs WHERE cluster IS NOT NULL ORDER BY 1").fetchall()
    rules = "SELECT DISTINCT rules_version FROM jobs WHERE rules_version IS NOT NULL ORDER BY 1 LIMIT 10"
    found["rules"] = tuple(name for (name,) in connection.execute(rules).fetchall())
    return {**found, "clusters": tuple(name for (name,) in clusters)}


def causes(connection: Any, failed: int, titles: Mapping[str, str]) -> tuple[Cost, ...]:
    """The failures by cause, the most costly first."""
    rows = connection.execute(f"""
        SELECT coalesce(cause, '{UNKNOWN}') AS what, any_value(title), {_COST}
        FROM jobs WHERE outcome = 'failed' GROUP BY what
    """).fetchall()
    return _sorted(
        Cost(what, jobs, failed, users, lost, known, title=titles.get(what, title))
        for what, title, jobs, users, lost, known in rows
    )


def by(column: str, connection: Any) -> tuple[Cost, ...]:
    """What the failures of each partition or user cost, of all its jobs."""
    rows = connection.execute(f"""
        SELECT coalesce("{column}", '{UNKNOWN}') AS what, count(*), coalesce(sum(gpu_hours), 0), {_COST}
        FROM jobs GROUP BY what
    """).fetchall()
    return _sorted(
        Cost(what, jobs, of, users, lost, known, gpu_hours=hours) for what, of, hours, jobs, users, lost, known in rows
    )[:MOST]


def by_cause_and_partition(connection: Any) -> list[tuple[dict[str, str], Cost]]:
    """The costs of failures by cluster, partition and cause: a label each."""
    rows = connection.execute(f"""
        SELECT coalesce(cluster, ''), coalesce(partition, '{UNKNOWN}'), coalesce(cause, '{UNKNOWN}') AS what, {_COST}
        FROM jobs WHERE outcome = 'failed' GROUP BY ALL ORDER BY ALL
    """).fetchall()
    return [
        (
            {"cluster": cluster, "partition": partition, "cause": what},
            Cost(what, jobs, jobs, users, lost, known),
        )
        for cluster, partition, what, jobs, users, lost, known in rows
    ]


def _sorted(costs: Any) -> tuple[Cost, ...]:
    return tuple(sorted(costs, key=lambda cost: (-cost.gpu_hours_lost, -cost.jobs, -cost.of, cost.what)))


def periods(connection: Any, titles: Mapping[str, str]) -> tuple[str, tuple[Period, ...]]:
    """Days, weeks or months, whichever are few; of too many those with the most jobs."""
    early, late = connection.execute("SELECT quantile_disc(day, 0.005), quantile_disc(day, 0.995) FROM jobs").fetchone()
    if early is None:
        return "day", ()
    days = (late - early).days
    unit = "day" if days <= 30 else "week" if days <= 30 * 7 else "month"
    rows = connection.execute(f"""
        SELECT CAST(date_trunc('{unit}', day) AS DATE) AS begins, coalesce(cause, '{UNKNOWN}') AS what, outcome = 'failed',
            any_value(title), count(*), count(DISTINCT "user"), coalesce(sum(gpu_hours_lost), 0), count(gpu_hours_lost)
        FROM jobs WHERE day IS NOT NULL GROUP BY ALL
    """).fetchall()
    jobs: dict[date, int] = {}
    costs: dict[date, list[Cost]] = {}
    for begins, what, failed, title, count, users, lost, known in rows:
        jobs[begins] = jobs.get(begins, 0) + count
        if failed:
            cost = Cost(what, count, 0, users, lost, known, title=titles.get(what, title))
            costs.setdefault(begins, []).append(cost)
    kept = sorted(sorted(jobs, key=lambda begins: -jobs[begins])[:_COLUMNS])
    if len(all_ := _all_between(kept[0], kept[-1], unit)) <= _COLUMNS:
        kept = all_
    found = []
    for begins in kept:
        of = sum(cost.jobs for cost in costs.get(begins, ()))
        own = [replace(cost, of=of) for cost in costs.get(begins, ())]
        found.append(Period(begins, jobs.get(begins, 0), _sorted(own)))
    return unit, tuple(found)


def _all_between(first: date, last: date, unit: str) -> list[date]:
    """Also the periods in which no job ended; not more than a report has room for, and one."""
    found = [first]
    while found[-1] < last and len(found) <= _COLUMNS:
        step = {"day": 1, "week": 7, "month": 32}[unit]
        following = found[-1] + timedelta(days=step)
        found.append(following.replace(day=1) if unit == "month" else following)
    return found


def unknown(connection: Any, kinds: Kinds, failed: int) -> Unknown:
    """Failed jobs whose cause is not known, and what kinds of last lines they have."""
    such = f"FROM jobs WHERE outcome = 'failed' AND (cause IS NULL OR cause IN {listed(kinds.vague)})"
    jobs, with_line = connection.execute(f"SELECT count(*), count(last_line) {such}").fetchone()
    connection.execute(f'SELECT last_line, "user", gpu_hours_lost {such} AND last_line IS NOT NULL')
    batches = iter(lambda: connection.fetchmany(_BATCH), [])
    kinds_ = kinds_of(chain.from_iterable(batches), _KINDS)
    generic = f"SELECT cause, count(*) {such} AND cause IS NOT NULL GROUP BY cause ORDER BY 2 DESC, 1"
    return Unknown(jobs, failed, with_line, kinds_, tuple(connection.execute(generic).fetchall()))
