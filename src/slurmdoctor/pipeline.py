"""The whole program, top to bottom: sources → scan → events → timeline → verdict."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from slurmdoctor.infer import infer
from slurmdoctor.infer.facts import collect
from slurmdoctor.input import paste
from slurmdoctor.input.sources import Source, Text, open_sources
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import Diagnosis, Knowledge, Matcher, SourceFormat
from slurmdoctor.ranks import origins
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.readers import targets as readers
from slurmdoctor.readers.assemble import assemble
from slurmdoctor.report import verdict
from slurmdoctor.search.labels import labeller
from slurmdoctor.search.scan import scan
from slurmdoctor.timeline import order as timeline
from slurmdoctor.timeline import told

if TYPE_CHECKING:
    from slurmdoctor.slurm.record import JobInfo
    from slurmdoctor.slurm.script.model import Script

Progress = Callable[[int, "int | None"], None]
"""(bytes read since the last call, bytes to read in all where that is known)."""
SAMPLE = 96 * 1024
"""Bytes at a log's head, and as many spread over it, from which its labels are learnt."""
_QUOTED = "  │ ".encode()
"""How our own report quotes a log: what a job's footer wrote into it is no news."""


def diagnose(
    job: str | bytes | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Source],
    *,
    rules: Iterable[str | os.PathLike[str]] = (),
    exit_status: int | None = None,
    redact: str = "default",
    record: JobInfo | None = None,
    script: Script | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Diagnosis:
    """Say what broke a job, from what it left.

    `job` is a log's text (a str or bytes with a line end in it, or that names no file), a path, or several paths
    (files, folders, globs, `-`), or opened sources. `rules` are folders of site rules, `exit_status` is the job's own
    where it is known, and `redact` is `default`, `strict` or `off`. `record` is what Slurm knows of the job, `script`
    its batch script. Large logs are read by `jobs` processes at once; `progress` is told the bytes read and their
    number, where that is known. Raises UserError for input that cannot be read and for broken rule files.
    """
    from slurmdoctor.report.redact import Redactor

    knowledge = load(folders(map(Path, rules)), examples=False)
    sources, pasted = paste.unwrap(_sources(job))
    try:
        found = examine(sources, knowledge, exit_status, record, script, jobs, progress)
    finally:
        for source in sources:
            source.close()
    if pasted:
        found = replace(found, coverage=replace(found.coverage, notes=(pasted, *found.coverage.notes)))
    return Redactor(redact).apply(found)  # type: ignore[arg-type]


def examine(
    sources: Sequence[Source],
    knowledge: Knowledge,
    exit_status: int | None = None,
    record: JobInfo | None = None,
    script: Script | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Diagnosis:
    """The verdict on opened sources."""
    if record is not None:
        from slurmdoctor.slurm import attest, witness  # only who brings a record or a script waits for them
    if script is not None:
        from slurmdoctor.slurm.script import sharpen
    traits = learn(sources, knowledge)

    def strip_labels(number: int, line: bytes) -> str:
        return origins.peel(line.decode("utf-8", "replace"), knowledge.formats, traits[number])[1]

    def confirm_line(matcher: Matcher, line: bytes, text: str) -> str | None:
        return None if line.startswith(_QUOTED) else readers.confirm_line(matcher, line, text)

    labellers = [labeller(t.locked, t.label_is_node, t.stamped) for t in traits]
    seen = scan(
        sources,
        readers.matchers(knowledge),
        strip_labels,
        confirm_line,
        labellers,
        jobs=jobs,
        progress=_counter(sources, progress),
        could_match=readers.could_match,
    )
    lines = Lines(sources, seen, knowledge.formats, traits)
    assembled = assemble(seen, lines, knowledge)
    story = timeline.build(assembled)
    facts = collect(assembled, story)
    if exit_status is None and record is not None:
        exit_status = witness.exit_status(record)
    finding = infer.infer(story, assembled, knowledge.causes, lines, exit_status)
    facts |= told.settle(finding, story, assembled)
    if record is not None:
        witness.weigh(finding, story, record)
        facts |= attest.facts(record, story)
    if script is not None:
        facts |= sharpen.facts(script, facts)
    found = verdict.compose(finding, story, assembled, facts, lines, knowledge)
    found = attest.attest(found, record) if record is not None else found
    return sharpen.sharpen(found, script) if script is not None else found


def _counter(sources: Sequence[Source], progress: Progress | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    sizes = [source.size for source in sources]
    total = None if None in sizes else sum(size or 0 for size in sizes)
    return lambda read: progress(read, total)


def learn(sources: Sequence[Source], knowledge: Knowledge) -> list[SourceFormat]:
    """What each source's lines have in common; the year may come from any of them."""
    traits = [origins.learn(source.sample(SAMPLE), knowledge.formats) for source in sources]
    return [origins.merge(t, traits) for t in traits]


def _sources(job: str | bytes | os.PathLike[str] | Sequence[str | os.PathLike[str]] | Sequence[Source]) -> list[Source]:
    if not isinstance(job, (str, bytes, os.PathLike)) and any(isinstance(one, Source) for one in job):
        return [one for one in job if isinstance(one, Source)]
    if isinstance(job, bytes) or (isinstance(job, str) and ("\n" in job or not _names_something(job))):
        return [Text.source(job)]
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
