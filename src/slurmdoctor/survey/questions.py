"""What a dataset answers: its files as one table `jobs` of DuckDB, and the questions to it in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyarrow as pa
from msgspec import convert
from msgspec.structs import asdict, replace

from slurmdoctor.model import Knowledge, UserError, fold_nodes
from slurmdoctor.report import one_line, plural
from slurmdoctor.survey.answers import Answers, Cost, Delays, Nodes, Period, Repeat, SizeClass, Suspect, Unknown
from slurmdoctor.survey.compare import Difference, compare
from slurmdoctor.survey.dataset import progress_of, schema
from slurmdoctor.survey.rows import ALL, SCHEMA_VERSION, Choice
from slurmdoctor.survey.sections import listed
from slurmdoctor.survey.statistics import ALPHA, binomial_tail, holm, poisson_interval
from slurmdoctor.survey.unknown import kinds_of

T = TypeVar("T")
_MEMORY = "1GB"
_SHARD = re.compile(r"shard-(\d+)-of-(\d+)")
_FEW = 8
"""Names that a line lists."""
_MUST = {"key", "verdict", "cause", "read"}
"""Columns without which a Parquet file is no survey's."""
_MOST, _KINDS, _COLUMNS, _REPEATS, _WORST, _IDS = 200, 50, 36, 50, 10, 10
"""How many are listed: partitions and users, kinds of last lines, periods, jobs that die again, that ran on longest, ids of one job."""
_LINES = 200_000
"""Last lines that are grouped: of more, that many of any text."""
_FEWEST = 2
"""Failures without which no node is suspected."""
_MOST_BLAMED = 4
"""More nodes than these are the whole job rather than the ones at fault."""
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
"""What sbatch takes for a node; an address or a line of a log is none."""
_TABLES = """
    CREATE VIEW at_any_time AS
        WITH known AS (
            SELECT r.* REPLACE (coalesce(k.title, r.title) AS title), coalesce(k.traits, []) AS traits,
                CASE WHEN read = 'error' THEN 'error' WHEN verdict = 'failed' THEN 'failed' WHEN read = 'not-asked' THEN 'not-asked'
                    WHEN verdict = 'no-failure' THEN 'healthy' ELSE 'undecided' END AS outcome,
                coalesce(ended, started, submitted) AS moment
            FROM raw r LEFT JOIN causes k ON r.cause = k.cause
        )
        SELECT *, outcome = 'failed' AS failed, CASE WHEN failed THEN gpu_hours_lost END AS lost,
            CAST(moment AS DATE) AS day,
            regexp_replace(coalesce(job_name, ''), '[0-9]+', '#', 'g') AS name,
            coalesce(cause, 'unknown') AS what,
            list_contains(traits, 'of-machine') AS machine, machine AND list_contains(traits, 'system') AS certain,
            -- by Slurm or a person
            list_contains(traits, 'scheduler') AS ended_by,
            cause IS NULL OR list_contains(traits, 'catch-all') AS vague,
            CASE WHEN NOT coalesce(gpus > 0 AND elapsed_s >= 0, false) THEN NULL WHEN gpus <= 1 THEN 1 WHEN gpus <= 8 THEN 2
                WHEN gpus <= 32 THEN 9 WHEN gpus <= 128 THEN 33 WHEN gpus <= 512 THEN 129 ELSE 513 END AS smallest,
            CASE smallest WHEN 1 THEN 1 WHEN 2 THEN 8 WHEN 9 THEN 32 WHEN 33 THEN 128 WHEN 129 THEN 512 END AS largest
        FROM known
        WHERE (len(getvariable('users')) = 0 OR list_contains(getvariable('users'), "user"))
            AND (len(getvariable('partitions')) = 0 OR list_contains(getvariable('partitions'), partition))
            AND (len(getvariable('clusters')) = 0 OR list_contains(getvariable('clusters'), cluster));

    CREATE VIEW jobs AS FROM at_any_time
        WHERE (getvariable('since') IS NULL OR moment >= CAST(getvariable('since') AS TIMESTAMP))
            AND (getvariable('until') IS NULL OR moment < CAST(getvariable('until') AS TIMESTAMP));
"""
"""The rows that are chosen, with what questions need: how each ended, when, and what kind of cause it is."""
_COSTS = """
    FROM (
        SELECT {keys}, any_value({title}) AS title, count(*) FILTER (WHERE failed) AS jobs, {whole} AS "of",
            count(DISTINCT "user") FILTER (WHERE failed) AS users, coalesce(sum(lost), 0) AS gpu_hours_lost, count(lost) AS with_hours,
            {hours} AS gpu_hours
        FROM {jobs} GROUP BY ALL
    ) ORDER BY if(getvariable('by_hours'), gpu_hours_lost, 0) DESC, jobs DESC, gpu_hours_lost DESC, "of" DESC, what
"""
_OF_FAILURES = _COSTS.replace("{title}", "title").replace("{hours}", "0")


