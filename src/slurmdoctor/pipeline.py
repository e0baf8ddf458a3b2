"""The whole program, top to bottom: read → search → attribute → assemble → order → infer → report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slurmdoctor import model
from slurmdoctor.infer.infer import infer
from slurmdoctor.infer.lanes import chart
from slurmdoctor.input import paste, unread
from slurmdoctor.input.given import Given, LogText, opened
from slurmdoctor.input.sources import Source
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import JobRecord, Knowledge, ScriptEvidence
from slurmdoctor.model.deadline import NEVER, Deadline
from slurmdoctor.model.finding import Reason, reason
from slurmdoctor.model.jobs import JobFiles
from slurmdoctor.model.lanes import Courses
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.source_format import learn_formats
from slurmdoctor.readers.assemble import assemble
from slurmdoctor.readers.surroundings import surroundings
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
    job: Given,
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
    lanes: bool = True,
) -> Diagnosis:
    """Say what broke a job, from what it left.

    `job` is a path, several paths of one job (files, folders, globs, `-`), or a log's text: bytes, or a str that holds a line end or
    `: `, or a blank without the looks of a path, and names no file. Any other str is a path, and raises LogNotFoundError where nothing
    is there. `LogText`s with names may stand among the paths. `rules` are folders of site rules, `exit_status` is the job's own
    where it is known, and `redact` is `default`, `strict` or `off`. `record` is what Slurm knows of the job, `script`
    its batch script. `begins` says of a path at which byte the text of this run begins: what an earlier run has written
    above it is left out. Large logs are read by `jobs` processes at once; `progress` is told the bytes read and their
    number, where that is known. After `time_limit` seconds the verdict is on what was read until then, and its coverage says how
    much that was; a disk that does not answer is still waited for. Without `lanes` it is not worked out what each rank did over
    time, which only the page (`to_html`) and the trace need. Raises UserError for input that cannot be read and for broken
    rule files.
    """
    from slurmdoctor.report.redact import Redactor

    deadline = Deadline.after(time_limit)
    knowledge = load(folders(map(Path, rules)), examples=False)
    given = opened(job)
    earlier = _earlier_left_out(given.sources, begins or {}, deadline)
    sources, pasted = paste.unwrap(given.sources, knowledge)
    try:
        found = examine(sources, knowledge, exit_status, record, _evidence_of(script), jobs, progress, deadline, lanes)
    finally:
        for source in sources:
            source.close()
    not_read = unread.notes(given.skipped, [source.fault for source in sources if source.fault])
    notes = tuple(filter(None, (pasted, *map(sentence, (*earlier, *not_read)))))
    if notes:
        found = replace(found, coverage=replace(found.coverage, notes=(*notes, *found.coverage.notes)))
    found = replace(found, job=_job(found, sources, record))
    cause = knowledge.causes.get(found.cause.id or "") if found.cause else None
    own = "\n".join(f"{fix.do}\n{fix.why}" for fix in cause.fixes) if cause else ""
    return Diagnosis.of(Redactor(redact, knowledge.secrets, own).apply(found))  # type: ignore[arg-type]


def diagnose_text(
    text: str | bytes,
    *,
    rules: Iterable[str | os.PathLike[str]] = (),
    exit_status: int | None = None,
    redact: str = "default",
    time_limit: float | None = None,
) -> Diagnosis:
    """Say what broke a job, from its log's text or a part of it, whatever it looks like: it is never taken for a path."""
    return diagnose(LogText(text), rules=rules, exit_status=exit_status, redact=redact, time_limit=time_limit)


def diagnose_job(
    job_id: int | str,
    *paths: str | os.PathLike[str],
    rules: Iterable[str | os.PathLike[str]] = (),
    exit_status: int | None = None,
    redact: str = "default",
    time_limit: float | None = None,
) -> Diagnosis:
    """Say what broke a Slurm job, from its logs and from what scontrol and sacct know of it.

    Without `paths` the logs are those that Slurm names. Raises UserError where neither they nor Slurm can be asked.
    """
    from slurmdoctor.slurm.job import gather

    job = gather([os.fspath(path) for path in paths], job_id=str(job_id), exit_status=exit_status)
    return diagnose(
        job.logs,
        rules=rules,
        exit_status=exit_status,
        redact=redact,
        record=job.record,
        script=job.script,
        begins=job.begins,
        time_limit=time_limit,
    )


def examine(
    sources: Sequence[Source],
    knowledge: Knowledge,
    exit_status: int | None = None,
    record: JobRecord | None = None,
    script: ScriptEvidence | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    deadline: Deadline = NEVER,
    lanes: bool = False,
) -> model.Diagnosis:
    """The verdict on opened sources: read → search → attribute → assemble → order → infer → report."""
    labels = LabelReader(knowledge.formats)
    formats = learn_formats(sources, labels, record.year if record is not None else None)
    matches = find_lines(sources, knowledge, labels, formats, jobs, _counter(sources, progress), deadline)
    lines = Lines(sources, matches, labels, formats, deadline)
    observed = assemble(matches, lines, knowledge, script.facts if script is not None else {})
    timeline = order(observed)
    finding = infer(timeline, observed, knowledge, exit_status, record, script)
    courses = chart(finding, timeline, observed, knowledge) if lanes else Courses()
    numbers = lines.numbers(finding.places | courses.places)
    found = compose(finding, timeline, observed, knowledge, numbers, courses)
    return replace(found, surroundings=surroundings(finding.evidence, lines, numbers))


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
