"""Who belongs to a job and to a process group, and which rank held up a collective: by what the watchdogs of the others print.

`[Rank 1]` inside a watchdog's message is the rank within the process group; the global rank is in the line's label.
Dump-signal lines print the default group's numbers, whichever group timed out (PyTorch >= 2.4, ProcessGroupNCCL.cpp).
The largest rank that was seen is never taken for the last one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from msgspec.structs import replace

from slurmdoctor.model import (
    LIMITS,
    MOST_RANKS,
    CollectiveStatus,
    ExitReport,
    Frozen,
    JobRecord,
    Observations,
    Reason,
    Suspicion,
    reason,
)

Place = TypeVar("Place")
"""Where a rank is: a frame, or a collective."""
_SEVERAL_A_TASK = ("torchrun", "accelerate", "deepspeed", "ray")
"""Launchers of which each of Slurm's tasks runs one, for several ranks."""


class Members(Frozen):
    """The ranks of the job or of a group, as far as they are known."""

    ranks: Sequence[int]
    """In order. Ranks count from 0, so those below a known one exist, too."""
    complete: bool
    """Whether the log tells how many there are."""

    @property
    def size(self) -> int | None:
        """How many there are; None where the log does not tell."""
        return len(self.ranks) if self.complete else None

    def few(self, ranks: Collection[int]) -> bool:
        """Whether so many of them may be missing: where more are, the log is cut rather than the ranks silent."""
        return 0 < len(ranks) <= max(1, len(self.ranks) // LIMITS.few)


class _Wait(Frozen):
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


# ── the ranks of the job, and of a group ─────────────────────────────────────────────────────


def world_of(observed: Observations, record: JobRecord | None = None) -> Members:
    """The job's ranks."""
    size = world_size(observed, record)
    return Members(range(min(size or max(observed.ranks_seen, default=-1) + 1, MOST_RANKS)), size is not None)


def world_size(observed: Observations, record: JobRecord | None = None) -> int | None:
    """How many ranks the job has: the first of the places that tell it which leaves room for each rank that was seen."""
    last = max(observed.ranks_seen, default=0)
    return next((size for size in _sizes(observed, record) if last < size <= MOST_RANKS), None)


def _sizes(observed: Observations, record: JobRecord | None) -> Iterator[int]:
    facts = observed.numbers
    yield observed.rank_map.world_size or 0
    yield facts.get("world_size", 0)
    yield facts.get("num_processes", 0)
    yield facts.get("nodes", 0) * facts.get("nproc", 0)
    if not observed.rank_map.tasks_are_ranks or observed.started_by in _SEVERAL_A_TASK:
        return
    tasks = facts.get("job_tasks", 0), facts.get("nodes", 0) * facts.get("tasks_per_node", 0)
    yield from (size for size in tasks if size > 1)  # one task alone may start any number of ranks
    if record is not None and observed.started_by == "srun":
        yield record.num_tasks or 0
    yield ended_tasks(observed.reports)


def ended_tasks(reports: Sequence[ExitReport]) -> int:
    """The step's tasks, where Slurm tells of nearly all how they ended: it does so when it ends a step.

    0 where it does not, and where each node has one task: that may be a launcher of several ranks.
    """
    of_steps = [report for report in reports if report.tasks]
    ended = {task for report in of_steps for task in report.tasks}
    size = max(ended, default=0) + 1
    nearly_all = len(ended) >= LIMITS.step_reported * size
    return size if nearly_all and size > len({report.node for report in of_steps}) else 0


def untold_tasks(reports: Sequence[ExitReport]) -> tuple[int, ...]:
    """The tasks of which Slurm tells no end, where it tells that of nearly all others."""
    ended = {rank for report in reports for rank in report.ranks}
    return tuple(task for task in range(ended_tasks(reports)) if task not in ended)


def _members_of(
    group: str, waits: Sequence[CollectiveStatus], works: Sequence[CollectiveStatus], world: Members
) -> Members:
    """The global ranks of a group: the whole job for the default one, else worked out from who holds which group rank.

    `waits` are the works of this group that timed out.
    """
    sizes = {w.group_size for w in waits} - {None}
    size = sizes.pop() if len(sizes) == 1 else None
    named = [w for w in works if w.group == group]
    placed = {w.group_rank: w.rank for w in (*waits, *named) if w.group_rank is not None}
    default = bool(named) and (group.startswith("0") or "default" in group)
    if not default and any(k != v for k, v in placed.items()):
        return _by_places(placed, size or 0)
    last = max((*placed.values(), *(w.rank for w in waits)))
    return Members(range(size), True) if size is not None and last < size else world


def _by_places(placed: Mapping[int, int], size: int) -> Members:
    """The members where ranks of one distance hold neighbouring places; those placed alone where they do not."""
    alone = Members(sorted(placed.values()), size == len(placed))
    if len(placed) < 2:  # of one place no distance is known
        return alone
    (low, base), (high, top) = min(placed.items()), max(placed.items())
    stride = (top - base) // (high - low)
    if stride <= 0 or any(base + (k - low) * stride != v for k, v in placed.items()):
        return alone
    ranks = (base + (k - low) * stride for k in range(max(high + 1, size)))
    return Members([r for r in ranks if r >= 0], size > high)


# ── who stands elsewhere ─────────────────────────────────────────────────────────────────────


def odd_ones(places: Mapping[int, Place]) -> tuple[tuple[int, ...], Place] | None:
    """The few ranks that are, or wait, elsewhere than most, and where these are; None where there are none."""
    if not places:
        return None
    usual, most = Counter(places.values()).most_common(1)[0]
    odd = tuple(sorted(rank for rank, where in places.items() if where != usual))
    return (odd, usual) if most > 1 and Members(list(places), True).few(odd) else None


def suspect(
    works: Sequence[CollectiveStatus],
    world: Members,
    exits: Mapping[int, ExitReport],
    seen_ranks: Collection[int] = (),
    at_fault: bool = False,
) -> Suspicion | None:
    """Name the rank or ranks that the others waited for.

    `world` has the job's ranks; `exits` are the exit reports of single ranks. The `seen_ranks` are not called silent. Where
    another fault is known (`at_fault`), that all entered the collective leaves nothing open.
    """
    timed = [w for w in works if w.op is not None]
    if not timed:
        return None
    status = [w for w in works if w.enqueued is not None and not w.dump]
    waits = [_wait(group, found, works, status) for group, found in _by_group(timed, status).items()]
    waits.sort(key=lambda w: min((one.time if one.time is not None else float("inf"), one.order) for one in w.works))
    wait = waits[0]
    groups = [_members_of(w.group, w.works, works, world) for w in waits]
    members = groups[0]
    # of a log that may be a part nobody is called silent
    printed = {w.rank for w in works} | {r for one in waits for r in one.ranks} | set(seen_ranks)
    silent = tuple(r for r in members.ranks if r not in printed) if _enough(wait, members) else ()
    lowest: dict[int, CollectiveStatus] = {}
    """Rank -> of the works that it timed out in, that of the lowest number."""
    for work in sorted((w for w in wait.works if w.seq is not None), key=lambda w: -(w.seq or 0)):
        lowest[work.rank] = work
    found = _elsewhere(wait, status, lowest)
    if found is None and not _far_apart(lowest) and (absent := _missing(waits, groups)) is not None:
        where, missing = absent
        wait, members, silent = waits[where], groups[where], ()
        found = _never_reported(wait, members, missing, exits)
    found = found or _nobody(wait, members, works, lowest, silent, at_fault)
    return replace(found, seq=wait.seq, op=wait.op, silent=silent, of=members.size)


def _enough(wait: _Wait, members: Members) -> bool:
    """Whether so many waited that the log is no part of what there is."""
    return members.complete or len(wait.ranks) >= LIMITS.waiting_of_unknown


def _by_group(
    timed: Sequence[CollectiveStatus], status: Sequence[CollectiveStatus]
) -> dict[str, list[CollectiveStatus]]:
    """Timed-out works by process group. The time-out line may not name its group; the status line of the same work does."""
    named = {(w.rank, w.seq): w.group for w in status}
    groups: dict[str, list[CollectiveStatus]] = defaultdict(list)
    for work in timed:
        groups[work.group or named.get((work.rank, work.seq)) or "0"].append(work)
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
    waiting = {w.rank for w in status if seq is not None and w.seq == seq and w.group in (group, None)}
    waiting |= {w.reporter for w in works if w.reporter is not None}
    return _Wait(group, found, seq, op, here, tuple(sorted(set(here) | waiting - elsewhere)))


def _numbers(works: Mapping[int, CollectiveStatus]) -> dict[int, int]:
    """Rank -> the number of its work."""
    return {rank: work.seq for rank, work in works.items() if work.seq is not None}


def _far_apart(lowest: Mapping[int, CollectiveStatus]) -> bool:
    """Whether two numbers, with none between them, cannot be one group's: the names of the groups were not printed."""
    return any(b - a > LIMITS.one_group for a, b in pairwise(sorted(set(_numbers(lowest).values()))))


def _elsewhere(
    wait: _Wait, status: Sequence[CollectiveStatus], lowest: Mapping[int, CollectiveStatus]
) -> Suspicion | None:
    """Few ranks that wait in another collective, or had not come so far as the others."""
    if odd := odd_ones({rank: (work.op, work.size) for rank, work in wait.here.items()}):
        return _mismatch(odd[0], wait)
    if _far_apart(lowest):
        return None
    if behind := _behind_others(wait.works, status, lowest):
        return _behind(behind, wait, lowest)
    ahead = _ahead_of_others(wait, lowest)
    return _ahead(ahead, wait, lowest) if ahead else None


def _mismatch(odd: tuple[int, ...], wait: _Wait) -> Suspicion:
    """Some ranks wait at the same number in another collective, or with another size."""
    others = _others(wait, odd)
    kinds = tuple(sorted({_kind(wait.here[r]) for r in odd}, key=str))
    usual = next(_kind(work) for rank, work in wait.here.items() if rank not in odd)
    how = reason("other-collective", seq=wait.seq, ranks=odd, kinds=kinds, others=len(others), usual=usual)
    return Suspicion("mismatch", odd, others, how, "medium")


def _others(wait: _Wait, ranks: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(r for r in wait.ranks if r not in ranks)


def _kind(status: CollectiveStatus) -> tuple[str | None, int | None]:
    """The collective and its number of input elements."""
    return status.op, status.size[0] if status.size else None


def _behind_others(
    waits: Sequence[CollectiveStatus], status: Sequence[CollectiveStatus], lowest: Mapping[int, CollectiveStatus]
) -> tuple[int, ...]:
    """Ranks that time out in an earlier collective than the others, or had enqueued no more than they had completed."""
    ranks = {w.rank for w in waits}
    idle = sorted({w.rank for w in status if w.enqueued == w.completed and (w.rank in ranks or w.group)})
    if idle and len(idle) * LIMITS.minority <= len(ranks):
        return tuple(idle)
    return _at_the_end(lowest, min)


def _at_the_end(works: Mapping[int, CollectiveStatus], end: Callable[..., int]) -> tuple[int, ...]:
    """The ranks with the lowest, or the highest, number, where others have another and these are few."""
    numbers = _numbers(works)
    edge = end(numbers.values(), default=0)
    found = tuple(sorted(rank for rank, number in numbers.items() if number == edge))
    return found if len(found) * LIMITS.minority <= len(numbers) else ()


def _behind(ranks: tuple[int, ...], wait: _Wait, lowest: Mapping[int, CollectiveStatus]) -> Suspicion:
    waiting = _others(wait, ranks)
    own = {(work.seq, work.op) for rank, work in lowest.items() if rank in ranks and work.seq != wait.seq}
    kinds = tuple(sorted(own, key=str))
    how = reason("behind", ranks=ranks, waiting=len(waiting), seq=wait.seq, op=wait.op, own=kinds)
    return Suspicion("behind", ranks, waiting, how, "medium")


def _ahead_of_others(wait: _Wait, lowest: Mapping[int, CollectiveStatus]) -> tuple[int, ...]:
    """Ranks that wait in a later collective, and in one of another kind: what the others wait in they never called."""
    ahead = _at_the_end(lowest, max)
    kinds = {_kind(w) for w in wait.here.values()}
    return ahead if kinds.isdisjoint(_kind(lowest[rank]) for rank in ahead) else ()


def _ahead(ranks: tuple[int, ...], wait: _Wait, lowest: Mapping[int, CollectiveStatus]) -> Suspicion:
    own, others = lowest[ranks[0]], _others(wait, ranks)
    how = reason("ahead", ranks=ranks, seq=own.seq, op=own.op, others=others, usual_seq=wait.seq, usual_op=wait.op)
    return Suspicion("mismatch", ranks, others, how, "medium")


# ── who is absent ────────────────────────────────────────────────────────────────────────────


def _missing(waits: Sequence[_Wait], groups: Sequence[Members]) -> tuple[int, tuple[int, ...]] | None:
    """The ranks that did not come to the first group's collective; where they wait in another one, those that did not come there."""
    waiting = {r for wait in waits for r in wait.ranks}
    for at, (wait, here) in enumerate(zip(waits, groups, strict=True)):
        absent = tuple(r for r in here.ranks if r not in waiting)
        came = any(work.rank in absent for work in wait.works)  # to another one of the group
        if _enough(wait, here) and here.few(absent) and not came:
            return at, absent
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
    return Suspicion("missing", missing, wait.ranks, how, "medium" if sure else "low")


def _nobody(
    wait: _Wait,
    members: Members,
    works: Sequence[CollectiveStatus],
    lowest: Mapping[int, CollectiveStatus],
    silent: tuple[int, ...],
    at_fault: bool,
) -> Suspicion:
    """Why nobody can be named: all came, or too little is known of the others."""
    seq, op = wait.seq, wait.op
    if len({w.seq for w in wait.works} - {None}) > 1 or len({_kind(w) for w in wait.here.values()}) > 1:
        numbers = tuple(sorted({(work.seq, work.op, rank) for rank, work in lowest.items()}, key=str))
        how = reason("numbers-differ", waits=numbers, far=_far_apart(lowest))
        return Suspicion("unclear", (), tuple(sorted({w.rank for w in wait.works})), how, "low")
    if members.complete and not set(members.ranks) - set(wait.ranks):
        how = reason("all-entered", count=len(wait.ranks), seq=seq, op=op, told=at_fault)
        return Suspicion("all-entered", (), wait.ranks, how, "low")
    of_this = [w.enqueued for w in works if not w.dump and w.rank in wait.ranks and w.seq == seq]
    queued = max((one or 0 for one in of_this), default=0) - (seq or 0)
    queued = queued if queued >= LIMITS.works_queued else 0
    how = reason("waits-unclear", ranks=wait.ranks, seq=seq, op=op, of=members.size, queued=queued, silent=silent)
    return Suspicion("unclear", (), wait.ranks, how, "low")


# ── how far each came ────────────────────────────────────────────────────────────────────────


def how_far(works: Sequence[CollectiveStatus]) -> Reason | None:
    """The few ranks that had entered fewer collectives than the others when the log ended, where each tells what it enters."""
    last = {w.rank: w for w in sorted(works, key=lambda w: w.order) if w.entered is not None and w.seq is not None}
    behind = _at_the_end(last, min)
    if not behind:
        return None
    others = tuple(sorted(set(last) - set(behind)))
    first, usual = last[behind[0]], max(_numbers(last).values())
    return reason("entered-fewer", ranks=behind, seq=first.seq, op=first.entered, others=others, usual=usual)
