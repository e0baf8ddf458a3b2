"""What a dataset answers: its files as one table `jobs` of DuckDB, and the questions to it in SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, timedelta
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import Knowledge, UserError
from slurmdoctor.report import one_line, plural
from slurmdoctor.survey.answers import Answers, Cost, Delays, Period, Repeat, SizeClass, Unknown
from slurmdoctor.survey.compare import Difference, blocks_of, compare
from slurmdoctor.survey.dataset import progress_of, schema
from slurmdoctor.survey.nodes import nodes
from slurmdoctor.survey.rows import SCHEMA_VERSION
from slurmdoctor.survey.statistics import poisson_interval
from slurmdoctor.survey.unknown import kinds_of

_MEMORY = "1GB"
_SHARD = re.compile(r"shard-(\d+)-of-(\d+)")
_FEW = 8
"""Names that a line lists."""
_MUST = {"key", "verdict", "cause", "read"}
"""Columns without which a Parquet file is no survey's."""
_UNKNOWN = "unknown"
"""What is called so where a job has none: a cause, a partition, a user."""
_MOST, _KINDS, _COLUMNS, _REPEATS, _WORST, _IDS = 200, 50, 36, 50, 10, 10
"""How many are listed: partitions and users, kinds of last lines, periods, jobs that die again, that ran on longest, ids of one job."""
_LINES = 500_000
"""Last lines that are grouped: of more, that many whatever they say."""
_CLASSES: tuple[tuple[int, int | None], ...] = ((1, 1), (2, 8), (9, 32), (33, 128), (129, 512), (513, None))
"""GPUs: the smallest and the largest of a class."""
_FAILED = "outcome = 'failed'"
_JOBS = f"""
    SELECT r.* REPLACE (coalesce(k.title, r.title) AS title),
        CASE WHEN read = 'error' THEN 'error' WHEN verdict = 'failed' THEN 'failed' WHEN read = 'not-asked' THEN 'not-asked'
            WHEN verdict = 'no-failure' THEN 'healthy' ELSE 'undecided' END AS outcome,
        coalesce(ended, started, submitted) AS moment,
        CAST(coalesce(ended, started, submitted) AS DATE) AS day,
        regexp_replace(coalesce(job_name, ''), '[0-9]+', '#', 'g') AS name,
        coalesce(r.cause, '{_UNKNOWN}') AS what,
        coalesce(k.machine, false) AS machine, coalesce(k.certain, false) AS certain, coalesce(k.ended_by, false) AS ended_by,
        coalesce(k.vague, r.cause IS NULL) AS vague,
        CASE WHEN NOT coalesce(gpus > 0 AND elapsed_s >= 0, false) THEN NULL
            {" ".join(f"WHEN gpus <= {most} THEN {least}" for least, most in _CLASSES if most)} ELSE {_CLASSES[-1][0]} END AS smallest
    FROM raw r LEFT JOIN kinds k ON r.cause = k.cause
"""
"""All rows with what questions need: how each ended, when, and what kind of cause it is. `ended_by`: by Slurm or a person."""


class Choice(Struct, frozen=True):
    """Which jobs a report is about; empty is all."""

    since: datetime | None = None
    until: datetime | None = None
    """The first moment that is too late."""
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


ALL = Choice()


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
        before, after = (_answers(side, choice) for side, choice in zip((one, other), choices, strict=True))
        tested = [{node for (node,) in side.execute("SELECT called FROM tested").fetchall()} for side in (one, other)]
        return compare(names, before, after, blocks_of(one, other), (tested[0], tested[1]))


def by_cause_and_partition(folder: str, choice: Choice = ALL) -> list[tuple[dict[str, str], Cost]]:
    """The costs of failures by cluster, partition and cause: a label each."""
    with opened(folder, None, choice) as connection:
        found = _costs(connection, f"coalesce(cluster, ''), coalesce(partition, '{_UNKNOWN}'), what", _FAILED)
    return [
        (dict(zip(("cluster", "partition", "cause"), keys, strict=True)), cost)
        for keys, cost in sorted(found, key=lambda one: one[0])
    ]


def _answers(connection: Any, choice: Choice) -> Answers:
    known = _headline(connection)
    period, periods = _periods(connection)
    return Answers(
        **known,
        **_repeats(connection),
        **_sizes(connection),
        causes=tuple(
            replace(cost, of=known["failed"], gpu_hours=0.0) for _, cost in _costs(connection, "what", _FAILED)
        ),
        period=period,
        periods=periods,
        partitions=_groups(connection, "partition"),
        users=_groups(connection, '"user"'),
        nodes=nodes(connection),
        delays=_delays(connection),
        unknown=_unknown(connection, known["failed"]),
        filters=_filters(choice),
    )


