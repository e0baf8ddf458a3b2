"""Timeline → verdict: the root, told apart from its cascade, and the first failing rank. Pure, in named steps.

The steps are the functions called by `infer`, in its order. Each leaves its reason in the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slurmdoctor import collectives, stacks
from slurmdoctor.collectives import Suspicion
from slurmdoctor.events import Assembled
from slurmdoctor.exits import Death, expand_nodes, ranges
from slurmdoctor.lines import Line, Lines
from slurmdoctor.maps import RankMaps
from slurmdoctor.model import Cause, Confidence, Event, Origin, Role, Verdict
from slurmdoctor.timeline import TICK, Timeline
from slurmdoctor.witnesses import Report

GENERIC = frozenset({"python-error", "exit-code", "abort", "killed", "sigterm", "data-worker"})
"""Causes that an ending alone establishes: a more telling cause beside them is the better answer."""
SCHEDULER = frozenset({"time-limit", "preempted", "cancelled", "sigterm"})
"""What Slurm or a person does to a job, often after it had failed or hung."""
STRIKES = frozenset({"host-oom", "node-failure", "gpu-fault"})
"""Causes that the system tells, often without naming the rank that they hit."""
_ROLE_OF_ENDING: Mapping[str, Role] = {
    "sigterm": "cascade",
    "exit-code": "cascade",
    "host-oom": "confirmation",
    "abort": "either",
}
_NEAR_SECONDS = 5.0
_NEAR_BYTES = 2048
_LOOK_AROUND = 256 * 1024


@dataclass(frozen=True, slots=True)
class Incident:
    """What happened to one writer at one time: one or more events, and the one that names it."""

    main: Event
    events: tuple[Event, ...]
    report: Report | None = None
    """The witness, where the rank itself said nothing."""

    @property
    def cause(self) -> str:
        return self.main.cause


@dataclass(slots=True)
class Finding:
    """The verdict in the making."""

    verdict: Verdict = "unknown"
    root: Incident | None = None
    cause: str | None = None
    rule: str | None = None
    confidence: Confidence = "low"
    origin: Origin = field(default_factory=Origin)
    how: str | None = None
    death: Death | None = None
    death_how: str | None = None
    step_code: int | None = None
    alike: tuple[int, ...] = ()
    """Ranks that failed alike at once."""
    suspicion: Suspicion | None = None
    same: tuple[Incident, ...] = ()
    """Other incidents of the root's cause."""
    rivals: tuple[Incident, ...] = ()
    cascade: tuple[Incident, ...] = ()
    reasons: list[str] = field(default_factory=list)


def infer(
    timeline: Timeline,
    assembled: Assembled,
    causes: Mapping[str, Cause],
    lines: Lines,
    exit_status: int | None = None,
) -> Finding:
    """Find the root cause and who was first."""
    finding = Finding()
    maps = assembled.maps
    live = drop_survived(timeline, finding)
    incidents = gather(live, timeline)
    deaths = silent_deaths(timeline, incidents, maps, lines)
    decide_whether_failed(finding, timeline, incidents, deaths, exit_status)
    if finding.verdict != "failed":
        return finding
    choose_root(finding, timeline, [*incidents, *deaths], causes)
    if finding.root is not None and finding.root.cause in ("collective-timeout", "abort", "hang"):
        find_silent_culprit(finding, assembled, timeline)
    name_first(finding, timeline, maps, incidents, lines)
    name_exit(finding, timeline, maps, causes)
    weigh(finding, timeline)
    return finding


# ── 1. what was survived ─────────────────────────────────────────────────────────────────────


def drop_survived(timeline: Timeline, finding: Finding) -> list[Event]:
    """A rank that went on was not killed by it. Where nothing else is left, what was survived is looked at after all."""
    live = [e for e in timeline.events if not e.survived]
    survived = len(timeline.events) - len(live)
    if any(e.role in ("root", "either", "confirmation") for e in live):
        if survived:
            finding.reasons.append(
                f"{survived} earlier error line{'s' * (survived > 1)} left aside: the job went on after"
            )
        return live
    ended_badly = standing(timeline) or any(e.role == "cascade" for e in live)
    ran_to_the_end = timeline.finished is not None and not standing(timeline)
    return list(timeline.events) if ended_badly and not ran_to_the_end else live


