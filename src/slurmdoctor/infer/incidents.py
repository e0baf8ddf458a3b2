"""Events and witnesses → incidents: what happened to one writer at one time, told by itself or only by others."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence

from slurmdoctor.infer.finding import GENERIC
from slurmdoctor.model import Event, ExitReport, Incident, Origin, RankMap, Role
from slurmdoctor.model.ranges import ranges
from slurmdoctor.ranks.lines import Lines
from slurmdoctor.timeline.order import Timeline

_ROLE_OF_ENDING: Mapping[str, Role] = {
    "sigterm": "cascade",
    "exit-code": "cascade",
    "host-oom": "confirmation",
    "abort": "either",
}
_NEAR_SECONDS = 5.0
_NEAR_BYTES = 2048
_RECENT = 40
"""Incidents of one writer that its next event may still belong to."""


def gather(events: Sequence[Event], timeline: Timeline) -> list[Incident]:
    """Events of one chain, or of one writer at one time, are one incident; its most telling event names it."""
    parts: dict[object, list[Event]] = {}
    recent: dict[object, deque[object]] = defaultdict(lambda: deque(maxlen=_RECENT))
    for event in sorted(events, key=lambda e: e.order):
        if event.role == "hint":
            continue
        key = _belongs_to(event, parts, recent)
        parts.setdefault(key, []).append(event)
        mine = recent[_writer(event)]
        if not mine or mine[-1] != key:
            mine.append(key)
    found = [Incident(_main(part), tuple(part)) for part in parts.values()]
    return sorted(found, key=lambda i: timeline.key(i.main))


def _writer(event: Event) -> object:
    origin = event.origin
    return (
        (event.hit.source, "rank", origin.rank) if origin.rank is not None else (event.hit.source, "node", origin.node)
    )


def _belongs_to(event: Event, parts: Mapping[object, list[Event]], recent: Mapping[object, deque[object]]) -> object:
    if event.group and ("group", event.group) in parts:
        return ("group", event.group)
    known = event.origin.rank is not None
    for key in reversed(recent[_writer(event)]):
        last = parts[key][-1]
        if event.group and last.group and event.group != last.group and not known:
            continue
        if "confirmation" in (event.role, last.role) and event.role != last.role:
            continue
        if _only_waited(parts[key]) and event.role == "root" and event.cause not in GENERIC:
            continue  # what a rank meets after it gave up waiting is another story
        near = event.order - last.order < _NEAR_BYTES
        if known and event.origin.time is not None and last.origin.time is not None:
            near = near or abs(event.origin.time - last.origin.time) <= _NEAR_SECONDS
        if near:
            return key
    return ("group", event.group) if event.group else ("event", event.order, event.rule)


def _only_waited(part: Sequence[Event]) -> bool:
    return part[0].cause == "collective-timeout" and part[0].role == "either" and all(e.role != "root" for e in part)


def _main(part: Sequence[Event]) -> Event:
    """The event that names an incident: the first telling one; a victim's words make what it leads to a victim's too."""
    generic = sorted(part, key=lambda e: e.role not in ("root", "either"))
    first = next((e for e in part if e.cause not in GENERIC), generic[0])
    if first.role == "cascade":
        same_chain = [e for e in part if e.role in ("root", "confirmation") and e.cause not in GENERIC]
        before = [e for e in part if e.cause == "python-error" and e.order < first.order and e.group != first.group]
        # on one line, as in a paste that lost its line ends, no order is to be seen
        beside = [e for e in part if e.role == "either" and e.order == first.order and e.cause not in GENERIC]
        return next(iter((*same_chain, *before, *beside)), first)
    if first.role == "either":
        telling = [e for e in part if e.role == "root" and e.cause not in GENERIC]
        return telling[0] if telling else first
    return first


# ── deaths without words ─────────────────────────────────────────────────────────────────────


def silent_deaths(timeline: Timeline, incidents: Sequence[Incident], maps: RankMap, lines: Lines) -> list[Incident]:
    """Ranks of which only srun, torchelastic or the shell says how they ended."""
    spoke = {rank for i in incidents for e in i.events for rank in e.ranks}
    # who lost a peer or timed out aborts: that somebody did is no news
    waited = any(i.main.role in ("cascade", "either") and i.cause not in GENERIC for i in incidents)
    unlabelled = any(i.main.origin.rank is None and i.main.role in ("root", "either") for i in incidents)
    late = _stopped_late(timeline.reports)
    found: list[Incident] = []
    for report in timeline.reports:
        cause = report.exit.cause
        if report.exit.code == 0 or report.exit.signal in ("SIGUSR1", "SIGUSR2"):
            continue
        ranks = report.ranks
        silent = [r for r in ranks if r not in spoke]
        if cause in ("exit-code", "command-not-found", "abort") and (
            (not silent and ranks) or (unlabelled and incidents)
        ):
            continue
        if cause == "abort" and not ranks and waited:
            continue
        rank = silent[0] if len(silent) == 1 else ranks[0] if len(ranks) == 1 else None
        order = report.order
        written = Origin(rank=rank, local_rank=report.local_rank, node=report.node, pid=report.pid, time=report.time)
        origin, basis = maps.resolve(written)
        role = _ROLE_OF_ENDING.get(cause, "root")
        if cause == "killed" and id(report) in late:
            role = "cascade"
        event = Event(
            cause=cause, role=role, rule=f"{cause}/{report.witness.split()[0].lower()}", origin=origin, rank_basis=report.rank_basis or basis,
            hit=lines.hit(report.line), order=order, last_order=order, exit_code=report.exit.code, witness=report.witness,
            captures={"tasks": ranges(ranks)} if ranks else {},
        )  # fmt: skip
        found.append(Incident(event, (event,), report))
    return found


def _stopped_late(reports: Sequence[ExitReport]) -> set[int]:
    """The reports (their ids) of a SIGKILL that may be how a launcher ends what outlived its first failure."""
    first: dict[str, int] = {}
    """Each witness's first ending that is no SIGKILL."""
    for report in reports:
        if report.exit.exit_class not in ("killed", "ok"):
            first[report.witness] = min(report.line.offset, first.get(report.witness, report.line.offset))
    return {
        id(report)
        for report in reports
        if (
            not report.first
            if report.witness == "torchelastic table"
            else first.get(report.witness, report.line.offset) < report.line.offset
        )
    }
