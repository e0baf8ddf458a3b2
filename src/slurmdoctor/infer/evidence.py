"""What shows a finding: its lines, the state of each rank, the nodes to leave out, and the batch script's mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from slurmdoctor.infer.case import Case, because, events_of
from slurmdoctor.model import (
    CLASSIFIER,
    EXIT_CODE,
    ID_TIMEOUT,
    SHORT,
    Event,
    ExitReport,
    Finding,
    Incident,
    JobRecord,
    Line,
    ProcessExit,
    RankMap,
    RankStanding,
    Reason,
    ScriptEvidence,
    ScriptMistake,
    Standing,
    Suspicion,
    Timeline,
    expand_nodes,
    parse_time,
    ranges,
    reason,
)

Place = tuple[int, int]
"""Source and offset of a line."""
_MOST_LINES = 8
"""Lines of evidence: a reader wants few."""
_MOST_OF_A_CAUSE, _MOST_OF_A_MESSAGE = 2, 3
"""Lines of the same cause, the first ones; and those nearest to the root that its message goes on with."""
_MOST_MISTAKES = 2
"""Mistakes that are shown: a script with more is for `slurmdoctor lint`."""
_OF_THE_SIGNAL = frozenset({"signal-not-handled", "signal-window"})
"""Checks of what becomes of the signal before the limit: they matter where it came."""
_ONLY_AFTER_THE_WORK = frozenset({"background-left", "after-exec", "pid-lost"})
"""Checks of mistakes that matter to a time limit only where the work was done before it."""
_HIDES_EXIT = frozenset({"exit-status-in-pipe", "exit-status-lost"})
_BROKEN = r"DOWN|FAIL|NOT_RESPONDING|\*"
"""States of a node that Slurm itself has lost; one that is only drained somebody took out."""
_STAMP = r"\[[^\s\[@]{0,120}@([^\s@]{1,120})\]\)?$"
_FOUND_LATER = 86400.0
"""Seconds after a job's end in which a node is drained for what broke the job."""

# ── the lines that prove it ──────────────────────────────────────────────────────────────────


def choose_evidence(finding: Finding, case: Case) -> Finding:
    """The finding with its evidence: the root's own lines first, then witnesses, then the cascade's first lines.

    Where nothing proves why the job ended, the lines that look most like its end follow.
    """
    chosen = [i.main for i in finding.cascade[:3]]
    if finding.root is not None:
        chosen = _of_the_root(finding, finding.root, case.timeline) + chosen
    ending = case.observed.ending
    guessed = finding.rule == CLASSIFIER
    if finding.verdict != "no-failure" and (guessed or finding.cause in (None, EXIT_CODE)):
        guess = guessed or finding.root is None
        read, shown = (ending.read, ending.shown) if guess else (None, ())
        last = [_hint(line) for line in (ending.telling, read, *shown) if line is not None]
        chosen = [*chosen[:1], *last, *chosen[1:]] if guessed else [*chosen, *last]
    by_place: dict[Place, Event] = {}
    for event in chosen:
        by_place.setdefault(event.hit.place, event)
    return replace(finding, evidence=tuple(by_place.values())[:_MOST_LINES])


def _of_the_root(finding: Finding, root: Incident, timeline: Timeline) -> list[Event]:
    own = [root.main]
    if root.report is not None and root.report.how is not None and root.main.hit == root.report.line:
        own.append(replace(_hint(root.report.how), origin=root.main.origin))
    # what rank 0 printed last as the others waited: where to look
    if finding.last_words is not None:
        own.append(_hint(finding.last_words, root.cause, f"{root.cause}/last-words", root.main.order))
    if finding.suspicion is not None:  # what the suspect prints of itself, then what a rank prints that waits for it
        waits = {status.order for status in timeline.collectives if status.op is not None}
        own += [i.main for i in finding.same if i.main.order in waits][:1]
        own += [_hint(line) for line in (finding.suspicion.line,) if line is not None]
    # of symptoms, what says the same again comes last
    again = root.main.rule if root.main.role == "cascade" else None
    own += sorted((e for e in root.events if e is not root.main), key=lambda e: e.rule == again)
    own += [i.main for i in finding.same if i.main.origin.rank == finding.origin.rank or i.report is not None][:1]
    roles = ("confirmation", "hint", "root", *(("either",) if root.report is not None else ()))
    same_cause = [e for e in timeline.events if e.cause == root.cause and e.role in roles]
    message = sorted(
        (e for e in same_cause if e.rule == f"{root.cause}/message"), key=lambda e: abs(e.order - root.main.order)
    )
    return [*own, *message[:_MOST_OF_A_MESSAGE], *same_cause[:_MOST_OF_A_CAUSE]]


