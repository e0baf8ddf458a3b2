"""Reads every line that the search kept once more, whole, and puts together what belongs together: Observations.

From top to bottom: the lines by what they are read for; one reader for each kind; the events, joined, placed, dated and judged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from slurmdoctor.knowledge import text
from slurmdoctor.matching import captures
from slurmdoctor.model import (
    MOST_TASKS,
    Event,
    ExitFormat,
    ExitReport,
    Knowledge,
    Likeness,
    Line,
    LogFile,
    Observations,
    Progress,
    RankMap,
    Reason,
    Rule,
    SearchResult,
    Signal,
    SignalHit,
    admits,
    facts_of,
    reason,
)
from slurmdoctor.ranks import Excerpts, Place, RankMapBuilder, of_paths
from slurmdoctor.readers.attribution import Clock, RepeatedRanks, date, place_events
from slurmdoctor.readers.collectives import place_collectives, read_collective
from slurmdoctor.readers.exit_reports import complete_reports, read_report
from slurmdoctor.readers.last_words import add_messages, collect_last_words, find_busy, find_ending, unfinished_work
from slurmdoctor.readers.ras import named_by_ras
from slurmdoctor.readers.rule_events import RuleEvents, exception_of
from slurmdoctor.readers.steps import find_memory, find_steps
from slurmdoctor.readers.survival import find_restarts, judge_survival
from slurmdoctor.readers.targets import Plan, Reading, kind_of, plan_reading
from slurmdoctor.readers.tracebacks import add_endings, join_tracebacks, read_stack
from slurmdoctor.readers.unknown_lines import classify, hash_of

_MOST_TASKS = 2 * MOST_TASKS
"""Tasks that all exit reports name together: each may name thousands."""
_MEMBER = text("member-below")
_MEMBERS = 64
"""Lines in which ranks are looked for below one that begins a list of them."""
_LAST_BYTES = 256
_AT_LEAST = 64
"""Lines that are read again even where the search took all the time."""


def assemble(
    matches: SearchResult,
    lines: Excerpts,
    knowledge: Knowledge,
    facts: Mapping[str, Any] = MappingProxyType({}),
    classifier: bool = True,
    known: frozenset[int] | None = None,
) -> Observations:
    """All that the kept lines show. `facts` are those that the batch script shows, `known` the lines of good runs."""
    plan = plan_reading(matches.groups)
    kept = _lines_by_kind(plan, lines)
    signals = sorted(_signals(kept["signals"], lines), key=lambda signal: signal.order)
    reports, too_many = _reports(kept["reports"], lines)
    collectives = [one for line, _ in kept["collective"] if (one := read_collective(line))]
    of_nodes = any(source.witness is not None for source in lines.sources)
    rank_map = _rank_map([line for line, _ in kept["map"]], reports, knowledge, lines)
    stacks = lines.meter.each("places", kept["stack"])
    dumps = [dump for line, _ in stacks if (dump := read_stack(lines, line, rank_map))]
    repeats = RepeatedRanks(plan.repeats, rank_map, lines)
    by_rules = _by_rules(kept["rules"], {**facts, **facts_of(signals), "kernel_log": of_nodes}, repeats, plan)
    joined = _with_tracebacks(kept, by_rules, matches, knowledge, lines)
    joined = [event if event.hit.place in by_rules.at else repeats.add(event, None) for event in joined]
    every = add_messages(joined, knowledge, lines)
    statuses, by_message = place_collectives(collectives, rank_map)
    placed, rank_map = place_events(every, rank_map, lines, by_message)
    clock = Clock(lines)
    marks = [*(report.line for report in reports), *(s.line for s in signals if s.signal.kind == "attempt")]
    steps, unread = find_steps(placed, [line.place for line in marks], lines, knowledge.signals, clock)
    events = add_endings(date(placed, clock), lines)
    alone = _alone(rank_map, reports)
    events = judge_survival(events, signals, steps, lines, knowledge.traits["scheduler"], alone)
    events = _weighed(events, reports, steps, rank_map, knowledge, lines) if of_nodes else events
    ending, likeness = find_ending(events, lines, knowledge), dict[tuple[int, int], Likeness]()
    if classifier:
        events, ending, likeness = classify(events, ending, knowledge, lines, known or frozenset())
    reports = complete_reports(reports, rank_map)
    signals = [*named_by_ras(signals, rank_map), *find_restarts(events, reports, lines)]
    out_of_time = () if lines.complete else (reason("out-of-time-again"),)
    return Observations(
        events=tuple(events),
        launcher=_launcher(reports, knowledge.exit_reports),
        reports=tuple(reports),
        collectives=tuple(statuses),
        signals=tuple(sorted(signals, key=lambda signal: signal.order)),
        rank_map=rank_map,
        dumps={dump.rank: dump for dump in dumps},
        last_words=(words := collect_last_words(events, knowledge, lines)),
        busy=find_busy(events, knowledge, lines),
        rank_0_work=unfinished_work(words.get(0)),
        progress=tuple(steps),
        memory=find_memory(steps, signals, lines),
        zone=lines.zone,
        ending=ending,
        likeness=likeness,
        in_good_run={} if known is None else {e.hit.place: hash_of(e.hit.text) in known for e in events},
        files=tuple(LogFile(s.name, s.searched, s.lines, _is_cut(n, lines)) for n, s in enumerate(lines.sources)),
        notes=(*matches.notes, *plan.notes, *too_many, *lines.meter.notes, *unread, *out_of_time),
        complete=matches.complete and lines.complete,
    )


def _weighed(
    events: list[Event],
    reports: Sequence[ExitReport],
    steps: Sequence[Progress],
    rank_map: RankMap,
    knowledge: Knowledge,
    lines: Excerpts,
) -> list[Event]:
    """The events, without what nodes tell of other jobs or of what came later."""
    from slurmdoctor.readers.kernel_logs import weigh_witnesses  # rare, and slow to import

    return weigh_witnesses(events, reports, steps, lines.sources, rank_map, knowledge.traits["system"])


def _rank_map(named: Sequence[Line], reports: Sequence[ExitReport], knowledge: Knowledge, lines: Excerpts) -> RankMap:
    """Where ranks run, by the lines that tell it, exit reports, the files' names, and the nodes that files of kernels are of."""
    paths = {number: source.path for number, source in enumerate(lines.sources) if source.path}
    of_nodes = {n: s.witness.node for n, s in enumerate(lines.sources) if s.witness is not None}
    by_path = of_paths(paths, knowledge.paths) | {n: {"node": node} for n, node in of_nodes.items() if node}
    return RankMapBuilder(knowledge.rank_lines, by_path).finish(named, reports)


