"""Opens a dataset: its files as one table `jobs` of DuckDB, of the columns of `Row`, restricted to what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_origin, get_type_hints

from msgspec import Struct

from slurmdoctor.model import Knowledge, UserError
from slurmdoctor.report import one_line, plural
from slurmdoctor.survey.mark import mark_of
from slurmdoctor.survey.rows import SCHEMA_VERSION, Row

_MEMORY = "1GB"
_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", datetime: "TIMESTAMP"}
_SHARD = re.compile(r"shard-(\d+)-of-(\d+)")
_FEW = 8
"""Names that a line lists."""
_MUST = {"key", "verdict", "cause", "read"}
"""Columns without which a Parquet file is no survey's."""


class Choice(Struct, frozen=True):
    """Which jobs a report is about; empty is all."""

    since: datetime | None = None
    until: datetime | None = None
    """The first moment that is too late."""
    users: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()


class Kinds(Struct, frozen=True):
    """Causes by what a survey makes of them: the traits of the rules' files."""

    machine: frozenset[str] = frozenset()
    """A node, a link or storage can bring them about;"""
    certain: frozenset[str] = frozenset()
    """and of these nothing else can."""
    ended: frozenset[str] = frozenset()
    """Ends by Slurm or a person."""
    vague: frozenset[str] = frozenset()
    """They stand for failures whose cause is not known."""


ALL = Choice()


def kinds_of(knowledge: Knowledge) -> Kinds:
    traits = knowledge.traits
    machine = frozenset(traits["of-machine"])
    return Kinds(machine, machine & traits["system"], frozenset(traits["scheduler"]), frozenset(traits["catch-all"]))


@contextmanager
def opened(folder: str, choice: Choice = ALL) -> Iterator[Any]:
    """A connection on which `jobs` are the chosen rows and `everything` all of them. Raises a UserError that says what is wrong."""
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
                _table(connection, files, shown)
                _restrict(connection, choice)
                yield connection
            except duckdb.OutOfMemoryException:
                raise UserError(f"{shown} has more rows than {_MEMORY} of memory and the disk hold", "choose a month with --since and --until") from None  # fmt: skip
            except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException):
                raise  # our own mistake
            except (duckdb.Error, UnicodeError) as error:
                raise UserError(_damage(error, files, shown), "wait if a survey is writing it; else run the survey again, which reads its jobs again") from None  # fmt: skip


def _files(folder: Path) -> list[Path]:
    """The Parquet files of a dataset, or of all its shards."""
    shown = one_line(str(folder))
    run = "slurmdoctor survey PATH --out DIR makes one"
    if not folder.is_dir():
        raise UserError(f"{shown} is no folder" if folder.exists() else f"{shown} is not there", run)
    shards = {(int(m[1]), int(m[2])): one for one in sorted(folder.iterdir()) if (m := _SHARD.fullmatch(one.name))}
    if len({of for _, of in shards}) > 1:
        numbers = " and ".join(str(of) for of in sorted({of for _, of in shards}))
        raise UserError(
            f"{shown} holds shards of {numbers}: jobs would count twice", "remove those of the older survey"
        )
    parts = [folder, *shards.values()]
    files = sorted(file for part in parts for file in part.glob("jobs/month=*/jobs.parquet"))
    if not files and any((part / ".run").exists() for part in parts):
        raise UserError(f"{shown} has no rows yet: its survey still runs, was stopped, or found no job", "wait for its end, or run it again")  # fmt: skip
    if not files:
        raise UserError(f"{shown} is no dataset of a survey", run)
    return files


def unfinished(folder: str) -> list[str]:
    """What a dataset lacks, in words: shards that are not there, and rows that a run has not put into their month yet."""
    found = {one: m for one in sorted(Path(folder).iterdir()) if (m := _SHARD.fullmatch(one.name))}
    there = {(int(m[1]), int(m[2])) for m in found.values()}
    lacking = [f"{k}/{of}" for of in {of for _, of in there} for k in range(1, of + 1) if (k, of) not in there]
    notes = []
    if lacking:
        more = f" and {len(lacking) - _FEW:,} more" if len(lacking) > _FEW else ""
        notes.append(f"{len(there):,} of {len(there) + len(lacking):,} shards are there; run those that are missing: {', '.join(lacking[:_FEW])}{more}")  # fmt: skip
    if alone := _SHARD.fullmatch(Path(folder).resolve().name):
        notes.append(f"this is shard {alone[1]} of {alone[2]} alone; name the folder above it for all")
    parts = (Path(folder), *found)
    stopped = [mark for part in parts if (mark := mark_of(part / ".run")) and not mark.finished]
    if stopped:
        so_far = "" if all(mark.listed for mark in stopped) else " found so far"
        done, of_jobs = sum(mark.there for mark in stopped), sum(mark.found for mark in stopped)
        notes.append(f"a run was stopped after {done:,} of {plural(of_jobs, 'job')}{so_far}, or is still at work: run it again; what is read first are the biggest logs, so the shares are not those of all jobs")  # fmt: skip
    if any(next((part / ".run/journal").glob("*.rows"), None) for part in parts):
        notes.append("the report is without the newest rows of a run that is at work or was stopped")
    return notes


