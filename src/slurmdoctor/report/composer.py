"""Words the finding: a Diagnosis with its evidence, cascade, fixes, retry advice and coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

from msgspec.structs import replace

from slurmdoctor.matching import apart, search
from slurmdoctor.model import (
    EXIT_CODE,
    Cascade,
    Cause,
    Coverage,
    Diagnosis,
    Event,
    Evidence,
    Exit,
    Finding,
    FirstFailure,
    FoundLogs,
    Incident,
    JobRecord,
    Knowledge,
    NamedCause,
    Observations,
    Origin,
    Place,
    RankGroup,
    RankStanding,
    RankTimelines,
    Rival,
    Timeline,
    format_time,
    parse_time,
    when,
)
from slurmdoctor.report.fixes import advise, derive, derived_facts, names_for_fixes, verify
from slurmdoctor.report.reasons import as_sentences, sentence, sentences
from slurmdoctor.report.redaction import one_line, redact
from slurmdoctor.report.terminal import cut
from slurmdoctor.report.wording import exit_words, meaning_of

_MOST_RIVALS = 3
Numbers = Mapping[tuple[int, int], "int | None"]
"""(source, offset) of a line -> its number; None behind text that was not read."""

_TITLE_OF_SUSPECT = {
    "mismatch": "called a different collective from the other ranks",
    "behind": "never joined the collective that the other ranks waited in",
    "missing": "never joined the collective that the other ranks waited in",
    "lost": "stopped answering, so that the others gave up",
    "awaited": "kept the other ranks waiting for its ncclUniqueId",
    "all-entered": "hung inside a collective all ranks had entered (network or GPU)",
}


def compose(
    finding: Finding,
    timeline: Timeline,
    observed: Observations,
    knowledge: Knowledge,
    numbers: Numbers,
    rank_timelines: RankTimelines,
) -> Diagnosis:
    """Everything that the report formats show. `numbers` are those of the lines in `finding.places` and of the rank timelines."""
    cause = knowledge.causes[finding.cause] if finding.verdict == "failed" and finding.cause is not None else None
    facts, names = dict(finding.facts), {}
    if cause is not None:
        names = names_for_fixes(finding, timeline, observed)
        derived = derive(cause, names)
        names |= derived
        facts |= derived_facts(cause, derived)
    lines = _Lines(observed, numbers)
    proof, quoted = tuple(lines.proof(event) for event in finding.evidence), _quoted(finding)
    named = _named(finding, cause) if cause is not None else NamedCause()
    found = Diagnosis(
        finding.verdict,
        evidence=proof,
        reasons=as_sentences(finding.reasons, knowledge),
        facts=facts,
        coverage=_coverage(finding, timeline, observed),
        rank_timelines=_worded(rank_timelines, observed, numbers, named.title or ""),
        last_words=last.text if (last := observed.ending.read or observed.ending.telling) else None,
    )
    if cause is None:
        return found
    fixes, retry = advise(finding, knowledge, cause, names)
    return replace(
        found,
        cause=named,
        first_failure=_first(finding, lines, cause),
        exit=_exit(finding),
        evidence=(*quoted, *proof) if finding.root is None else (*proof, *quoted),
        cascade=_cascade(finding, lines, knowledge),
        others=_rivals(finding),
        fixes=fixes,
        verify=verify(cause, names),
        retry=retry,
        ranks=tuple(lines.rank_group(standing) for standing in finding.standings),
        extent=finding.extent,
    )


def _quoted(finding: Finding) -> tuple[Evidence, ...]:
    """Slurm's own line."""
    quote, cause = finding.quote, finding.cause
    if quote is None:
        return ()
    return (Evidence(quote.source, quote.line, quote.text, None, None, None, f"{cause}/slurm", cause, "confirmation"),)