def standing(timeline: Timeline) -> list[Report]:
    """Bad endings that still count: not those of a step that was ended before another one ran to its finish."""
    done = timeline.finished
    bad = [r for r in timeline.reports if r.death.code not in (0, None) or r.death.signal]
    if done is None:
        return bad
    stops = [e.hit.offset for e in timeline.events if e.rule == "cancelled/step"]
    return [
        r
        for r in bad
        if r.line.source == done.line.source
        and r.death.signal is None
        and not any(r.line.offset < stop < done.line.offset for stop in stops)
    ]


# ── 2. incidents ─────────────────────────────────────────────────────────────────────────────


def gather(events: Sequence[Event], timeline: Timeline) -> list[Incident]:
    """Events of one chain, or of one writer at one time, are one incident; its most telling event names it."""
    parts: dict[object, list[Event]] = {}
    for event in sorted(events, key=lambda e: e.order):
        if event.role == "hint":
            continue
        parts.setdefault(_incident_key(event, parts, timeline), []).append(event)
    found = [Incident(_main(part), tuple(part)) for part in parts.values()]
    return sorted(found, key=lambda i: timeline.key(i.main))


def _incident_key(event: Event, parts: Mapping[object, list[Event]], timeline: Timeline) -> object:
    if event.group:
        key: object = ("group", event.group)
        if key in parts:
            return key
    for key in reversed(list(parts)[-40:]):
        last = parts[key][-1]
        if last.hit.source != event.hit.source:
            continue
        known = event.origin.rank is not None or last.origin.rank is not None
        same = event.origin.rank == last.origin.rank if known else event.origin.node == last.origin.node
        if event.group and last.group and event.group != last.group and not known:
            continue
        if not same or ("confirmation" in (event.role, last.role) and event.role != last.role):
            continue
        near = event.order - last.order < _NEAR_BYTES
        if known and event.origin.time is not None and last.origin.time is not None:
            near = near or abs(event.origin.time - last.origin.time) <= _NEAR_SECONDS
        if near:
            return key
    return ("group", event.group) if event.group else ("event", event.order, event.rule)


def _main(part: Sequence[Event]) -> Event:
    """The event that names an incident: the first telling one; a victim's words make what it leads to a victim's too."""
    generic = sorted(part, key=lambda e: e.role not in ("root", "either"))
    first = next((e for e in part if e.cause not in GENERIC), generic[0])
    if first.role == "cascade":
        same_chain = [e for e in part if e.role in ("root", "confirmation") and e.cause not in GENERIC]
        before = [e for e in part if e.cause == "python-error" and e.order < first.order and e.group != first.group]
        return same_chain[0] if same_chain else before[0] if before else first
    if first.role == "either":
        telling = [e for e in part if e.role == "root" and e.cause not in GENERIC]
        return telling[0] if telling else first
    return first


# ── 3. deaths without words ──────────────────────────────────────────────────────────────────


def silent_deaths(timeline: Timeline, incidents: Sequence[Incident], maps: RankMaps, lines: Lines) -> list[Incident]:
    """Ranks of which only srun, torchelastic or the shell says how they ended."""
    spoke = {rank for i in incidents for e in i.events for rank in e.ranks}
    unlabelled = any(i.main.origin.rank is None and i.main.role in ("root", "either") for i in incidents)
    found: list[Incident] = []
    for report in timeline.reports:
        cause = report.death.cause
        if report.death.code == 0 or report.death.signal in ("SIGUSR1", "SIGUSR2"):
            continue
        ranks = _ranks_of(report, maps)
        silent = [r for r in ranks if r not in spoke]
        if cause in ("exit-code", "command-not-found", "abort") and (
            (not silent and ranks) or (unlabelled and incidents)
        ):
            continue
        rank = silent[0] if len(silent) == 1 else ranks[0] if len(ranks) == 1 else None
        order = lines.order(report.line.source, report.line.offset)
        origin = maps.place(
            Origin(rank=rank, local_rank=report.local_rank, node=report.node, pid=report.pid, time=report.time),
            -1,
        )
        role = _ROLE_OF_ENDING.get(cause, "root")
        if cause == "killed" and _stopped_late(report, timeline):
            role = "cascade"
        event = Event(
            cause=cause, role=role, rule=f"{cause}/{report.witness.split()[0].lower()}", origin=origin, hit=lines.hit(report.line),
            order=order, last_order=order, exit_code=report.death.code, witness=report.witness,
            captures={"tasks": ranges(ranks)} if ranks else {},
        )  # fmt: skip
        found.append(Incident(event, (event,), report))
    return found