def _filters(choice: Choice) -> tuple[tuple[str, str], ...]:
    """The options that a report was restricted by."""
    named = [("since", choice.since), ("until", choice.until)]
    said = [(name, f"{moment:%Y-%m-%d %H:%M}".removesuffix(" 00:00")) for name, moment in named if moment]
    lists = [("user", choice.users), ("partition", choice.partitions), ("cluster", choice.clusters)]
    return (*said, *((name, ", ".join(wanted)) for name, wanted in lists if wanted))


# ── the table ──


@contextmanager
def opened(folder: str, knowledge: Knowledge | None = None, choice: Choice = ALL) -> Iterator[Any]:
    """A connection on which `jobs` are the chosen rows. Raises a UserError that says what is wrong."""
    import duckdb

    files, shown = _files(Path(folder)), one_line(folder)
    with TemporaryDirectory(prefix="slurmdoctor-") as spill:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": _MEMORY,
            "temp_directory": spill,
            "preserve_insertion_order": False,
            # nothing is to be fetched while a report is made
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with duckdb.connect(":memory:", config=settings) as connection:
            try:
                _open(connection, files, shown, knowledge)
                _restrict(connection, choice)
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
        more = f" and {len(lacking) - _FEW:,} more" if len(lacking) > _FEW else ""
        notes.append(f"{len(there):,} of {len(there) + len(lacking):,} shards are there; run those that are missing: {', '.join(lacking[:_FEW])}{more}")  # fmt: skip
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


def _open(connection: Any, files: Sequence[Path], shown: str, knowledge: Knowledge | None) -> None:
    """`raw`: all rows, with every column of `Row` (what an older survey did not know is null); `kinds`: what is known of causes."""
    # DuckDB takes names for patterns
    found = connection.read_parquet(
        [re.sub(r"([\[*?])", r"[\1]", str(file)) for file in files], union_by_name=True, hive_partitioning=False
    )
    if not set(found.columns) >= _MUST:
        raise UserError(f"{shown} holds Parquet files that no survey wrote", "name the folder that was given to --out")
    found.create_view("found")
    connection.register("columns_of_today", schema().empty_table())
    numbers = [field.name for field in schema() if str(field.type) == "double"]
    finite = ", ".join(f"CASE WHEN isfinite({name}) THEN {name} END AS {name}" for name in numbers)
    connection.execute(f"""
        CREATE VIEW raw AS SELECT * REPLACE ({finite}) FROM (FROM columns_of_today UNION ALL BY NAME FROM found);
        CREATE TABLE kinds (cause VARCHAR, title VARCHAR, machine BOOLEAN, certain BOOLEAN, ended_by BOOLEAN, vague BOOLEAN)
    """)
    if knowledge is not None:
        traits = knowledge.traits
        connection.executemany("INSERT INTO kinds VALUES (?, ?, ?, ?, ?, ?)", [
            (name, cause.title, name in traits["of-machine"], name in traits["of-machine"] & traits["system"], name in traits["scheduler"],
             name in traits["catch-all"])
            for name, cause in knowledge.causes.items()
        ])  # fmt: skip
    newest, rows = connection.execute("SELECT max(schema_version), count(*) FROM raw").fetchone()
    if newest is not None and newest > SCHEMA_VERSION:
        raise UserError(f"{shown} was written by a newer slurmdoctor (schema {newest})", "install that version to read it")  # fmt: skip
    if not rows:
        raise UserError(f"{shown} has no rows", "run the survey again: it found no jobs")


def _restrict(connection: Any, choice: Choice) -> None:
    """`at_any_time`, the rows that were chosen by name, and `jobs`, those that were also chosen by time."""
    named, dated = ["true"], ["true"]
    for column, wanted in (("user", choice.users), ("partition", choice.partitions), ("cluster", choice.clusters)):
        if wanted:
            named.append(f'"{column}" IN ({", ".join(map(_quoted, wanted))})')
    for sign, moment in ((">=", choice.since), ("<", choice.until)):
        if moment:
            dated.append(f"moment {sign} TIMESTAMP {_quoted(moment.isoformat(sep=' '))}")
    connection.execute(f"CREATE VIEW at_any_time AS FROM ({_JOBS}) WHERE {' AND '.join(named)}")
    connection.execute(f"CREATE VIEW jobs AS FROM at_any_time WHERE {' AND '.join(dated)}")