class _Lines:
    """Names and numbers of the lines that are shown."""

    def __init__(self, observed: Observations, numbers: Numbers) -> None:
        self._files = observed.files
        self._numbers = numbers
        self._zone = observed.zone

    def place(self, place: tuple[int, int]) -> tuple[str, int | None]:
        """A line's file and number."""
        return self._files[place[0]].name, self._numbers[place]

    def time(self, event: Event, origin: Origin) -> tuple[str | None, str | None]:
        """(The moment, the time of day) as the log shows them."""
        # Slurm writes its time within its line; any other would be carried there from the line above
        own = parse_time(event.captures.get("at", ""))
        if own is not None:
            return when(format_time(own, line=event.hit.raw))
        return when(format_time(origin.time, origin.dated, event.hit.raw, self._zone))

    def proof(self, event: Event) -> Evidence:
        """An event's line as evidence."""
        file, line = self.place(event.hit.place)
        origin = event.origin
        time, clock = self.time(event, origin)
        text = event.hit.raw.strip()
        return Evidence(
            file, line, text, origin.rank, origin.node, time, event.rule or None, event.cause or None, event.role, clock
        )

    def rank_group(self, standing: RankStanding) -> RankGroup:
        """Ranks with the same state, with the line that shows it."""
        file, line = self.place(standing.place) if standing.place is not None else (None, None)
        return RankGroup(standing.standing, standing.ranks, sentences(standing.why) or "", file, line)


def _named(finding: Finding, cause: Cause) -> NamedCause:
    title = _TITLE_OF_SUSPECT.get(finding.held_up or "", cause.title)
    return NamedCause(cause.id, cause.family, title, finding.rule, finding.confidence or "low")


def _first(finding: Finding, lines: _Lines, cause: Cause) -> FirstFailure:
    root, origin = finding.root, finding.origin
    how = sentences(finding.how)
    if root is None:
        if (quote := finding.quote) is None:
            return FirstFailure(node=origin.node, how=how)
        return FirstFailure(node=origin.node, file=quote.source, line=quote.line, text=quote.text, how=how)
    file, line = lines.place(root.main.hit.place)
    text = root.main.hit.text.strip() or root.main.hit.raw.strip()
    time, clock = lines.time(root.main, origin)
    return FirstFailure(
        rank=origin.rank,
        local_rank=origin.local_rank,
        worker=origin.worker if origin.rank is None else None,
        node=origin.node,
        time=time,
        clock=clock,
        file=file,
        line=line,
        text=text,
        traceback=root.main.traceback,
        ranks=finding.together,
        how=how,
        telling=_telling(text, root.main.rule, cause),
    )


def _telling(text: str, rule_id: str, cause: Cause) -> tuple[int, int] | None:
    """From where to where its rule takes a text."""
    rule = cause.rule_named(rule_id)
    try:
        found = search(apart(rule.regex), text, rule.of_site) if rule is not None else None
    except TimeoutError:
        return None
    return found.span() if found else None


def _exit(finding: Finding) -> Exit:
    end = finding.exit
    if end is None:
        return Exit(step_code=finding.step_code)
    how = sentences(finding.exit_how)
    return Exit(end.code, end.signal, end.exit_class, finding.step_code, how, meaning_of(end.exit_class))


def _cascade(finding: Finding, lines: _Lines, knowledge: Knowledge) -> tuple[Cascade, ...]:
    by_cause: dict[str, list[Incident]] = {}
    for incident in finding.cascade:
        if incident.cause != EXIT_CODE:
            by_cause.setdefault(incident.cause, []).append(incident)
    start = finding.root.main.origin.time if finding.root else None
    found = []
    for cause, incidents in by_cause.items():
        first = incidents[0].main
        file, line = lines.place(first.hit.place)
        time = first.origin.time
        delay = time - start if start is not None and time is not None and time >= start else None
        ranks = {rank for i in incidents for e in i.events for rank in e.ranks}
        count = sum(e.count for i in incidents for e in i.events)
        known = knowledge.causes.get(cause)
        place = Place(file, line, *lines.time(first, first.origin))
        found.append(Cascade(cause, known.title if known else None, len(ranks), count, delay, place))
    return tuple(found)


def _rivals(finding: Finding) -> tuple[Rival, ...]:
    found: dict[str, Rival] = {}
    for incident in finding.rivals:
        rank = incident.main.origin.rank
        where = f"on rank {rank}" if rank is not None else "in the log"
        text = cut(incident.main.hit.text.strip(), 120)
        why = f"also {where}, later; nothing shows that it follows from the first: {text}"
        found.setdefault(incident.cause, Rival(incident.cause, "low", why))
    return tuple(found.values())[:_MOST_RIVALS]


# ── what was read ────────────────────────────────────────────────────────────────────────────