def _stopped_late(report: Report, timeline: Timeline) -> bool:
    """Whether a SIGKILL is how a launcher ends what outlived its first failure."""
    if report.witness == "torchelastic table":
        return not report.first
    before = [r for r in timeline.reports if r.witness == report.witness and r.line.offset < report.line.offset]
    return any(r.death.exit_class not in ("killed", "ok") for r in before)


def _ranks_of(report: Report, maps: RankMaps) -> tuple[int, ...]:
    if report.rank is not None:
        return (report.rank,)
    if report.tasks and maps.tasks_are_ranks:
        return report.tasks
    if report.local_rank is not None:
        placed = maps.place(Origin(local_rank=report.local_rank, node=report.node, pid=report.pid), -1)
        return (placed.rank,) if placed.rank is not None else ()
    return ()


# ── 4. did it fail? ──────────────────────────────────────────────────────────────────────────


def decide_whether_failed(
    finding: Finding,
    timeline: Timeline,
    incidents: Sequence[Incident],
    deaths: Sequence[Incident],
    exit_status: int | None,
) -> None:
    """A log that ends in success has no failure, whatever it printed on the way."""
    if exit_status == 0 and not any(i.main.role in ("root", "confirmation") for i in incidents):
        finding.verdict = "no-failure"
        finding.reasons.append("the job's exit status is 0")
        return
    done = timeline.finished
    after = [
        i
        for i in (*incidents, *deaths)
        if done is None or _after(i.main, done.order, done.line.origin.time, done.line.source)
    ]
    telling = [i for i in after if i.main.role in ("root", "either", "confirmation") or i.report is not None]
    if done is not None and not telling and not standing(timeline):
        finding.verdict = "no-failure"
        finding.reasons.append(f"the program says that it completed: {done.line.text.strip()[:80]}")
    elif telling or standing(timeline) or any(i.main.role == "cascade" for i in after) or exit_status:
        finding.verdict = "failed"
    elif timeline.last_progress is not None:
        finding.verdict = "no-failure"
        finding.reasons.append("steps to the end of the log, and no error that was not survived")
    else:
        finding.verdict = "unknown"


def _after(event: Event, order: int, time: float | None, source: int) -> bool:
    if event.hit.source == source:
        return event.order >= order
    if event.origin.time is not None and time is not None:
        return event.origin.time >= time
    return True


# ── 5. the root ──────────────────────────────────────────────────────────────────────────────


def choose_root(
    finding: Finding, timeline: Timeline, incidents: Sequence[Incident], causes: Mapping[str, Cause]
) -> None:
    """The earliest incident that no other explains: roots first, then what may be either, then the cascade itself."""
    tiers = [
        [i for i in incidents if i.main.role in ("root", "confirmation")],
        [i for i in incidents if i.main.role == "either"],
        [
            i
            for i in incidents
            if i.main.role == "cascade" and i.cause not in ("exit-code", "sigterm") and i.report is None
        ],
        [i for i in incidents if i.cause == "exit-code" and i.report is not None],
        [i for i in incidents if i.cause == "sigterm"],
        [i for i in incidents if i.cause == "exit-code"],
    ]
    roots, eithers, victims, *_ = tiers
    silent = [i for i in tiers[3] if i.main.origin.rank is not None]
    if not roots and victims and silent and not eithers and any(v.main.origin.rank is not None for v in victims):
        # everyone who spoke is a victim: the one who ended with a code of its own and said nothing was first
        tiers.insert(0, silent)
    for tier in tiers:
        left = _unexplained(tier, incidents, timeline, causes)
        if left:
            finding.root = left[0]
            finding.rivals = tuple(i for i in left[1:] if i.cause != left[0].cause)
            break
    if finding.root is None or finding.root.cause == "exit-code":
        hear_last_words(finding, timeline)
    root = finding.root
    finding.cause = root.cause if root else "exit-code"
    finding.rule = root.main.rule if root else None
    finding.same = tuple(i for i in incidents if root is not None and i is not root and i.cause == root.cause)
    finding.cascade = tuple(i for i in incidents if root is not None and i is not root and i.cause != root.cause)


