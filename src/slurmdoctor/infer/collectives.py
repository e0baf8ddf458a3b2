"""Finds the rank that held up a collective, from what the watchdogs of the other ranks print.

`[Rank 1]` inside a watchdog's message is the rank within the process group; the global rank stands in the line's label.
Dump-signal lines print the default group's numbers, whichever group timed out (PyTorch >= 2.4, ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from msgspec.structs import replace

from slurmdoctor.infer.members import Members, members_of
from slurmdoctor.model import LIMITS, CollectiveStatus, ExitReport, Reason, Suspicion, reason


class _Wait(NamedTuple):
    """The collective in which most ranks of a group timed out."""

    group: str
    works: Sequence[CollectiveStatus]
    """All that timed out in this group."""
    seq: int | None
    op: str | None
    here: Mapping[int, CollectiveStatus]
    """Rank -> its work of this number."""
    ranks: tuple[int, ...]
    """The ranks that waited in it."""


def suspect(
    works: Sequence[CollectiveStatus],
    world: Members,
    exits: Mapping[int, ExitReport],
    heard: Collection[int] = (),
) -> Suspicion | None:
    """Name the rank or ranks that the others waited for.

    `world` has the job's ranks; `exits` are the exit reports of single ranks. Who was `heard` of is not called silent.
    """
    timed = [w for w in works if w.op is not None]
    if not timed:
        return None
    status = [w for w in works if w.enqueued is not None and not w.dump]
    waits = [_wait(group, found, works, status) for group, found in _by_group(timed, status).items()]
    waits.sort(key=lambda w: min((one.time if one.time is not None else float("inf"), one.order) for one in w.works))
    wait = waits[0]
    members = members_of(wait.group, works, wait.works, status, world)
    spoke = {w.rank for w in works} | {r for one in waits for r in one.ranks} | set(heard)
    silent = _silent(wait, members, spoke)
    lowest = _numbers(wait.works)
    elsewhere = _elsewhere(wait, status, lowest)
    if elsewhere is not None:
        return replace(elsewhere, silent=silent, of=members.size)
    if not _far_apart(lowest) and (named := _missing(waits, members, works, status, world)) is not None:
        return replace(_never_reported(*named, exits), of=named[1].size)
    return replace(_nobody(wait, members, world, works, status, lowest, silent), of=members.size)


def _silent(wait: _Wait, members: Members, spoke: set[int]) -> tuple[int, ...]:
    """The group's ranks of which no line was read; of a log that may be a part nobody is called silent."""
    if members.complete or len(wait.ranks) >= LIMITS.waiting_of_unknown:
        return tuple(r for r in members.ranks if r not in spoke)
    return ()


# ── the collective in which a group waited ───────────────────────────────────────────────────


def _by_group(
    timed: Sequence[CollectiveStatus], status: Sequence[CollectiveStatus]
) -> dict[str, list[CollectiveStatus]]:
    """Timed-out works by process group. The time-out line may not name its group; the status line of the same work does."""
    named = {(w.rank, w.seq): w.group for w in status if w.group}
    at: dict[int | None, set[str]] = defaultdict(set)
    for (_, seq), group in named.items():
        at[seq].add(group)
    groups: dict[str, list[CollectiveStatus]] = defaultdict(list)
    for work in timed:
        # a log that ends in the middle lacks the last ranks' status lines: they wait where all others of that number do
        alone = next(iter(at[work.seq])) if len(at[work.seq]) == 1 else None
        group = work.group or named.get((work.rank, work.seq)) or alone or "0"
        groups[group].append(work)
    return groups


def _wait(
    group: str,
    found: Sequence[CollectiveStatus],
    works: Sequence[CollectiveStatus],
    status: Sequence[CollectiveStatus],
) -> _Wait:
    """What most ranks of the group wait in. A rank may tell only the number of its work, or only of another's time-out."""
    seq = Counter(w.seq for w in found).most_common(1)[0][0]
    here = {w.rank: w for w in found if w.seq == seq}
    op = Counter(w.op for w in here.values()).most_common(1)[0][0]
    elsewhere = {w.rank for w in works if w.op is not None} - set(here)
    told = {w.rank for w in status if seq is not None and w.seq == seq and w.group in (group, None)}
    told |= {w.told_by for w in works if w.told_by is not None}
    return _Wait(group, found, seq, op, here, tuple(sorted(set(here) | told - elsewhere)))


def _numbers(works: Sequence[CollectiveStatus]) -> dict[int, int]:
    """Rank -> the lowest number that it timed out in."""
    lowest: dict[int, int] = {}
    for work in works:
        if work.seq is not None:
            lowest[work.rank] = min(work.seq, lowest.get(work.rank, work.seq))
    return lowest


