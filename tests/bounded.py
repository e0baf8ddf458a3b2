"""Logs of any shape, and the work that a diagnosis of one does: counted in calls, which are the same on every machine."""

from __future__ import annotations

import cProfile
import random

from msgspec import Struct

from hostile import word
from slurmdoctor import diagnose
from slurmdoctor.model import UserError

LABELS = (
    "", "", "[rank{n}]: ", "[rank{m}]: ", "{n}: ", "{m}: ", "[default{m}]:", "{w}: ", "node{m}: ", "{w}:{n}:{n} [0] ", "[{w}] ",
    "(Worker pid={n}, ip=10.0.0.1) ", "[1,{n}]<stderr>:",
)  # fmt: skip
STAMPS = (
    "",
    "",
    "",
    "2026-11-20 12:01:03,{m} ERROR ",
    "[E1120 12:01:03.114 x.cpp:3] ",
    "[2026-11-20 12:{c}:{c}] ",
    "\x1b[31m",
)
BODIES = (
    "Traceback (most recent call last):", '  File "/srv/{w}.py", line {n}, in {x}', "    {w}({x})", "{W}Error: {x}", "RuntimeError: {w} {x}",
    "KeyError: {n}", "KeyError", "{w}.{x}.{W}Exception: {n} is not {w}", "ValueError: {w} {x} is not in the vocabulary", "",
    "During handling of the above exception, another exception occurred:", "  + Exception Group Traceback (most recent call last):",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 GiB", "CUDA error: {w} at {x}.cu:{n}",
    "RuntimeError: [{w}] Connection closed by peer [10.0.0.1]:{n}", "NCCL WARN Call to connect returned Connection refused, {w}",
    "NCCL INFO comm 0x{h} rank {n} nranks 4096 cudaDev 0 busId {h} commId 0x{h} - Init COMPLETE",
    "[Rank {n}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn={n}, NumelOut=1, "
    "Timeout(ms)=600000) ran for {n} milliseconds", "last enqueued work: {n}, last completed work: {m}",
    "srun: error: {w}: task {n}: Exited with exit code {m}", "srun: error: node{n}: tasks 0-{n}: Killed", "failed (exitcode: -9) local_rank: {m} (pid: {n}) of binary: /usr/{w}",
    "slurmstepd: error: *** STEP {n}.0 ON {w} CANCELLED AT 2026-11-20T12:01:09 DUE TO TIME LIMIT ***",
    "slurmstepd: error: *** JOB {n} ON {w} CANCELLED AT 2026-11-20T12:01:03 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***",
    "slurmstepd: error: Detected {m} oom_kill event in StepId={n}.0. Some of the step tasks have been OOM Killed.",
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-11-21_08:08:01\n  host      : {w}\n  rank      : {n} (local_rank: {m})\n"
    "  exitcode  : 1 (pid: {n})\n  error_file: <N/A>\n  traceback : To enable",
    "Fatal Python error: Segmentation fault", "Current thread 0x{h} (most recent call first):", "Caught signal {m} (SIGTERM)",
    "attempt {m}/5 succeeded after {W}Error", "Submitted batch job {n}", "using world size: {n}, data-parallel size: {m}",
    "{n}%|####      | {n}/9999 [00:{c}<00:09, {m}.00it/s]", " iteration {n}/ 9999999 | elapsed time per iteration (ms): {m}.0 | lm loss: {m}.{n} |",
    "{{'loss': {m}.{n}, 'epoch': {n}, '{w}': '{x}'}}", "step {n} loss 0.{m}", "{h} {h} {h}", "/{w}/{x}/{n}.py:{n}: UserWarning: {w} {x}",
    "wandb: ERROR {w} {x}", "{w} {x} {w} {x} {w} {x}", "a" * 5000, "Error: " * 600, "training completed {n}", "Fri Nov 20 12:{c}:{c} UTC 2026",
)  # fmt: skip


class Shape(Struct, frozen=True):
    """Lines that come in turns, or one after another in stretches, and what ends each."""

    lines: tuple[str, ...]
    end: str = "\n"
    mixed: bool = True

    def log(self, size: int) -> str:
        """A log of this shape, of so many bytes."""
        parts: list[str] = []
        total = n = 0
        while total < size:
            at = n % len(self.lines) if self.mixed else min(len(self.lines) - 1, total * len(self.lines) // size)
            w = word(n * 7919 % 26**4)
            clock, address = f"{n // 60 % 60:02d}", f"{n * 2654435761 % 2**32:08x}"
            line = self.lines[at].format(n=n, m=n % 64, c=clock, h=address, w=w, x=word(n), W=w.capitalize())
            parts.append(line + self.end)
            total += len(parts[-1])
            n += 1
        return "".join(parts)


def shape(dice: random.Random) -> Shape:
    """A shape of some lines, each of a label, a stamp and a message."""
    lines = ("".join(map(dice.choice, (LABELS, STAMPS, BODIES))) for _ in range(dice.choice((1, 1, 2, 3, 4))))
    return Shape(tuple(lines), dice.choice(("\n", "\n", "\n", "\r", "\r\n")), dice.random() < 0.7)


def work(log: bytes) -> int:
    """The work of one diagnosis: functions of Python called, and patterns tried."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        diagnose(log)
    except UserError:
        pass
    finally:
        profile.disable()
    counts = ((entry.callcount, entry.code) for entry in profile.getstats())
    return sum(count for count, code in counts if not isinstance(code, str) or "_regex.Pattern" in code)