def _hint(line: Line, cause: str = "", rule: str = "", order: int = -1) -> Event:
    return Event(cause, "hint", rule, line.origin, line, order)


# ── where each rank stands ───────────────────────────────────────────────────────────────────


def group_ranks(finding: Finding, case: Case) -> tuple[RankStanding, ...]:
    """One group for each way to stand; a rank belongs to the first that fits it."""
    root = finding.root
    if root is None:
        return ()
    placed: set[int] = set()
    found = []
    for standing, ranks, why, place in _standings(finding, root, case):
        new = sorted({rank for rank in ranks if rank is not None} - placed)
        placed.update(new)
        if new:
            found.append(RankStanding(standing, tuple(new), why, place))
    return tuple(found)


_Group = tuple[Standing, Iterable["int | None"], tuple[Reason, ...], "Place | None"]
"""How ranks stand, why, and a line that shows it."""


def _standings(finding: Finding, root: Incident, case: Case) -> Iterator[_Group]:
    """All ways to stand, the most telling first."""
    suspicion = finding.suspicion
    if suspicion is not None:
        yield "suspect", suspicion.ranks, (suspicion.how,), _trace_of_suspect(suspicion, root, case)
        if suspicion.stuck_in:
            dumped = case.observed.dumps[suspicion.waiting[0]].line
            yield "waiting", suspicion.waiting, (reason("stacks-show-waiting"),), dumped.place
    else:
        yield from _first(finding, root)
    yield from _followers(finding, root, case)
    for (witness, ending), reports in _bad_exits(case.timeline).items():
        why = reason("ended-without-error", exit=ending, witness=witness)
        yield "collateral", (rank for one in reports for rank in one.ranks), (why,), reports[0].line.place
    signals = case.observed.signals
    done = [m.line for m in signals if m.signal.kind == "finished" and m.line.origin.rank is not None]
    if done:
        yield "finished", (x.origin.rank for x in done), (reason("completed"),), done[0].place
    known = {p.rank for p in case.timeline.progress} | case.rank_map.seen
    known |= set(range(finding.facts.get("world_size") or case.rank_map.world_size or 0))
    yield "silent", known, (reason("nothing-told"),), None


def _first(finding: Finding, root: Incident) -> Iterator[_Group]:
    """The rank that was first, and those that failed the same way."""
    if finding.origin.rank is None and not finding.together:
        return
    first = finding.together if finding.origin.rank is None else (finding.origin.rank,)
    yield "first", first, finding.how, root.main.hit.place
    together = [i.main for i in finding.same if i.main.origin.rank is not None]
    if together or root.main.others:
        ranks = (rank for event in (root.main, *together) for rank in event.ranks)
        yield "first", ranks, (reason("failed-alike", cause=root.cause),), (together or [root.main])[0].hit.place


def _followers(finding: Finding, root: Incident, case: Case) -> Iterator[_Group]:
    """The ranks whose own lines follow from the root."""
    by_cause: dict[str, list[Event]] = {}
    for incident in (*finding.same, root, *finding.cascade):
        if incident.main.origin.rank is not None:
            by_cause.setdefault(incident.cause, []).append(incident.main)
    for cause, here in by_cause.items():
        waited = cause in case.traits["timed-out"]
        why = reason("waited-for-others" if waited else "follows-from-first", cause=cause)
        ranks = (rank for event in here for rank in event.ranks)
        yield "waiting" if waited else "collateral", ranks, (why,), here[0].hit.place


