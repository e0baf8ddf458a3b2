"""Makes the logs of the benchmark: the same bytes for the same seed, in the words of the programs that print them.

quiet    training lines to the end, where one rank runs out of memory: one line in a thousand holds a rule's words
noisy    the same with warnings, retries and caught errors all along: one line in fifteen
cascade  a tenth is training; then one rank fails and thousands of others say so, again and again: one in four
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

KINDS = ("quiet", "noisy", "cascade")
STYLES = ("srun", "torch", "stamped", "tee", "mpi")
_START = 9 * 3600
_LIB = "/usr/local/lib/python3.11/dist-packages"

Label = Callable[[int, int], str]
"""(rank, seconds since the job's start) -> what its launcher puts before its lines."""


def write(path: Path, kind: str, size: int, style: str = "srun", ranks: int = 4096, seed: int = 1) -> None:
    """Write a log of about this many bytes."""
    with path.open("wb") as file:
        for piece in pieces(kind, size, style, ranks, seed):
            file.write(piece)


def pieces(kind: str, size: int, style: str = "srun", ranks: int = 4096, seed: int = 1) -> Iterator[bytes]:
    """The log's bytes, some hundred kilobytes at a time."""
    random = Random(f"{kind} {size} {style} {ranks} {seed}")
    label = _labels(style)
    body = size // 10 if kind == "cascade" else size - min(size // 20, 2_000_000)
    written = 0
    step = 0
    while written < body:
        lines: list[str] = []
        for _ in range(40):
            step += 1
            _training(lines, step, label, ranks, random)
            if kind == "noisy":
                _noise(lines, step, label, ranks, random)
        piece = "\n".join(lines).encode() + b"\n"
        written += len(piece)
        yield piece
    for piece in _failure(size - written, step, label, ranks, random, many=kind == "cascade"):
        written += len(piece)
        yield piece


def _labels(style: str) -> Label:
    def srun(rank: int, now: int) -> str:
        return f"{rank:4}: "

    def torch(rank: int, now: int) -> str:
        return f"[rank{rank}]: "

    def stamped(rank: int, now: int) -> str:
        return f"{_stamp(now)},{rank % 1000:03} [rank {rank}] "

    def tee(rank: int, now: int) -> str:
        return f"[default{rank % 8}]:[rank{rank}]: "

    def mpi(rank: int, now: int) -> str:
        return f"[1,{rank}]<stderr>:"

    return {"srun": srun, "torch": torch, "stamped": stamped, "tee": tee, "mpi": mpi}[style]


def _clock(now: int) -> str:
    now += _START
    return f"{now // 3600 % 24:02}:{now // 60 % 60:02}:{now % 60:02}"


def _stamp(now: int) -> str:
    return f"2026-11-{21 + (now + _START) // 86400 % 7:02} {_clock(now)}"


# ── training ─────────────────────────────────────────────────────────────────────────────────


def _training(lines: list[str], step: int, label: Label, ranks: int, random: Random) -> None:
    now = step * 2
    loss = 2.0 + 8.0 / (1 + step % 997)
    last = label(ranks - 1, now)
    lines.append(
        f"{last} [{_stamp(now)}.{step % 1000:03}000] iteration {step:8}/ 9000000 | consumed samples: {step * 1024:12} | "
        f"elapsed time per iteration (ms): {1900 + step % 97}.{step % 10} | learning rate: 1.500000E-04 | global batch size:  1024 | "
        f"lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: {loss / 7:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
    )
    for _ in range(6):
        rank = random.randrange(ranks)
        head = label(rank, now)
        lines.append(
            f"{head}[Rank {rank}] (after {step} iterations) memory (MB) | allocated: {42000 + rank % 91}.5 | max allocated: {70123 + rank % 83}.9 | reserved: 75532.0"
        )
        lines.append(
            f"{head}INFO:megatron.core.timers:forward-compute: ({600 + rank % 50}.12, {640 + rank % 61}.77) backward-compute: (1201.4, 1233.1)"
        )
        lines.append(
            f"{head}dataloader worker {rank % 4}: shard {random.randrange(100000):06}.bin offset {random.randrange(1 << 30)} prefetched in {rank % 37} ms"
        )
    if step % 500 == 0:
        lines.append(
            f"{label(0, now)}saving checkpoint at iteration {step} to /ckpt/run/iter_{step:07} in torch_dist format"
        )


def _noise(lines: list[str], step: int, label: Label, ranks: int, random: Random) -> None:
    """What healthy jobs print all the time."""
    rank = random.randrange(ranks)
    head = label(rank, step * 2)
    choice = random.randrange(8)
    if choice < 2:
        lines.append(
            f"{head}{_LIB}/torch/utils/checkpoint.py:{80 + choice}: UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly"
        )
        lines.append(f"{head}  warnings.warn(")
    elif choice == 2:
        lines.append(
            f"{head}WARNING: request to shard {random.randrange(9999)} failed: Read timed out (timeout=60); Retrying in 1s [Retry 1/5]."
        )
    elif choice == 3:
        lines.append(
            f"{head}cn{rank // 8:04}:{20000 + rank}:{21000 + rank} [{rank % 8}] NCCL WARN NET/IB : Got completion from peer 10.1.{rank % 250}.7 with error 12, retrying"
        )
    elif choice == 4:
        lines += [
            f"{head}Traceback (most recent call last):",
            f'{head}  File "/workspace/train/data.py", line {100 + rank % 40}, in fetch',
            f"{head}    return self._store.read(key)",
            f"{head}KeyError: 'shard-{random.randrange(9999)}'",
            f"{head}skipping this sample, falling back to the next",
        ]
    else:
        lines.append(
            f"{head}WARNING:megatron.core.rerun: loss spike, attempt {choice} of validation, error within tolerance, timeout not reached"
        )


# ── failure ──────────────────────────────────────────────────────────────────────────────────


def _failure(size: int, step: int, label: Label, ranks: int, random: Random, many: bool) -> Iterator[bytes]:
    """One rank runs out of memory; ten minutes later all others time out, and go on saying so until they are killed."""
    now = step * 2
    root = ranks // 3
    first = [label(root, now) + line for line in _out_of_memory(root)]
    yield "\n".join(first).encode() + b"\n"
    written = 0
    late = now + 600
    tail = [
        f"srun: error: cn{rank // 8:04}: task {rank}: {'Exited with exit code 1' if rank == root else 'Aborted (core dumped)'}"
        for rank in range(0, ranks, 61)
    ]
    tail.append(f"srun: error: cn{root // 8:04}: task {root}: Exited with exit code 1")
    ending = "\n".join(tail).encode() + b"\n"
    size -= len(ending)
    waiting = [rank for rank in range(ranks) if rank != root]
    turn = 0
    while written < size:
        turn += 1
        speaking = random.sample(waiting, min(len(waiting), 12 if many else 8))
        stories = [(label(rank, late + turn // 50), _timed_out(rank, turn, late + turn // 50)) for rank in speaking]
        lines: list[str] = []
        while stories:  # the ranks write at once: their lines come mixed
            at = random.randrange(len(stories))
            head, story = stories[at]
            for _ in range(random.randrange(1, 4)):
                if not story:
                    break
                lines.append(head + story.pop())
            if not story:
                del stories[at]
        piece = "\n".join(lines).encode() + b"\n"
        written += len(piece)
        yield piece
    yield ending


def _out_of_memory(rank: int) -> list[str]:
    return [
        "Traceback (most recent call last):",
        '  File "/workspace/train/pretrain.py", line 213, in <module>',
        "    main()",
        f'  File "{_LIB}/megatron/core/transformer/moe/experts.py", line 213, in forward',
        "    fc1_output = gg.ops.gmm(permuted, w1, tokens_per_expert, trans_b=False)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU "
        f"{rank % 8} has a total capacity of 79.11 GiB of which 1.05 GiB is free. Process {20000 + rank} has 78.05 GiB memory in use.",
    ]


def _timed_out(rank: int, turn: int, now: int) -> list[str]:
    """What a rank prints whose watchdog fires; last line first, to be popped."""
    head = f"[rank{rank}]:[E1121 {_clock(now)}.{rank:06}{turn % 1000:03} ProcessGroupNCCL.cpp"
    seq = 48211 + turn % 3
    if turn % 3:
        story = [
            f"{head}:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}.",
            f"{head}:1834] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Timeout at NCCL work: {seq}, last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}.",
        ]
        story += [
            f"#{k} torch.distributed.all_reduce from {_LIB}/torch/distributed/distributed_c10d.py:{2501 + k} <python> collective {seq + k} state scheduled"
            for k in range(9)
        ]
        return story[::-1]
    story = [
        f"{head}:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, Timeout(ms)=600000) ran for {600000 + rank % 97} milliseconds before timing out.",
        f"{head}:2271] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq + 2}, last completed work: {seq - 1}",
        f"{head}:684] [Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        f"{head}:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
        "terminate called after throwing an instance of 'c10::DistBackendError'",
        f"  what():  [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=16777216, NumelOut=16777216, Timeout(ms)=600000) ran for 600081 milliseconds before timing out.",
        "Exception raised from checkTimeout at /opt/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632 (most recent call first):",
    ]
    story += [
        f"frame #{k}: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x{282 + k:x} (0x7f{rank:06x}{k:04x} in {_LIB}/torch/lib/libtorch_cuda.so)"
        for k in range(8)
    ]
    story += [
        "Traceback (most recent call last):",
        '  File "/workspace/train/pretrain.py", line 213, in <module>',
        "    main()",
    ]
    for k in range(6):
        story += [
            f'  File "{_LIB}/megatron/training/training.py", line {1200 + 31 * k}, in train_step_{k}',
            f"    losses = forward_backward(step={turn}, micro={k})",
        ]
    story.append(
        "torch.distributed.DistBackendError: NCCL error in: /opt/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, remote process exited or there was a network error, NCCL version 2.21.5"
    )
    return story[::-1]
