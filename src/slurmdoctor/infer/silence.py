"""Who did not come, and what kept the others waiting: the one judge of ranks that print nothing of their own failure.

Sequence numbers, stack dumps, what a barrier counted, or who neither waited nor lost a peer tell a suspect; work as long as
the timeout, a program that was done, or a node without InfiniBand tell why. A rank that only waited is never named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec.structs import replace

from slurmdoctor.infer import waiting_ranks
from slurmdoctor.infer.case import Case, because, because_first, events_of, ranks_of
from slurmdoctor.infer.waiting_ranks import Members, odd_ones, world_of
from slurmdoctor.model import (
    COLLECTIVE_TIMEOUT,
    HANG,
    ID_TIMEOUT,
    LIMITS,
    MOST_RANKS,
    PEER_LOST,
    SOCKET_FALLBACK,
    Busy,
    Confidence,
    Finding,
    Incident,
    Line,
    Observations,
    Origin,
    Reason,
    SignalHit,
    Suspicion,
    expand,
    number,
    reason,
)
from slurmdoctor.timeline import end_of, run_state

_IB = "nccl_ib"
"""The fact that NCCL found InfiniBand: its line names the node."""
_SHOWN = 100
"""Characters of a line that a sentence quotes."""

# ── who did not come ─────────────────────────────────────────────────────────────────────────


def find_suspect(finding: Finding, case: Case) -> Finding:
    """Only time-outs: stack dumps, or the collective's sequence numbers, tell who never came."""
    root = finding.root
    if (far := waiting_ranks.how_far(case.timeline.collectives)) is not None:
        finding = because(finding, far)
    if root is None or root.cause not in case.traits["hides-hang"]:
        shown = _listed(Members((), False), case)
        return because(finding, shown.how) if shown is not None and shown.how.code == "dumps-show" else finding
    world = world_of(case.observed, case.record)
    suspicion = _from_stacks(case.observed) or _listed(world, case)
    if root.cause in case.traits["scheduler"]:
        stood = run_state(case.timeline, end_of(case.record, root.main), case.record).kind
        if suspicion is None and stood == "hung":
            suspicion = _left_out(case)
        if suspicion is None or stood == "progressing":
            return finding  # a job that was ended from outside need not have hung
        finding = replace(finding, cause=HANG, rule=None)
    if suspicion is None and root.cause != HANG:
        suspicion = _from_waits(root, world, case)
        if suspicion is not None:
            finding = replace(finding, cause=COLLECTIVE_TIMEOUT)
    if suspicion is None or suspicion.kind == "unclear":
        suspicion = _left_out(case) or suspicion
    if suspicion is not None:
        waits = _from_waits(root, world, case) if suspicion.stuck_in else None
        finding = _with_suspicion(finding, root, _joined(suspicion, waits) if waits else suspicion, case)
        finding = because(finding, waits.how) if waits and waits.ranks else finding
    elif finding.cause == HANG:
        printing = case.observed.ranks_that_printed
        if world.complete or len(printing) >= LIMITS.waiting_of_unknown:
            finding = _with_silent(finding, tuple(rank for rank in world.ranks if rank not in printing), world.size)
    first = {w.reporter for w in case.timeline.collectives} - {None}
    return because(finding, reason("timed-out-first", rank=first.pop())) if len(first) == 1 else finding


def _from_waits(root: Incident, world: Members, case: Case) -> Suspicion | None:
    """The suspect by what those tell who waited."""
    exits = {report.ranks[0]: report for report in case.reports if len(report.ranks) == 1}
    explained = bool(_fallen(root, case))
    return waiting_ranks.suspect(case.timeline.collectives, world, exits, case.observed.ranks_that_printed, explained)


def _with_suspicion(finding: Finding, root: Incident, suspicion: Suspicion, case: Case) -> Finding:
    """The finding with its suspect, what that rank printed meanwhile, and the suspect's own incident as the root."""
    # how the end of a program that was done hung is neither the network's nor a GPU's
    if suspicion.kind != "all-entered" or finished_before(root, case) is None:
        finding = because(finding, suspicion.how)
    finding = replace(finding, suspicion=suspicion, silent=suspicion.silent)
    if suspicion.kind != "unclear":
        finding = _with_silent(finding, suspicion.silent, suspicion.of)
    if len(suspicion.ranks) == 1 and suspicion.kind in ("missing", "behind") and not suspicion.stuck_in:
        words = case.observed.last_words.get(suspicion.ranks[0])
        if words is not None:
            finding = because(finding, reason("meanwhile", rank=suspicion.ranks[0], text=words.text.strip()[:_SHOWN]))
    own = next((i for i in finding.same if i.main.origin.rank in suspicion.ranks and i.report is None), None)
    if own is None:
        return finding
    return replace(finding, root=own, same=(root, *(i for i in finding.same if i is not own)))