def _bad_exits(timeline: Timeline) -> dict[tuple[str, ProcessExit], list[ExitReport]]:
    """Bad exits by witness and kind."""
    found: dict[tuple[str, ProcessExit], list[ExitReport]] = {}
    for report in timeline.reports:
        if report.exit.exit_class != "ok":
            kind = ProcessExit(None if report.exit.signal else report.exit.code, report.exit.signal, "unknown")
            found.setdefault((report.witness, kind), []).append(report)
    return found


def _trace_of_suspect(suspicion: Suspicion, root: Incident, case: Case) -> Place | None:
    """A line that shows a suspect: its error, or what it printed last, or the report of its exit."""
    suspects, first = set(suspicion.ranks), min(suspicion.ranks, default=-1)
    if root.main.origin.rank in suspects:
        return root.main.hit.place
    dump = case.observed.dumps.get(first)
    if suspicion.stuck_in and dump is not None:
        return dump.line.place
    line = case.observed.last_words.get(first) or next((r.line for r in case.reports if suspects & set(r.ranks)), None)
    return line.place if line is not None else None


# ── which nodes the evidence is against: the only source of what a fix or the retry line excludes ──


def blame_nodes(finding: Finding, case: Case) -> Finding:
    """The finding with the nodes to leave out, by the log and by Slurm's record, and the names that fixes have for them."""
    if finding.verdict != "failed":
        return finding
    root, waits = finding.root, finding.cause == ID_TIMEOUT
    names = _by_the_extent(finding, case.rank_map)
    if root is not None and (waits or finding.suspicion is not None):
        names["bad_nodes"] = ()  # the nodes of those that waited are not to blame
    if root is not None and "peer" in root.main.captures and root.main.origin.node is not None:
        names |= _ends_of_the_link(finding, root, case.rank_map)
    if root is not None and waits:
        names |= _far_from_rank_0(finding, case.rank_map)
    if finding.socket_nodes:
        names |= {"socket_nodes": finding.socket_nodes, "bad_nodes": finding.socket_nodes}
    bad = tuple(names.pop("bad_nodes", ()))
    reported = _reported(finding.record) if finding.cause in case.traits["blames-node"] and finding.record else {}
    # nodes that name a peer are not to blame themselves; and Slurm's word is more than where something else failed
    if not bad and "bad_peer" not in names and not (reported and case.causes[finding.cause or ""].retry != "elsewhere"):
        bad = (finding.origin.node,) if finding.origin.node else tuple(expand_nodes(listed_nodes(finding)))
    return replace(
        finding,
        node_names=names,
        exclude=tuple(dict.fromkeys([*bad, *reported])),
        reported=reported,
        retry="elsewhere" if any(re.search(_BROKEN, words.partition(" ")[0]) for words in reported.values()) else None,
    )


def _reported(job: JobRecord) -> dict[str, str]:
    """The nodes that Slurm reports as bad, but for those that were drained long after the job."""
    found: dict[str, str] = {}
    for node, words in job.bad_nodes.items():
        stamp = re.search(_STAMP, words)
        since = parse_time(stamp[1]) if stamp else None
        if since is None or job.end is None or since <= job.end + _FOUND_LATER:
            found[node] = words
    return found


def listed_nodes(finding: Finding) -> str:
    """The nodes that the message itself lists."""
    if finding.root is None:
        return ""
    of_the_cause = (
        e for i in (finding.root, *finding.same) for e in (i.main, *i.events) if e.cause == finding.root.cause
    )
    return next((e.captures["nodes"] for e in of_the_cause if e.captures.get("nodes")), "")


