"""Who waits for whom, by flight recorder dumps: the ranks that others wait for and that wait for nobody held up the job.

The result is rendered as a few lines of text, which rules and signals read as they read any log.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from slurmdoctor.model import LIMITS, SHORT, Frozen, ranges
from slurmdoctor.readers.flight_dumps import Dump, Group, Record

_SAME_SIZES = frozenset(
    {"all_reduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base", "all_gather_into_tensor"}
)
"""Operations whose inputs are of one size on all ranks."""
_UNNAMED = ("", "undefined", "default_pg")
_MOST_LINES = 24
_FRAMES = 3


class Wait(Frozen):
    """What some ranks of a group wait in, and for whom."""

    group: Group
    seq: int
    op: str
    sizes: str
    ranks: tuple[int, ...]
    on: frozenset[int]
    mismatch: str = ""
    """What those entered that they wait for, where that is another operation."""


class Graph(Frozen):
    """The waits of a job, and what follows from them."""

    dumps: Mapping[int, Dump]
    waits: tuple[Wait, ...]
    culprits: tuple[int, ...]
    """Ranks that others wait for and that wait for nobody."""
    absent: tuple[int, ...]
    """Ranks that others wait for, and of which there is no dump: these may wait themselves."""
    circle: tuple[int, ...] = ()
    """Ranks that wait for each other, where nobody else can be named."""
    entered: tuple[Wait, ...] = ()
    """Operations that all ranks of their groups have entered, and none has completed: `on` is empty."""

    @property
    def named(self) -> tuple[int, ...]:
        """Who held up the job; ranks without a dump only where they are few: else the dumps are a part of what there is."""
        few = max(1, (len(self.dumps) + len(self.absent)) // LIMITS.few)
        return self.culprits or (self.absent if len(self.absent) <= few else ())

    @property
    def waiting(self) -> set[int]:
        return {rank for wait in self.waits for rank in wait.ranks}


def graph_of(dumps: Mapping[int, Dump]) -> Graph:
    """The waits, from what each rank had enqueued and completed in each group, and from its oldest send or receive."""
    with_peers = {group for dump in dumps.values() for group in dump.with_peers}
    like = {group.desc for group in with_peers} - set(_UNNAMED)
    # a send counts, too, in the recorder's own counts: there the records alone tell
    every_group = dict.fromkeys(group for dump in dumps.values() for group in dump.counts)
    groups = [group for group in every_group if group not in with_peers and group.desc not in like]
    every = [*_peer_waits(dumps), *(wait for group in groups for wait in _group_waits(group, dumps))]
    stuck = _stuck(groups, dumps)
    every = [replace(wait, ranks=tuple(rank for rank in wait.ranks if rank not in stuck)) for wait in every]
    found = [wait for wait in every if wait.on and wait.ranks]
    entered = [wait for wait in every if not wait.on and wait.ranks]
    waiting = {rank for wait in found for rank in wait.ranks}
    waited = {rank for wait in found for rank in wait.on}
    hung = {rank for wait in entered for rank in wait.ranks}
    sinks = tuple(sorted(waited & set(dumps) - waiting - hung))
    absent = tuple(sorted(waited - set(dumps)))
    circle = () if sinks or absent or hung else _circle(found)
    return Graph(dumps, tuple(found), sinks, absent, circle, tuple(entered))


def _stuck(groups: Iterable[Group], dumps: Mapping[int, Dump]) -> set[int]:
    """The ranks that are not done with what others of the group are: these wait for nobody."""
    done = {group: max(dump.counts.get(group, (0, 0))[1] for dump in dumps.values()) for group in groups}
    first = {rank: dump.pending[0] for rank, dump in dumps.items() if dump.pending}
    of = {rank: dumps[rank].groups.get(one.group) for rank, one in first.items() if one.peer is None}
    return {rank for rank, group in of.items() if group is not None and first[rank].seq <= done.get(group, -1)}


def _peer_waits(dumps: Mapping[int, Dump]) -> Iterator[Wait]:
    """A rank whose oldest operation is a send or a receive waits for its peer, unless that is at the same one."""
    for rank, dump in dumps.items():
        one, peer = _peer_of(dump)
        if one is None or peer in (None, rank):
            continue
        other, back = _peer_of(dumps[peer]) if peer in dumps else (None, None)
        met = (
            other is not None and back == rank and other.group == one.group and other.op.split()[0] != one.op.split()[0]
        )
        on = frozenset({peer} - {None} if not met else ())
        yield Wait(dump.groups[one.group], one.p2p_seq_id, one.op, _sizes(one), (rank,), on)


def _peer_of(dump: Dump) -> tuple[Record | None, int | None]:
    """The rank's oldest operation, and with whom it is, where it is a send or a receive."""
    one = dump.pending[0] if dump.pending else None
    group = dump.groups.get(one.group) if one is not None else None
    if one is None or group is None or one.peer is None or one.peer >= len(group.ranks):
        return None, None
    return one, group.ranks[one.peer]


