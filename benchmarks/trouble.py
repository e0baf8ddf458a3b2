"""What is printed when something is wrong, or looks so: warnings, retries, caught errors, and the end of a job."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from benchmarks.training import LIB, Label, Talk, clock, stamp

_FRAMEWORKS = (
    "torch/utils/checkpoint",
    "transformers/modeling_utils",
    "megatron/core/optimizer",
    "datasets/load",
    "numpy/lib/npyio",
)
_BUILT_IN = ("ValueError", "KeyError", "RuntimeError", "TypeError", "OSError", "AssertionError", "IndexError")


class Trouble(Talk):
    """The same ranks, when things go wrong; lines without labels."""

    # ── what healthy jobs say all the time ───────────────────────────────────────────────────

    def warning(self, rank: int) -> list[str]:
        """One of many, each with a text of its own."""
        words, below = self.words, self.words.below
        choice = below(8)
        if choice < 2:
            where = f"{LIB}/{_FRAMEWORKS[below(5)]}.py:{below(3000)}"
            return [
                f"{where}: UserWarning: {words.sentence()} Pass `{words.word()}_{words.word()}` instead.",
                "  warnings.warn(",
            ]
        if choice == 2:
            return [
                f"WARNING: request to {words.url()} failed: Read timed out (timeout=60); Retrying in {1 + below(60)}s [Retry {1 + below(4)}/5]."
            ]
        if choice == 3:
            return [
                f"{self.host(rank)}:{20_000 + rank}:{21_000 + rank} [{rank % 8}] NCCL WARN NET/IB : Got completion from peer {words.address()}<{below(60_000)}> with status=12 opcode={below(200)} len={below(1 << 20)} vendor err {below(200)} (Recv), retrying"
            ]
        if choice == 4:
            return [*self.traceback(2 + below(6)), f"skipping {words.path('.parquet')}, falling back to the next one"]
        if choice == 5:
            return [
                f"WARNING:megatron.core.rerun: {words.text(6)}: loss spike {self.loss * 3:.4f}, attempt {below(9)} of validation, error within tolerance, timeout not reached"
            ]
        if choice == 6:
            return [
                f"{stamp(self.now)} [WARNING] {words.word()}.{words.word()}: cannot reach {words.address()}:{below(60_000)} ({words.uuid()}): timed out, next try in {below(90)} s"
            ]
        return [
            f"W1121 {clock(self.now)}.{below(1_000_000):06} {20_000 + rank} torch/_dynamo/{words.word()}.py:{below(4000)}] [{below(9)}/{below(9)}] {words.text(9)}: failed guard {words.hexadecimal(16)}"
        ]

    def prose(self, rank: int) -> list[str]:
        """What jobs print of the texts that they read and write."""
        words, below = self.words, self.words.below
        choice = below(16)
        if choice < 4:
            return [f"sample {below(1 << 30)}: {words.sentence()} {words.sentence()}"]
        if choice < 6:
            return [
                f'{{"time": "{self.stamp}", "level": "info", "trace": "{words.hexadecimal(32)}", "{words.word()}": {self.random.random()}, "message": "{words.sentence()}"}}'
            ]
        if choice < 8:
            return [
                f"[{words.word()}] prompt: {words.text(12)!r} -> {words.text(12)!r} reward={self.random.random():.6f}"
            ]
        if choice == 8:
            return [f"| {words.word():14} | {words.word():14} | {self.random.random():.4f} | {words.text(3):30} |"]
        if choice == 9:
            return [f"{words.word()} {words.word()}: {self.data(rank)}"]
        if choice < 12:
            return [f"{words.word().upper()}_{words.word().upper()}={words.path()} {words.url()}"]
        if choice == 12:
            return [
                f"{self.stamp} INFO {words.word()}: {words.type_name()}('{words.word()}', id='{words.uuid()}') {words.text(6)}"
            ]
        if choice == 13:
            return ["", words.sentence(), f"> {words.sentence()}"]
        if choice == 14 and below(2):
            return self.objection(rank)
        return [self.layer(rank)]

    def objection(self, rank: int) -> list[str]:
        """A caught error in words of its own."""
        words, below = self.words, self.words.below
        choice = below(6)
        if choice == 0:
            return [f"ValueError: '{words.word()}' {words.word()} is not in the vocabulary", "dropped"]
        if choice == 1:
            return [f"{stamp(self.now)} ERROR {words.word()}.{words.word()}: {self.exception()}"]
        if choice == 2:
            return [f"could not parse {words.path('.json')}: {self.exception()}"]
        if choice == 3:
            return [*self.traceback(2 + below(9)), f"caught in {words.word()}, going on: {words.text(4)}"]
        if choice == 4:
            return [f"retry {1 + below(4)} of 5 after {words.type_name()}Error: {words.text(7)}"]
        return self.warning(rank)

    def exception(self) -> str:
        """The last line of a traceback."""
        words, below = self.words, self.words.below
        choice = below(4)
        if choice == 0:
            return f"KeyError: '{words.word()}-{words.hexadecimal(8)}'"
        if choice == 1:
            return f"{words.word()}.{words.word()}.{words.type_name()}Error: {words.text(2 + below(10))}"
        if choice == 2:
            return f"{_BUILT_IN[below(7)]}: {words.text(2 + below(10))}"
        return f"OSError: [Errno 5] Input/output error: '{words.path('.arrow')}'"

    def traceback(self, frames: int) -> list[str]:
        """Of calls that no other one has."""
        words, below = self.words, self.words.below
        lines = ["Traceback (most recent call last):"]
        for _ in range(frames):
            file = f"{LIB}/{words.word()}/{words.word()}" if below(2) else f"/workspace/{words.word()}"
            call = f"{words.word()} = self._{words.word()}.{words.word()}({words.word()}, {words.word()}={below(99)})"
            lines += [f'  File "{file}.py", line {below(2000)}, in {words.word()}_{words.word()}', f"    {call}"]
        return [*lines, self.exception()]

    # ── the end ──────────────────────────────────────────────────────────────────────────────

    def out_of_memory(self, rank: int) -> list[str]:
        return [
            "Traceback (most recent call last):",
            '  File "/workspace/train/pretrain.py", line 213, in <module>',
            "    main()",
            f'  File "{LIB}/megatron/core/transformer/moe/experts.py", line 213, in forward',
            "    fc1_output = gg.ops.gmm(permuted, w1, tokens_per_expert, trans_b=False)",
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {rank % 8} has a total capacity of 79.11 GiB "
            f"of which 1.05 GiB is free. Process {20_000 + rank} has 78.05 GiB memory in use.",
        ]

    def timed_out(self, rank: int, turn: int, now: int) -> list[str]:
        """What a rank prints whose watchdog fires."""
        words, below = self.words, self.words.below
        seq = 48_211 + turn % 3
        head = f"[rank{rank}]:[E1121 {clock(now)}.{words.below(1_000_000_000):09} ProcessGroupNCCL.cpp"
        group = f"[PG ID {turn % 4} PG GUID {turn % 4}({('default_pg', 'mesh_dp', 'mesh_tp', words.hexadecimal(16))[turn % 4]}) Rank {rank}]"
        if turn % 3:
            return [
                f"{head}:1834] {group} Timeout at NCCL work: {seq}, last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}.",
                f"{head}:1785] {group} Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}.",
                *(self.flight(k, seq) for k in range(4 + below(6))),
            ]
        work = f"WorkNCCL(SeqNum={seq}, OpType={('ALLREDUCE', '_REDUCE_SCATTER_BASE', '_ALLGATHER_BASE')[turn // 3 % 3]}, NumelIn={16_777_216 >> turn % 5}, NumelOut=16777216, Timeout(ms)=600000)"
        caught = f"[Rank {rank}] Watchdog caught collective operation timeout: {work} ran for {600_000 + below(97)} milliseconds before timing out."
        return [
            f"{head}:632] {caught}",
            f"{head}:2271] {group}  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq + 2}, last completed work: {seq - 1}",
            f"{head}:684] [Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
            f"{head}:698] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.",
            "terminate called after throwing an instance of 'c10::DistBackendError'",
            f"  what():  {group} Process group watchdog thread terminated with exception: {caught}",
            "Exception raised from checkTimeout at /opt/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:632 (most recent call first):",
            *(self.frame(k) for k in range(8)),
            *self.where_it_waited(turn),
            f"torch.distributed.DistBackendError: NCCL error in: /opt/pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:{below(400)}, remote process exited or there was a network error, NCCL version 2.21.5",
            f"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely. socketProgress: Connection closed by remote peer {self.host(self.a_rank())}.example.org<{below(60_000)}>",
        ]

    def flight(self, number: int, seq: int) -> str:
        return f"#{number} torch.distributed.all_reduce from {LIB}/{self.words.word()}/{self.words.word()}.py:{self.words.below(3000)} in {self.words.word()} <python> collective {seq + number} state scheduled"

    def frame(self, number: int) -> str:
        address = self.words.hexadecimal(10)
        return f"frame #{number}: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x{282 + number:x} (0x7f{address} in {LIB}/torch/lib/libtorch_cuda.so)"

    def where_it_waited(self, turn: int) -> Iterator[str]:
        """A traceback: one of some dozen, with values of this rank in its calls."""
        path = Random(turn % 36)
        yield "Traceback (most recent call last):"
        yield '  File "/workspace/train/pretrain.py", line 213, in <module>'
        yield "    main()"
        for depth in range(3 + turn % 5):
            line = path.randrange(3000)
            yield f'  File "{LIB}/{("megatron/training", "megatron/core", "torch/distributed")[line % 3]}/{("training", "schedules", "finalize")[depth % 3]}.py", line {line}, in step_{line % 19}'
            yield f"    losses = forward_backward({self.words.word()}=step_{line}, micro={depth})"


def aftermath(trouble: Trouble, label: Label, root: int, turns: range, end_of_training: int, at_once: int) -> list[str]:
    """Ten minutes later: so many ranks at a time say that they waited in vain, their lines mixed."""
    random = trouble.random
    lines: list[str] = []
    for turn in turns:
        now = end_of_training + 600 + turn // 50
        speaking = [rank for rank in random.sample(range(trouble.ranks), min(trouble.ranks, at_once)) if rank != root]
        stories = [(label(rank, now), iter(trouble.timed_out(rank, turn, now))) for rank in speaking]
        while stories:
            at = int(random.random() * len(stories))
            head, story = stories[at]
            for _ in range(1 + int(random.random() * 3)):
                line = next(story, None)
                if line is None:
                    del stories[at]
                    break
                lines.append(head + line)
    return lines


def ending(trouble: Trouble, root: int) -> list[str]:
    """What srun says of the ranks at last."""
    died = [
        f"srun: error: {trouble.host(rank)}: task {rank}: Aborted (core dumped)"
        for rank in range(0, trouble.ranks, 61)
        if rank != root
    ]
    return [*died, f"srun: error: {trouble.host(root)}: task {root}: Exited with exit code 1"]
