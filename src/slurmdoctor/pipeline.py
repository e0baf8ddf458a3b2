"""The whole program, top to bottom: read → search → attribute → assemble → order → infer → report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slurmdoctor import model
from slurmdoctor.infer import chart, infer
from slurmdoctor.input import APath, Given, LogText, Source, Text, UnreadError, notes as unread_notes, opened, unwrap
from slurmdoctor.knowledge import current, text
from slurmdoctor.model import (
    NEVER,
    Coverage,
    Deadline,
    JobFiles,
    JobRecord,
    Knowledge,
    Reason,
    ScriptEvidence,
    Verdict,
    reason,
)
from slurmdoctor.ranks import Excerpts, labels_of, learn_formats
from slurmdoctor.readers import assemble, find_lines, known_lines
from slurmdoctor.report import Diagnosis, Redactor, compose, sentence
from slurmdoctor.timeline import order, side_by_side

if TYPE_CHECKING:
    from slurmdoctor.slurm.script import Script

_NAMED = 3
"""Jobs that a note names."""
Progress = Callable[[int, "int | None"], None]
"""(bytes read since the last call, bytes to read in all where that is known)."""


def diagnose(
    job: Given | JobFiles,
    *,
    rules: Iterable[str | os.PathLike[str]] = (),
    exit_status: int | None = None,
    redact: str = "default",
    record: JobRecord | None = None,
    script: Script | None = None,
    begins: Mapping[str, int] | None = None,
    ends: Mapping[str, int] | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
    time_limit: float | None = None,
    rank_timelines: bool = True,
    failed: bool = False,
    classifier: bool = True,
    good: Iterable[APath] = (),
    kernel_logs: Iterable[APath] = (),
    dumps: Iterable[APath] | None = (),
) -> Diagnosis:
    """Say what broke a job, from what it left. All files are read as those of one job; `diagnose_jobs` tells several apart.

    `job` is a path, several paths of one job (files, folders, globs, `-`), or a log's text: bytes, or a str that holds a line end or
    `: `, or a blank without the looks of a path, and names no file. Any other str is a path, and raises LogNotFoundError where nothing
    is there. `LogText`s with names may stand among the paths. It may be one of the jobs that `jobs_of` tells apart. `rules` are folders of site rules, `exit_status` is the job's own
    where it is known, and `redact` is `default`, `strict` or `off`. `record` is what Slurm knows of the job, `script`
    its batch script. `begins` says of a path at which byte the text of this run begins: what an earlier run has written above it is left out; `ends` at which byte it ends, where a later run has written below it. Large logs are read by `jobs` processes at once; `progress` is called with
    the bytes read and their number, where that is known. After `time_limit` seconds the verdict is on what was read until then, and its coverage says how much that was; a disk that does not answer is still waited for. Without `rank_timelines` it is not worked out what each rank did over
    time, which only the page (`to_html`) and the trace need. `failed` says that the job failed, where its log may not show it; without the
    `classifier` only rules are asked. `good` are logs of the same job when it ended well: their lines are no reason why this one failed. `kernel_logs` are files in which nodes tell of the job's time: what dmesg, journalctl, nvidia-smi, DCGM and scontrol print. `dumps` are its flight recorder dumps: files, folders, globs; None are those that are found beside the logs of a job that hung. Raises UserError for input that cannot be read and for broken rule files.
    """
    deadline = Deadline.after(time_limit)
    if exit_status is not None and not isinstance(exit_status, int):
        raise TypeError(f"exit_status is the job's own number, not {exit_status!r}")
    knowledge = current([os.fspath(one) for one in ([rules] if isinstance(rules, (str, os.PathLike)) else rules)])
    given = opened(job)
    earlier = _earlier_left_out(given.sources, begins or {}, deadline)
    for source in given.sources:
        if ends and source.path is not None and source.path in ends:
            source.leave_out_below(ends[source.path])
    sources, pasted = unwrap(given.sources, knowledge)
    sources, of_nodes = _with_kernel_logs(sources, list(map(str, kernel_logs)), knowledge, record)
    script_evidence = _evidence_of(script)
    known = _lines_of(good, knowledge) if (good := tuple(good)) else None
    ask = partial(examine, sources, knowledge, exit_status, record, script_evidence, jobs, deadline=deadline)
    ask = partial(ask, rank_timelines=rank_timelines, failed=failed, classifier=classifier, known=known)
    try:
        found, of_dumps = _with_dumps(ask(progress=progress), ask, sources, given.sources, dumps, knowledge, jobs)
    finally:
        for source in sources:
            source.close()
    left_out = unread_notes(given.skipped, [source.fault for source in sources if source.fault])
    files, mixed = (job, ()) if isinstance(job, JobFiles) else _separated(given.sources)
    of_script = script_evidence.notes if script_evidence else ()
    notes = tuple(
        filter(None, (pasted, *map(sentence, (*earlier, *left_out, *mixed, *of_script, *of_nodes, *of_dumps))))
    )
    if notes:
        found = replace(found, coverage=replace(found.coverage, notes=(*notes, *found.coverage.notes)))
    return _masked(replace(found, job=_job(files, found, record)), redact, knowledge)


def _with_kernel_logs(
    sources: list[Source], paths: Sequence[str], knowledge: Knowledge, record: JobRecord | None
) -> tuple[list[Source], tuple[Reason, ...]]:
    """The sources, with what nodes tell; notes on what was left out."""
    if not paths:
        return sources, ()
    from slurmdoctor.readers import with_witnesses  # here and below: rare, and slow to import

    return with_witnesses(sources, paths, knowledge, knowledge.once(labels_of), record)


def _masked(found: model.Diagnosis, redact: str, knowledge: Knowledge) -> Diagnosis:
    """The verdict without secrets; the words of its cause's own fixes are none."""
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
    failed: bool = False,
) -> Diagnosis:
    """Say what broke a job, from its log's text or a part of it, in any form: it is never taken for a path."""
    how = {"exit_status": exit_status, "redact": redact, "time_limit": time_limit, "failed": failed}
    return diagnose(LogText(text), rules=rules, **how)  # type: ignore[arg-type]