def _coverage(finding: Finding, timeline: Timeline, observed: Observations) -> Coverage:
    """What was read; what Slurm was asked and did not answer; how the logs were found, and other failed tasks of the job."""
    missing: Sequence[str] = _SOURCES
    notes = list(map(sentence, (*finding.notes, *observed.notes, *timeline.notes)))
    if (job := finding.record) is not None:
        unanswered = (who for who in _SOURCES if who not in job.sources)
        missing = [*job.missing, *(who for who in unanswered if not any(m.startswith(who) for m in job.missing))]
        notes[:0] = [how_found(job, job.found)] if job.found is not None else []
        notes += _comments(job)
        if job.siblings:
            more = len(job.siblings) - _MOST_SIBLINGS
            notes.append(f"also failed: {', '.join(job.siblings[:_MOST_SIBLINGS])}{f' and {more} more' * (more > 0)}")
    return Coverage(
        bytes=sum(file.bytes for file in observed.files),
        lines=sum(file.lines for file in observed.files),
        files=len(observed.files),
        ranks_seen=len(observed.ranks_seen),
        silent_ranks=_silent(finding, observed),
        order=timeline.order,
        missing=tuple(dict.fromkeys(missing)),
        notes=tuple(notes),
    )


def _comments(job: JobRecord) -> list[str]:
    """What operators and plugins have written to the job's record; jobstats keeps packed numbers there."""
    texts = {"AdminComment": job.admin_comment, "SystemComment": job.system_comment}
    return [
        f"{name}: {cut(one_line(redact(text)), 120)}"
        for name, text in texts.items()
        if text and not text.startswith("JS1:")
    ]


def _silent(finding: Finding, observed: Observations) -> tuple[int, ...]:
    """The ranks that were waited for, or may have been, and of which no line was read."""
    suspicion = finding.suspicion
    if suspicion is None:
        return ()
    missing = suspicion.ranks if suspicion.kind in ("missing", "lost") else ()
    return tuple(sorted({*missing, *suspicion.silent} - observed.ranks_that_printed))


_SOURCES = ("sacct", "scontrol")
_MOST_SIBLINGS = 8
_NO_RECORD = {
    "unreachable": "Slurm is not reachable from here",
    "gone": "Slurm no longer knows job {job}",
    "silent": "Slurm does not say where the log is",
    "elsewhere": "the log that Slurm names, {log}, is not here",
}
_HOW = {
    "submit-line": "named on the command line of sbatch",
    "script": "named in the batch script",
    "comment": "named in the job's comment",
}
"""How a job's logs were found, where it was not by their names."""


def how_found(job: JobRecord, found: FoundLogs) -> str:
    """`Slurm is not reachable from here: read ./slurm-4711.out, found by its name`."""
    first, count = found.files[0], len(found.files)
    shown = one_line(redact(first if "/" in first else f"./{first}"))
    names = shown if count == 1 else f"{shown} and {count - 1:,} more"
    how = _HOW[found.how] if found.how != "name" else f"found by {'its name' if count == 1 else 'their names'}"
    why = _NO_RECORD[found.slurm].format(job=job.id, log=one_line(redact(job.std_out or "")))
    return f"{why}: read {names}, {how}"


_TICKS = 7
"""Labels of an axis, at most."""
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200)
"""Seconds between labels; days beyond."""


def _worded(rank_timelines: RankTimelines, observed: Observations, numbers: Numbers, title: str) -> RankTimelines:
    """The ranks over time as a page shows them. `title` says what a rank did that printed nothing of its failure."""
    if not rank_timelines.timelines:
        return rank_timelines
    worded = []
    for one in rank_timelines.timelines:
        ended = exit_words(one.exit) if one.exit is not None else ""
        instead = {"first": title, "exit": ended}
        marks = [
            replace(mark, text=mark.text or instead.get(mark.kind) or mark.cause or "")
            if mark.place is None
            else replace(mark, file=observed.files[mark.place[0]].name, line=numbers.get(mark.place))
            for mark in one.marks
        ]
        worded.append(replace(one, marks=tuple(marks), ended=ended))
    since = format_time(rank_timelines.start, rank_timelines.dated, zone=observed.zone) or ""
    ticks = tuple(_times(rank_timelines.start, rank_timelines.end))
    return replace(rank_timelines, timelines=tuple(worded), since=since.replace("T", " "), ticks=ticks)


def _times(start: float, end: float) -> Iterator[tuple[float, str]]:
    """Round times of day."""
    step = next(
        (step for step in _STEPS if end - start <= step * _TICKS), 86_400 * ceil((end - start) / 86_400 / _TICKS)
    )
    at = ceil(start / step) * step
    while at <= end:
        yield at - start, format_time(at, dated=False) or ""
        at += step
