"""A job's record, from the text of `scontrol show job` and `sacct`. Pure.

Formats: Slurm 20 to 25. scontrol prints `Key=value` pairs, several a line; sacct a table, aligned or with `|`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from slurmdoctor.model import FAILED, RUNNING, WAITING, JobRecord
from slurmdoctor.slurm.slurm_text import bad_nodes, read_sacct, read_scontrol, whole

_WORST = (
    "NODE_FAIL",
    "BOOT_FAIL",
    "OUT_OF_MEMORY",
    "FAILED",
    "TIMEOUT",
    "DEADLINE",
    "PREEMPTED",
    "REQUEUED",
    "CANCELLED",
)


def read(texts: Iterable[tuple[str, str]], job_id: str | None = None) -> JobRecord | None:
    """The job in the texts, each of which comes with its name: the one asked for, or the one that failed worst."""
    jobs, bad, step = _read(texts, job_id)
    if not jobs:
        return None
    chosen = worst(jobs)
    others = tuple(label(job) for job in jobs if job is not chosen and job.state in FAILED)
    return replace(_finished(chosen, bad, step), siblings=others)


def worst(jobs: Iterable[JobRecord]) -> JobRecord:
    """The one that failed worst."""
    return min(jobs, key=_badness)


def tasks(texts: Iterable[tuple[str, str]], array: str) -> list[JobRecord]:
    """All tasks of an array, those that wait as one; none where the id is no array's."""
    jobs, bad, _ = _read(texts, array)
    own = sorted(
        (job for job in jobs if job.array_job == array), key=lambda job: (job.array_task is None, job.array_task)
    )
    waiting = [job for job in own if job.array_task is None]  # scontrol and sacct write them differently
    return [_finished(job, bad, "") for job in own if job.array_task is not None or job is waiting[0]]


def by_name(texts: Iterable[tuple[str, str]]) -> dict[str, JobRecord]:
    """All jobs in the texts, by each id that people and files call them by."""
    jobs, bad, _ = _read(texts, None)
    found: dict[str, JobRecord] = {}
    for job in jobs:
        done = _finished(job, bad, "")
        for name in {label(job), *filter(None, [job.raw_id]), *_names(job)}:
            found.setdefault(name, done)
    return found


def _read(texts: Iterable[tuple[str, str]], job_id: str | None) -> tuple[list[JobRecord], dict[str, str], str]:
    """The jobs that the id stands for, the nodes that are down, and the step that it names."""
    records: list[JobRecord] = []
    tables: list[JobRecord] = []
    bad: dict[str, str] = {}
    for name, text in texts:
        if "JobId=" in text:
            records += read_scontrol(text, name)
        bad |= bad_nodes(text)
        tables += read_sacct(text, name)
    wanted, _, step = (job_id or "").partition(".")
    return _matching([*_joined(records, tables)], wanted), bad, step


def _finished(job: JobRecord, bad: Mapping[str, str], step: str) -> JobRecord:
    job = replace(job, bad_nodes={n: w for n, w in bad.items() if n in job.nodes})
    if job.restarts:  # Slurm carries it over from the run before
        job = replace(job, derived=None)
    return _narrowed(job, step) if step else job


def looks_like_slurm(text: str) -> bool:
    """Whether a text is one that `read` understands."""
    head = text[:4000]
    return "JobId=" in head or "NodeName=" in head or re.search(r"^\s*JobID(?:Raw)?[\s|]", head, re.M) is not None


def _joined(records: Sequence[JobRecord], tables: Sequence[JobRecord]) -> list[JobRecord]:
    """The records of scontrol and sacct on the same job as one: sacct has the steps and who cancelled, scontrol the exact codes."""
    left: dict[str, list[JobRecord]] = {}
    for row in tables:
        left.setdefault(row.id, []).append(row)
    found: list[JobRecord] = []
    for record in records:
        rows = next((left[name] for name in sorted(_names(record)) if left.get(name)), None)
        found.append(_merged(record, rows.pop(0)) if rows else record)
    return [*found, *(row for rows in left.values() for row in rows)]


def _merged(record: JobRecord, row: JobRecord) -> JobRecord:
    filled: dict[str, Any] = {
        name: getattr(row, name)
        for name in JobRecord.__struct_fields__
        if getattr(record, name) is None and getattr(row, name) is not None
    }
    if row.state in FAILED and record.state not in FAILED | RUNNING | WAITING:
        filled["state"] = row.state
    if len(row.nodes) > len(record.nodes):  # scontrol leaves out the nodes that a job lost
        filled["nodes"] = row.nodes
    quotes = {**row.quotes, **record.quotes}
    return replace(record, **filled, steps=row.steps, quotes=quotes, sources=record.sources | row.sources)


def _names(job: JobRecord) -> set[str]:
    names = {job.id}
    if job.array_job and job.array_task is not None:
        names.add(f"{job.array_job}_{job.array_task}")
    if job.het_offset is not None and (head := whole(job.id)) is not None:
        names |= {f"{head}+{job.het_offset}", f"{head - job.het_offset}+{job.het_offset}"}
    return names


def _matching(jobs: list[JobRecord], wanted: str) -> list[JobRecord]:
    if not wanted:
        return jobs
    exact = [job for job in jobs if wanted in _names(job)]
    if exact and len(jobs) == 1:
        return exact
    family = [
        job for job in jobs if job.array_job == wanted or any(name.startswith(f"{wanted}+") for name in _names(job))
    ]
    return family if len(family) > 1 else exact or family


def _badness(job: JobRecord) -> tuple[int, int, str]:
    """Failed jobs first, then running ones; the lowest array task among equals."""
    rank = 0 if job.state in FAILED else 1 if job.state in RUNNING else 3 if job.state in WAITING else 2
    if rank == 0 and job.state in _WORST:
        return (0, job.array_task if job.array_task is not None else _WORST.index(job.state), job.id)
    return (rank, job.array_task or 0, job.id)


def label(job: JobRecord) -> str:
    """The id as people know it: an array's with the task."""
    return f"{job.array_job}_{job.array_task}" if job.array_job and job.array_task is not None else job.id


def _narrowed(job: JobRecord, step: str) -> JobRecord:
    """The job as seen from one of its steps."""
    own = next((s for s in job.steps if s.id == step), None)
    if own is None:
        return replace(job, step=step, missing=(*job.missing, f"step {job.id}.{step} (not in sacct's table)"))
    quotes = {**job.quotes, "state": own.quote, "exit": own.quote} if own.quote else job.quotes
    return replace(
        job,
        step=step,
        state=own.state or job.state,
        exit=own.exit or job.exit,
        nodes=own.nodes or job.nodes,
        elapsed=own.elapsed if own.elapsed is not None else job.elapsed,
        steps=(own,),
        quotes=quotes,
    )
