"""Hits → events: what the rules and the structural readers say happened, to whom, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace

from slurmdoctor.model import (
    CollectiveStatus,
    Event,
    ExitReport,
    Knowledge,
    Line,
    Origin,
    Role,
    Rule,
    Signal,
    SignalHit,
    StackDump,
)
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.ranks.maps import RankMaps
from slurmdoctor.ranks.origins import of_path
from slurmdoctor.readers import collectives, stacks, tracebacks, witnesses
from slurmdoctor.readers.tracebacks import Traceback, exception_of
from slurmdoctor.records import dataclass
from slurmdoctor.search.compiled import SECONDS, captures, compiled, lazy
from slurmdoctor.search.labels import HEAD
from slurmdoctor.search.scan import Confirm, Scan, Watch
from slurmdoctor.search.shapes import relaxed, touchy
from slurmdoctor.search.tally import MOST, Said, Sighting, Writer

KEEP = 4
KEEP_LIST = 3000
"""Places kept of lines that come once a node or task, whatever label they carry: so many first and so many last ones."""

TRACEBACK = (b"Traceback (most recent call last)",)
EXCEPTION = (b"Error: ", b"Exception: ", b"Error\n", b"Interrupt\n", b"AssertionError", b"Error:\n")
GENERIC = "python-error"
_MAX_CHAINS = 4000
FEW = 32
"""Writers of one rule that become events of their own; of the others only their ranks and their lines' number are kept."""
_FEWEST = 4
_MOST_READ = 6000
"""Places of rules, signals and exceptions that are read again; where more were kept, it is fewer writers of each."""
_SAID_AT_ONCE = lazy(r"\b(?:ERROR|CRITICAL|FATAL)\b|\[E\d{3,4} ")
"""A logged error right above a traceback has its time; a step above it may be an hour older."""
_PYTHON = ("exception", "traceback")
_VARIABLE = lazy(r"\d+|'[^']*'?|\"[^\"]*\"?|/\S*|0x\w+")
_GROUP_RANK = lazy(r"^\[(?:PG (?:ID )?0(?: PG GUID 0(?:\(default_pg\))?)? )?Rank (\d+)\] ")
"""ProcessGroupNCCL's rank within the default group: the global rank, where nothing shows another group."""


@dataclass(slots=True)
class Assembled:
    """Everything that the scan's hits add up to."""

    events: list[Event] = field(default_factory=list)
    reports: list[ExitReport] = field(default_factory=list)
    works: list[CollectiveStatus] = field(default_factory=list)
    dumps: dict[int, StackDump] = field(default_factory=dict)
    """Each rank's last stack dump."""
    marks: list[SignalHit] = field(default_factory=list)
    maps: RankMaps = field(default_factory=RankMaps)
    chains: dict[int, list[Traceback]] = field(default_factory=dict)


def watches(knowledge: Knowledge) -> tuple[list[Watch], list[object]]:
    """What to look for, and beside each watch the rule, signal or reader's name that it serves."""
    found: list[Watch] = []
    served: list[object] = []

    # labels of one shape must be peeled alike, or no two lines with different digits can be taken for one
    touched = touchy(knowledge) if knowledge.touchy is None else knowledge.touchy
    any_digits = any(form.pattern in touched for form in knowledge.formats)

    def add(
        what: object, name: str, literals: Iterable[bytes], keep: int, pattern: str = "", once: bool = False
    ) -> None:
        found.append(Watch(name, tuple(literals), keep, any_digits or pattern in touched, once))
        served.append(what)

    for rule in knowledge.rules:
        add(rule, rule.id, (x.encode() for x in rule.literals), 1 if rule.role == "cascade" else KEEP, rule.regex)
    for signal in knowledge.signals:
        if signal.kind != "progress":  # in every iteration's line: looked for around the failure only (timeline)
            add(
                signal,
                signal.id,
                (x.encode() for x in signal.literals),
                64 if signal.kind == "attempt" else KEEP,
                signal.regex,
                signal.kind == "fact" and signal.regex.count("(?P<") < 2,
            )
    for name, (literals, _) in witnesses.READERS.items():
        add(name, name, literals, KEEP_LIST)
    add("traceback", "traceback", TRACEBACK, KEEP)
    add("exception", "exception", EXCEPTION, KEEP)
    add("collective", "collective", collectives.LITERALS, 12)
    add("stack", "stack", stacks.LITERALS, KEEP)
    add("map", "map", RankMaps.LITERALS, KEEP)
    return found, served