def ask(folder: str, knowledge: Knowledge, choice: Choice = ALL) -> Answers:
    """What the chosen rows of a dataset say together. Raises a UserError where it cannot be read."""
    with opened(folder, knowledge, choice) as connection:
        found = _answers(connection, choice)
    return replace(found, lacks=tuple(unfinished(folder)))


def ask_both(
    folders: tuple[str, str], names: tuple[str, str], knowledge: Knowledge, choices: tuple[Choice, Choice]
) -> Difference:
    """What changed from the chosen rows of one dataset to those of another, or of the same one."""
    with opened(folders[0], knowledge, choices[0]) as one, opened(folders[1], knowledge, choices[1]) as other:
        before, after = _answers(one, choices[0]), _answers(other, choices[1])
        for name, side in zip(names, (before, after), strict=True):
            if not side.jobs:
                raise UserError(f"nothing to compare: no rows for {one_line(name)}", "choose other dates or filters")
        return compare(names, (before, after), (one, other))


def by_cause_and_partition(folder: str, choice: Choice = ALL) -> list[tuple[dict[str, str], Cost]]:
    """The costs of failures by cluster, partition and cause: a label each."""
    labels = "{'cluster': coalesce(cluster, ''), 'partition': coalesce(partition, 'unknown'), 'cause': what} AS labels"
    sql = _OF_FAILURES.format(keys=f"{labels}, what", whole="count(*)", jobs="jobs WHERE failed")
    with opened(folder, None, choice) as connection:
        found = _dicts(connection, f"FROM ({sql}) ORDER BY labels")
    return [(one["labels"], convert(one, Cost)) for one in found]


def _dicts(connection: Any, sql: str) -> list[dict[str, Any]]:
    cursor = connection.execute(sql)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _structs(connection: Any, kind: type[T], sql: str) -> tuple[T, ...]:
    """The rows of a query, whose columns are named as the fields of a struct."""
    return tuple(convert(row, kind) for row in _dicts(connection, sql))


# ── the table ──