def _far_apart(lowest: Mapping[int, int]) -> tuple[int, int] | None:
    """Two numbers between which no rank's stands, and that cannot be one group's: the names of the groups were not printed."""
    gaps = [(b - a, a, b) for a, b in pairwise(sorted(set(lowest.values()))) if b - a > LIMITS.one_group]
    return max(gaps)[1:] if gaps else None


# ── who is elsewhere ─────────────────────────────────────────────────────────────────────────


def _elsewhere(wait: _Wait, status: Sequence[CollectiveStatus], lowest: Mapping[int, int]) -> Suspicion | None:
    """Few ranks that wait in another collective, or had not come so far as the others."""
    if odd := _odd_ones_out(wait.here):
        return _mismatch(odd, wait)
    if _far_apart(lowest):
        return None
    if behind := _behind_others(wait.works, status, lowest):
        return _behind(behind, wait, lowest)
    ahead = _ahead_of_others(wait, lowest)
    return _ahead(ahead, wait, lowest) if ahead else None


def _odd_ones_out(here: Mapping[int, CollectiveStatus]) -> tuple[int, ...]:
    kinds = Counter((w.op, w.size) for w in here.values())
    if len(kinds) < 2:
        return ()
    (common, most), *_ = kinds.most_common()
    odd = tuple(sorted(r for r, w in here.items() if (w.op, w.size) != common))
    return odd if len(odd) * 2 < most + len(odd) and len(odd) <= max(1, len(here) // LIMITS.few) else ()


def _mismatch(odd: tuple[int, ...], wait: _Wait) -> Suspicion:
    """Some ranks wait at the same number in another collective, or with another size."""
    others = tuple(r for r in wait.ranks if r not in odd)
    kinds = tuple(sorted({_kind(wait.here[r]) for r in odd}, key=str))
    usual = Counter(_kind(wait.here[r]) for r in wait.here if r not in odd).most_common(1)[0][0]
    how = reason("other-collective", seq=wait.seq, ranks=odd, kinds=kinds, others=len(others), usual=usual)
    return Suspicion("mismatch", odd, others, how, "medium", wait.seq, wait.op)


def _kind(status: CollectiveStatus) -> tuple[str | None, int | None]:
    """The collective and its number of input elements."""
    return status.op, status.size[0] if status.size else None


def _behind_others(
    waits: Sequence[CollectiveStatus], status: Sequence[CollectiveStatus], lowest: Mapping[int, int]
) -> tuple[int, ...]:
    """Ranks that time out in an earlier collective than the others, or had enqueued no more than they had completed."""
    groups = {w.rank: w.group for w in status if w.group}
    ranks = {w.rank for w in waits}
    idle = sorted({w.rank for w in status if w.enqueued == w.completed and w.rank in ranks | set(groups)})
    if idle and len(idle) * LIMITS.minority <= len(ranks):
        return tuple(idle)
    return _at_the_end(lowest, min(lowest.values(), default=0))


def _at_the_end(lowest: Mapping[int, int], number: int) -> tuple[int, ...]:
    """The ranks with this number, where others have another and these are few."""
    found = tuple(sorted(r for r, seq in lowest.items() if seq == number))
    return found if len(set(lowest.values())) > 1 and len(found) * LIMITS.minority <= len(lowest) else ()


def _behind(ranks: tuple[int, ...], wait: _Wait, lowest: Mapping[int, int]) -> Suspicion:
    waiting = tuple(r for r in wait.ranks if r not in ranks)
    own = {r: next(w for w in wait.works if w.rank == r and w.seq == lowest[r]) for r in ranks if r in lowest}
    kinds = tuple(sorted({(w.seq, w.op) for w in own.values() if w.seq != wait.seq}, key=str))
    how = reason("behind", ranks=ranks, waiting=len(waiting), seq=wait.seq, op=wait.op, own=kinds)
    return Suspicion("behind", ranks, waiting, how, "medium", wait.seq, wait.op)


def _ahead_of_others(wait: _Wait, lowest: Mapping[int, int]) -> tuple[int, ...]:
    """Ranks that wait in a later collective, and in one of another kind: what the others wait in they never called."""
    ahead = _at_the_end(lowest, max(lowest.values(), default=0))
    kinds = {_kind(w) for w in wait.here.values()}
    own = [_kind(w) for w in wait.works if w.rank in ahead and w.seq == lowest[w.rank]]
    return ahead if not kinds.intersection(own) else ()


def _ahead(ranks: tuple[int, ...], wait: _Wait, lowest: Mapping[int, int]) -> Suspicion:
    own = next(w for w in wait.works if w.rank == ranks[0] and w.seq == lowest[w.rank])
    others = tuple(r for r in wait.ranks if r not in ranks)
    how = reason("ahead", ranks=ranks, seq=own.seq, op=own.op, others=others, usual_seq=wait.seq, usual_op=wait.op)
    return Suspicion("mismatch", ranks, others, how, "medium", wait.seq, wait.op)


# ── who is absent ────────────────────────────────────────────────────────────────────────────


def _missing(
    waits: Sequence[_Wait],
    members: Members,
    works: Sequence[CollectiveStatus],
    status: Sequence[CollectiveStatus],
    world: Members,
) -> tuple[_Wait, Members, tuple[int, ...]] | None:
    """The ranks that did not come to the first group's collective; where they wait in another one, those that did not come there."""
    waiting = {r for wait in waits for r in wait.ranks}
    for wait in waits:
        here = members if wait is waits[0] else members_of(wait.group, works, wait.works, status, world)
        absent = tuple(r for r in here.ranks if r not in waiting)
        enough = here.complete or len(wait.ranks) >= LIMITS.waiting_of_unknown
        if absent and enough and len(absent) <= max(1, len(here.ranks) // LIMITS.few):
            return wait, here, absent
        if absent or not set(here.ranks) & (waiting - set(wait.ranks)):
            return None
    return None


def _never_reported(
    wait: _Wait, members: Members, missing: tuple[int, ...], exits: Mapping[int, ExitReport]
) -> Suspicion:
    ended = tuple((r, exits[r].exit, exits[r].witness) for r in missing if r in exits)
    how = reason(
        "never-reported",
        waiting=len(wait.ranks),
        of=members.size,
        seq=wait.seq,
        op=wait.op,
        ranks=missing,
        ended=ended[:2],
    )
    sure = len(missing) == 1 and (members.complete or len(wait.ranks) >= LIMITS.waiting_of_a_node)
    return Suspicion("missing", missing, wait.ranks, how, "medium" if sure else "low", wait.seq, wait.op)


def _nobody(
    wait: _Wait,
    members: Members,
    world: Members,
    works: Sequence[CollectiveStatus],
    status: Sequence[CollectiveStatus],
    lowest: Mapping[int, int],
    silent: tuple[int, ...],
) -> Suspicion:
    """Why nobody can be named: all came, or too little is known of the others."""
    seq, op = wait.seq, wait.op
    if len({w.seq for w in wait.works} - {None}) > 1 or len({_kind(w) for w in wait.here.values()}) > 1:
        numbers = tuple(sorted({(w.seq, w.op, w.rank) for w in wait.works if lowest.get(w.rank) == w.seq}, key=str))
        how = reason("numbers-differ", waits=numbers, far=_far_apart(lowest) is not None)
        return Suspicion("unclear", (), tuple(sorted({w.rank for w in wait.works})), how, "low", seq, op)
    waiting = {w.rank for w in works if w.op is not None} | set(wait.ranks)
    everyone = world.complete and waiting.issuperset(world.ranks)
    absent = tuple(r for r in members.ranks if r not in wait.ranks)
    if (members.complete and not absent) or (everyone and not absent):
        how = reason("all-entered", count=len(wait.ranks), seq=seq, op=op)
        return Suspicion("all-entered", (), wait.ranks, how, "low", seq, op)
    queued = max((w.enqueued or 0 for w in status if w.rank in wait.ranks and w.seq == seq), default=0) - (seq or 0)
    queued = queued if queued >= LIMITS.works_queued else 0
    how = reason("waits-unclear", ranks=wait.ranks, seq=seq, op=op, of=members.size, queued=queued, silent=silent)
    return Suspicion("unclear", (), wait.ranks, how, "low", seq, op, silent)


# ── how far each came ────────────────────────────────────────────────────────────────────────


def how_far(works: Sequence[CollectiveStatus]) -> Reason | None:
    """The few ranks that had entered fewer collectives than the others when the log ended, where each tells what it enters."""
    last = {w.rank: w for w in sorted(works, key=lambda w: w.order) if w.entered is not None and w.seq is not None}
    numbers = {rank: work.seq for rank, work in last.items() if work.seq is not None}
    behind = _at_the_end(numbers, min(numbers.values(), default=0))
    if not behind:
        return None
    others = tuple(sorted(set(numbers) - set(behind)))
    first = last[behind[0]]
    return reason(
        "entered-fewer", ranks=behind, seq=first.seq, op=first.entered, others=others, usual=max(numbers.values())
    )
