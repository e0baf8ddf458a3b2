"""How long jobs run until one fails, how long they run on after the first error, and which die of the same cause again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from slurmdoctor.survey.answers import Delays, Repeat, SizeClass
from slurmdoctor.survey.questions.statistics import poisson_interval
from slurmdoctor.survey.questions.table import Kinds, listed

_CLASSES: tuple[tuple[int, int | None], ...] = ((1, 1), (2, 8), (9, 32), (33, 128), (129, 512), (513, None))
"""GPUs: the smallest and the largest of a class."""
_REPEATS, _WORST, _IDS = 50, 10, 10
"""How many are listed: jobs that die again, jobs that ran on longest, ids of one job."""


def sizes(connection: Any, kinds: Kinds) -> tuple[tuple[SizeClass, ...], int]:
    """The classes that have jobs, and how many jobs are in none."""
    rows = connection.execute(f"""
        SELECT smallest, count(*), coalesce(sum(elapsed_s), 0) / 3600,
            count(*) FILTER (WHERE fails), count(*) FILTER (WHERE fails AND cause IN {listed(kinds.machine)})
        FROM ({classed(kinds)}) GROUP BY smallest ORDER BY smallest
    """).fetchall()
    found, largest_of = [], dict(_CLASSES)
    for smallest, jobs, hours, failures, machine in rows:
        if smallest is not None:
            largest, (mean, low, high) = largest_of[smallest], mttf(failures, hours)
            one = SizeClass(smallest, largest, jobs, failures, hours, mean, low, high, machine)
            mean, low, high = mttf(machine, hours)
            found.append(replace(one, machine_mttf=mean, machine_low=low, machine_high=high))
    return tuple(found), sum(row[1] for row in rows if row[0] is None)


def classed(kinds: Kinds) -> str:
    """The query of all jobs, each with the smallest size of its class, if it has one, and whether it fails of itself."""
    place = " ".join(f"WHEN gpus <= {most} THEN {least}" for least, most in _CLASSES if most)
    return f"""
        SELECT *, outcome = 'failed' AND NOT coalesce(cause IN {listed(kinds.ended)}, false) AS fails,
            CASE WHEN NOT coalesce(gpus > 0 AND elapsed_s >= 0, false) THEN NULL {place} ELSE {_CLASSES[-1][0]} END AS smallest
        FROM jobs
    """


def mttf(failures: int, hours: float) -> tuple[float | None, float, float | None]:
    """Hours a failure, and the exact 95 % interval; without a failure it has a lower end only."""
    low, high = poisson_interval(failures)
    return (hours / failures if failures else None), hours / high, (hours / low if low else None)


def delays(connection: Any, kinds: Kinds) -> Delays:
    """From the first error to the end, of the jobs that an error ended."""
    errors = f"outcome = 'failed' AND NOT coalesce(cause IN {listed(kinds.ended)}, false)"
    of, jobs, median, late, hours, known = connection.execute(f"""
        SELECT count(*), count(ran_on_s), quantile_cont(ran_on_s, 0.5), quantile_cont(ran_on_s, 0.9),
            coalesce(sum(ran_on_s * gpus) / 3600, 0), count(ran_on_s * gpus)
        FROM jobs WHERE {errors}
    """).fetchone()
    worst = connection.execute(f"""
        SELECT coalesce(job_id, key), ran_on_s, ran_on_s * gpus / 3600 AS hours FROM jobs
        WHERE {errors} AND ran_on_s * gpus > 0 ORDER BY hours DESC, key LIMIT {_WORST}
    """).fetchall()
    return Delays(jobs, of, median, late, hours, known, tuple(worst))


def repeats(connection: Any, kinds: Kinds) -> tuple[tuple[Repeat, ...], int, int, float | None]:
    """Jobs that died of one cause run after run, the most costly first: those listed, how many in all, their runs, their GPU hours.

    A run dies again where it began after the first one of the row had ended, and is no other task of the same array. The tasks of
    a later array are one run. Runs of the same second are in the order of their ids.
    """
    found = connection.execute(f"""
        WITH runs AS (
            SELECT cluster, "user", job_name, cause, key, job_id, started, ended, gpu_hours_lost AS lost,
                outcome = 'failed' AND cause IS NOT NULL AND cause NOT IN {listed(kinds.ended)} AS died,
                CASE WHEN job_id SIMILAR TO '[0-9]+_.*' THEN split_part(job_id, '_', 1) END AS array_id,
                row_number() OVER (PARTITION BY cluster, "user", job_name ORDER BY started, job_id, ended, key) AS place
            FROM jobs WHERE job_name IS NOT NULL AND started IS NOT NULL AND ended IS NOT NULL
        ), rows_ AS (
            SELECT *, place - row_number() OVER (PARTITION BY cluster, "user", job_name, cause ORDER BY place) AS island
            FROM runs WHERE died
        ), marked AS (
            SELECT *, min(ended) OVER (PARTITION BY cluster, "user", job_name, cause, island ORDER BY place
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= started
                    AND NOT coalesce(array_id = first_value(array_id) OVER so_far AND job_id <> first_value(job_id) OVER so_far, false)
                    AS again,
                row_number() OVER (PARTITION BY cluster, "user", job_name, cause, island ORDER BY place) = 1 AS leads FROM rows_
            WINDOW so_far AS (PARTITION BY cluster, "user", job_name, cause, island ORDER BY place
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
        ), chains AS (
            SELECT "user", job_name, cause, 1 + count(DISTINCT coalesce(array_id, key)) FILTER (WHERE again) AS times, min(ended) AS first,
                max(ended) FILTER (WHERE again) AS last, sum(lost) FILTER (WHERE again) AS lost,
                list(coalesce(job_id, key) ORDER BY place) FILTER (WHERE again OR leads)[:{_IDS}] AS ids
            FROM marked GROUP BY cluster, "user", job_name, cause, island HAVING times > 1
        )
        SELECT *, count(*) OVER (), sum(times - 1) OVER (), sum(lost) OVER ()
        FROM chains ORDER BY lost DESC NULLS LAST, times DESC, "user", job_name, cause, first LIMIT {_REPEATS}
    """).fetchall()
    shown = tuple(
        Repeat(user, name, cause, times, first, last, lost, tuple(ids))
        for user, name, cause, times, first, last, lost, ids, *_ in found
    )
    return (shown, int(found[0][8]), int(found[0][9]), found[0][10]) if found else ((), 0, 0, 0.0)