def hear_last_words(finding: Finding, timeline: Timeline) -> None:
    """An ending that tells nothing: what else the same rank said, though harmless elsewhere, is the best that there is."""
    silent = finding.root
    rank = silent.main.origin.rank if silent else None
    hints = [e for e in timeline.events if e.role == "hint" and not e.survived and e.origin.rank in (rank, None)]
    if hints:
        last = max(hints, key=lambda e: e.order)
        origin = replace(last.origin, rank=rank if last.origin.rank is None else last.origin.rank)
        event = replace(last, origin=origin)
        finding.root = Incident(event, (event,), silent.report if silent else None)
        finding.reasons.append("no error of its own: the last telling line before its end names the cause")


def _unexplained(
    tier: Sequence[Incident], everything: Sequence[Incident], timeline: Timeline, causes: Mapping[str, Cause]
) -> list[Incident]:
    left = [
        i for i in tier
        if not any(o is not i and _explains(o, i, timeline, causes) and not _explains_first(i, o, timeline, causes) for o in everything)
    ]  # fmt: skip
    return sorted(left or tier, key=lambda i: _rank_of_choice(i, timeline))


def _rank_of_choice(incident: Incident, timeline: Timeline) -> tuple[float, int, int]:
    time, order = timeline.key(incident.main)
    generic = incident.cause in GENERIC
    return (time + (TICK if generic else 0.0) if timeline.order == "timestamps" else 0.0, 0, order)


def _explains(one: Incident, other: Incident, timeline: Timeline, causes: Mapping[str, Cause]) -> bool:
    """Whether `one` brings `other` about, as far as causes and order tell."""
    known = causes.get(one.cause)
    if known is None or one.cause == other.cause:
        return False
    earlier = _clearly_earlier(other, one, timeline)
    if (
        one.main.role in ("root", "confirmation")
        and other.cause in SCHEDULER
        and other.cause != one.cause
        and not earlier
    ):
        return one.main.order < other.main.order
    if other.cause not in known.explains:
        return False
    if one.main.role == "cascade" and other.main.role != "cascade":
        return False
    if one.main.role == "either" and other.main.role == "root":
        return False
    # a witness may speak late of what came first
    return one.main.role == "confirmation" or not earlier


def _explains_first(one: Incident, other: Incident, timeline: Timeline, causes: Mapping[str, Cause]) -> bool:
    """Where two explain each other, the earlier one does."""
    return _explains(one, other, timeline, causes) and timeline.key(one.main) < timeline.key(other.main)


def _clearly_earlier(one: Incident, other: Incident, timeline: Timeline) -> bool:
    """Whether stamps (or, for roots without stamps, the file) show that `one` came before `other`."""
    a, b = one.main, other.main
    if timeline.order == "timestamps":
        return timeline.key(a)[0] < timeline.key(b)[0] - TICK
    return a.role == "root" and b.role == "root" and a.hit.source == b.hit.source and a.order < b.order


# ── 6. a culprit that said nothing ───────────────────────────────────────────────────────────


def find_silent_culprit(finding: Finding, assembled: Assembled, timeline: Timeline) -> None:
    """Only time-outs: stack dumps or the collective's sequence numbers tell who never came."""
    maps, works = assembled.maps, assembled.works
    if odd := stacks.odd_ones({rank: dump.innermost for rank, dump in assembled.dumps.items()}):
        ranks, usual = odd
        where = assembled.dumps[ranks[0]]
        how = f"rank {ranges(ranks)} stands in {where.innermost} while the others stand in {usual}"
        finding.suspicion = Suspicion("behind", ranks, tuple(assembled.dumps), how, "medium", stands_in=where.innermost)
    elif finding.root is not None and finding.root.cause != "hang":
        seen = {w.rank for w in works} | maps.seen | set(maps.node_of)
        world = range(maps.world_size) if maps.world_size else range(max(seen) + 1) if seen else ()
        busy = {
            rank: f"was {report.death.signal or f'ended with {report.death.code}'} later, says {report.witness}"
            for report in timeline.reports
            if len(ranks := _ranks_of(report, maps)) == 1
            for rank in ranks
        }
        finding.suspicion = collectives.suspect(works, world, busy)
        if finding.suspicion is not None:
            finding.cause = "collective-timeout"
    if finding.suspicion is not None:
        finding.reasons.append(finding.suspicion.how)
        told = [i for i in finding.same if i.main.origin.rank in finding.suspicion.ranks and i.report is None]
        if told and finding.root is not None:
            finding.same = (finding.root, *(i for i in finding.same if i is not told[0]))
            finding.root = told[0]