def _group_waits(group: Group, dumps: Mapping[int, Dump]) -> Iterator[Wait]:
    """The waits in the collectives of one group: for those that have not enqueued them, or enqueued another one at that number;
    else for ranks without a dump, or that are not done with earlier operations."""
    members = group.ranks or tuple(range(max(dumps) + 1))
    counts = {rank: _count(group, dumps[rank]) for rank in members if rank in dumps}
    absent = frozenset(members) - set(dumps)
    at: dict[int, list[int]] = defaultdict(list)
    for rank, (enqueued, completed) in counts.items():
        if completed < enqueued:
            at[completed + 1].append(rank)
    for seq, ranks in sorted(at.items()):
        late = frozenset(rank for rank, (enqueued, _) in counts.items() if enqueued < seq)
        works = {rank: _work(group, seq, dumps[rank]) for rank in ranks}
        wrong = [] if late else list(_mismatches(group, seq, works))
        if wrong:
            yield from wrong
        elif late or absent:
            for (op, sizes), here in _by_kind(works).items():
                yield Wait(group, seq, op, sizes, here, late or absent)
        else:
            yield from _all_entered(group, seq, works, dumps)


def _mismatches(group: Group, seq: int, works: Mapping[int, Record | None]) -> Iterator[Wait]:
    """The most wait for the few that entered another operation; where there are not most, each for the others."""
    kinds = _by_kind({rank: work for rank, work in works.items() if work is not None}, compared=True)
    largest = max(map(len, kinds.values()), default=0)
    most = [kind for kind in kinds if len(kinds[kind]) == largest]
    for kind in most if len(kinds) > 1 else ():
        others = [one for one in kinds if one != kind]
        entered = ", ".join(" ".join(one).strip() for one in others)[:120]
        yield Wait(group, seq, *kind, kinds[kind], frozenset(rank for one in others for rank in kinds[one]), entered)


def _all_entered(
    group: Group, seq: int, works: Mapping[int, Record | None], dumps: Mapping[int, Dump]
) -> Iterator[Wait]:
    """Who is at what all have entered waits for those that are not done with an earlier operation; where all are at it, it hangs."""
    here = tuple(rank for rank, work in works.items() if work is not None and work is dumps[rank].pending[0])
    before = frozenset(rank for rank in works if dumps[rank].pending) - set(here)
    if here and (before or len(here) == len(group.ranks)):
        one = works[here[0]]
        yield Wait(group, seq, one.op if one else "?", _sizes(one) if one else "", here, before)


def _count(group: Group, dump: Dump) -> tuple[int, int]:
    """What the rank had enqueued and completed; of what it does not tell nothing is held against it."""
    nothing = (0, 0) if dump.counted else (1 << 62, 1 << 62)
    return dump.counts.get(group, nothing)


def _work(group: Group, seq: int, dump: Dump) -> Record | None:
    """The rank's collective of this number, while it is not done."""
    return next((one for one in dump.pending if one.seq == seq and one.group == group.name and one.peer is None), None)