def confirmer(served: Sequence[object]) -> Confirm:
    """The scan's question: does this line really say what the watch looks for?"""

    def confirm(watch: int, line: bytes, text: str) -> str | None:
        what = served[watch]
        if isinstance(what, Rule):
            return None if captures_of(what, text) is None else ""
        if isinstance(what, Signal):
            return None if captures(what.regex, text) is None else ""
        if what == "exception":
            found = exception_of(text)
            return None if found is None else f"{found[0]}: {_words(found[1])}"
        if what == "collective":
            return "timeout" if collectives.LITERALS[0] in line else "status"
        if what == "stack":
            return None if b"Exception raised from " in line else ""  # C++ frames tell nothing of where a rank stood
        return ""

    return confirm


def possible(served: Sequence[object]) -> Callable[[int, str], bool]:
    """Whether some line that differs from this one in digits only might say what the watch looks for."""

    def may(watch: int, text: str) -> bool:
        what = served[watch]
        if isinstance(what, Rule) and what.on != "line":
            return exception_of(text) is not None if what.on == "exception" else text.lstrip(" |").startswith("File ")
        pattern = relaxed(what.regex) if isinstance(what, (Rule, Signal)) else None
        try:
            return pattern is None or compiled(pattern).search(text, timeout=SECONDS) is not None
        except TimeoutError:
            return True

    return may


def _words(message: str) -> str:
    """The first words of an exception's message, alike for all ranks that mean the same."""
    return _VARIABLE.sub("", message[:40])[:24]


def _few(what: object, most: int) -> int:
    """Writers of this that are read again; 0 for all of them."""
    return most if isinstance(what, Rule) else most // 4 if isinstance(what, Signal) or what in _PYTHON else 0


def _affordable(scan: Scan, served: Sequence[object]) -> int:
    """Writers of a rule that are heard. No job breaks in hundreds of ways at once: where it seems to, fewer of each will do."""
    most = FEW
    while most > _FEWEST:
        chosen = ((said, _few(served[said.watch], most)) for said in scan.said)
        if sum(min(few, len(said.writers)) * (1 if said.crowded else said.keep) for said, few in chosen) <= _MOST_READ:
            break
        most //= 2
    return most


