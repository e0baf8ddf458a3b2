"""Finds the rank that held up a collective, from what the watchdogs of the others print.

Formats: ProcessGroupNCCL.cpp of PyTorch 1.8 to 2.13. `[Rank 1]` inside a message is the rank within the process group;
the global rank stands in the line's label. StackDump-signal lines print the default group's numbers, whichever group timed out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from slurmdoctor.model import CollectiveStatus, Line, Suspicion
from slurmdoctor.model.ranges import ranges
from slurmdoctor.search.shapes import Shaped, shape_of

LITERALS = (b"Watchdog caught collective operation timeout", b"last enqueued ", b"Last enqueued ")

_GROUP = Shaped(
    r"\[PG (?:ID )?(?P<id>\d+)(?: PG GUID (?P<guid>[^\s(\]]+))?(?:\((?P<name>[^)]*)\))? Rank (?P<rank>\d+)\]"
)
_TIMEOUT = Shaped(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)"
    r"(?:, NumelIn=(?P<numel_in>\d+), NumelOut=(?P<numel_out>\d+))?(?:, TensorShape=\[(?P<shape>[^\]]*)\])?, Timeout\(ms\)=(?P<timeout>\d+)\)"
    r"(?: ran for (?P<ran>\d+) milliseconds)?"
)
_STATUS = Shaped(
    r"(?P<dump>dump signal)?.{0,300}?(?:[Tt]imeout at NCCL work: |detected by watchdog at work: |at work sequence id: )?(?P<seq>\d+)?"
    r"[^\d]{0,40}[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)
_AT = Shaped(r"(?:imeout at NCCL work: |detected by watchdog at work: |at work sequence id: )(?P<seq>\d+)")


def read(line: Line, order: int) -> CollectiveStatus | None:
    """One watchdog line; None where its global rank is not to be read, or it says nothing of a work."""
    rank = line.origin.rank
    if rank is None:
        return None
    text, shape = line.text, shape_of(line.text)
    group = _GROUP.groups(text, shape)
    name = (group.get("guid") or group["id"]) if group else None
    if group and group.get("name"):
        name = f"{name}({group['name']})"
    group_rank = int(group["rank"]) if group else None
    if (found := _TIMEOUT.groups(text, shape)) is not None:
        size = (int(found["numel_in"]), int(found["numel_out"])) if "numel_in" in found else None
        return CollectiveStatus(
            rank, name, group_rank, int(found["seq"]) if "seq" in found else None, found["op"], size, None, None, False,
            line.origin.time, order, int(found["timeout"]),
        )  # fmt: skip
    if (found := _STATUS.groups(text, shape)) is not None:
        at = _AT.groups(text, shape)
        return CollectiveStatus(
            rank, name, group_rank, int(at["seq"]) if at else None, None, None, int(found["enqueued"]), int(found["completed"]),
            "dump signal" in text, line.origin.time, order, None,
        )  # fmt: skip
    return None


def suspect(works: Sequence[CollectiveStatus], world: Iterable[int], busy: Mapping[int, str]) -> Suspicion | None:
    """Name the rank or ranks that the others waited for.

    `world` holds all ranks that are known to exist; `busy` says of ranks what else the log shows of them.
    """
    timed = [w for w in works if w.op is not None]
    if not timed:
        return None
    status = [w for w in works if w.enqueued is not None and not w.dump]
    groups = _by_group(timed, status)
    first = min(groups, key=lambda g: min((w.time if w.time is not None else float("inf"), w.order) for w in groups[g]))
    waits = groups[first]
    seqs = Counter(w.seq for w in waits)
    behind = _behind_others(waits, status)
    seq = seqs.most_common(1)[0][0]
    here = {w.rank: w for w in waits if w.seq == seq}
    op = Counter(w.op for w in here.values()).most_common(1)[0][0]
    waiting = tuple(sorted(here))
    if odd := _odd_one_out(here):
        what = sorted({f"{here[r].op}{_sized(here[r])}" for r in odd})
        usual = Counter(f"{w.op}{_sized(w)}" for r, w in here.items() if r not in odd).most_common(1)[0][0]
        return Suspicion(
            "mismatch", odd, tuple(r for r in waiting if r not in odd),
            f"at SeqNum {seq} {_ranks(odd)} waits in {', '.join(what)} while {len(waiting) - len(odd)} other ranks wait in {usual}: "
            f"{'they' if len(odd) > 1 else 'it'} left the common order of collectives",
            "medium", seq, op,
        )  # fmt: skip
    if behind:
        return Suspicion(
            "behind", behind, waiting,
            f"{_ranks(behind)} had enqueued nothing beyond the last completed collective while {len(waiting)} ranks waited in SeqNum {seq} ({op})",
            "medium", seq, op,
        )  # fmt: skip
    members = _members(first, works, status, world)
    missing = tuple(r for r in members if r not in here)
    if missing and len(missing) <= max(1, len(members) // 4):
        seen = [f"rank {r} {busy[r]}" for r in missing if r in busy]
        return Suspicion(
            "missing", missing, waiting,
            f"{len(waiting)} of {len(members)} ranks timed out in SeqNum {seq} ({op}); {_ranks(missing)} never reported it"
            + (f" ({'; '.join(seen[:2])})" if seen else ""),
            "medium" if len(missing) == 1 else "low", seq, op,
        )  # fmt: skip
    if members and not missing:
        return Suspicion(
            "all-entered", (), waiting,
            f"all {len(members)} ranks entered SeqNum {seq} ({op}) with the same size: it hung below NCCL (fabric or GPU), and the log names no culprit",
            "low", seq, op,
        )  # fmt: skip
    return Suspicion(
        "unclear",
        (),
        waiting,
        f"{len(waiting)} ranks waited in SeqNum {seq} ({op}); the log does not tell for whom",
        "low",
        seq,
        op,
    )


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


def _odd_one_out(here: Mapping[int, CollectiveStatus]) -> tuple[int, ...]:
    kinds = Counter((w.op, w.size) for w in here.values())
    if len(kinds) < 2:
        return ()
    (common, most), *_ = kinds.most_common()
    odd = tuple(sorted(r for r, w in here.items() if (w.op, w.size) != common))
    return odd if len(odd) * 2 < most + len(odd) and len(odd) <= max(1, len(here) // 4) else ()


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


def _sized(work: CollectiveStatus) -> str:
    return f" of {work.size[0]} elements" if work.size else ""


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranges(tuple(ranks))}"