def _by_kind(works: Mapping[int, Record | None], compared: bool = False) -> dict[tuple[str, str], tuple[int, ...]]:
    """The ranks by operation and sizes; where they are `compared`, without sizes that may differ."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank, work in works.items():
        op = work.op if work is not None else "a collective"
        sizes = "" if work is None or (compared and op not in _SAME_SIZES) else _sizes(work)
        found[_clean(op), sizes].append(rank)
    return {kind: tuple(ranks) for kind, ranks in found.items()}


def _sizes(one: Record) -> str:
    """`[[4096,1,5120]] BFloat16`."""
    shapes = ",".join(f"[{','.join(map(str, shape[:8]))}]" for shape in one.input_sizes[:4])
    return (
        f"[{shapes}] {' '.join(_clean(kind) for kind in dict.fromkeys(one.input_dtypes[:4]))}".strip() if shapes else ""
    )


def _circle(waits: Sequence[Wait]) -> tuple[int, ...]:
    """Ranks that wait for each other."""
    on = {rank: min(wait.on) for wait in waits for rank in wait.ranks}
    way: list[int] = []
    at = min(on, default=None)
    while at is not None and at not in way:
        way.append(at)
        at = on.get(at)
    return tuple(sorted(way[way.index(at) :])) if at is not None else ()


# ── as lines ─────────────────────────────────────────────────────────────────────────────────


def lines_of(graph: Graph, all: bool = False) -> list[str]:
    """What the graph tells, a line each; the last one is the conclusion."""
    found = [_wait_line(one) for one in _joined(graph.waits)]
    if len(found) > _MOST_LINES and not all:
        found = [*found[:_MOST_LINES], f"{len(found) - _MOST_LINES:,} more groups of ranks wait"]
    found += [_hung_line(one) for one in graph.entered[1:_MOST_LINES]]
    found += [line for rank in graph.culprits[1:SHORT] if (line := _last_line(graph.dumps[rank]))]
    if graph.absent:
        count = len({rank for one in graph.waits if one.on & {*graph.absent} for rank in one.ranks})
        found.append(f"no dump of {_ranks(graph.absent)}, for which {_count_of(count)}")
    return [f"flight recorder: {line}" for line in [*found, _conclusion(graph)]]


def _conclusion(graph: Graph) -> str:
    if graph.circle:
        return f"{_ranks(graph.circle)} wait for each other"
    named = graph.named
    if not named and graph.absent:
        return "too many dumps are absent to tell who held up the others"
    if not named:
        return _hung_line(graph.entered[0]) if graph.entered else "no rank waits for another one"
    known = "of which there is no dump" if not graph.culprits else f"which {_are(named, 'wait', 'waits')} for nobody"
    last = _last_line(graph.dumps[named[0]]) if graph.culprits else None
    return f"{_count_of(len(graph.waiting))} for {_ranks(named)}, {known}{f'; {last}' if last else ''}"


def _joined(every: Iterable[Wait]) -> list[Wait]:
    """Waits of one kind in one, the largest first."""
    found: dict[tuple[object, ...], list[Wait]] = defaultdict(list)
    for one in every:
        found[id(one.group), one.seq, one.op, one.sizes, one.on, one.mismatch].append(one)
    joined = [
        replace(waits[0], ranks=tuple(sorted(rank for wait in waits for rank in wait.ranks)))
        for waits in found.values()
    ]
    return sorted(joined, key=lambda one: (-len(one.ranks), one.seq))


def _wait_line(one: Wait) -> str:
    who = f"{_ranks(one.ranks)} of {_named(one.group)} {_are(one.ranks, 'wait', 'waits')} in {_work_of(one)} for {_ranks(one.on)}"
    return f"{who}, which entered {one.mismatch}" if one.mismatch else who


def _hung_line(one: Wait) -> str:
    return f"{_ranks(one.ranks)} of {_named(one.group)} entered {_work_of(one)}, and none completed it: it hangs there"


def _work_of(one: Wait) -> str:
    return f"{_clean(one.op)} (seq {one.seq}{f', sizes {one.sizes}' if one.sizes else ''})"


def _last_line(dump: Dump) -> str | None:
    """What a rank that others wait for was at: the operation that began last, and who called it."""
    last = dump.pending[0] if dump.pending else dump.last
    if last is None:
        return None
    own = [one for one in last.stack if "/torch/" not in one.filename] or last.stack
    called = " < ".join(_clean(f"{one.name} ({one.filename.rpartition('/')[2]}:{one.line})") for one in own[:_FRAMES])
    what = f"{_clean(last.op)} (seq {last.seq} of group {_clean(last.group)})"
    state = f"is still in {what}" if dump.pending else f"entered nothing after {what}"
    return f"rank {dump.rank} {state}{f', called by {called}' if called else ''}"


def _named(group: Group) -> str:
    name, desc = _clean(group.name), _clean(group.desc)
    return f"group {name} ({desc})" if desc not in (*_UNNAMED, name) else f"group {name}"


def _ranks(ranks: Collection[int]) -> str:
    return f"{_are(ranks, 'ranks', 'rank')} {ranges(ranks)}"


def _are(ranks: Collection[int], many: str, one: str) -> str:
    return one if len(ranks) == 1 else many


def _count_of(count: int) -> str:
    return "1 rank waits" if count == 1 else f"{count} ranks wait"


def _clean(text: str) -> str:
    """A dump's text on one line, and no longer than a name is."""
    return re.sub(r"[^\x20-\x7e]", "?", text[:80])