def _with_silent(finding: Finding, ranks: tuple[int, ...], of: int | None) -> Finding:
    """The finding with the ranks of which no line was read: where to look first."""
    return because(replace(finding, silent=ranks), reason("says-nothing", ranks=ranks, of=of)) if ranks else finding


def _from_stacks(observed: Observations) -> Suspicion | None:
    """Those that do something else while as many or more wait in a collective; else the few that are elsewhere than most."""
    dumps = observed.dumps
    odd = odd_ones({rank: dump.where for rank, dump in dumps.items()})
    waiting = Counter(dump.where for dump in dumps.values() if dump.waits)
    others = tuple(sorted(rank for rank, dump in dumps.items() if not dump.waits))
    if 0 < len(others) <= waiting.total():
        odd = others, waiting.most_common(1)[0][0]
    if odd is None:
        return None
    ranks, usual = odd
    here = dumps[ranks[0]].innermost
    how = reason("stands-elsewhere", ranks=ranks, here=here, usual=usual)
    sure: Confidence = "medium" if Members(list(dumps), True).few(ranks) else "low"
    return Suspicion("behind", ranks, tuple(dumps), how, sure, stuck_in=here)


def _joined(suspicion: Suspicion, waits: Suspicion) -> Suspicion:
    """What the stacks show, with the collective that the others waited in; two witnesses agree, or do not."""
    sure: Confidence = "high" if waits.ranks == suspicion.ranks else "low" if waits.ranks else suspicion.confidence
    return replace(suspicion, seq=waits.seq, op=waits.op, of=waits.of, confidence=sure)


def _missing(ranks: tuple[int, ...], waiting: tuple[int, ...], how: Reason) -> Suspicion | None:
    """The ranks that others waited for, if any; of several one is not distinguished from the others."""
    sure: Confidence = "medium" if len(ranks) == 1 else "low"
    return Suspicion("missing", ranks, waiting, how, sure) if ranks else None


def _listed(world: Members, case: Case, alive: Collection[int] = ()) -> Suspicion | None:
    """Whom the last list below the last step calls missing, or does not have; those `alive` speak themselves."""
    (start, end), last = case.timeline.span, case.timeline.last_progress
    start = max(start, last.order if last is not None else start)
    lists = [m for m in case.observed.signals if m.signal.kind == "members" and start <= m.order < end]
    if not lists:
        return None
    shown = lists[-1]
    one_by_one = [m.captures["one"] for m in lists if "one" in m.captures]
    missing = set(expand(shown.captures.get("missing", ",".join(one_by_one)).replace(" ", "")))
    came = set(expand(shown.captures.get("present", "").replace(" ", "")))
    if came:
        world = world if world.complete else Members(range(max(came) + 1), False)
        absent = set(world.ranks) - came
        missing = absent if world.few(absent) else set()
    ranks = tuple(sorted(missing - set(alive)))
    found = _missing(ranks, tuple(sorted(came)), reason("listed-missing", ranks=ranks, came=bool(came)))
    if found is not None and (proof := shown.captures.get("dumps")) is not None:
        sure = "high" if proof == ", which" else found.confidence  # a rank without a dump may wait itself
        found = replace(found, how=reason("dumps-show", ranks=ranks), confidence=sure)
    return found and replace(found, line=shown.line)


def _left_out(case: Case, kind: Literal["missing", "lost"] = "missing") -> Suspicion | None:
    """The few that printed before, but made not the last step of all others, or report nothing of what all others do."""
    if case.timeline.cut or not case.observed.complete:
        return None
    world, printed = set(world_of(case.observed, case.record).ranks), case.observed.ranks_that_printed
    troubled = {rank for event in case.events if event.role != "hint" for rank in event.ranks}
    steps = {step.rank: step.step for step in case.timeline.progress if step.rank is not None and step.step is not None}
    last = max(steps.values(), default=0)
    for others, step in ((troubled, None), ({rank for rank in steps if steps[rank] == last}, last)):
        rest = world - others
        ranks = tuple(sorted(rest & printed if step is None else rest & set(steps)))
        if len(others) >= LIMITS.waiting_of_unknown and set(ranks) == rest and Members(tuple(world), True).few(rest):
            how = reason("reported-nothing", ranks=ranks, others=len(others), step=step)
            sure: Confidence = "medium" if len(others) >= LIMITS.waiting_of_a_node else "low"
            return Suspicion(kind, ranks, tuple(sorted(others)), how, sure)
    return None