def _chosen(said: Said, what: object, most: int) -> list[Sighting]:
    """What is read again. Of a crowd that says one thing, the first writers will do, and the first of its last burst."""
    few = _few(what, most)
    if not few or len(said.writers) <= few:
        writers = said.by_first()
    else:
        writers = list(dict.fromkeys([*said.by_first(few), *said.by_last_burst(max(1, few // 4))]))
    return [said.sighting(writer) for writer in writers]


@dataclass(frozen=True, slots=True)
class _Crowd:
    """The writers of a rule that get no event of their own."""

    rule: Rule
    said: Said
    kept: frozenset[Writer]
    """These do get one."""


def _join_crowds(
    crowds: Mapping[tuple[int, int], list[_Crowd]],
    rule_events: dict[tuple[int, int], list[Event]],
    maps: RankMaps,
    lines: Lines,
    origins: Mapping[tuple[int, int], Origin],
) -> None:
    """Let a rule's first event stand for the ranks that get none. `origins` are those of the lines that were read already."""
    ranks: dict[tuple[int, bytes], int | None] = {}
    for place, here in crowds.items():
        # the label of Slurm's own words is not the rank they speak of
        own = any(e.hit.text.startswith("slurmstepd") for e in rule_events.get(place, ()))
        for crowd in here:
            rest = [writer for writer in crowd.said.writers if writer not in crowd.kept]
            for writer in rest:
                if writer not in ranks and len(ranks) < MOST:
                    first = (writer[0], crowd.said.first_of(writer))
                    origin = origins.get(first)
                    if origin is None:
                        origin = None if own else lines.writer(*writer)
                    if origin is None:
                        origin = lines.peeled(writer[0], lines.text(*first, HEAD).partition(b"\n")[0])[0]
                    ranks[writer] = maps.place(origin, writer[0]).rank
            others = frozenset(rank for writer in rest if (rank := ranks.get(writer)) is not None)
            more = sum(crowd.said.count_of(writer) for writer in rest)
            rule_events[place] = [
                replace(e, others=others, count=e.count + more) if e.rule == crowd.rule.id else e
                for e in rule_events.get(place, ())
            ]


def captures_of(rule: Rule, text: str) -> Mapping[str, str] | None:
    """The rule's captures where it takes this line, else None."""
    if rule.on == "exception" and exception_of(text) is None:
        return None
    if rule.on == "exception":
        text = tracebacks.undecorated(text)
        # an executor's error around the child's: `InductorError: FileNotFoundError: ...`
        inner = (exception_of(text) or ("", ""))[1]
        found = captures(rule.regex, text)
        return found if found is not None or exception_of(inner) is None else captures(rule.regex, inner)
    if rule.on == "frame" and not text.lstrip(" |").startswith("File "):
        return None
    return captures(rule.regex, text)


def assemble(scan: Scan, lines: Lines, served: Sequence[object], knowledge: Knowledge) -> Assembled:
    """Read every kept place once more, whole, and put together what belongs together."""
    result = Assembled()
    result.maps.of_source = {n: of_path(s.path, knowledge.paths) for n, s in enumerate(lines.sources) if s.path}
    places: list[tuple[int, int, object, int]] = []
    crowds: dict[tuple[int, int], list[_Crowd]] = {}
    raised: set[Writer] = set()
    most = _affordable(scan, served)
    for said in sorted(scan.said, key=lambda said: served[said.watch] == "traceback"):
        what = served[said.watch]
        chosen = _chosen(said, what, most)
        if what == "exception" or (isinstance(what, Rule) and what.on == "exception"):
            raised |= {(seen.source, seen.label) for seen in chosen}
        elif what == "traceback" and said.crowded:
            chosen = [said.sighting(writer) for writer in sorted(raised & said.writers.keys(), key=said.first_of)]
        for seen in chosen:
            for place, offset in enumerate(seen.places):
                # each event stands for its line; the first one for those besides whose places were not kept
                places.append((seen.source, offset, what, seen.count - len(seen.places) + 1 if place == 0 else 1))
        if isinstance(what, Rule) and len(chosen) < len(said.writers):
            kept = frozenset((seen.source, seen.label) for seen in chosen)
            crowds.setdefault((chosen[0].source, chosen[0].places[0]), []).append(_Crowd(what, said, kept))
    places.sort(key=lambda place: place[:2])
    headers: list[Line] = []
    loose: list[Line] = []
    rule_events: dict[tuple[int, int], list[Event]] = {}
    origins: dict[tuple[int, int], Origin] = {}
    line: Line | None = None
    for source, offset, what, count in places:
        if line is None or (line.source, line.offset) != (source, offset):
            line = lines.at(source, offset)
            origins[source, offset] = line.origin
        if isinstance(what, Rule):
            if event := rule_event(what, line, lines, count):
                rule_events.setdefault((source, offset), []).append(event)
        elif isinstance(what, Signal):
            found = captures(what.regex, line.text)
            if found is not None:
                result.marks.append(SignalHit(what, line, lines.order(source, offset), found))
        elif what == "traceback":
            headers.append(line)
        elif what == "exception":
            if exception_of(line.text):
                loose.append(line)
        elif what == "collective":
            if work := collectives.read(line, lines.order(source, offset)):
                result.works.append(work)
        elif what == "stack":
            if dump := stacks.read(lines, line):
                result.dumps[dump.rank] = dump
        elif what == "map":
            result.maps.learn(line)
        else:
            result.reports += witnesses.READERS[str(what)][1](lines, line)
    result.maps.learn_reports(result.reports)
    _join_crowds(crowds, rule_events, result.maps, lines, origins)

    def recognise(line: Line) -> None:
        wanted = (served[watch] for watch in scan.wanted(line.raw.encode()))
        _recognise(line, (rule for rule in wanted if isinstance(rule, Rule)), rule_events, lines)

    for line in loose:
        recognise(line)
    _add_tracebacks(result, headers, loose, rule_events, lines, recognise)
    placed = [_placed(event, result.maps, lines) for event in result.events]
    if result.maps.assumed and _one_dies_twice(placed):
        result.maps.lone = False
        result.maps.assumed.clear()
        placed = [_placed(event, result.maps, lines) for event in result.events]
    result.events = placed
    result.events.sort(key=lambda event: event.order)
    result.marks.sort(key=lambda mark: mark.order)
    result.reports.sort(key=lambda report: lines.order(report.line.source, report.line.offset))
    return result


def rule_event(rule: Rule, line: Line, lines: Lines, count: int = 1) -> Event | None:
    """The event that a rule makes of a line, or None where the line does not satisfy it."""
    captures = captures_of(rule, line.text)
    if captures is None:
        return None
    if group := _GROUP_RANK.search(line.text):
        captures = {"group_rank": group[1], **captures}
    origin = line.origin
    if (rank := captures.get("rank", "")).isdigit():
        origin = replace(origin, rank=int(rank))
    if (local := captures.get("local_rank", "")).isdigit():
        origin = replace(origin, local_rank=int(local))
    if captures.get("node"):
        origin = replace(origin, node=captures["node"])
    if (pid := captures.get("pid", "")).isdigit():
        origin = replace(origin, pid=int(pid))
    order = lines.order(line.source, line.offset)
    return Event(
        cause=rule.cause, role=rule.role, rule=rule.id, origin=origin, hit=lines.hit(line), order=order, captures=captures,
        count=count, last_order=order,
    )  # fmt: skip


def _add_tracebacks(
    result: Assembled,
    headers: Sequence[Line],
    loose: Sequence[Line],
    rule_events: dict[tuple[int, int], list[Event]],
    lines: Lines,
    recognise: Callable[[Line], None],
) -> None:
    """Join rule events with the tracebacks that they stand in; a traceback that no rule knows is a python-error."""
    taken: set[tuple[int, int]] = set()
    group = 0
    chained_to: dict[tuple[int, bytes], int] = {}
    for header in headers[:_MAX_CHAINS]:
        writer = (header.source, header.label)
        trace = tracebacks.assemble(lines, header)
        if trace.exception is None:
            if trace.cut is not None and not (trace.harmless or trace.in_thread):
                result.events += _cut_short(trace, trace.cut, lines)
            continue
        where = (trace.exception.source, trace.exception.offset)
        recognise(trace.exception)
        linked = chained_to.pop(writer, 0)
        group = linked or max(result.chains, default=0) + 1
        if trace.leads_to:
            chained_to[writer] = group
        if trace.harmless or (trace.in_thread and where in taken):
            taken.add(where)
            rule_events.pop(where, None)
            continue
        result.chains.setdefault(group, []).append(trace)
        inside = _events_inside(trace, rule_events, lines)
        said = {e.rule for e in rule_events.get(where, ())}
        for place in inside:
            # where the exception itself says it, the source line that raises it (`f"missing {key}"`) adds nothing
            kept = [e for e in rule_events[place] if place >= where or e.rule not in said]
            rule_events[place] = [_in_traceback(e, trace, group, lines) for e in kept]
        if where in taken:
            continue
        taken.add(where)
        known = any(e.role != "hint" for place in inside for e in rule_events[place])
        if not known and not trace.wrapper:
            error = _python_error(trace.exception, lines, "hint" if trace.in_thread else None)
            result.events.append(
                replace(error, group=group, traceback=_shown(trace), origin=_spawned(error.origin, trace))
            )
        elif not known:
            result.events.append(_launcher_error(trace.exception, lines, group))
    for events in rule_events.values():
        result.events += events
    for line in loose:
        where = (line.source, line.offset)
        if where in taken or where in rule_events:
            continue
        name = (exception_of(line.text) or ("", ""))[0]
        if name.endswith("Warning") or name in tracebacks.WRAPPERS:
            continue
        above = next(lines.before(line), None)
        framed = above is not None and (above.text.lstrip(" |").startswith("File ") or above.text.startswith("    "))
        framed = framed or '"message": "' in line.raw  # torchelastic's error file
        result.events.append(_python_error(line, lines, None if framed else "hint"))


def _recognise(line: Line, able: Iterable[Rule], rule_events: dict[tuple[int, int], list[Event]], lines: Lines) -> None:
    """Let the rules see an exception's line that was not kept for them, but for its traceback or its class. It is counted already."""
    where = (line.source, line.offset)
    if where in rule_events:
        return
    if found := [event for rule in able if (event := rule_event(rule, line, lines, 0))]:
        rule_events[where] = found


def _events_inside(
    trace: Traceback, rule_events: Mapping[tuple[int, int], list[Event]], lines: Lines
) -> list[tuple[int, int]]:
    """Places of rule events in a traceback's frames, on its exception's line, and in the message's following lines."""
    assert trace.exception is not None
    exception = trace.exception
    found = [(exception.source, exception.offset)] if (exception.source, exception.offset) in rule_events else []
    start, end = trace.header.offset, exception.offset
    if exception.label or end - start < 64 * 1024:
        found += [
            place
            for place, events in _between(rule_events, exception.source, start, end)
            if any(e.rule and lines_label_same(events, trace, lines) for e in events)
        ]
    for line in lines.after(exception, 12):
        if tracebacks.HEADER in line.text or not line.text.strip() or exception_of(line.text) or _of_its_own(line):
            break
        if (line.source, line.offset) in rule_events:
            found.append((line.source, line.offset))
    return found


def _of_its_own(line: Line) -> bool:
    """Whether a line after an exception is no part of its message: it has a stamp, or a launcher prints it."""
    return line.origin.time is not None or line.text.startswith(("srun:", "slurmstepd", "WARNING:", "ERROR:", "INFO:"))


def _between(
    rule_events: Mapping[tuple[int, int], list[Event]], source: int, start: int, end: int
) -> list[tuple[tuple[int, int], list[Event]]]:
    return [(place, events) for place, events in rule_events.items() if place[0] == source and start < place[1] < end]


def lines_label_same(events: Sequence[Event], trace: Traceback, lines: Lines) -> bool:
    """Whether the events' lines come from the traceback's writer."""
    hit = events[0].hit
    return lines.at(hit.source, hit.offset).label == trace.header.label


def _in_traceback(event: Event, trace: Traceback, group: int, lines: Lines) -> Event:
    """The event as its traceback's: what a frame gives away is shown by the exception's own line."""
    assert trace.exception is not None
    if event.hit.offset < trace.exception.offset:
        event = replace(event, hit=lines.hit(trace.exception))
    return replace(event, group=group, traceback=_shown(trace), origin=_spawned(event.origin, trace))


def _spawned(origin: Origin, trace: Traceback) -> Origin:
    if trace.collected is not None:
        # who prints it is not who failed
        return replace(
            origin, rank=trace.collected if trace.collected >= 0 else None, local_rank=None, node=None, pid=None
        )
    known = trace.process is None or origin.rank is not None or origin.local_rank is not None
    return origin if known else replace(origin, local_rank=trace.process)


def _shown(trace: Traceback) -> tuple[str, ...]:
    assert trace.exception is not None
    return (*trace.frames, trace.exception.text)


def _python_error(line: Line, lines: Lines, role: Role | None) -> Event:
    order = lines.order(line.source, line.offset)
    name, message = exception_of(line.text, strict=False) or ("", "")
    return Event(
        cause=GENERIC, role=role or "root", rule=f"{GENERIC}/traceback", origin=line.origin, hit=lines.hit(line), order=order,
        captures={"exception": name, "message": message}, last_order=order,
    )  # fmt: skip


def _launcher_error(line: Line, lines: Lines, group: int) -> Event:
    order = lines.order(line.source, line.offset)
    return Event(
        cause="exit-code", role="cascade", rule="exit-code/launcher", origin=Origin(time=line.origin.time), hit=lines.hit(line), order=order,
        group=group, last_order=order,
    )  # fmt: skip


def _cut_short(trace: Traceback, last: Line, lines: Lines) -> list[Event]:
    """Where the log ends inside of a traceback: it failed, and what was raised is not to be seen."""
    hint = replace(_python_error(last, lines, "hint"), captures={}, traceback=trace.frames)
    ending = replace(hint, cause="exit-code", role="cascade", rule="exit-code/cut-traceback")
    return [ending] if trace.of_launcher else [hint, ending]


def _placed(event: Event, maps: RankMaps, lines: Lines) -> Event:
    """Fill in what the maps and the neighbouring lines tell of an event's origin."""
    # Slurm's own words stand in the file of some task: it is not the one they speak of
    own = event.hit.text.lstrip(" *").startswith(("slurmstepd", "srun:"))
    origin = maps.place(event.origin, -1 if own else event.hit.source)
    bound = event.bound
    if origin.time is None:
        above = lines.stamped_before(lines.at(event.hit.source, event.hit.offset))
        if above is not None:
            origin = replace(origin, time=above.origin.time, dated=above.origin.dated)
            bound = _SAID_AT_ONCE.search(above.raw) is None
    return event if origin == event.origin else replace(event, origin=origin, bound=bound)


def _one_dies_twice(events: Sequence[Event]) -> bool:
    """Whether two tracebacks at two times end one local rank. A process ends once: there is a second node."""
    first: dict[tuple[int, int], Event] = {}
    for event in sorted(events, key=lambda e: e.order):
        local = event.origin.local_rank
        if local is None or not event.group:
            continue
        other = first.setdefault((event.hit.source, local), event)
        if other.group == event.group or "cascade" not in (other.role, event.role):
            continue
        one, two = other.origin.time, event.origin.time
        if one is None or two is None or abs(one - two) > 1.0:
            return True
    return False