def diagnose_job(
    job_id: int | str,
    *logs: str | os.PathLike[str] | LogText,
    rules: Iterable[str | os.PathLike[str]] = (),
    exit_status: int | None = None,
    redact: str = "default",
    time_limit: float | None = None,
) -> Diagnosis:
    """Say what broke a Slurm job, from its logs and from what scontrol and sacct know of it.

    The logs are those that are named, else those that Slurm names; a LogText is read beside them. Raises UserError where Slurm
    cannot be asked and no log is named.
    """
    from slurmdoctor.slurm import gather

    paths = [os.fspath(log) for log in logs if not isinstance(log, LogText)]
    job = gather(paths, job_id=str(job_id), exit_status=exit_status)
    return diagnose(
        [*job.logs, *(log for log in logs if isinstance(log, LogText))],
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
    rank_timelines: bool = False,
    failed: bool = False,
    classifier: bool = True,
    known: frozenset[int] | None = None,
) -> model.Diagnosis:
    """The verdict on opened sources: read → search → attribute → assemble → order → infer → report."""
    labels = knowledge.once(labels_of)
    formats = learn_formats(sources, labels, record.year if record is not None else None)
    matches = find_lines(sources, knowledge, labels, formats, jobs, _counter(sources, progress), deadline)
    lines = Excerpts(sources, matches, labels, formats, deadline)
    facts = script.facts if script is not None else {}
    observed = side_by_side(assemble(matches, lines, knowledge, facts, classifier, known))
    timeline = order(observed)
    finding = infer(timeline, observed, knowledge, exit_status, record, script, failed)
    drawn = chart(finding, timeline, observed, knowledge) if rank_timelines else model.RankTimelines()
    numbers = lines.numbers(finding.places | drawn.places)
    found = compose(finding, timeline, observed, knowledge, numbers, drawn)
    return replace(found, surroundings=lines.surroundings(finding.evidence, numbers))