def _literal(file: Path) -> str:
    """The name of a file for DuckDB, which takes names for patterns."""
    return re.sub(r"([\[*?])", r"[\1]", str(file))


def _table(connection: Any, files: Sequence[Path], shown: str) -> None:
    """`raw`: all rows, with every column of `Row`; what an older survey did not know is null."""
    found = connection.read_parquet([_literal(file) for file in files], union_by_name=True, hive_partitioning=False)
    there = set(found.columns)
    if not there >= _MUST:
        raise UserError(f"{shown} holds Parquet files that no survey wrote", "name the folder that was given to --out")
    found.create_view("raw_files")
    columns = [
        f"{_cast(quoted_name(name) if name in there else 'NULL', _sql_type(hint))} AS {quoted_name(name)}"
        for name, hint in get_type_hints(Row).items()
    ]
    connection.execute(f"CREATE TEMP VIEW raw AS SELECT {', '.join(columns)} FROM raw_files")
    newest, rows = connection.execute("SELECT max(schema_version), count(*) FROM raw").fetchone()
    if newest is not None and newest > SCHEMA_VERSION:
        raise UserError(f"{shown} was written by a newer slurmdoctor (schema {newest})", "install that version to read it")  # fmt: skip
    if not rows:
        raise UserError(f"{shown} has no rows", "run the survey again: it found no jobs")


def _cast(value: str, kind: str) -> str:
    """A column in SQL; a number that is none is not known."""
    cast = f"CAST({value} AS {kind})"
    return f"CASE WHEN isfinite({cast}) THEN {cast} END" if kind == "DOUBLE" else cast


def _sql_type(hint: Any) -> str:
    """DuckDB's type of a column's Python type."""
    if get_origin(hint) is tuple:
        return "VARCHAR[]"
    known = [_TYPES[one] for one in (hint, *get_args(hint)) if one in _TYPES]
    return known[0] if known else "VARCHAR"


def _restrict(connection: Any, choice: Choice) -> None:
    """`everything`, with what questions need of a row, and `jobs`, of it what was chosen."""
    connection.execute("""
        CREATE TEMP VIEW everything AS SELECT *,
            CASE WHEN read = 'error' THEN 'error' WHEN verdict = 'failed' THEN 'failed'
                 WHEN read = 'not-asked' THEN 'not-asked' WHEN verdict = 'no-failure' THEN 'healthy'
                 ELSE 'undecided' END AS outcome,
            coalesce(ended, started, submitted) AS moment,
            CAST(coalesce(ended, started, submitted) AS DATE) AS day,
            regexp_replace(coalesce(job_name, ''), '[0-9]+', '#', 'g') AS name
        FROM raw
    """)
    conditions = ["true"]
    dates = ["true"]
    for column, wanted in (("user", choice.users), ("partition", choice.partitions), ("cluster", choice.clusters)):
        if wanted:
            conditions.append(f"{quoted_name(column)} IN ({', '.join(map(quoted, wanted))})")
    for sign, moment in ((">=", choice.since), ("<", choice.until)):
        if moment:
            dates.append(f"moment {sign} TIMESTAMP {quoted(moment.isoformat(sep=' '))}")
    connection.execute(f"CREATE TEMP VIEW at_any_time AS SELECT * FROM everything WHERE {' AND '.join(conditions)}")
    connection.execute(f"CREATE TEMP VIEW jobs AS SELECT * FROM at_any_time WHERE {' AND '.join(dates)}")


def quoted_name(column: str) -> str:
    """A column in SQL."""
    return f'"{column}"'


def quoted(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def listed(causes: frozenset[str]) -> str:
    """Causes in SQL: what stands behind IN."""
    return f"({', '.join(map(quoted, sorted(causes))) or 'NULL'})"


def _damage(error: Exception, files: Sequence[Path], shown: str) -> str:
    """Which file is damaged, as far as the error names it."""
    text = str(error)
    named = next((file for file in files if str(file) in text), None)
    return f"{one_line(str(named)) if named else shown} cannot be read: {one_line(text.splitlines()[0])[:200]}"
