"""Flight recorder dumps as PyTorch writes them, composed: simulated hangs whose culprits are known.

`python -m benchmarks.hangs RUNS SMALLEST LARGEST` prints how well they are named in random jobs of so many ranks.
"""

from __future__ import annotations

import random
import struct
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slurmdoctor.readers.flight_dumps import Dump, load_all
from slurmdoctor.readers.flight_recorder import graph_of


def torch_pickle(value: Any) -> bytes:
    """A value as PyTorch's own pickler (torch/csrc/jit/serialization/pickler.cpp) writes it: protocol 2, each string once."""
    memo: dict[str | int, int] = {}
    return b"\x80\x02" + b"".join(_steps(value, memo)) + b"."


def _steps(value: Any, memo: dict[str | int, int]) -> list[bytes]:
    if isinstance(value, str):
        return [_string(value, memo)]
    if isinstance(value, bool) or value is None:
        return [{True: b"\x88", False: b"\x89", None: b"N"}[value]]
    if isinstance(value, float):
        return [b"G" + struct.pack(">d", value)]
    if isinstance(value, int):
        return [_whole(value)]
    if isinstance(value, tuple):
        return [*_steps(value[0], memo), *_steps(value[1], memo), b"\x86"]
    if isinstance(value, list):
        return [b"](", *(step for one in value for step in _steps(one, memo)), b"e"]
    if id(value) in memo:
        return [_get(memo[id(value)])]
    pairs = [step for pair in value.items() for one in pair for step in _steps(one, memo)]
    return [
        b"}(",
        *pairs,
        b"u",
        *([_put(memo, id(value))] if "filename" in value else []),
    ]  # entries share their frames


def _string(text: str, memo: dict[str | int, int]) -> bytes:
    if text in memo:
        return _get(memo[text])
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data + _put(memo, text)


def _get(at: int) -> bytes:
    return b"h" + bytes([at]) if at < 256 else b"j" + struct.pack("<I", at)


def _put(memo: dict[str | int, int], what: str | int) -> bytes:
    at = memo[what] = len(memo)
    return b"q" + bytes([at]) if at < 256 else b"r" + struct.pack("<I", at)


def _whole(number: int) -> bytes:
    if 0 <= number < 256:
        return b"K" + bytes([number])
    if 0 <= number < 65_536:
        return b"M" + struct.pack("<H", number)
    if -(1 << 31) <= number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    return b"\x8a\x08" + struct.pack("<q", number)


# ── a job that hangs ─────────────────────────────────────────────────────────────────────────

FAULTS = ("frozen", "died", "error", "mismatch", "hung")
"""A rank's process stops; it dies without a dump; after an error of its GPU it calls and completes nothing more; it calls another operation than
the others; its GPU or its network hangs inside an operation: then nobody can be told from the others of its group."""
_TIME = 1_790_000_000 * 10**9


@dataclass
class Op:
    """One rank's call: a collective of a group, or a send or receive between two members."""

    group: str
    members: tuple[int, ...]
    name: str
    size: int
    key: tuple[object, ...]
    """What the calls of one operation have in common."""