# ── 7. who was first ─────────────────────────────────────────────────────────────────────────


def name_first(
    finding: Finding, timeline: Timeline, maps: RankMaps, incidents: Sequence[Incident], lines: Lines
) -> None:
    """The rank and node of the root: from its own line, its message, a witness, or a map learnt from the log."""
    root = finding.root
    if root is None:
        return
    if finding.suspicion is not None:
        _name_suspect(finding, finding.suspicion, maps)
        return
    if root.cause in SCHEDULER:
        finding.how = "Slurm or a person ended the whole job, not one rank"
        finding.origin = Origin(node=root.main.origin.node, time=root.main.origin.time, dated=root.main.origin.dated)
        return
    if root.main.role == "cascade" and root.report is None:
        _name_missing_peer(finding, root, timeline, lines)
        return
    origin = maps.place(root.main.origin, root.main.hit.source)
    if origin.rank is None and root.cause in STRIKES:
        origin = _struck(finding, root, origin, maps)
    if origin.rank is not None and (better := _ended_by_itself(root, origin, timeline, maps, incidents)) is not None:
        finding.root = root = better
        origin = maps.place(root.main.origin, root.main.hit.source)
    if origin.rank is None:
        ranks = {i.main.origin.rank for i in finding.same if i.main.origin.rank is not None}
        if len(ranks) == 1:
            origin = replace(maps.place(Origin(rank=ranks.pop()), -1), time=origin.time, dated=origin.dated)
            finding.how = "the error is told again with its rank"
    alike = sorted(
        {
            rank
            for i in incidents
            if i.cause == root.cause
            for e in i.events
            if e.cause == root.cause
            for rank in e.ranks
        }
    )
    if origin.rank is not None:
        # ranks count from 0: where the size is not told, ranks 10 and 11 alone are not all of them
        everyone = maps.world_size or max((*alike, *maps.seen), default=0) + 1
        if len(alike) > 1 and len(alike) >= max(2, everyone):
            finding.alike = tuple(alike)
            finding.how = f"all {len(alike)} ranks failed alike; first seen on rank {origin.rank}"
        elif len(alike) > 1:
            finding.how = f"{_order_words(timeline)} of {len(alike)} ranks that failed alike ({ranges(alike)})"
        elif finding.how:
            pass
        elif root.report is not None:
            finding.how = f"{root.report.witness} reports it; the rank itself said nothing"
        else:
            finding.how = f"{_order_words(timeline)} that nothing else explains"
        if origin.rank in maps.assumed:
            finding.how += "; its rank is its local rank: one launcher speaks, and nothing shows a second node"
    else:
        origin = _from_witnesses(finding, root, origin, timeline, maps)
        if origin.rank is None and (rank := _group_rank(root, finding.same, timeline)) is not None:
            origin = maps.place(replace(origin, rank=rank), -1)
            finding.how = (
                f"the watchdog that quotes the error says [Rank {rank}], and no other process group is to be seen"
            )
    finding.origin = origin


def _name_missing_peer(finding: Finding, root: Incident, timeline: Timeline, lines: Lines) -> None:
    """Only victims spoke. Of those that wait for rank 0's ncclUniqueId the log may show what rank 0 did meanwhile."""
    ranks = sorted({i.main.origin.rank for i in (root, *finding.same) if i.main.origin.rank is not None})
    who = f"rank{'s' * (len(ranks) > 1)} {ranges(ranks)}" if ranks else "the writers of these lines"
    finding.how = f"{who} lost or waited for another process, which the log does not name"
    finding.origin = Origin(time=root.main.origin.time, dated=root.main.origin.dated)
    if root.cause != "nccl-id-timeout" or 0 in ranks:
        return
    busy = _lines_of_rank(0, root.main, lines)
    since = root.main.origin.time
    # what it said at the wait's beginning does not show that it was still there
    during = [b for b in busy if since is not None and b.origin.time is not None and b.origin.time > since + 60]
    if during:
        finding.origin = replace(finding.origin, rank=0, node=during[0].origin.node)
        finding.how = f"rank 0 was busy while the others waited for it: {during[-1].text.strip()[:100]}"
        finding.reasons.append(finding.how)