Kept = Sequence[tuple[Line, Reading]]


def _lines_by_kind(plan: Plan, lines: Excerpts) -> Mapping[str, list[tuple[Line, Reading]]]:
    """The lines to read again, by what they are read for."""
    kept = defaultdict[str, list[tuple[Line, Reading]]](list)
    for number, place in enumerate(lines.meter.each("places", plan.places)):
        if number >= _AT_LEAST and lines.out_of_time():
            break
        kept[kind_of(place.target)].append((lines.at(place.source, place.offset), place))
    return kept


def _with_tracebacks(
    kept: Mapping[str, Kept], by_rules: RuleEvents, matches: SearchResult, knowledge: Knowledge, lines: Excerpts
) -> list[Event]:
    """The events of rules, and those of exceptions with their tracebacks."""
    by_wording = [rule for rule in knowledge.rules if rule.by_wording]

    def recognise(line: Line) -> None:
        wanted = (matcher.target for matcher in matches.matchers_for(line.raw.encode()))
        by_rules.add_uncounted((target for target in wanted if isinstance(target, Rule)), line)
        for rule in by_wording:
            if admits(rule, line.raw):
                by_rules.add(rule, line, 1)

    loose = [line for line, _ in kept["exception"] if exception_of(line.text)]
    return join_tracebacks([line for line, _ in kept["traceback"]], loose, by_rules, lines, recognise)


def _by_rules(kept: Kept, facts: Mapping[str, Any], repeats: RepeatedRanks, plan: Plan) -> RuleEvents:
    """The events of rules, each with the group that it represents."""
    events = RuleEvents(facts)
    for line, reading in kept:
        assert isinstance(reading.target, Rule)
        events.add(reading.target, line, reading.count)
    for where in plan.repeats.keys() & events.at.keys():
        events.at[where] = [repeats.add(event, event.rule) for event in events.at[where]]
    return events


def _signals(kept: Kept, lines: Excerpts) -> Iterator[SignalHit]:
    for line, reading in kept:
        signal = reading.target
        assert isinstance(signal, Signal)
        if (found := captures(signal.regex, line.text, signal.of_site)) is not None:
            if "below" in found:  # a label may take the number of a rank for its own
                listed = [(one["rank"], x) for x in lines.below(line, _MEMBERS) if (one := _MEMBER.search(x.raw))]
                found, line = {"missing": ",".join(rank for rank, _ in listed)}, (listed[0][1] if listed else line)
            yield SignalHit(signal, line, line.order, found)


def _reports(kept: Kept, lines: Excerpts) -> tuple[list[ExitReport], tuple[Reason, ...]]:
    """The exit reports, of which each may name thousands of tasks, and what to tell of those that are too many."""
    found: list[ExitReport] = []
    tasks = left_out = 0
    read: set[Place] = set()
    # a general form counts where no other one reads the line
    in_order = sorted(kept, key=lambda one: isinstance(one[1].target, ExitFormat) and one[1].target.general)
    for line, reading in lines.meter.each("places", in_order):
        form = reading.target
        assert isinstance(form, ExitFormat)
        if not (form.general and line.place in read) and (report := read_report(form, lines, line)):
            read.add(line.place)
            tasks += len(report.tasks)
            found += [report] if tasks <= _MOST_TASKS else []
            left_out += tasks > _MOST_TASKS
    return found, (reason("tasks-left-out", count=left_out, most=_MOST_TASKS),) if left_out else ()


def _alone(rank_map: RankMap, reports: Sequence[ExitReport]) -> bool:
    """Whether nothing shows that several processes write."""
    several = any(len(r.tasks) > 1 or r.kind in ("agent", "table") or r.local_rank for r in reports)
    return len(rank_map.seen) < 2 and not several


def _is_cut(source: int, lines: Excerpts) -> bool:
    """Whether a file ends within a line. A pasted text mostly has no line end, and a bar draws its own."""
    log = lines.sources[source]
    end = lines.text(source, log.length - _LAST_BYTES, _LAST_BYTES) if log.path is not None else b""
    return end[-1:] not in (b"", b"\n", b"\r") and b"\r" not in end


def _launcher(reports: Sequence[ExitReport], forms: Sequence[ExitFormat]) -> str | None:
    """The launcher that reported an exit; of several the one whose entry is first in the table."""
    seen = {report.launcher for report in reports}
    return next((form.launcher for form in forms if form.launcher in seen - {None}), None)
