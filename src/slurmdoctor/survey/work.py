"""One job in, one row out: pure but for reading the job's logs, and it never raises. Executors run it on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec.structs import replace

import slurmdoctor
from slurmdoctor.input import UnreadError, ends_of
from slurmdoctor.knowledge import current, data_of, folders, names, text
from slurmdoctor.matching import lazy
from slurmdoctor.model import JobFiles, JobRecord, UserError, parse_time
from slurmdoctor.pipeline import diagnose, unread_verdict
from slurmdoctor.report import Diagnosis
from slurmdoctor.survey.rows import How, Item, Row, fingerprint
from slurmdoctor.survey.unknown import flat

_HOUR = 3600.0
_FEW = 16
"""Files of a job whose ends are looked at for times, where Slurm does not tell them."""
_LONGEST_RUN = 31 * 24 * _HOUR
"""Seconds between the first and the last time of logs; where there are more, one of the two is of something else."""
_MOMENT = r"(20\d\d[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d)"
_TIME = lazy(r"(?<!\d)" + _MOMENT)
_STAMP = lazy(
    r"(?m)^(?>(?!\[?20\d\d[-/])(?:\[[^\]\n]{1,40}\]|\d{1,9}:|[A-Z]{1,40}+(?=\s)|\S{1,40}[:|](?=\s)|[^\w\n])){0,40}+"
    r"\[?" + _MOMENT
)
"""A line's own time, behind nothing but labels."""
_OF_GPUS = text("gpu-in-use")
_LONGEST = 2000
"""Characters of a text in a row."""


@cache
def version(rules: tuple[str, ...]) -> str:
    """What makes a row: a digest of the rules in use and of the program, the same wherever these are the same."""
    program = [str(path) for path in sorted(Path(slurmdoctor.__file__).parent.rglob("*.py"))]
    files = [*program, *(name for folder in folders(map(Path, rules)) for name in names(folder))]
    digests = (sha256(data_of(name)).digest() for name in files)
    return sha256(b"\0".join((slurmdoctor.__version__.encode(), *digests))).hexdigest()[:16]


def diagnose_one(item: Item, how: How) -> Row:
    """The row of a job; any error is a row, too."""
    row = _known(item, how)
    if not item.read:
        return replace(row, read="not-asked", verdict=unread_verdict(item.record))
    try:
        found = _diagnosed(item, how)
    except Exception as error:
        why = f"{error}" if isinstance(error, UnreadError) else f"{type(error).__name__}: {error}"
        return replace(row, read="error", error=_cut(why))
    return replace(_lost(_diagnosed_row(row, found, item), found), last_line=_last_line(found, how))


def not_read(item: Item, how: How, why: str) -> Row:
    """The row of a job whose reader did not come back: none of its logs is opened for it."""
    row = _known(replace(item, read=False), how)
    return replace(row, fingerprint=fingerprint(item, how), read="error", error=_cut(why))


def _diagnosed(item: Item, how: How) -> Diagnosis:
    from slurmdoctor.input import Text

    given = [log.path for log in item.logs]
    script = _script(item.script) if item.script else None
    return diagnose(
        JobFiles(item.id, name=item.name, files=tuple(given)) if given else [Text.source("", name="no log")],
        rules=how.rules,
        record=item.record,
        script=script,
        begins={log.path: log.begins for log in item.logs if log.begins},
        ends={log.path: log.ends for log in item.logs if log.ends},
        time_limit=how.time_limit,
        rank_timelines=False,
    )


@lru_cache(maxsize=64)
def _script(path: str) -> Any:
    """Jobs share their scripts. One that cannot be read must not cost the verdict."""
    from slurmdoctor.slurm import read_text
    from slurmdoctor.slurm.script import parse_beside

    try:
        return parse_beside(read_text(path, whole=False), Path(path).name)
    except UserError:
        return None


def _known(item: Item, how: How) -> Row:
    """What is known of the job before any log is read."""
    record = item.record or JobRecord(item.id or "")
    begins, ends = (record.start, record.end) if item.record else _times(item)
    elapsed: float | None = record.elapsed
    if elapsed is None and begins is not None and ends is not None:
        elapsed = ends - begins if item.record or ends > begins else None  # one time in a log tells no span
    same = ("cluster", "account", "partition", "nodes", "num_nodes", "gpus", "state", "restarts")
    row = Row(
        key=item.key,
        fingerprint=fingerprint(item, how),
        job_id=item.id,
        job_name=record.name or item.name,
        user=record.user or item.user,
        submitted=moment(record.submitted),
        started=moment(begins),
        ended=moment(ends),
        elapsed_s=elapsed,
        logs=tuple(log.path for log in item.logs),
        bytes=sum(log.length for log in item.logs),
        read="yes" if item.logs else "no-log",
        notes=item.notes,
        slurmdoctor=slurmdoctor.__version__,
        rules_version=how.rules_version,
        **{name: getattr(record, name) for name in same},
    )
    return _on_gpus(row, record.gpus, "sacct")