def _with_dumps(
    found: model.Diagnosis,
    ask: Callable[[], model.Diagnosis],
    sources: list[Source],
    given: Sequence[Source],
    dumps: Iterable[APath] | None,
    knowledge: Knowledge,
    jobs: int,
) -> tuple[model.Diagnosis, tuple[Reason, ...]]:
    """The verdict with what the job's flight recorder dumps tell, as lines of a further log, and notes on those that were not read."""
    hung = found.verdict != "no-failure" and found.cause.id in knowledge.traits["hides-hang"] | {None}
    asked = None if dumps is None else [os.fspath(one) for one in dumps]
    if not (hung if asked is None else asked):
        return found, ()
    from slurmdoctor.readers import beside, lines_of, named, read_dumps

    of_the_job = [source.path for source in given if source.path is not None]
    files = beside(of_the_job) if asked is None else named(asked)
    if not files:
        return found, ()
    graph, left_out = read_dumps(files, found.first_failure.time, jobs)
    if not graph.waits and not graph.entered:
        return found, left_out
    for source in sources:
        source.searched = 0
    sources.append(Text.source("".join(f"{line}\n" for line in lines_of(graph)), "flight recorder dumps"))
    return ask(), left_out


def waits_of(paths: Iterable[APath], jobs: int = 1) -> tuple[str, ...]:
    """Who waits for whom, by flight recorder dumps (files, folders, globs), and what of these was not read: a line each."""
    from slurmdoctor.readers import lines_of, named, read_dumps

    graph, left_out = read_dumps(named([os.fspath(one) for one in paths]), jobs=jobs)
    return (*lines_of(graph, all=True), *map(sentence, left_out))


def _lines_of(good: Sequence[APath], knowledge: Knowledge) -> frozenset[int]:
    """What the lines of runs that ended well say. Raises UserError for one that cannot be read."""
    sources = opened(good).sources
    try:
        return known_lines(sources, knowledge.once(labels_of))
    finally:
        for source in sources:
            source.close()


def _earlier_left_out(sources: Sequence[Source], begins: Mapping[str, int], deadline: Deadline) -> tuple[Reason, ...]:
    """Begin each source where this run's text begins; a note on what was left out."""
    for source in sources:
        source.leave_out(begins.get(source.path or "", 0), deadline)
    cut = [source for source in sources if source.begins]
    lines = [source.lines_above for source in cut if source.lines_above is not None]
    counted = sum(lines) if len(lines) == len(cut) else None
    return (reason("earlier-run", files=len(cut), lines=counted, bytes=sum(s.begins for s in cut)),) if cut else ()