def _lines_of_rank(rank: int, event: Event, lines: Lines) -> list[Line]:
    """What one rank printed around an event, errors of its own left out."""
    source, offset = event.hit.source, event.hit.offset
    start = max(0, offset - _LOOK_AROUND)
    found: list[Line] = []
    data = lines.text(source, start, 2 * _LOOK_AROUND)
    at = data.find(b"\n") + 1 if start else 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = lines.at(source, start + at) if end - at < 2000 else None
        if line is not None and line.origin.rank == rank and "rror" not in line.text and "[c10d]" not in line.text:
            found.append(line)
        at = end + 1
    return found


def _group_rank(root: Incident, same: Sequence[Incident], timeline: Timeline) -> int | None:
    """The rank in the default process group, where all lines of the root's cause agree on it."""
    events = [e for i in (root, *same) for e in i.events if e.cause == root.cause]
    ranks = {e.captures["group_rank"] for e in events if "group_rank" in e.captures}
    return int(ranks.pop()) if len(ranks) == 1 else None


def _struck(finding: Finding, root: Incident, origin: Origin, maps: RankMaps) -> Origin:
    """The rank that a witness's event hit: the one that died by itself there, not those that lost their peer."""
    own = ("killed", "host-oom", "segfault", "bus-error", "cuda-error", "gpu-fault", "data-worker", "exit-code")
    named = root.main.captures.get("nodes") or root.main.captures.get("node") or origin.node or ""
    nodes = set(expand_nodes(named))
    for incident in (root, *finding.same, *finding.cascade):
        struck = maps.place(incident.main.origin, incident.main.hit.source)
        if struck.rank is None or incident.cause not in own:
            continue
        if nodes and struck.node is not None and struck.node not in nodes:
            continue
        finding.how = f"{root.cause} is told by the system; rank {struck.rank} is the one that died of it"
        return replace(struck, time=struck.time if struck.time is not None else origin.time)
    return origin


def _ended_by_itself(
    root: Incident, origin: Origin, timeline: Timeline, maps: RankMaps, incidents: Sequence[Incident]
) -> Incident | None:
    """Of ranks that failed alike at once, the one that ended by itself came before those that were stopped meanwhile."""
    ends = {rank: r.death.exit_class for r in timeline.reports if r.witness != "srun" for rank in _ranks_of(r, maps)}
    if ends.get(origin.rank or 0) != "terminated":
        return None
    for other in incidents:
        rank = other.main.origin.rank
        near = timeline.order != "timestamps" or timeline.key(other.main)[0] <= timeline.key(root.main)[0] + TICK
        if other.cause == root.cause and rank is not None and near and ends.get(rank, "terminated") != "terminated":
            return other
    return None


def _order_words(timeline: Timeline) -> str:
    return "first error by time" if timeline.order == "timestamps" else "first error in the file"


def _name_suspect(finding: Finding, suspicion: Suspicion, maps: RankMaps) -> None:
    finding.how = suspicion.how
    if len(suspicion.ranks) == 1:
        rank = suspicion.ranks[0]
        finding.origin = Origin(rank=rank, node=maps.node_of.get(rank))
    elif suspicion.ranks:
        nodes = {maps.node_of.get(r) for r in suspicion.ranks}
        finding.origin = Origin(node=nodes.pop() if len(nodes) == 1 else None)


def _from_witnesses(finding: Finding, root: Incident, origin: Origin, timeline: Timeline, maps: RankMaps) -> Origin:
    """The root's line names no rank: a witness may, if only one process ended as the root would end it."""
    own = [r for r in timeline.reports if _own_death(r, root)]
    if origin.node:
        own = [r for r in own if r.node in (None, origin.node)] or own
    named = {ranks[0]: r for r in own if len(ranks := _ranks_of(r, maps)) == 1}
    first = [rank for rank, r in named.items() if r.first and _ended_first(r, timeline)]
    several = any(len(_ranks_of(r, maps)) > 1 for r in own)
    if len(named) == 1 and not several:
        rank, report = next(iter(named.items()))
    elif first:
        # agents that noticed in the same second: the one that speaks first is next to the error
        rank, report = first[0], named[first[0]]
    else:
        everyone = sorted({rank for r in own for rank in _ranks_of(r, maps)})
        if len(everyone) > 1:
            finding.alike = tuple(everyone) if len(everyone) >= (maps.world_size or 0) else ()
            finding.how = f"ranks {ranges(everyone)} ended alike, and the error's line names none of them"
        else:
            finding.how = "the error's line names no rank"
        nodes = {r.node for r in own if r.node}
        return replace(origin, node=origin.node or (nodes.pop() if len(nodes) == 1 else None))
    finding.how = f"the error's line names no rank; {report.witness} says that rank {rank} ended so"
    placed = maps.place(Origin(rank=rank, node=report.node, local_rank=report.local_rank), -1)
    return replace(
        placed,
        time=origin.time if origin.time is not None else report.time,
        dated=origin.dated or report.time is not None,
    )