@dataclass
class Layout:
    """Tensor, pipeline and data parallel ranks, tensor parallel ones next to each other, and the groups by name."""

    tp: int
    pp: int
    dp: int
    groups: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        number = iter(range(1, 1 << 30))
        self.groups["0"] = "default_pg", tuple(range(self.size))
        self.of: list[dict[str, str]] = [{"world": "0"} for _ in range(self.size)]
        axes = {"tp": (self.tp, 1), "dp": (self.dp, self.tp), "pp": (self.pp, self.tp * self.dp)}
        for axis, (count, stride) in axes.items():
            for rank in range(self.size):
                if (rank // stride) % count == 0:
                    name, members = str(next(number)), tuple(rank + stride * at for at in range(count))
                    self.groups[name] = f"{axis.upper()}_GROUP", members
                    for member in members:
                        self.of[member][axis] = name

    @property
    def size(self) -> int:
        return self.tp * self.pp * self.dp

    def program(self, rank: int, steps: int, batches: int) -> list[Op]:
        """What a rank calls: each batch forward and backward through the stages, then the gradients' sums."""
        calls: list[Op] = []
        counts: Counter[object] = Counter()
        stages = self.groups[self.of[rank]["pp"]][1]
        stage = stages.index(rank)

        def collective(axis: str, name: str, size: int) -> None:
            group = self.of[rank][axis]
            members = self.groups[group][1]
            if len(members) > 1:
                counts[group] += 1
                calls.append(Op(group, members, name, size, (group, counts[group])))

        def pass_on(to: int, send: bool) -> None:
            if 0 <= to < len(stages):
                ends = (rank, stages[to]) if send else (stages[to], rank)
                counts[ends] += 1
                name = f"send {stage}->{to}" if send else f"recv {stage}<-{to}"
                calls.append(Op(self.of[rank]["pp"], ends, name, 4096, (*ends, counts[ends])))

        for _ in range(steps):
            for way in (1, -1):
                for _ in range(batches):
                    pass_on(stage - way, send=False)
                    collective("tp", "_all_gather_base", 8192)
                    collective("tp", "_reduce_scatter_base", 8192)
                    pass_on(stage + way, send=True)
            collective("dp", "_reduce_scatter_base", 1 << 20)
            collective("world", "all_reduce", 1)
            collective("dp", "_all_gather_base", 1 << 20)
        return calls


@dataclass
class Hang:
    """A job that was simulated until nothing went on."""

    layout: Layout
    programs: list[list[Op]]
    done: list[int]
    """How many of its calls each rank has completed,"""
    called: list[int]
    """how many it has made,"""
    faults: dict[int, str]
    completed: list[int]
    """and how many of them its recorder counts,"""
    culprits: set[int]
    """Ranks that had come to their fault: others may have waited before."""

    def dump(self, rank: int, only_active: bool, version: str = "2.10") -> bytes:
        """The rank's dump."""
        program, done, called = self.programs[rank], self.completed[rank], self.called[rank]
        names = {name: at for at, name in enumerate(sorted(self.layout.of[rank].values(), key=int))}
        status = {str(at): [0, 0] for at in names.values()}
        counts: Counter[tuple[str, bool]] = Counter()
        entries = []
        for at, op in enumerate(program[:called]):
            peer = " " in op.name
            counts[op.group, peer] += 1
            number, number_of_peer = counts[op.group, False], counts[op.group, True]
            state = status[str(names[op.group])]
            state[0] = number_of_peer if peer else number
            state[1] = state[0] if at < done else state[1]
            if at >= done or (not only_active and at >= called - 2_000):
                entries.append(_entry(at, op, names[op.group], self.layout, (number, number_of_peer), at < done))
        if self.faults.get(rank) == "frozen" and only_active:
            entries = []
        config = {
            name: {"name": name, "desc": self.layout.groups[name][0], "ranks": str(list(self.layout.groups[name][1]))}
            for name in names
        }
        dump = {"version": version, "pg_config": config, "pg_status": {}, "entries": entries}
        for name, (enqueued, completed) in status.items():
            dump["pg_status"][name] = {  # type: ignore[index]
                "last_enqueued_collective": enqueued,
                "last_started_collective": -1,
                "last_completed_collective": completed,
            }
        return torch_pickle(dump)


def _entry(at: int, op: Op, pg: int, layout: Layout, counts: tuple[int, int], done: bool) -> dict[str, Any]:
    return {
        "record_id": at,
        "pg_id": pg,
        "process_group": (op.group, layout.groups[op.group][0]),
        "collective_seq_id": counts[0],
        "p2p_seq_id": counts[1],
        "op_id": at,
        "profiling_name": f"nccl:{op.name}",
        "time_created_ns": _TIME + at * 10**6,
        "input_sizes": [[op.size]],
        "input_dtypes": ["BFloat16"],
        "output_sizes": [[op.size]],
        "output_dtypes": ["BFloat16"],
        "state": "completed" if done else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": done,
        "timeout_ms": 600_000,
        "is_p2p": " " in op.name,
    }


def simulate(layout: Layout, faults: Mapping[int, str], rng: random.Random) -> Hang:
    """Let all ranks run until nothing goes on: a call is done when all its members have come to it, and a rank's calls in their order."""
    batches = rng.choice((1, 2, 4))
    programs = [layout.program(rank, 2, batches) for rank in range(layout.size)]
    at = {rank: rng.randrange(len(programs[rank])) for rank in faults}
    for rank, fault in faults.items():
        if fault == "mismatch":
            places = [
                n
                for n, op in enumerate(programs[rank])
                if op.name in ("all_reduce", "_all_gather_base") and len(op.members) > 2
            ]
            if places:
                at[rank] = rng.choice(places)
                op = programs[rank][at[rank]]
                changed = replace(op, size=op.size + 1) if rng.random() < 0.5 else replace(op, name="broadcast")
                programs[rank][at[rank]] = replace(changed, key=(*op.key, "wrong"))
    ahead = [rng.randrange(1, 12) for _ in programs]
    done = [0] * layout.size
    came: dict[tuple[object, ...], list[int]] = defaultdict(list)
    ready = list(range(layout.size))
    while ready:
        rank = ready.pop()
        if done[rank] == len(programs[rank]) or (rank in faults and done[rank] == at[rank]):
            continue
        op = programs[rank][done[rank]]
        came[op.key].append(rank)
        if len(came[op.key]) == len(op.members):
            for one in came.pop(op.key):
                done[one] += 1
                ready.append(one)
    called = [min(len(program), done[r] + ahead[r]) for r, program in enumerate(programs)]
    for rank, fault in faults.items():
        if fault in ("frozen", "died", "error"):
            called[rank] = min(called[rank], at[rank])
        elif fault == "mismatch":
            called[rank] = min(called[rank], at[rank] + 1)
    # a process that stopped is late for others even where its own calls still wait
    culprits = {
        rank
        for rank in faults
        if done[rank] == at[rank] or (faults[rank] in ("frozen", "died") and called[rank] == at[rank])
    }
    completed = [max(0, n - rng.randrange(1, 12)) if faults.get(rank) == "error" else n for rank, n in enumerate(done)]
    return Hang(layout, programs, done, called, dict(faults), completed, culprits)


# ── how well the culprits are named ──────────────────────────────────────────────────────────


def _one(seed: int, smallest: int, largest: int) -> tuple[str, set[int], set[int], set[int]]:
    """A random hang: its kind, its culprits, who is named, and who is called hung with all of a group."""
    rng = random.Random(seed)
    size = 0
    while not smallest <= size <= largest:
        shape = [2 ** rng.randrange(most) for most in (4, 5, 7)]
        size = shape[0] * shape[1] * shape[2]
    layout = Layout(*shape)
    fault = rng.choice(FAULTS)
    faults = dict.fromkeys(rng.sample(range(size), rng.choice((1, 1, 1, 2))), fault)
    hang = simulate(layout, faults, rng)
    absent = set(faults) if fault == "died" else set()
    if rng.random() < 0.3:
        absent |= set(rng.sample(sorted(set(range(size)) - set(faults)), rng.choice((1, 2))))
    only_active = rng.random() < 0.5
    with TemporaryDirectory() as folder:
        paths = [f"{folder}/nccl_trace_rank_{rank}" for rank in range(size) if rank not in absent]
        for path in paths:
            Path(path).write_bytes(hang.dump(int(path.rpartition("_")[2]), only_active))
        found = graph_of({one.rank: one for one in load_all(paths) if isinstance(one, Dump)})
    named = set(found.named)
    culprits = hang.culprits | (named & set(faults) if fault in ("frozen", "died") else set())
    kind = f"{fault}{', other dumps absent' if absent - set(faults) else ''}"
    return kind, culprits, named, {rank for wait in found.entered for rank in wait.ranks}


def main(runs: int, smallest: int, largest: int) -> None:
    """Print precision and recall by kind."""
    rows: dict[str, list[int]] = defaultdict(lambda: [0] * 5)
    for seed in range(runs):
        kind, culprits, named, hung = _one(seed, smallest, largest)
        row = rows[kind]
        exact = named == culprits if "hung" not in kind else not named and bool(culprits & hung)
        for at, more in enumerate((1, exact, len(named & culprits), len(named), len(culprits))):
            row[at] += more
    print("| fault | hangs | exact | precision | recall |\n|---|---|---|---|---|")
    for kind, (count, whole, right, named_in_all, wanted) in sorted(rows.items()):
        precision = f"{right / named_in_all:.3f}" if named_in_all else "-"
        print(f"| {kind} | {count} | {whole} | {precision} | {right / wanted:.3f} |")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