def _quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _damage(error: Exception, files: Sequence[Path], shown: str) -> str:
    """Which file is damaged, as far as the error names it."""
    text = str(error)
    named = next((file for file in files if str(file) in text), None)
    return f"{one_line(str(named)) if named else shown} cannot be read: {one_line(text.splitlines()[0])[:200]}"


# ── counts ──


def _headline(connection: Any) -> dict[str, Any]:
    """The counts of all rows, by the names of `Answers`."""
    names = {
        "jobs": "count(*)",
        "read": "count(*) FILTER (WHERE read = 'yes')",
        **{name: f"count(*) FILTER (WHERE outcome = '{name}')" for name in ("failed", "healthy", "undecided")},
        "errors": "count(*) FILTER (WHERE outcome = 'error')",
        "not_asked": "count(*) FILTER (WHERE outcome = 'not-asked')",
        "no_log": "count(*) FILTER (WHERE read = 'no-log')",
        "completed_but_failed": f"count(*) FILTER (WHERE {_FAILED} AND state = 'COMPLETED')",
        "undated": "count(*) FILTER (WHERE moment IS NULL)",
        "first": "min(moment)",
        "last": "max(moment)",
        "gpu_hours": "coalesce(sum(gpu_hours), 0)",
        "with_hours": "count(gpu_hours)",
        "gpu_hours_lost": f"coalesce(sum(gpu_hours_lost) FILTER (WHERE {_FAILED}), 0)",
        "failed_with_hours": f"count(gpu_hours_lost) FILTER (WHERE {_FAILED})",
        "partitions_in_all": f"count(DISTINCT coalesce(partition, '{_UNKNOWN}'))",
        "users_in_all": f"count(DISTINCT coalesce(\"user\", '{_UNKNOWN}'))",
        "rules_versions": "count(DISTINCT rules_version)",
        "clusters": "coalesce(list_sort(list(DISTINCT cluster) FILTER (WHERE cluster IS NOT NULL)), [])",
        "rules": "coalesce(list_sort(list(DISTINCT rules_version) FILTER (WHERE rules_version IS NOT NULL))[:10], [])",
        "undated_left_out": "(SELECT count(*) FROM at_any_time WHERE moment IS NULL) - undated",
    }
    select = ", ".join(f"{value} AS {name}" for name, value in names.items())
    row = connection.execute(f"SELECT {select} FROM jobs").fetchone()
    found = {name: tuple(value) if isinstance(value, list) else value for name, value in zip(names, row, strict=True)}
    how = f"SELECT coalesce(lost_counted, '{_UNKNOWN}'), count(*) FROM jobs WHERE {_FAILED} AND gpu_hours_lost IS NOT NULL GROUP BY ALL ORDER BY ALL"
    return {**found, "lost_counted": tuple(connection.execute(how).fetchall())}


def _costs(connection: Any, keys: str, where: str = "true") -> list[tuple[tuple[Any, ...], Cost]]:
    """What failures cost, those that cost most first: the keys, the last of which says what they have in common, and the cost."""
    rows = connection.execute(f"""
        SELECT {keys}, any_value(title), count(*) FILTER (WHERE {_FAILED}) AS failed, count(*) AS jobs,
            count(DISTINCT "user") FILTER (WHERE {_FAILED}), coalesce(sum(gpu_hours_lost) FILTER (WHERE {_FAILED}), 0) AS lost,
            count(gpu_hours_lost) FILTER (WHERE {_FAILED}), coalesce(sum(gpu_hours), 0)
        FROM jobs WHERE {where} GROUP BY {keys} ORDER BY lost DESC, failed DESC, jobs DESC, {keys}
    """).fetchall()
    return [
        (tuple(keys_), Cost(keys_[-1], failed, jobs, users, lost, known, hours, title))
        for *keys_, title, failed, jobs, users, lost, known, hours in rows
    ]


def _groups(connection: Any, column: str) -> tuple[Cost, ...]:
    """What the failures of each partition or user cost, of all its jobs."""
    return tuple(
        replace(cost, title=None) for _, cost in _costs(connection, f"coalesce({column}, '{_UNKNOWN}')")[:_MOST]
    )