@contextmanager
def opened(folder: str, knowledge: Knowledge | None = None, choice: Choice = ALL) -> Iterator[Any]:
    """A connection on which `jobs` are the chosen rows. Raises a UserError that says what is wrong."""
    import duckdb

    files, shown = _files(Path(folder)), one_line(folder)
    with TemporaryDirectory(prefix="slurmdoctor-") as spill:
        settings: Any = {
            "memory_limit": _MEMORY,
            "temp_directory": spill,
            "preserve_insertion_order": False,
            # nothing is to be fetched while a report is made
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            try:
                _open(connection, files, shown, knowledge, choice)
                yield connection
            except duckdb.OutOfMemoryException:
                raise UserError(f"{shown} has more rows than {_MEMORY} of memory and the disk hold", "choose a month with --since and --until") from None  # fmt: skip
            except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
                raise  # our own mistake
            except (duckdb.Error, UnicodeError) as error:
                raise UserError(_damage(error, files, shown), "wait if a survey is writing it; else run the survey again, which reads its jobs again") from None  # fmt: skip


def _shards(folder: Path) -> dict[Path, tuple[int, int]]:
    """The shards in a folder, each with its number and how many there should be."""
    return {one: (int(m[1]), int(m[2])) for one in sorted(folder.iterdir()) if (m := _SHARD.fullmatch(one.name))}


def _files(folder: Path) -> list[Path]:
    """The Parquet files of a dataset, or of all its shards."""
    shown = one_line(str(folder))
    run = "slurmdoctor survey PATH --out DIR makes one"
    if not folder.is_dir():
        raise UserError(f"{shown} is no folder" if folder.exists() else f"{shown} is not there", run)
    shards = _shards(folder)
    if len(sizes := sorted({of for _, of in shards.values()})) > 1:
        numbers = " and ".join(map(str, sizes))
        raise UserError(
            f"{shown} holds shards of {numbers}: jobs would count twice", "remove those of the older survey"
        )
    parts = [folder, *shards]
    files = sorted(file for part in parts for file in part.glob("jobs/month=*/jobs.parquet"))
    if not files and any((part / ".run").exists() for part in parts):
        raise UserError(f"{shown} has no rows yet: its survey still runs, was stopped, or found no job", "wait for its end, or run it again")  # fmt: skip
    if not files:
        raise UserError(f"{shown} is no dataset of a survey", run)
    return files


def unfinished(folder: str) -> list[str]:
    """What a dataset lacks, in words: shards that are not there, and rows that a run has not put into their month yet."""
    shards = _shards(Path(folder))
    there = set(shards.values())
    lacking = [f"{k}/{of}" for of in {of for _, of in there} for k in range(1, of + 1) if (k, of) not in there]
    notes = []
    if lacking:
        notes.append(f"{len(there):,} of {len(there) + len(lacking):,} shards are there; run those that are missing: {listed(lacking, _FEW)}")  # fmt: skip
    if alone := _SHARD.fullmatch(Path(folder).resolve().name):
        notes.append(f"this is shard {alone[1]} of {alone[2]} alone; name the folder above it for all")
    parts = (Path(folder), *shards)
    stopped = [run for part in parts if (run := progress_of(part / ".run")) and not run.finished]
    if stopped:
        so_far = "" if all(run.listed for run in stopped) else " found so far"
        done, of_jobs = sum(run.there for run in stopped), sum(run.found for run in stopped)
        notes.append(f"a run was stopped after {done:,} of {plural(of_jobs, 'job')}{so_far}, or is still at work: run it again; what is read first are the biggest logs, so the shares are not those of all jobs")  # fmt: skip
    if any(next((part / ".run/journal").glob("*.rows"), None) for part in parts):
        notes.append("the report is without the newest rows of a run that is at work or was stopped")
    return notes


def _open(connection: Any, files: Sequence[Path], shown: str, knowledge: Knowledge | None, choice: Choice) -> None:
    """Make the tables of the files' rows, and of what is known of causes."""
    # DuckDB takes names for patterns
    found = connection.read_parquet(
        [re.sub(r"([\[*?])", r"[\1]", str(file)) for file in files], union_by_name=True, hive_partitioning=False
    )
    if not set(found.columns) >= _MUST:
        raise UserError(f"{shown} holds Parquet files that no survey wrote", "name the folder that was given to --out")
    found.create_view("found")
    connection.register("columns_of_today", schema().empty_table())
    numbers = [field.name for field in schema() if field.type == pa.float64()]
    finite = ", ".join(f"CASE WHEN isfinite({name}) THEN {name} END AS {name}" for name in numbers)
    # what an older survey did not know is null
    connection.execute(f"CREATE VIEW raw AS SELECT * REPLACE ({finite}) FROM (FROM columns_of_today UNION ALL BY NAME FROM found)")  # fmt: skip
    [(newest, rows)] = connection.execute("SELECT max(schema_version), count(*) FROM raw").fetchall()
    if newest is not None and newest > SCHEMA_VERSION:
        raise UserError(f"{shown} was written by a newer slurmdoctor (schema {newest})", "install that version to read it")  # fmt: skip
    if not rows:
        raise UserError(f"{shown} has no rows", "run the survey again: it found no jobs")
    causes = [
        {"cause": name, "title": cause.title, "traits": sorted(cause.traits)}
        for name, cause in (knowledge.causes.items() if knowledge else ())
    ]
    kinds = pa.schema([("cause", pa.string()), ("title", pa.string()), ("traits", pa.list_(pa.string()))])
    connection.register("causes", pa.Table.from_pylist(causes, kinds))
    for name, value in asdict(choice).items():
        connection.execute(f"SET VARIABLE {name} = $1", [list(value) if isinstance(value, tuple) else value])
    connection.execute(_TABLES)


def _damage(error: Exception, files: Sequence[Path], shown: str) -> str:
    """Which file is damaged, as far as the error names it."""
    text = str(error)
    named = next((file for file in files if str(file) in text), None)
    return f"{one_line(str(named)) if named else shown} cannot be read: {one_line(text.splitlines()[0])[:200]}"


# ── counts ──

_HEADLINE = """
    SELECT count(*) AS jobs, count(*) FILTER (WHERE read = 'yes') AS read, count(*) FILTER (WHERE failed) AS failed,
        count(*) FILTER (WHERE outcome = 'healthy') AS healthy, count(*) FILTER (WHERE outcome = 'undecided') AS undecided,
        count(*) FILTER (WHERE outcome = 'error') AS errors, count(*) FILTER (WHERE outcome = 'not-asked') AS not_asked,
        count(*) FILTER (WHERE read = 'no-log') AS no_log, count(*) FILTER (WHERE failed AND state = 'COMPLETED') AS completed_but_failed,
        count(*) FILTER (WHERE moment IS NULL) AS undated, min(moment) AS first, max(moment) AS last,
        (SELECT count(*) FROM at_any_time WHERE moment IS NULL) - undated AS undated_left_out,
        coalesce(sum(gpu_hours), 0) AS gpu_hours, count(gpu_hours) AS with_hours,
        coalesce(sum(lost), 0) AS gpu_hours_lost, count(lost) AS failed_with_hours,
        (SELECT coalesce(list(row(how, jobs)), []) FROM (SELECT coalesce(lost_counted, 'unknown') AS how, count(*) AS jobs
            FROM jobs WHERE lost IS NOT NULL GROUP BY how ORDER BY how)) AS lost_counted,
        count(DISTINCT coalesce(partition, 'unknown')) AS partitions_in_all, count(DISTINCT coalesce("user", 'unknown')) AS users_in_all,
        count(DISTINCT rules_version) AS rules_versions,
        coalesce(list_sort(list(DISTINCT cluster) FILTER (WHERE cluster IS NOT NULL)), []) AS clusters,
        coalesce(list_sort(list(DISTINCT rules_version) FILTER (WHERE rules_version IS NOT NULL))[:10], []) AS rules,
        count(*) FILTER (WHERE smallest IS NULL) AS sizes_left_out,
        coalesce(quantile_disc(day, 0.995) - quantile_disc(day, 0.005), 0) AS days,
        CASE WHEN days <= 30 THEN 'day' WHEN days <= 210 THEN 'week' ELSE 'month' END AS period,
        (SELECT count(*) FROM chains) AS repeats_in_all, (SELECT coalesce(sum(times - 1), 0) FROM chains) AS repeated_jobs,
        (SELECT CASE WHEN count(*) = 0 THEN 0 ELSE sum(gpu_hours_lost) END FROM chains) AS repeated_gpu_hours
    FROM jobs
"""
_DELAYS = f"""
    SELECT count(*) AS "of", count(ran_on_s) AS jobs, quantile_cont(ran_on_s, 0.5) AS median_s, quantile_cont(ran_on_s, 0.9) AS p90_s,
        coalesce(sum(ran_on_s * gpus) / 3600, 0) AS gpu_hours, count(ran_on_s * gpus) AS with_gpus,
        coalesce(list(row(coalesce(job_id, key), ran_on_s, ran_on_s * gpus / 3600) ORDER BY ran_on_s * gpus DESC, key)
            FILTER (WHERE ran_on_s * gpus > 0)[:{_WORST}], []) AS worst
    FROM jobs WHERE failed AND NOT ended_by
"""
_SIZES = """
    SELECT smallest, largest, count(*) AS jobs,
        coalesce(sum(elapsed_s), 0) / 3600 AS hours, count(*) FILTER (WHERE failed AND NOT ended_by) AS failures,
        count(*) FILTER (WHERE failed AND machine AND NOT ended_by) AS machine_failures, NULL AS mttf
    FROM jobs WHERE smallest IS NOT NULL GROUP BY ALL ORDER BY smallest
"""
_CHAINS = f"""
    CREATE TABLE chains AS
        WITH runs AS (
            SELECT cluster, "user", job_name, cause, key, job_id, started, ended, lost,
                failed AND cause IS NOT NULL AND NOT ended_by AS died,
                CASE WHEN job_id SIMILAR TO '[0-9]+_.*' THEN split_part(job_id, '_', 1) END AS array_id,
                row_number() OVER (PARTITION BY cluster, "user", job_name ORDER BY started, job_id, ended, key) AS place
            FROM jobs WHERE job_name IS NOT NULL AND started IS NOT NULL AND ended IS NOT NULL
        ), rows_ AS (
            SELECT *, place - row_number() OVER (PARTITION BY cluster, "user", job_name, cause ORDER BY place) AS island
            FROM runs WHERE died
        ), marked AS (
            SELECT *, min(ended) OVER (so_far ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) <= started
                    AND NOT coalesce(array_id = first_value(array_id) OVER so_far AND job_id <> first_value(job_id) OVER so_far, false)
                    AS again,
                row_number() OVER so_far = 1 AS leads FROM rows_
            WINDOW so_far AS (PARTITION BY cluster, "user", job_name, cause, island ORDER BY place)
        )
        SELECT "user", job_name, cause, 1 + count(DISTINCT coalesce(array_id, key)) FILTER (WHERE again) AS times, min(ended) AS first,
            max(ended) FILTER (WHERE again) AS last, sum(lost) FILTER (WHERE again) AS gpu_hours_lost,
            list(coalesce(job_id, key) ORDER BY place) FILTER (WHERE again OR leads)[:{_IDS}] AS job_ids
        FROM marked GROUP BY cluster, "user", job_name, cause, island HAVING times > 1
"""
"""Jobs that died of one cause run after run.

A run dies again where it began after the first one of the row had ended, and is no other task of the same array. The tasks of a
later array are one run. Runs of the same second are in the order of their ids.
"""
_DYING_AGAIN = (
    f'FROM chains ORDER BY gpu_hours_lost DESC NULLS LAST, times DESC, "user", job_name, cause, first LIMIT {_REPEATS}'
)
_PERIODS = f"""
    WITH dated AS (SELECT *, CAST(date_trunc('{{unit}}', day) AS DATE) AS begins FROM jobs WHERE day IS NOT NULL),
    failures AS (SELECT *, count(*) OVER (PARTITION BY begins) AS failures FROM dated WHERE failed),
    counted AS (SELECT begins, count(*) AS jobs FROM dated GROUP BY begins),
    kept AS (FROM counted ORDER BY jobs DESC, begins LIMIT {_COLUMNS}),
    shown AS (
        -- also those in which no job ended, where there is room
        SELECT begins FROM kept
        UNION SELECT CAST(unnest(generate_series(early, late, INTERVAL 1 {{unit}})) AS DATE)
            FROM (SELECT min(begins) AS early, max(begins) AS late FROM kept) WHERE date_diff('{{unit}}', early, late) < {_COLUMNS}
    ),
    costs AS ({_OF_FAILURES.format(keys="begins, what", whole="any_value(failures)", jobs="failures")}),
    by_cause AS (SELECT begins, list(costs ORDER BY gpu_hours_lost DESC, jobs DESC, what) AS causes FROM costs GROUP BY begins)
    SELECT begins, coalesce(jobs, 0) AS jobs, coalesce(causes, []) AS causes
    FROM shown LEFT JOIN counted USING (begins) LEFT JOIN by_cause USING (begins) ORDER BY begins
"""
"""Days, weeks or months, whichever are few; of too many those with the most jobs are shown."""


def _answers(connection: Any, choice: Choice) -> Answers:
    connection.execute(_CHAINS)
    [headline] = _structs(connection, Answers, _HEADLINE)
    connection.execute("SET VARIABLE by_hours = $1", [headline.by_hours])
    [delays] = _structs(connection, Delays, _DELAYS)
    by_cause = _OF_FAILURES.format(keys="what", whole="sum(count(*)) OVER ()", jobs="jobs WHERE failed")
    of_group = _COSTS.format(
        keys="coalesce({}, 'unknown') AS what",
        title="NULL",
        whole="count(*)",
        hours="coalesce(sum(gpu_hours), 0)",
        jobs="jobs",
    )
    partitions, users = (
        _structs(connection, Cost, f"{of_group.format(column)} LIMIT {_MOST}") for column in ("partition", '"user"')
    )
    return replace(
        headline,
        causes=_structs(connection, Cost, by_cause),
        periods=_structs(connection, Period, _PERIODS.format(unit=headline.period)),
        partitions=partitions,
        users=users,
        nodes=_nodes(connection),
        sizes=tuple(map(_with_mttf, _structs(connection, SizeClass, _SIZES))),
        delays=delays,
        repeats=_structs(connection, Repeat, _DYING_AGAIN),
        unknown=_unknown(connection),
        filters=_filters(choice),
    )


def _with_mttf(size: SizeClass) -> SizeClass:
    """Hours a failure, and the exact 95 % interval; without a failure it has a lower end only."""
    found: dict[str, float | None] = {}
    for whose, failures in (("", size.failures), ("machine_", size.machine_failures)):
        low, high = poisson_interval(failures)
        found[f"{whose}mttf"] = size.hours / failures if failures else None
        found |= {f"{whose}low": size.hours / high, f"{whose}high": size.hours / low if low else None}
    return replace(size, **found)


def _unknown(connection: Any) -> Unknown:
    """Failed jobs whose cause is not known, and what kinds of last lines they have."""
    [found] = _structs(connection, Unknown, """
        SELECT count(*) AS "of", count(*) FILTER (WHERE vague) AS jobs, count(last_line) FILTER (WHERE vague) AS with_line,
            (SELECT coalesce(list(row(cause, jobs)), []) FROM (SELECT cause, count(*) AS jobs FROM jobs
                WHERE failed AND vague AND cause IS NOT NULL GROUP BY cause ORDER BY 2 DESC, 1)) AS generic
        FROM jobs WHERE failed
    """)  # fmt: skip
    connection.execute(f"""
        CREATE TABLE lines AS SELECT last_line, "user", lost FROM jobs WHERE failed AND vague AND last_line IS NOT NULL
            ORDER BY hash(key) LIMIT {_LINES}
    """)
    return replace(found, kinds=kinds_of(connection, _KINDS))


def _filters(choice: Choice) -> tuple[tuple[str, str], ...]:
    """The options that a report was restricted by."""
    found = []
    for name, wanted in asdict(choice).items():
        if wanted:
            dated = isinstance(wanted, datetime)
            text = f"{wanted:%Y-%m-%d %H:%M}".removesuffix(" 00:00") if dated else ", ".join(wanted)
            found.append((name.removesuffix("s"), text))
    return tuple(found)


# ── nodes on which more jobs fail than chance explains ──

_TEST = (
    "A node is named if it has more failures than chance explains: exact binomial test, one-sided, against the nodes of its "
    "partition. The expected number is the node's share of node hours or of started jobs, whichever is larger. Holm's "
    "correction for {tested:,} nodes keeps the chance of any false name below 5 %. Only failures that a node, a link or storage "
    "can bring about count: each user once per node, because the user's program may be the reason; hardware faults once per user, job "
    "name, cause and day."
)
_ACCUSED = f"""
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
        FROM jobs WHERE failed AND machine;
    CREATE VIEW accusations AS SELECT part, unnest(blamed) AS node, "user", cause, certain, name, day, place FROM blamed;
"""
_TESTED = """
    -- a program that fails again on the node that its user likes speaks against the node once
    CREATE TABLE events AS
        SELECT DISTINCT ON (part, node, "user", certain, if(certain, [name, cause, day], [])) * FROM accusations ORDER BY place;

    CREATE TABLE tested AS
        WITH parts AS (
            SELECT part, any_value(failures) AS failures, sum(hours) AS hours, sum(starts) AS starts
            FROM uses JOIN (SELECT part, count(*) AS failures FROM events GROUP BY part) USING (part) GROUP BY part HAVING count(*) > 1
        ), used AS (
            SELECT u.*, failures, failures * greatest(coalesce(u.hours / nullif(p.hours, 0), 0), u.starts / p.starts) AS expected
            FROM uses u JOIN parts p USING (part)
        ), causes AS (
            SELECT node, cause, count(*) AS failures FROM events SEMI JOIN used USING (part, node) GROUP BY ALL
        ), against AS (
            SELECT node, count(*) AS failures, count(*) FILTER (WHERE certain) AS certain, count(DISTINCT "user") AS users
            FROM events SEMI JOIN used USING (part, node) GROUP BY node
        )
        SELECT node, min(u.called) AS called, coalesce(any_value(a.failures), 0) AS failures, coalesce(any_value(certain), 0) AS certain,
            sum(expected) AS expected, CAST(sum(jobs) AS BIGINT) AS jobs, sum(hours) AS hours, coalesce(any_value(users), 0) AS users,
            CAST(sum(u.failures) AS BIGINT) AS trials,
            (SELECT coalesce(list(row(cause, c.failures) ORDER BY c.failures DESC, cause), []) FROM causes c WHERE c.node = u.node) AS causes
        FROM used u LEFT JOIN against a USING (node) GROUP BY node
"""
_NODES = """
    SELECT (SELECT count(*) FROM tested) AS tested, (SELECT count(*) FROM events) AS failures,
        (SELECT coalesce(sum(hours), 0) FROM uses) AS hours, count(*) FILTER (WHERE failed AND NOT machine) AS of_programs,
        (SELECT count(*) FROM blamed WHERE len(blamed) = 0) AS without_node,
        (SELECT count(*) FROM accusations) - (SELECT count(*) FROM events) AS counted_already,
        count(*) FILTER (WHERE NOT coalesce(elapsed_s >= 0 AND len(nodes) > 0, false)) AS jobs_left_out,
        count(*) FILTER (WHERE outcome IN ('healthy', 'not-asked')) = 0 AS failed_only
    FROM jobs
"""


def _nodes(connection: Any) -> Nodes:
    """The test over all chosen jobs."""
    connection.execute(_ACCUSED)
    found = suspects(connection)
    [nodes] = _structs(connection, Nodes, _NODES)
    valid = sorted(one.node for one in found if _NODE_NAME.fullmatch(one.node))
    return replace(
        nodes,
        test=_TEST.format(tested=nodes.tested),
        suspects=found,
        exclude=f"#SBATCH --exclude={fold_nodes(valid)}" if valid else None,
        not_names=len(found) - len(valid),
    )


def suspects(connection: Any) -> tuple[Suspect, ...]:
    """The nodes that do not pass the test, of the tables `uses` and `accusations`; those that were tested are in `tested` then.

    A node of several partitions is expected to have the sum of what it is expected in each. That sum of binomials has a lighter
    tail than one binomial of the same mean (Hoeffding 1956), which is what is computed.
    """
    connection.execute(_TESTED)
    tested = _dicts(connection, "SELECT * EXCLUDE (node, called), called AS node, least(1, expected / trials) AS share FROM tested ORDER BY tested.node")  # fmt: skip
    chances = holm([binomial_tail(one["failures"], one["trials"], one["share"]) for one in tested])
    found = [
        convert({**one, "chance": chance}, Suspect)
        for one, chance in zip(tested, chances, strict=True)
        if chance <= ALPHA and one["failures"] >= _FEWEST
    ]
    return tuple(sorted(found, key=lambda one: (one.chance, -one.failures, one.node)))
