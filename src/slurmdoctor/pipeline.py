"""The whole program, top to bottom: read → search → attribute → assemble → order → infer → report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slurmdoctor import model
from slurmdoctor.infer.infer import infer
from slurmdoctor.input import paste, unread
from slurmdoctor.input.opening import Opened, open_sources
from slurmdoctor.input.sources import Source, Text
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import JobRecord, Knowledge, ScriptEvidence
from slurmdoctor.model.deadline import NEVER, Deadline
from slurmdoctor.model.finding import Reason, reason
from slurmdoctor.model.jobs import JobFiles
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.source_format import learn_formats
from slurmdoctor.readers.assemble import assemble
from slurmdoctor.readers.targets import find_lines
from slurmdoctor.report.compose import compose
from slurmdoctor.report.reasons import sentence
from slurmdoctor.report.result import Diagnosis
from slurmdoctor.timeline.order import order

if TYPE_CHECKING:
    from slurmdoctor.slurm.script.model import Script

Progress = Callable[[int, "int | None"], None]
"""(bytes read since the last call, bytes to read in all where that is known)."""


def diagnose(
    job: str | bytes | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Source],
    *,
    rules: Iterable[str | os.PathLike[str]] = (),
    exit_status: int | None = None,
    redact: str = "default",
    record: JobRecord | None = None,
    script: Script | None = None,
    begins: Mapping[str, int] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> Diagnosis:
    """Say what broke a job, from what it left.

    `job` is a log's text (a str or bytes with a line end in it, or that names no file), a path, or several paths
    (files, folders, globs, `-`), or opened sources. `rules` are folders of site rules, `exit_status` is the job's own
    where it is known, and `redact` is `default`, `strict` or `off`. `record` is what Slurm knows of the job, `script`
    its batch script. `begins` says of a path at which byte the text of this run begins: what an earlier run has written
    above it is left out. Large logs are read by `jobs` processes at once; `progress` is told the bytes read and their
    number, where that is known. After `time_limit` seconds the verdict is on what was read until then, and its coverage says how
    much that was; a disk that does not answer is still waited for. Raises UserError for input that cannot be read and for broken
    rule files.
    """
    from slurmdoctor.report.redact import Redactor

    deadline = Deadline.after(time_limit)
    knowledge = load(folders(map(Path, rules)), examples=False)
    opened = _opened(job)
    earlier = _earlier_left_out(opened.sources, begins or {}, deadline)
    sources, pasted = paste.unwrap(opened.sources, knowledge)
    try:
        found = examine(sources, knowledge, exit_status, record, _evidence_of(script), jobs, progress, deadline)
    finally:
        for source in sources:
            source.close()
    not_read = unread.notes(opened.skipped, [source.fault for source in sources if source.fault])
    notes = tuple(filter(None, (pasted, *map(sentence, (*earlier, *not_read)))))
    if notes:
        found = replace(found, coverage=replace(found.coverage, notes=(*notes, *found.coverage.notes)))
    found = replace(found, job=_job(found, sources, record))
    return Diagnosis.of(Redactor(redact, knowledge.secrets).apply(found))  # type: ignore[arg-type]


def examine(
    sources: Sequence[Source],
    knowledge: Knowledge,
    exit_status: int | None = None,
    record: JobRecord | None = None,
    script: ScriptEvidence | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    deadline: Deadline = NEVER,
) -> model.Diagnosis:
    """The verdict on opened sources: read → search → attribute → assemble → order → infer → report."""
    labels = LabelReader(knowledge.formats)
    formats = learn_formats(sources, labels)
    matches = find_lines(sources, knowledge, labels, formats, jobs, _counter(sources, progress), deadline)
    lines = Lines(sources, matches, labels, formats, deadline)
    observed = assemble(matches, lines, knowledge, script.facts if script is not None else {})
    timeline = order(observed)
    finding = infer(timeline, observed, knowledge, exit_status, record, script)
    return compose(finding, timeline, observed, knowledge, lines.numbers(finding.places))


def _earlier_left_out(sources: Sequence[Source], begins: Mapping[str, int], deadline: Deadline) -> tuple[Reason, ...]:
    """Begin each source where this run's text begins; a note on what was left out."""
    for source in sources:
        source.leave_out(begins.get(source.path or "", 0), deadline)
    cut = [source for source in sources if source.begins]
    lines = [source.lines_above for source in cut if source.lines_above is not None]
    told = sum(lines) if len(lines) == len(cut) else None
    return (reason("earlier-run", files=len(cut), lines=told, bytes=sum(s.begins for s in cut)),) if cut else ()


def _job(found: model.Diagnosis, sources: Sequence[Source], record: JobRecord | None) -> JobFiles:
    """Which job it is: by Slurm's record, else as its log and the names of its files tell."""
    files = tuple(source.path for source in sources if source.path is not None)
    if record is not None:
        task = record.array_task
        ident = record.id if task is None or record.array_job is None else f"{record.array_job}_{task}"
        return JobFiles(ident, task, record.name, files)
    ident = str(found.facts.get("job_id") or "")
    task_of_array = ident.partition("_")[2]
    return JobFiles(ident or None, int(task_of_array) if task_of_array else None, None, files)


def _evidence_of(script: Script | None) -> ScriptEvidence | None:
    if script is None:
        return None
    from slurmdoctor.slurm.script.lint import evidence_of  # only who brings a script waits for its checks

    return evidence_of(script)


def _counter(sources: Sequence[Source], progress: Progress | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    return lambda read: progress(read, total)


def _opened(job: str | bytes | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Source]) -> Opened:
    if not isinstance(job, (str, bytes, os.PathLike)) and any(isinstance(one, Source) for one in job):
        return Opened([one for one in job if isinstance(one, Source)])
    if isinstance(job, bytes) or (isinstance(job, str) and ("\n" in job or not _names_something(job))):
        return Opened([Text.source(job)])
    paths = [job] if isinstance(job, (str, os.PathLike)) else [one for one in job if not isinstance(one, Source)]
    return open_sources(paths)


def _names_something(text: str) -> bool:
    if not text.strip() or "\0" in text:
        return False
    pattern = any(c in text for c in "*?[") and ": " not in text  # `[rank3]: ...` is a line of a log
    try:
        return text == "-" or Path(text).exists() or pattern
    except OSError:  # longer than a name can be
        return False