def _periods(connection: Any) -> tuple[str, tuple[Period, ...]]:
    """Days, weeks or months, whichever are few; of too many those with the most jobs."""
    early, late = connection.execute("SELECT quantile_disc(day, 0.005), quantile_disc(day, 0.995) FROM jobs").fetchone()
    if early is None:
        return "day", ()
    days = (late - early).days
    unit = "day" if days <= 30 else "week" if days <= 30 * 7 else "month"
    jobs: dict[date, int] = {}
    costs: dict[date, list[Cost]] = {}
    for (begins, _), cost in _costs(connection, f"CAST(date_trunc('{unit}', day) AS DATE), what", "day IS NOT NULL"):
        jobs[begins] = jobs.get(begins, 0) + cost.of
        if cost.jobs:
            costs.setdefault(begins, []).append(replace(cost, gpu_hours=0.0))
    kept = sorted(sorted(jobs, key=lambda begins: (-jobs[begins], begins))[:_COLUMNS])
    if len(all_ := _all_between(kept[0], kept[-1], unit)) <= _COLUMNS:
        kept = all_
    found = []
    for begins in kept:
        own = costs.get(begins, [])
        of = sum(cost.jobs for cost in own)
        found.append(Period(begins, jobs.get(begins, 0), tuple(replace(cost, of=of) for cost in own)))
    return unit, tuple(found)


def _all_between(first: date, last: date, unit: str) -> list[date]:
    """Also the periods in which no job ended; not more than a report has room for, and one."""
    found = [first]
    while found[-1] < last and len(found) <= _COLUMNS:
        following = found[-1] + timedelta(days={"day": 1, "week": 7, "month": 32}[unit])
        found.append(following.replace(day=1) if unit == "month" else following)
    return found


def _unknown(connection: Any, failed: int) -> Unknown:
    """Failed jobs whose cause is not known, and what kinds of last lines they have."""
    such = f"FROM jobs WHERE {_FAILED} AND vague"
    jobs, with_line = connection.execute(f"SELECT count(*), count(last_line) {such}").fetchone()
    connection.execute(
        f'SELECT last_line, "user", gpu_hours_lost {such} AND last_line IS NOT NULL ORDER BY hash(key) LIMIT {_LINES}'
    )
    kinds = kinds_of(chain.from_iterable(iter(lambda: connection.fetchmany(10_000), [])), _KINDS)
    generic = f"SELECT cause, count(*) {such} AND cause IS NOT NULL GROUP BY cause ORDER BY 2 DESC, 1"
    return Unknown(jobs, failed, with_line, kinds, tuple(connection.execute(generic).fetchall()))


# ── times ──


def _sizes(connection: Any) -> dict[str, Any]:
    """How long jobs of each size run until one fails, and how many jobs have none."""
    rows = connection.execute("""
        SELECT smallest, count(*), coalesce(sum(elapsed_s), 0) / 3600, count(*) FILTER (WHERE outcome = 'failed' AND NOT ended_by),
            count(*) FILTER (WHERE outcome = 'failed' AND machine AND NOT ended_by)
        FROM jobs GROUP BY smallest ORDER BY smallest
    """).fetchall()
    sizes = [
        SizeClass(
            smallest,
            dict(_CLASSES)[smallest],
            jobs,
            failures,
            hours,
            *_mttf(failures, hours),
            machine,
            *_mttf(machine, hours),
        )
        for smallest, jobs, hours, failures, machine in rows
        if smallest is not None
    ]
    return {"sizes": tuple(sizes), "sizes_left_out": sum(row[1] for row in rows if row[0] is None)}


def _mttf(failures: int, hours: float) -> tuple[float | None, float, float | None]:
    """Hours a failure, and the exact 95 % interval; without a failure it has a lower end only."""
    low, high = poisson_interval(failures)
    return (hours / failures if failures else None), hours / high, (hours / low if low else None)


def _delays(connection: Any) -> Delays:
    """From the first error to the end, of the jobs that an error ended."""
    errors = f"{_FAILED} AND NOT ended_by"
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


def _repeats(connection: Any) -> dict[str, Any]:
    """Jobs that died of one cause run after run, the most costly first: those listed, how many in all, their runs, their GPU hours.

    A run dies again where it began after the first one of the row had ended, and is no other task of the same array. The tasks of
    a later array are one run. Runs of the same second are in the order of their ids.
    """
    found = connection.execute(f"""
        WITH runs AS (
            SELECT cluster, "user", job_name, cause, key, job_id, started, ended, gpu_hours_lost AS lost,
                {_FAILED} AND cause IS NOT NULL AND NOT ended_by AS died,
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
    chains, runs, hours = found[0][8:] if found else (0, 0, 0.0)
    return {"repeats": shown, "repeats_in_all": int(chains), "repeated_jobs": int(runs), "repeated_gpu_hours": hours}
