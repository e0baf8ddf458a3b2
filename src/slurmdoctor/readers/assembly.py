"""Reads every line that the search kept once more, whole, and puts together what belongs together: Observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slurmdoctor.matching import captures
from slurmdoctor.model import (
    MOST_TASKS,
    ExitFormat,
    ExitReport,
    Knowledge,
    Line,
    LogFile,
    Observations,
    RankMap,
    Reason,
    Rule,
    SearchResult,
    Signal,
    SignalHit,
    StackDump,
    reason,
)
from slurmdoctor.ranks import Excerpts, RankMapBuilder, of_paths
from slurmdoctor.readers.attribution import Clock, Crowds, date, place_events
from slurmdoctor.readers.budget import Reading, plan_reading
from slurmdoctor.readers.collectives import Heard, place_collectives, read_collective
from slurmdoctor.readers.exit_reports import complete_reports, read_report
from slurmdoctor.readers.last_words import add_messages, collect_last_words, find_busy, find_ending, unfinished_work
from slurmdoctor.readers.restarts import find_restarts
from slurmdoctor.readers.rule_events import RuleEvents
from slurmdoctor.readers.stacks import add_endings, add_stacks, read_stack
from slurmdoctor.readers.steps import find_memory, find_steps
from slurmdoctor.readers.survival import judge_survival
from slurmdoctor.readers.traceback_events import join_tracebacks
from slurmdoctor.readers.tracebacks import exception_of

_MOST_TASKS = 2 * MOST_TASKS
"""Tasks that all exit reports name together: each may name thousands."""
_LAST_BYTES = 256
_AT_LEAST = 64
"""Lines that are read again even where the search took all the time."""


def assemble(
    matches: SearchResult, lines: Excerpts, knowledge: Knowledge, told: Mapping[str, Any] = MappingProxyType({})
) -> Observations:
    """All that the kept lines show. `told` are the facts that the batch script tells."""
    plan = plan_reading(matches.groups)
    found = _Readings(lines, RankMapBuilder(knowledge.rank_lines, of_paths(lines.paths, knowledge.paths)))
    for number, place in enumerate(lines.meter.each("places", plan.places)):
        if number >= _AT_LEAST and lines.out_of_time():
            break
        found.read(place)
    rank_map = found.ranks.finish(found.reports)
    found.events.settle({**told, **_facts_of(found.signals)})
    crowds = Crowds(plan.crowds, rank_map, lines)
    for where in plan.crowds.keys() & found.events.at.keys():
        found.events.at[where] = [crowds.add(event, event.rule) for event in found.events.at[where]]

    by_wording = knowledge.once(_by_wording)

    def recognise(line: Line) -> None:
        wanted = (matcher.target for matcher in matches.matchers_for(line.raw.encode()))
        found.events.add_uncounted((target for target in wanted if isinstance(target, Rule)), line)
        found.events.add_by_wording(
            (rule for rule in by_wording if any(text in line.raw for text in rule.literals)), line
        )

    joined = join_tracebacks(found.headers, found.loose, found.events, lines, recognise)
    joined = [event if event.hit.place in found.events.at else crowds.add(event, None) for event in joined]
    every = add_messages(joined, knowledge, lines)
    statuses, by_message = place_collectives(found.heard, rank_map)
    placed, rank_map = place_events(every, rank_map, lines, by_message)
    clock = Clock(lines)
    signals = sorted(found.signals, key=lambda signal: signal.order)
    marks = [*(report.line for report in found.reports), *(s.line for s in signals if s.signal.kind == "attempt")]
    places = [line.place for line in marks]
    steps, unread = find_steps(placed, places, lines, knowledge.signals, clock)
    events = add_stacks(add_endings(date(placed, clock)), lines)
    alone = _alone(rank_map, found.reports)
    events = judge_survival(events, signals, steps, lines, knowledge.traits["scheduler"], alone)
    reports = complete_reports(found.reports, rank_map)
    signals = sorted([*signals, *find_restarts(events, reports, lines)], key=lambda signal: signal.order)
    return Observations(
        events=tuple(events),
        launcher=_launcher(found.reports, knowledge.exit_reports),
        reports=tuple(reports),
        collectives=tuple(statuses),
        signals=tuple(signals),
        rank_map=rank_map,
        dumps=found.dumps,
        last_words=(words := collect_last_words(events, knowledge, lines)),
        busy=find_busy(events, knowledge, lines),
        rank_0_work=unfinished_work(words.get(0)),
        progress=tuple(steps),
        memory=find_memory(steps, signals, lines),
        zone=lines.zone,
        ending=find_ending(events, lines, knowledge),
        files=tuple(LogFile(s.name, s.searched, s.lines, _is_cut(n, lines)) for n, s in enumerate(lines.sources)),
        notes=(*matches.notes, *plan.notes, *found.notes(), *lines.meter.notes, *unread, *_out_of_time(lines)),
        complete=matches.complete and lines.complete,
    )


def _facts_of(signals: Sequence[SignalHit]) -> dict[str, Any]:
    """The facts of the log, of each the first that it tells."""
    facts: dict[str, Any] = {}
    for hit in sorted(signals, key=lambda hit: hit.order):
        if hit.signal.kind == "fact":
            name = hit.signal.id.partition("/")[0]
            if hit.signal.value is not None:
                facts.setdefault(name, hit.signal.value)
            for key, value in hit.captures.items():
                facts.setdefault(name if key == "value" else key, value)
    return facts


def _by_wording(knowledge: Knowledge) -> tuple[Rule, ...]:
    return tuple(rule for rule in knowledge.rules if rule.by_wording)


def _alone(rank_map: RankMap, reports: Sequence[ExitReport]) -> bool:
    """Whether nothing shows that several processes write."""
    several = any(len(r.tasks) > 1 or r.kind in ("agent", "table") or r.local_rank for r in reports)
    return len(rank_map.seen) < 2 and not several


def _is_cut(source: int, lines: Excerpts) -> bool:
    """Whether a file ends within a line. A pasted text mostly has no line end, and a bar draws its own."""
    log = lines.sources[source]
    end = lines.text(source, log.length - _LAST_BYTES, _LAST_BYTES) if log.path is not None else b""
    return end[-1:] not in (b"", b"\n", b"\r") and b"\r" not in end


def _out_of_time(lines: Excerpts) -> tuple[Reason, ...]:
    return () if lines.complete else (reason("out-of-time-again"),)


def _launcher(reports: Sequence[ExitReport], forms: Sequence[ExitFormat]) -> str | None:
    """The launcher that reported an exit; of several the one whose entry stands first in the table."""
    seen = {report.launcher for report in reports}
    return next((form.launcher for form in forms if form.launcher in seen and form.launcher is not None), None)


class _Readings:
    """What the readers made of the lines so far."""

    def __init__(self, lines: Excerpts, ranks: RankMapBuilder) -> None:
        self._lines = lines
        self.ranks = ranks
        self.events = RuleEvents()
        self.headers: list[Line] = []
        """First lines of tracebacks."""
        self.loose: list[Line] = []
        """Lines of exceptions."""
        self.signals: list[SignalHit] = []
        self.reports: list[ExitReport] = []
        self._tasks = 0
        self._left_out = 0
        self.heard: list[Heard] = []
        self.dumps: dict[int, StackDump] = {}

    def read(self, place: Reading) -> None:
        """Read one line for one target."""
        line, target = self._lines.at(place.source, place.offset), place.target
        if isinstance(target, Rule):
            self.events.add(target, line, place.count)
        elif isinstance(target, Signal):
            found = captures(target.regex, line.text)
            if found is not None:
                self.signals.append(SignalHit(target, line, line.order, found))
        elif isinstance(target, ExitFormat):
            self._report(read_report(target, self._lines, line))
        elif target == "traceback":
            self.headers.append(line)
        elif target == "exception":
            if exception_of(line.text):
                self.loose.append(line)
        elif target == "collective":
            if heard := read_collective(line):
                self.heard.append(heard)
        elif target == "stack":
            if dump := read_stack(self._lines, line):
                self.dumps[dump.rank] = dump
        elif target == "map":
            self.ranks.learn(line)

    def notes(self) -> tuple[Reason, ...]:
        """What was left out."""
        return (reason("tasks-left-out", count=self._left_out, most=_MOST_TASKS),) if self._left_out else ()

    def _report(self, report: ExitReport | None) -> None:
        if report is None:
            return
        self._tasks += len(report.tasks)
        if self._tasks <= _MOST_TASKS:
            self.reports.append(report)
        else:
            self._left_out += 1