def _by_the_extent(finding: Finding, rank_map: RankMap) -> dict[str, Any]:
    """Whether the failure belongs to some nodes, where all ranks had it and elsewhere none, or to all nodes in the same way."""
    extent, node_of = finding.extent, rank_map.node_of
    counted = finding.facts.get("nodes")
    nodes = max(len(set(node_of.values())), counted if isinstance(counted, int) else 0)
    if nodes < 2 or not extent.ranks:
        return {}
    if extent.of == len(extent.ranks) or len(extent.nodes) == nodes:
        return {"on_all_nodes": True}
    there = {rank for rank, node in node_of.items() if node in extent.nodes}
    several = len(extent.ranks) >= 2 * len(extent.nodes) or extent.of == nodes
    if several and there == set(extent.ranks):
        return {"only_nodes": ",".join(extent.nodes), "bad_nodes": extent.nodes}
    return {}


def _ends_of_the_link(finding: Finding, root: Incident, rank_map: RankMap) -> dict[str, Any]:
    """The end that a broken link points at: the peer that several nodes name, or the node that names several peers; else both."""
    events = [e for e in events_of(finding) if e.cause == root.cause and e.captures.get("peer")]
    printed = {e.origin.node for e in events if e.origin.node}
    peers = {e.captures["peer"] for e in events}
    known = peers.intersection(rank_map.node_of.values())
    if len(printed) > 1 and len(peers) == 1:
        return {"bad_nodes": tuple(known), "bad_peer": next(iter(peers))}
    if len(peers) > 1:
        return {"bad_nodes": tuple(printed)} if len(printed) == 1 else {}
    return {"bad_nodes": tuple(sorted(printed | known))}


def _far_from_rank_0(finding: Finding, rank_map: RankMap) -> dict[str, Any]:
    """What rank 0 did while the others waited; or that those who waited are all on other nodes than rank 0."""
    if finding.rank_0_work is not None:
        return {"rank0_busy": finding.rank_0_work}
    node_of = rank_map.node_of
    waiting = {rank for e in events_of(finding) for rank in e.ranks}
    home = node_of.get(0)
    far_nodes = tuple(sorted({node_of.get(rank, "") for rank in waiting}))
    if not far_nodes or "" in far_nodes or home in far_nodes:
        return {}
    names = {"far_ranks": ranges(tuple(waiting), SHORT), "far_nodes": far_nodes}
    if home is None or not any(node == home for rank, node in node_of.items() if rank not in waiting and rank > 0):
        return names
    names["home_node"] = home
    others = set(node_of.values()) - {home, *far_nodes}
    # of two nodes either may be the one that cannot reach the other
    bad = far_nodes if others else (home, *far_nodes)
    return names | ({"bad_nodes": bad} if len(far_nodes) == 1 else {})


# ── the batch script ─────────────────────────────────────────────────────────────────────────


def apply_script(finding: Finding, script: ScriptEvidence, case: Case) -> Finding:
    """The finding with the mistakes of the script that bear on it, or hid its exit status; one of them may prove the cause."""
    if finding.verdict != "failed":
        return finding
    bearing = [m for m in script.mistakes if _applies(m, finding)]
    bearing = sorted(bearing, key=lambda m: m.level == "note")[:_MOST_MISTAKES]
    ended_well = finding.facts.get("script_ended") == 0
    hiding = [m for m in script.mistakes if m.check in _HIDES_EXIT and ended_well][:1]
    if not bearing and not hiding:
        return finding
    proven = finding.cause in case.traits["proven-by-script"] and any(m.level == "error" for m in bearing)
    says = [reason("script-says", script=script.name, line=m.line, says=m.says) for m in (*bearing, *hiding)]
    found = because(finding, *says)
    return replace(
        found,
        script=script.name,
        mistakes=tuple(bearing),
        hiding=tuple(hiding),
        confidence="high" if proven else finding.confidence,
    )


def _applies(mistake: ScriptMistake, finding: Finding) -> bool:
    """Whether a mistake brings about what was found: a cause, or the one kind of it that a rule tells."""
    if not mistake.causes & {finding.cause, finding.rule}:
        return False
    signalled = bool(finding.facts.get("signalled"))
    if mistake.check in _OF_THE_SIGNAL:
        return signalled
    if mistake.check == "signal-window-short":
        return not signalled  # nothing was saved in the window
    return mistake.check not in _ONLY_AFTER_THE_WORK or finding.facts.get("ended") == "finished"
