"""What a healthy training prints: losses, timers, data, checkpoints, NCCL's own information, and progress bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from random import Random

from benchmarks.words import Words

LIB = "/usr/local/lib/python3.11/dist-packages"
Label = Callable[[int, int], str]
"""(rank, seconds since the job's start) -> what its launcher puts before its lines."""
_START = datetime(2026, 11, 21, 9)
_LAST_STEP = 9_000_000


def clock(now: int) -> str:
    return f"{_START + timedelta(seconds=now):%H:%M:%S}"


def stamp(now: int) -> str:
    return f"{_START + timedelta(seconds=now):%Y-%m-%d %H:%M:%S}"


class Talk:
    """What the ranks of a job print, from this step on; lines without labels."""

    def __init__(self, ranks: int, random: Random) -> None:
        self.ranks = ranks
        self.random = random
        self.words = Words(random)
        self.step = self.now = 0
        self.stamp = ""
        self.loss = 0.0

    def at(self, step: int) -> None:
        self.step, self.now = step, step * 2
        self.stamp = stamp(self.now)
        self.loss = 2.0 + 8.0 / (1 + step % 997) + self.random.random() / 9

    def a_rank(self) -> int:
        return int(self.random.random() * self.ranks)

    def host(self, rank: int) -> str:
        return f"node{rank // 8:04}"

    # ── the trainers, each in its own words ──────────────────────────────────────────────────

    def megatron(self, rank: int) -> str:
        step = self.step
        return (
            f" [{self.stamp}.{self.words.below(1_000_000):06}] iteration {step:8}/ {_LAST_STEP} | consumed samples: {step * 1024:12} | "
            f"elapsed time per iteration (ms): {1900 + self.random.random() * 97:.1f} | throughput per GPU (TFLOP/s/GPU): {390 + self.random.random() * 9:.1f} | "
            f"learning rate: {1.5e-4 / (1 + step / 9e5):.6E} | global batch size:  1024 | lm loss: {self.loss:.6E} | loss scale: 1.0 | "
            f"grad norm: {self.loss / 7:.3f} | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )

    def memory(self, rank: int) -> str:
        random = self.random.random
        return (
            f"[Rank {rank}] (after {self.step} iterations) memory (MB) | allocated: {42000 + random() * 900} | "
            f"max allocated: {70000 + random() * 900} | reserved: 75532.0 | max reserved: 75532.0"
        )

    def timers(self, rank: int) -> str:
        random = self.random.random
        names = ("forward-compute", "backward-compute", "batch-generator", "grads-all-reduce", "optimizer-inner-step")
        name = names[int(random() * 5)]
        return f"    {name} {'.' * (60 - len(name))}: ({600 + random() * 50:.2f}, {640 + random() * 61:.2f})"

    def nemo(self, rank: int) -> str:
        random = self.random.random
        return (
            f"[NeMo I {self.stamp} nemo_logging:393] Training epoch {self.step // 5000}, iteration {self.step % 5000}/4999 | lr: {1e-5 * random():.3e} | "
            f"global_batch_size: 1024 | global_step: {self.step} | reduced_train_loss: {self.loss:.4f} | train_step_timing in s: {1.9 + random():.3f} | consumed_samples: {self.step * 1024}"
        )

    def huggingface(self, rank: int) -> str:
        random = self.random.random
        return f"{{'loss': {self.loss:.4f}, 'grad_norm': {self.loss * random()}, 'learning_rate': {2e-5 * random()}, 'epoch': {self.step / 5000:.2f}}}"

    def deepspeed(self, rank: int) -> str:
        random = self.random.random
        head = f"[{self.stamp},{self.words.below(1000):03}] [INFO] "
        if random() < 0.5:
            return f"{head}[logging.py:96:log_dist] [Rank {rank}] step={self.step}, skipped={self.words.below(9)}, lr=[{1e-5 * random()}], mom=[[0.9, 0.95]]"
        return (
            f"{head}[timer.py:260:stop] epoch=0/micro_step={self.step * 4}/global_step={self.step}, RunningAvgSamplesPerSec={40 + random()}, "
            f"CurrSamplesPerSec={40 + random()}, MemAllocated={30 + random() * 9:.2f}GB, MaxMemAllocated={60 + random() * 9:.2f}GB"
        )

    def titan(self, rank: int) -> str:
        random = self.random.random
        return f"[titan] {self.stamp},{self.words.below(1000):03} - root - INFO - step: {self.step:2}  loss: {self.loss:7.4f}  memory: {40 + random() * 9:5.2f}GiB({50 + random() * 9:.2f}%)  tps: {round(7000 + random() * 900):,}  mfu: {40 + random():.2f}%"

    # ── its surroundings ─────────────────────────────────────────────────────────────────────

    def data(self, rank: int) -> str:
        words, below = self.words, self.words.below
        choice = below(5)
        if choice == 0:
            return f"dataloader worker {rank % 4}: {words.path('.tar')} offset {below(1 << 30)} prefetched in {below(90)} ms"
        if choice == 1:
            return f"INFO:data.{words.word()}:opened s3://{words.word()}-{words.word()}/tokens/{words.hexadecimal(40)}/shard-{below(100_000):06}.tar etag {words.hexadecimal(32)}"
        if choice == 2:
            return f'INFO:httpx:HTTP Request: GET http://{words.address()}:8000/v1/{words.word()}/{words.uuid()} "HTTP/1.1 200 OK"'
        if choice == 3:
            return f"{self.stamp} | INFO     | {words.word()}.{words.word()}:{words.word()}:{below(900)} - packed {below(9000)} documents of {words.path('.jsonl.zst')} ({words.hexadecimal(8)})"
        return f"[{words.word()}_{words.word()}.py:{below(500)}] bucket {below(200)}: '{words.word()}' {below(4096)} tokens, seed 0x{words.hexadecimal(8)}, shape torch.Size([{1 + below(8)}, {below(8192)}])"

    def checkpoint(self, rank: int) -> str:
        words, below = self.words, self.words.below
        choice = below(4)
        if choice == 0:
            return f"saving checkpoint at iteration {self.step:7} to {words.path()}/iter_{self.step:07} in torch_dist format"
        if choice == 1:
            return f"[{self.stamp},{below(1000):03}] [INFO] [torch_checkpoint_engine.py:21:save] [Torch] Saving {words.path()}/global_step{self.step}/mp_rank_{rank % 8:02}_model_states.pt..."
        if choice == 2:
            return f"wandb: run {words.word()}-{words.word()}-{below(900)}: {words.url()} synced {below(90)} files"
        return f"INFO:checkpoint:wrote __{rank}_0.distcp of {words.uuid()}: {below(1 << 32)} bytes, sha256 {words.hexadecimal(64)}"

    def layer(self, rank: int) -> str:
        """A line of a model that is printed, or of a configuration."""
        words, below = self.words, self.words.below
        if below(2):
            return f"{'  ' * (1 + below(6))}({words.word()}_{below(64)}): {words.type_name()}(in_features={below(8192)}, out_features={below(8192)}, bias={below(2) == 1})"
        return f"  {words.word()}_{words.word()} {'.' * (2 + below(30))} {words.word() if below(2) else below(10_000)}"

    # ── NCCL_DEBUG=INFO ──────────────────────────────────────────────────────────────────────

    def nccl(self, rank: int) -> str:
        words, below = self.words, self.words.below
        head = f"{self.host(rank)}:{20_000 + rank}:{21_000 + rank + below(40)} [{rank % 8}] NCCL INFO "
        comm, other, channel = f"0x{0x55 + below(3):x}{words.hexadecimal(9)}0", self.a_rank(), below(32)
        choice = below(20)
        if choice < 5:
            collective = ("AllReduce", "ReduceScatter", "AllGather", "Broadcast")[below(4)]
            return (
                f"{head}{collective}: opCount {words.hexadecimal(1 + below(5))} sendbuff 0x7f{words.hexadecimal(8)}00 recvbuff 0x7f{words.hexadecimal(8)}00 "
                f"count {below(1 << 24)} datatype 9 op 0 root 0 comm {comm} [nranks={self.ranks}] stream 0x{words.hexadecimal(12)}"
            )
        if choice < 9:
            turn = ("send", "receive")[below(2)]
            return f"{head}Channel {channel:02}/{below(2)} : {rank}[{rank % 8}] -> {other}[{other % 8}] [{turn}] via NET/IB/{below(8)}({rank})/GDRDMA"
        if choice < 12:
            return (
                f"{head}Channel {channel:02}/0 : {rank}[{rank % 8}] -> {rank + 1}[{(rank + 1) % 8}] via P2P/CUMEM/read"
            )
        if choice == 12:
            trees = " ".join(f"[{k}] {rank + 1}/{(-1, other)[k & 1]}/-1->{rank}->{rank - 1}" for k in range(16))
            return f"{head}Trees {trees}"
        if choice == 13:
            ring = " ".join(f"{(other + k) % self.ranks:4}" for k in range(48))
            return f"{head}Channel {channel:02}/32 : {ring}"
        if choice == 14:
            return f"{head}Setting affinity for GPU {rank % 8} to {words.hexadecimal(8)},{words.hexadecimal(8)},{words.hexadecimal(8)}"
        if choice == 15:
            return f"{head}NET/IB : Using [0]mlx5_{below(8)}:1/IB [1]mlx5_{below(8)}:1/IB [RO]; OOB eth0:{words.address()}<{below(60_000)}>"
        if choice == 16:
            return f"{head}{('Connected all rings', 'Connected all trees')[below(2)]} comm {comm} nRanks {self.ranks:02} busId {words.hexadecimal(5)}"
        start = ("Init START", "Init COMPLETE", "Destroy COMPLETE")[choice - 17]
        return (
            f"{head}ncclCommInitRankConfig comm {comm} rank {rank} nranks {self.ranks} cudaDev {rank % 8} nvmlDev {rank % 8} busId {words.hexadecimal(5)} "
            f"commId 0x{words.hexadecimal(16)} - {start}"
        )

    # ── progress bars ────────────────────────────────────────────────────────────────────────

    def bar(self, at: int, end: int) -> str:
        """A bar of tqdm, as the Trainer of Hugging Face shows it."""
        random = self.random.random
        share = at / end
        passed, left = at * 2, (end - at) * 2
        blocks = "█" * int(share * 10) + " ▏▎▍▌▋▊▉"[int(share * 80) % 8]
        return f"{share * 100:3.0f}%|{blocks:10}| {at}/{end} [{passed // 60:02}:{passed % 60:02}<{left // 60:02}:{left % 60:02}, {1.9 + random() / 5:5.2f}s/it]"

    def lightning_bar(self, at: int, end: int) -> str:
        return (
            f"Epoch {self.step // 5000}: {self.bar(at, end)[:-1]}, v_num={self.words.below(90)}, train_loss={self.loss:.3f}, "
            f"val_{self.words.word()}={self.random.random():.4f}]"
        )

    def bars(self, rank: int) -> Iterator[str]:
        r"""A stretch of one epoch, on one line in which \r stands between the bars, or on a line each."""
        below = self.words.below
        kind = (
            self.lightning_bar
            if below(2)
            else lambda at, end: f"{self.words.word()} {self.words.word()}: {self.bar(at, end)}"
        )
        kind = kind if below(3) else self.bar
        end = 200 + below(40_000)
        first = below(end - 150)
        shown = [kind(at, end) for at in range(first, first + 20 + below(120))]
        if below(2):
            yield from shown
        else:
            yield "\r" + "\r".join(shown)
        yield self.huggingface(rank)


TRAINERS: Sequence[Callable[[Talk, int], str]] = (
    Talk.megatron,
    Talk.nemo,
    Talk.huggingface,
    Talk.deepspeed,
    Talk.titan,
)
"""What the last rank says of a step."""
RANKS: Sequence[Callable[[Talk, int], str]] = (
    Talk.memory,
    Talk.timers,
    Talk.timers,
    Talk.data,
    Talk.data,
    Talk.data,
    Talk.data,
    Talk.deepspeed,
)
"""What any rank says meanwhile."""


def lines_of_step(talk: Talk, label: Label) -> list[str]:
    """What is printed during one step of a healthy training."""
    now, last = talk.now, talk.ranks - 1
    lines = [label(last, now) + TRAINERS[talk.step // 1000 % len(TRAINERS)](talk, last)]
    for _ in range(6):
        rank = talk.a_rank()
        head = label(rank, now)
        lines += [head + RANKS[talk.words.below(len(RANKS))](talk, rank) for _ in range(3)]
    if talk.step % 50 == 0:
        kind = talk.checkpoint if talk.words.below(8) else talk.layer
        lines += [label(rank, now) + kind(rank) for rank in range(min(talk.ranks, 16))]
    return lines