def _own_death(report: Report, root: Incident) -> bool:
    """Whether a process that ended so could be the root's own."""
    death = report.death
    if root.main.cause in ("host-oom", "killed", "shm-exhausted", "data-worker") and death.exit_class in (
        "oom-killed",
        "killed",
    ):
        return True
    if root.main.cause in ("segfault", "bus-error", "abort"):
        return death.cause == root.main.cause
    return death.signal is None and death.code not in (0, None)


def _ended_first(report: Report, timeline: Timeline) -> bool:
    times = [r.time for r in timeline.reports if r.first and r.time is not None]
    return report.time is None or not times or report.time <= min(times)


# ── 8. how it ended ──────────────────────────────────────────────────────────────────────────


def name_exit(finding: Finding, timeline: Timeline, maps: RankMaps, causes: Mapping[str, Cause]) -> None:
    """The first failing process's own ending, apart from the step's."""
    root = finding.root
    codes = [r.death.code for r in timeline.reports if r.witness == "srun" and r.death.code]
    finding.step_code = max(codes) if codes else None
    if root is not None and root.report is not None:
        finding.death, finding.death_how = root.report.death, root.report.witness
        return
    rank = finding.origin.rank
    if rank is not None:
        for report in sorted(timeline.reports, key=lambda r: r.witness != "torchelastic table"):
            if rank in _ranks_of(report, maps):
                finding.death, finding.death_how = report.death, report.witness
                if report.death.exit_class not in ("terminated",):
                    return
        if finding.death is not None:
            return
    own = [r for r in timeline.reports if root is None or _own_death(r, root)]
    if own:
        kinds = {(r.death.code, r.death.signal) for r in own}
        finding.death = own[0].death
        finding.death_how = f"{own[0].witness}" + ("" if len(kinds) == 1 else "; other processes ended otherwise")
    elif timeline.reports and root is not None and root.cause not in SCHEDULER:
        signals = [r for r in timeline.reports if r.death.exit_class not in ("terminated", "killed")]
        if signals:
            finding.death, finding.death_how = signals[0].death, signals[0].witness


# ── 9. how sure ──────────────────────────────────────────────────────────────────────────────


def weigh(finding: Finding, timeline: Timeline) -> None:
    """Confidence by the table in docs/confidence.md."""
    root = finding.root
    if finding.suspicion is not None:
        finding.confidence = finding.suspicion.confidence
        return
    if root is None or root.cause == "exit-code" or root.main.role == "hint":
        finding.confidence = "medium" if root and root.main.role == "hint" and root.report else "low"
        return
    agrees = [
        r for r in timeline.reports if r.first and finding.origin.rank is not None and r.rank == finding.origin.rank
    ]
    if agrees:
        finding.reasons.append("torchelastic's table names the same rank")
    several = len({i.main.origin.rank for i in finding.rivals}) > 0
    if root.main.role == "cascade" or root.cause in ("killed", "sigterm"):
        finding.confidence = "low" if root.cause in ("peer-lost", "sigterm") else "medium"
    elif (
        (several and timeline.order != "timestamps" and not agrees) or root.main.survived or root.main.role == "either"
    ):
        finding.confidence = "medium"
    else:
        finding.confidence = "high"
    words = {
        "timestamps": "first error by time",
        "file": "first in the file; the log has no usable stamps",
    }.get(timeline.order)
    if words and (finding.cascade or finding.rivals):
        finding.reasons.append(words)
    if finding.cascade:
        kinds = sorted({i.cause for i in finding.cascade})
        finding.reasons.append(f"{', '.join(kinds[:4])} follow{'s' * (len(kinds) == 1)} from it")
