"""Finds the rank that held up a collective, from what the watchdogs of the other ranks print.

`[Rank 1]` inside a watchdog's message is the rank within the process group; the global rank stands in the line's label.
Dump-signal lines print the default group's numbers, whichever group timed out (PyTorch >= 2.4, ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from slurmdoctor.model import CollectiveStatus, ExitReport, Suspicion
from slurmdoctor.model.finding import reason

_FEW = 4
"""At most one in so many ranks may be the odd ones, or the missing ones."""


def suspect(
    works: Sequence[CollectiveStatus], world: Iterable[int], exits: Mapping[int, ExitReport]
) -> Suspicion | None:
    """Name the rank or ranks that the others waited for.

    `world` holds all ranks that are known to exist; `exits` are the exit reports of single ranks.
    """
    timed = [w for w in works if w.op is not None]
    if not timed:
        return None
    status = [w for w in works if w.enqueued is not None and not w.dump]
    groups = _by_group(timed, status)
    first = min(groups, key=lambda g: min((w.time if w.time is not None else float("inf"), w.order) for w in groups[g]))
    waits = groups[first]
    seq = Counter(w.seq for w in waits).most_common(1)[0][0]
    here = {w.rank: w for w in waits if w.seq == seq}
    op = Counter(w.op for w in here.values()).most_common(1)[0][0]
    waiting = tuple(sorted(here))
    if odd := _odd_ones_out(here):
        return _mismatch(odd, here, seq, op)
    if behind := _behind_others(waits, status):
        how = reason("behind", ranks=behind, waiting=len(waiting), seq=seq, op=op)
        return Suspicion("behind", behind, waiting, how, "medium", seq, op)
    members = _members(first, works, status, world)
    missing = tuple(r for r in members if r not in here)
    if missing and len(missing) <= max(1, len(members) // _FEW):
        ended = tuple((r, exits[r].exit, exits[r].witness) for r in missing if r in exits)
        how = reason(
            "never-reported", waiting=len(waiting), of=len(members), seq=seq, op=op, ranks=missing, ended=ended[:2]
        )
        return Suspicion("missing", missing, waiting, how, "medium" if len(missing) == 1 else "low", seq, op)
    if members and not missing:
        how = reason("all-entered", count=len(members), seq=seq, op=op)
        return Suspicion("all-entered", (), waiting, how, "low", seq, op)
    return Suspicion(
        "unclear", (), waiting, reason("waits-unclear", waiting=len(waiting), seq=seq, op=op), "low", seq, op
    )


def _mismatch(odd: tuple[int, ...], here: Mapping[int, CollectiveStatus], seq: int | None, op: str | None) -> Suspicion:
    """Some ranks wait at the same number in another collective, or with another size."""
    others = tuple(sorted(r for r in here if r not in odd))
    kinds = tuple(sorted({_kind(here[r]) for r in odd}, key=str))
    usual = Counter(_kind(here[r]) for r in here if r not in odd).most_common(1)[0][0]
    how = reason("other-collective", seq=seq, ranks=odd, kinds=kinds, others=len(others), usual=usual)
    return Suspicion("mismatch", odd, others, how, "medium", seq, op)


def _kind(status: CollectiveStatus) -> tuple[str | None, int | None]:
    """The collective and its number of input elements."""
    return status.op, status.size[0] if status.size else None


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


def _odd_ones_out(here: Mapping[int, CollectiveStatus]) -> tuple[int, ...]:
    kinds = Counter((w.op, w.size) for w in here.values())
    if len(kinds) < 2:
        return ()
    (common, most), *_ = kinds.most_common()
    odd = tuple(sorted(r for r, w in here.items() if (w.op, w.size) != common))
    return odd if len(odd) * 2 < most + len(odd) and len(odd) <= max(1, len(here) // _FEW) else ()


def _behind_others(waits: Sequence[CollectiveStatus], status: Sequence[CollectiveStatus]) -> tuple[int, ...]:
    """Ranks that time out in an earlier collective than the others, or had enqueued no more than they had completed."""
    groups = {w.rank: w.group for w in status if w.group}
    ranks = {w.rank for w in waits}
    idle = sorted({w.rank for w in status if w.enqueued == w.completed and w.rank in ranks | set(groups)})
    if idle and len(idle) * 3 <= len(ranks):
        return tuple(idle)
    lowest: dict[int, int] = {}
    for work in waits:
        if work.seq is not None:
            lowest[work.rank] = min(work.seq, lowest.get(work.rank, work.seq))
    if len(set(lowest.values())) > 1:
        least = min(lowest.values())
        low = tuple(sorted(r for r, s in lowest.items() if s == least))
        if len(low) * 3 <= len(lowest):
            return low
    return ()


def _members(
    group: str, works: Sequence[CollectiveStatus], status: Sequence[CollectiveStatus], world: Iterable[int]
) -> list[int]:
    """All global ranks of a group: the whole job for the default one, else worked out from who holds which group rank."""
    placed = {w.group_rank: w.rank for w in works if w.group == group and w.group_rank is not None}
    default = group.startswith("0") or "default" in group or all(k == v for k, v in placed.items())
    everyone = sorted(set(world))
    if default:
        return everyone
    if len(placed) < 2:
        return sorted(placed.values())
    (low, base), (high, top) = min(placed.items()), max(placed.items())
    stride, rest = divmod(top - base, high - low)
    if rest or stride <= 0 or any(base + (k - low) * stride != v for k, v in placed.items()):
        return sorted(placed.values())
    size = max(high + 1, _usual_size(group, works))
    return [r for k in range(size) if (r := base + (k - low) * stride) >= 0]


def _usual_size(group: str, works: Sequence[CollectiveStatus]) -> int:
    kind = group.partition("(")[2]
    others: dict[str, int] = defaultdict(int)
    for work in works:
        if (
            work.group
            and work.group_rank is not None
            and work.group != group
            and kind
            and work.group.partition("(")[2] == kind
        ):
            others[work.group] = max(others[work.group], work.group_rank + 1)
    return max(others.values(), default=0)