def diagnose_jobs(
    paths: APath | Iterable[APath | LogText],
    *,
    rules: Iterable[str | os.PathLike[str]] = (),
    redact: str = "default",
    jobs: int = 1,
    time_limit: float | None = None,
) -> Iterator[Diagnosis]:
    """Say of each job whose files the paths name what broke it; the verdict's `job` says which one it is.

    The files of a folder, or `LogText`s, are separated by the ids and names in their names, by folders, lines and times. Jobs come
    by id, each as soon as it is diagnosed; one that cannot be read has the verdict `unknown`. The options are those of
    `diagnose`, and hold for each job.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    texts = _by_name(one for one in given if isinstance(one, LogText))
    files = [one for one in given if not isinstance(one, LogText)]
    for one in jobs_of(files) if files else ():
        try:
            yield diagnose(one, rules=rules, redact=redact, jobs=jobs, time_limit=time_limit)
        except UnreadError as error:
            yield not_read(one, error, redact)
    named = split(list(texts), {name: log.data for name, log in texts.items()})
    for one in named:
        log = [texts[name] for name in one.files]
        found = diagnose(log, rules=rules, redact=redact, jobs=jobs, time_limit=time_limit)
        if len(named) > 1:  # alone, its texts may not tell which job it is
            masked = Redactor(redact).values(one)  # type: ignore[arg-type]
            found = replace(found, job=replace(masked, id=one.id or found.job.id))
        yield found


def _by_name(texts: Iterable[LogText]) -> dict[str, LogText]:
    """The texts; those of one name with a number."""
    found: dict[str, LogText] = {}
    for log in texts:
        number = sum(name == log.name or name.startswith(f"{log.name} (") for name in found)
        name = f"{log.name} ({number + 1})" if number else log.name
        found[name] = replace(log, name=name)
    return found


def unread_verdict(record: JobRecord | None) -> Verdict:
    """What Slurm alone says of a job whose log nobody asked for: that it completed, or nothing."""
    return "no-failure" if record is not None and record.state == "COMPLETED" else "unknown"


def not_read(job: JobFiles, error: UnreadError, redact: str = "default") -> Diagnosis:
    """The verdict on a job whose files cannot be read, where that must not be the end of the others: `unknown`, and why."""
    found = model.Diagnosis("unknown", coverage=Coverage(notes=(str(error),)), job=job)
    return Diagnosis.of(Redactor(redact).apply(found))  # type: ignore[arg-type]


def jobs_of(paths: Sequence[str | os.PathLike[str]], survey: bool = False) -> tuple[JobFiles, ...]:
    """The jobs whose files the paths name (files, folders, globs), by id.

    For a survey, files that nothing tells to be of one job are of several.
    """
    from slurmdoctor.input import expand

    files = expand(paths).paths
    together = not survey and sorted(files) == sorted(os.fspath(path) for path in paths)
    return split(files, together=together, survey=survey)


def split(
    files: Sequence[str],
    texts: Mapping[str, str | bytes] | None = None,
    *,
    together: bool = False,
    survey: bool = False,
) -> tuple[JobFiles, ...]:
    """The jobs of these files; `texts` are those that are in no file."""
    from slurmdoctor.input import looker, split_jobs  # a pasted text does not wait for them

    look = looker(text("own-job"), text("own-rank"), texts)
    return split_jobs(files, look, together=together, survey=survey)


def _separated(sources: Sequence[Source]) -> tuple[JobFiles, tuple[Reason, ...]]:
    """The one job that the files are read as; a note where they are of several, or may be."""
    files = [source.path for source in sources if source.path is not None]
    if len(files) == 1 and not any(map(str.isdigit, files[0])):
        return JobFiles(files=tuple(files)), ()  # without a number it names no job
    names = [source.name for source in sources] if not files and len(sources) > 1 else []
    found = split(files or names, None if files else {}, together=True) if files or names else ()
    if len(found) > 1:
        ids = [job.label for job in found]
        return JobFiles(files=tuple(files or names)), (
            reason("several-jobs", count=len(ids), jobs=tuple(ids[:_NAMED])),
        )
    one = found[0] if found else JobFiles()
    return one, (reason("perhaps-several-jobs"),) if one.doubtful else ()


def _job(job: JobFiles, found: model.Diagnosis, record: JobRecord | None) -> JobFiles:
    """Which job it is: by Slurm's record, else by the names of its files, else as its lines tell."""
    if record is not None:
        return replace(job, id=record.label, array_task=record.array_task, name=record.name or job.name)
    return replace(job, id=job.id or str(found.facts.get("job_id") or "") or None)


def _evidence_of(script: Script | None) -> ScriptEvidence | None:
    if script is None:
        return None
    from slurmdoctor.slurm.script import evidence_of  # only who brings a script waits for its checks

    try:
        return evidence_of(script)
    except Exception as error:  # tests/fuzz.py asks `evidence_of` itself; here a script must not cost the verdict
        why = f"internal error, {type(error).__name__}: please report it"
        return ScriptEvidence(script.name, {}, (), (reason("script-unread", name=script.name, why=why),))


def _counter(sources: Sequence[Source], progress: Progress | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    return lambda read: progress(read, total)