def _on_gpus(row: Row, gpus: int | None, known_by: str) -> Row:
    if gpus is None:
        return row
    hours = None if row.elapsed_s is None else gpus * row.elapsed_s / _HOUR
    return replace(row, gpus=gpus, gpus_known_by=known_by, gpu_hours=hours)


def _times(item: Item) -> tuple[float | None, float | None]:
    """The first and the last time that the logs show: that of their lines, where these have one."""
    if not item.read:
        return None, None
    pages = [f"{head}\n{end}" for head, end in (ends_of(log.path) for log in item.logs[:_FEW])]
    shown = _times_by(_STAMP, pages)
    if not any(len(set(times)) > 1 for times in shown):
        shown = _times_by(_TIME, pages)
    if not shown:
        return None, None
    first, last = min(times[0] for times in shown), max(times[-1] for times in shown)
    return (first, last) if 0 <= last - first <= _LONGEST_RUN else (None, last)


def _times_by(pattern: Any, pages: Sequence[str]) -> list[list[float]]:
    """Of each page that has some the times, in the order of its lines."""
    texts = ([parse_time(text.replace("/", "-")) for text in pattern.findall(page)] for page in pages)
    return list(filter(None, ([time for time in times if time is not None] for times in texts)))


def moment(seconds: float | None) -> datetime | None:
    """A time as Slurm and logs print it: local, without a zone."""
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc).replace(tzinfo=None)
    except (OverflowError, ValueError, OSError):
        return None


def _uses_gpus(found: Diagnosis, item: Item) -> bool:
    """Whether the logs or the verdict show that the ranks use GPUs: MPI programs have ranks, too."""
    shown = found.facts.get("framework"), found.facts.get("launcher"), found.cause.id, found.first_failure.text
    if _OF_GPUS.search("\n".join(str(one) for one in shown if one)):
        return True
    return any(_OF_GPUS.search(page) for log in item.logs[:_FEW] for page in ends_of(log.path))


def _diagnosed_row(row: Row, found: Diagnosis, item: Item) -> Row:
    """The row with the verdict."""
    first, cause, exited, retry = found.first_failure, found.cause, found.exit, found.retry
    size = found.facts.get("world_size")
    size = size if isinstance(size, int) else None
    if row.gpus is None and size and _uses_gpus(found, item):
        row = _on_gpus(row, size, "log")  # a GPU a rank
    failed_at = _when(first.time)
    return replace(
        row,
        job_id=row.job_id or found.job.id,
        verdict=found.verdict,
        cause=cause.id,
        family=cause.family,
        title=cause.title,
        confidence=cause.confidence,
        rule=cause.rule,
        rank=first.rank,
        node=_node(first.node, row.nodes, cause.id is not None),
        failed_at=failed_at,
        ran_on_s=_between(failed_at, row),
        exit_code=exited.code,
        exit_signal=exited.signal,
        exit_class=exited.exit_class,
        world_size=size,
        launcher=found.facts.get("launcher"),
        evidence=_cut(first.text),
        evidence_file=first.file,
        evidence_line=first.line,
        fix=_cut(found.fixes[0].do) if found.fixes else None,
        retry=retry.advice if retry else None,
        exclude_nodes=retry.exclude_nodes if retry else (),
        notes=(*row.notes, *map(str, found.coverage.notes)),
    )


def _last_line(found: Diagnosis, how: How) -> str | None:
    """Where the cause is not known, the line that tells most of the end."""
    traits = current(map(Path, how.rules)).traits
    cause = found.cause.id
    if found.verdict == "no-failure" or not (cause is None or cause in traits["catch-all"]):
        return None
    line = found.last_words if cause in (None, *traits["exit-only"]) else found.first_failure.text
    return flat(line)[:_LONGEST] if line else None


def _node(shown: str | None, nodes: tuple[str, ...], failed: bool) -> str | None:
    """The node of the first failure: one of the job's, where these are known."""
    if not nodes:
        return shown
    own = {node.partition(".")[0]: node for node in nodes}
    return own.get((shown or "").partition(".")[0]) or (nodes[0] if len(nodes) == 1 and failed else None)


def _lost(row: Row, found: Diagnosis) -> Row:
    """The row with what the failure cost: what was computed since the newest checkpoint, where its time is known, else all."""
    if found.verdict != "failed" or row.gpu_hours is None:
        return row
    since = _between(_when(found.facts.get("checkpoint_time")), row)
    if since is not None and row.gpus is not None and row.elapsed_s is not None:
        lost = row.gpus * min(since, row.elapsed_s) / _HOUR
        return replace(row, gpu_hours_lost=lost, lost_counted="since-checkpoint")
    return replace(row, gpu_hours_lost=row.gpu_hours, lost_counted="whole-run")


def _when(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        return None


def _between(at: datetime | None, row: Row) -> float | None:
    """Seconds from a time in the log to the job's end; None where clocks disagree (a log in another zone)."""
    if at is None or row.ended is None:
        return None
    apart = (row.ended - at).total_seconds()
    if apart < -2 or (row.elapsed_s and apart > row.elapsed_s + 60):
        return None
    return max(0.0, apart)


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
