"""Composes logs of failing jobs in the programs' exact formats: ranks, nodes, clocks, labels and interleaving are free.

Formats: CPython tracebacks under PyTorch >= 2.2 (`[rankN]: `), Gloo's pair.cc, ProcessGroupNCCL.cpp of PyTorch 2.5,
srun --label and srun's exit lines of Slurm 23, Open MPI's --tag-output.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

START = datetime(2026, 3, 21, 2, 0, 0)
ROOTS = {
    "python-error": "KeyError: 'shard-00417'",
    "cuda-oom": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB of which 1.20 GiB is free.",
    "file-not-found": "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard_00007.bin'",
    "module-not-found": "ModuleNotFoundError: No module named 'flash_attn'",
}
VICTIM = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.1.0.3]:{port}. "
    "This is typically caused by a remote worker crashing."
)
VICTIMS = {"gloo": VICTIM, "program": "RuntimeError: prefetch queue {port} was closed"}
"""What the others say: words that only a victim says, or an error that could be a root, had it come first."""


@dataclass(frozen=True)
class Spoken:
    """One line of one rank at one moment."""

    time: datetime
    rank: int | None
    text: str
    """Empty rank: srun's own line."""


@dataclass(frozen=True)
class Job:
    """A job of some ranks of which one fails, and the others after it."""

    ranks: int = 8
    per_node: int = 4
    root: int = 5
    cause: str = "python-error"
    delay: float = 8.0
    """Seconds between the root's error and its victims'."""
    steps: int = 6
    seed: int = 0
    victim: str = "gloo"
    repeats: int = 1
    """How often each victim prints its traceback."""

    def node(self, rank: int) -> str:
        return f"gpu-{rank // self.per_node + 1:02d}"


def speak(job: Job) -> list[Spoken]:
    """All lines of the job in the order of time; a rank's own lines never change their order."""
    rnd = random.Random(job.seed)
    spoken: list[Spoken] = []
    for rank in range(job.ranks):
        spoken.append(_log(START, rank, f"starting on {job.node(rank)}: rank {rank} of {job.ranks}", job))
        for step in range(1, job.steps + 1):
            moment = START + timedelta(seconds=step, milliseconds=rnd.randrange(300))
            spoken.append(_log(moment, rank, f"step {step}/100 loss {1 / step:.4f} 40.1 ms/step", job))
    crash = START + timedelta(seconds=job.steps + 1)
    spoken += _traceback(crash, job.root, ROOTS[job.cause], job)
    for rank in range(job.ranks):
        if rank != job.root:
            moment = crash + timedelta(seconds=job.delay, milliseconds=rnd.randrange(900))
            for again in range(job.repeats):
                later = moment + timedelta(milliseconds=20 * again)
                spoken += _traceback(later, rank, VICTIMS[job.victim].format(port=rnd.randrange(1024, 65000)), job)
    end = crash + timedelta(seconds=job.delay + 2)
    spoken.append(Spoken(end, None, f"srun: error: {job.node(job.root)}: task {job.root}: Exited with exit code 1"))
    for node in range((job.ranks + job.per_node - 1) // job.per_node):
        others = [r for r in range(node * job.per_node, min(job.ranks, (node + 1) * job.per_node)) if r != job.root]
        if others:
            text = f"srun: error: {job.node(others[0])}: tasks {','.join(map(str, others))}: Exited with exit code 1"
            spoken.append(Spoken(end, None, text))
    return sorted(spoken, key=lambda s: s.time)


def _log(moment: datetime, rank: int, text: str, job: Job) -> Spoken:
    return Spoken(moment, rank, f"{_stamp(moment)} INFO {text}")


def _traceback(moment: datetime, rank: int, error: str, job: Job) -> list[Spoken]:
    lines = [
        f"{_stamp(moment)} ERROR training loop ends",
        f"[rank{rank}]: Traceback (most recent call last):",
        f'[rank{rank}]:   File "/scratch/demo/train.py", line 94, in fit',
        f"[rank{rank}]:     loss = self.train_step(step, next(it))",
        f"[rank{rank}]:            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
        f"[rank{rank}]: {error}",
    ]
    return [Spoken(moment + timedelta(microseconds=i), rank, text) for i, text in enumerate(lines)]


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"


LABELS: dict[str, Callable[[int, int], str]] = {
    "srun": lambda rank, width: f"{rank:>{width}}: ",
    "mpi": lambda rank, width: f"[1,{rank}]<stderr>:",
}


def interleave(spoken: Sequence[Spoken], seed: int) -> list[Spoken]:
    """Another order of arrival: each rank's lines keep theirs, whole streams overtake each other."""
    rnd = random.Random(seed)
    streams: dict[int | None, list[Spoken]] = {}
    for line in spoken:
        streams.setdefault(line.rank, []).append(line)
    result: list[Spoken] = []
    while streams:
        key = rnd.choice(sorted(streams, key=lambda k: -1 if k is None else k))
        burst = rnd.randrange(1, 12)
        result += streams[key][:burst]
        streams[key] = streams[key][burst:]
        if not streams[key]:
            del streams[key]
    return result


def written(spoken: Sequence[Spoken], label: str = "srun") -> str:
    """The log as one file."""
    width = len(str(max((s.rank for s in spoken if s.rank is not None), default=0)))
    return "".join((LABELS[label](s.rank, width) if s.rank is not None else "") + s.text + "\n" for s in spoken)