# ── who the others waited for, where nobody failed of himself ────────────────────────────────


def name_suspect(finding: Finding, suspicion: Suspicion, case: Case) -> Finding:
    """The suspect as the first rank, where there is one."""
    origin, node_of = finding.origin, case.rank_map.node_of
    nodes = {node_of.get(r) for r in suspicion.ranks}
    if suspicion.how.code == "dumps-show" and len(suspicion.ranks) > 1:
        finding = replace(finding, together=suspicion.ranks)
    if suspicion.ranks:
        rank = suspicion.ranks[0] if len(suspicion.ranks) == 1 else None
        origin = Origin(rank=rank, node=nodes.pop() if len(nodes) == 1 else None)
    return replace(finding, how=(suspicion.how,), origin=origin)


def name_missing_peer(finding: Finding, root: Incident, case: Case) -> Finding:
    """The process that the others waited for, where the log shows who did not come, or that rank 0 was busy."""
    printed = ranks_of(finding)
    ranks = tuple(sorted(printed))
    origin = Origin(time=root.main.origin.time, dated=root.main.origin.dated)
    finding = replace(finding, how=(reason("waited-for-unknown", ranks=ranks),), origin=origin)
    absent = _who_did_not_come(root, printed, case)
    suspicion = _listed(world_of(case.observed, case.record), case, printed)
    if suspicion is not None and root.cause == PEER_LOST:
        suspicion = replace(suspicion, kind="lost")
    suspicion = suspicion or _missing(absent, ranks, reason("never-a-word", waiting=ranks, ranks=absent))
    if suspicion is None and root.cause != ID_TIMEOUT:  # those wait for rank 0, by name
        suspicion = _left_out(case, "lost" if root.cause == PEER_LOST else "missing")
    if suspicion is not None:
        return name_suspect(because(replace(finding, suspicion=suspicion), suspicion.how), suspicion, case)
    words = case.observed.last_words.get(0)
    if root.cause != ID_TIMEOUT or 0 in printed or words is None:
        return finding
    text = words.text.strip()[:_SHOWN]
    if origin.time is not None and (words.origin.time or 0.0) > origin.time + LIMITS.still_there:
        return because(_with_rank_0_busy(finding, text, words.origin.node), reason("rank-0-busy", text=text))
    work = case.observed.rank_0_work
    if work is None and not _printed_after(words, (root, *finding.same)):
        return finding
    text = work.text if work else text
    found = replace(finding, rank_0_work=text, last_words=words)
    return because(found, reason("rank-0-at-work", text=text))


def _with_rank_0_busy(finding: Finding, text: str, node: str | None) -> Finding:
    """Rank 0 is the one whose id the others waited for."""
    origin = replace(finding.origin, rank=0, node=node)
    return replace(finding, origin=origin, how=(reason("rank-0-busy", text=text),), rank_0_work=text)


def _printed_after(words: Line, waits: Sequence[Incident]) -> bool:
    """Whether rank 0 still printed when the others had given up, also by the clock where both show it."""
    ends = [wait.main for wait in waits if wait.main.hit.source == words.source]
    if not ends or any(words.offset < end.hit.offset for end in ends):
        return False
    printed_at = words.origin.time
    return printed_at is None or all(end.origin.time is None or printed_at >= end.origin.time for end in ends)


def _who_did_not_come(root: Incident, printed: set[int], case: Case) -> tuple[int, ...]:
    """The ranks that no line names, where a count of those who came agrees with it."""
    joined, expected = root.main.captures.get("joined", ""), root.main.captures.get("expected", "")
    if not (joined.isdecimal() and expected.isdecimal()):
        return ()
    came, size = number(joined), number(expected)
    if size > MOST_RANKS or case.rank_map.world_size not in (None, size):
        return ()
    missing = set(range(size)) - printed - case.rank_map.seen - set(case.rank_map.node_of)
    agrees = len(missing) == size - came and len(missing) <= LIMITS.unheard * size
    return tuple(sorted(missing)) if agrees and printed else ()


def note_who_joined(finding: Finding, case: Case) -> Finding:
    """No failure is proven, but stacks show ranks elsewhere, or the log ends while ranks join: who is absent is named."""
    if finding.verdict == "unknown" and (odd := _from_stacks(case.observed)):
        return because_first(finding, odd.how)
    marks = [mark for mark in case.observed.signals if mark.signal.kind == "fact"]
    joining = any("members" in mark.captures for mark in marks)
    size, seen = case.rank_map.world_size, case.rank_map.seen
    if finding.verdict != "unknown" or case.timeline.progress or not joining or size is None or size > MOST_RANKS:
        return finding
    absent = tuple(rank for rank in range(size) if rank not in seen)
    if not absent or any(mark.signal.id == "registered" for mark in marks):
        return finding
    return because_first(finding, reason("still-joining", came=size - len(absent), of=size, absent=absent))


# ── why the others waited ────────────────────────────────────────────────────────────────────


def explain_wait(finding: Finding, case: Case) -> Finding:
    """The finding with what kept the others waiting, how late that was reported, and nodes that could not reach the others."""
    root = finding.root
    if root is None:
        return finding
    if finding.cause in case.traits["timed-out"]:
        finding = _explain_work(finding, root, case)
    nodes = _fallen(root, case)
    if not nodes:
        return finding
    origin = finding.origin
    if origin.rank is None and origin.node is None and len(nodes) == 1:
        origin = replace(origin, node=nodes[0])
    return because_first(replace(finding, origin=origin, socket_nodes=nodes), reason("fell-to-sockets", nodes=nodes))


def _explain_work(finding: Finding, root: Incident, case: Case) -> Finding:
    """The finding with the work that the others waited for, or that all was done, and how late a watchdog reported it."""
    late = _overdue(finding) if finding.cause == COLLECTIVE_TIMEOUT else ()
    if (done := finished_before(root, case)) is not None:
        text = done.line.text.strip()[:80]
        finding = replace(finding, work=Busy("finished", text, done.order))
        return because_first(finding, reason("completed-before", text=text), *late)
    finding = because_first(finding, *late)
    busy, limit = case.observed.busy, _timeout_of(root, case.observed)
    if busy is None or limit is None:
        return finding
    if any(busy.order < step.order < root.main.order for step in case.timeline.progress):
        return finding
    spent = busy.elapsed
    if spent is None and busy.time is not None and root.main.origin.time is not None and not root.main.bound:
        spent = root.main.origin.time - busy.time
    # it began a little after, or before, the wait
    if spent is None or not LIMITS.work_least * limit <= spent <= LIMITS.work_most * limit:
        return finding
    why = reason("busy-meanwhile", kind=busy.kind, text=busy.text, spent=spent, limit=limit)
    finding = because_first(replace(finding, work=busy, timeout=limit), why)
    if root.cause != ID_TIMEOUT or 0 in ranks_of(finding):
        return finding
    return _with_rank_0_busy(finding, busy.text, case.rank_map.node_of.get(0))


def _timeout_of(root: Incident, observed: Observations) -> float | None:
    """Seconds for which the others waited, where the log tells."""
    milliseconds = root.main.captures.get("timeout_ms") or str(observed.numbers.get("timeout_ms", ""))
    return number(milliseconds) / 1000 or None if milliseconds.isdecimal() else None


def finished_before(root: Incident, case: Case) -> SignalHit | None:
    """The program's own word that it was done, before the wait."""
    done, last = case.timeline.finished, case.timeline.last_progress
    if done is None or done.order > root.main.order or (last is not None and last.order > done.order):
        return None
    return done


def _overdue(finding: Finding) -> tuple[Reason, ...]:
    """A watchdog that reported much later than its limit."""
    events = [e.captures for e in events_of(finding)]
    times = [(number(c["ran_ms"]), number(c["timeout_ms"])) for c in events if c.get("ran_ms") and c.get("timeout_ms")]
    ran, limit = max(times, default=(0, 1))
    return (reason("overdue", ran=ran / 1000, limit=limit / 1000),) if ran >= LIMITS.overdue * limit > 0 else ()


def _fallen(root: Incident, case: Case) -> tuple[str, ...]:
    """The nodes on which NCCL took sockets, where they are at most half of all, and another one has InfiniBand."""
    if "blames-node" not in case.causes[root.cause].traits:
        return ()
    sockets = {e.origin.node for e in case.events if e.rule == SOCKET_FALLBACK}
    ib = {mark.line.origin.node for mark in case.observed.signals if mark.signal.name == _IB}
    known = sockets | ib | set(case.rank_map.node_of.values())
    if None in sockets or not ib - sockets - {None} or 2 * len(sockets) > len(known - {None}):
        return ()
    return tuple(sorted(node for node in sockets if node))
