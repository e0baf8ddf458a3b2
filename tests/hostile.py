"""Ten megabytes of what nobody should paste, a kind a function. Run as a script it measures: CPU seconds and peak memory.

`python tests/hostile.py [KIND...]`
"""

import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path

from slurmdoctor.knowledge import folders, load

SIZE = 10 * 1024 * 1024


def _fill(piece: str, size: int = SIZE) -> bytes:
    data = piece.encode("utf-8", "surrogatepass")
    return data * (size // len(data)) + data[: size % len(data)]


TRACE = (
    '{label}Traceback (most recent call last):\n{label}  File "/srv/a.py", line {{n}}, in main\n'
    "{label}    step({{n}})\n{label}{error}: {{n}}\n"
)


def _trace(label: str = "", error: str = "KeyError") -> str:
    return TRACE.format(label=label, error=error)


def word(n: int) -> str:
    """Letters alone, another word for every number: lines that hold them are no two of one shape."""
    letters = "".join(chr(97 + n // 26**at % 26) for at in range(4))
    return letters if n < 26**4 else word(n // 26**4) + letters


def _lines(line: str, size: int = SIZE) -> bytes:
    """The line again and again with words of its own each time: {w}, {x}, {W} with a capital; {n} is its number, {m} one of 64."""
    parts, total, n = [], 0, 0
    while total < size:
        w = word(n * 7919 % 26**4)
        part = line.format(n=n, m=n % 64, w=w, x=word(n), W=w.capitalize()).encode()
        parts.append(part)
        total += len(part)
        n += 1
    return b"".join(parts)[:size]


def _noise(kind: Callable[[random.Random], int]) -> bytes:
    dice = random.Random(7)
    block = bytes(kind(dice) for _ in range(64 * 1024))
    return (block * (SIZE // len(block) + 1))[:SIZE]


def _pieces(data: bytes) -> list[bytes]:
    """A tenth of it, in pieces of ten lines."""
    lines = data[: SIZE // 10].splitlines(keepends=True)
    return [b"".join(lines[at : at + 10]) for at in range(0, len(lines), 10)]


def _literals() -> bytes:
    """Every rule's literal at the head of a line that goes on for as long as a line is looked at."""
    fillers = ("a" * 2000, "0" * 2000, " " * 2000, "a.b:" * 500, "[(" * 1000, "'\"" * 1000, "1, " * 700, "x=1 " * 500)
    rules = load(folders([])).rules
    lines = (f"{literal}{filler}" for filler in fillers for rule in rules for literal in rule.literals)
    return _fill("\n".join(lines) + "\n")


def _examples() -> bytes:
    """Every rule's example, from a rank of its own each time."""
    examples = [line for rule in load(folders([])).rules for line in rule.match]
    lines = (f"[rank{n}]: {line}" for n, line in enumerate(cycle(examples)))
    return "\n".join(islice(lines, SIZE // 20)).encode()[:SIZE]


_MIXED = (
    "tracebacks-worded-ranks", "exits-labelled", "exits-of-tasks", "maps", "watchdogs-labelled", "dumps-worded", "hosts-peers",
    "hosts-slurmstepd", "torchelastic-tables", "attempts-worded", "survived-worded", "agents", "iterations",
)  # fmt: skip

KINDS: dict[str, Callable[[], bytes]] = {
    "brackets-one-line": lambda: _fill("([{<"),
    "brackets-lines": lambda: _fill("([{<" * 40 + "\n"),
    "brackets-nested": lambda: b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "headers": lambda: _fill("Traceback (most recent call last):\n"),
    "tracebacks": lambda: _lines(_trace()),
    "tracebacks-labelled": lambda: _lines(_trace("{n}: ")),
    "tracebacks-no-end": lambda: _lines('Traceback (most recent call last):\n  File "a.py", line {n}, in f\n    g()\n'),
    "tracebacks-deep": lambda: b"Traceback (most recent call last):\n" + _lines('  File "a.py", line {n}, in f\n    g()\n'),
    "exceptions": lambda: _lines("RuntimeError: number {n}\n"),
    "out-of-memory": lambda: _lines("[rank{n}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n}.00 GiB\n"),
    "watchdogs": lambda: _lines(
        "[rank{n}]:[E321 02:07:08.412345678 ProcessGroupNCCL.cpp:607] [Rank {n}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 milliseconds\n"
    ),
    "srun": lambda: _lines("srun: error: node{n}: tasks {n}: Exited with exit code 1\n"),
    "srun-ranges": lambda: _lines("srun: error: node1: tasks 0-99999999{n}: Killed\n"),
    "srun-many-tasks": lambda: _lines("srun: error: node{n}: tasks {n}-65000: Killed\n"),
    "torchelastic-tables": lambda: _lines(
        "[{n}]:\n  time      : 2026-11-21_08:08:01\n  host      : n{n}\n  rank      : {n} (local_rank: 0)\n"
        "  exitcode  : 1 (pid: {n})\n  error_file: <N/A>\n  traceback : To enable\n"
    ),
    "steps": lambda: _lines("step {n} loss 0.1\n"),
    "iterations": lambda: _lines(" iteration {n}/ 9999999 | elapsed time per iteration (ms): 1.0 | lm loss: 1.0E+00 |\n"),
    "words-one-line": lambda: _fill("CUDA out of memory. Tried to allocate 1 GiB RuntimeError: Traceback (most recent call last): "),
    "one-word": lambda: b"A" * SIZE,
    "one-word-end": lambda: b"A" * (SIZE - 7) + b"Error: x",
    "dots": lambda: _fill("a."),
    "blanks": lambda: b" " * SIZE,
    "tabs-lines": lambda: _fill("\t" * 80 + "\n"),
    "newlines": lambda: b"\n" * SIZE,
    "returns": lambda: b"\r" * SIZE,
    "bars": lambda: _lines("\r{n}%|####      | 1/10 [00:01<00:09, 1.00it/s]"),
    "bars-rates": lambda: _lines("\r{n}%|####      | {n}/900000 [00:01<00:09, {n}.00it/s, loss={n}.5]"),
    "bars-of-ranks": lambda: _lines("[rank{n}]: Epoch 3:  10%|#         | {n}/20000 [0:01:00<2:09:00,  0.{n}it/s, v_num=1abc]\n"),
    "bars-worded": lambda: _lines("{w} {x}:  10%|#         | {n}/20000 [0:01:00<2:09:00,  0.50it/s]\n"),
    "rates": lambda: _fill("it/s"),
    "loss-dicts-worded": lambda: _lines("{{'loss': 1.5, '{w}': 1.{n}, 'learning_rate': 2e-05, 'epoch': {n}.01}}\n"),
    "steps-of-ranks": lambda: _lines("[rank{n}]: step {n} loss 0.1\n"),
    "digits": lambda: b"7" * SIZE,
    "zeros": lambda: b"\0" * SIZE,
    "zeros-in-text": lambda: _fill("Key\0Error: x\n\0"),
    "controls": lambda: _noise(lambda dice: dice.choice(range(1, 32))),
    "escapes": lambda: _fill("\x1b[31mKeyError\x1b[0m: \x1b]8;;http://x\x07y\n"),
    "escapes-open": lambda: b"\x1b]" * (SIZE // 2),
    "random": lambda: _noise(lambda dice: dice.randrange(256)),
    "invalid-utf8": lambda: _fill("KeyError: ") [: SIZE // 2] + b"\xff\xfe\xc3\x28" * (SIZE // 8),
    "unicode": lambda: _fill("KéyError: " + "e\u0301\u0316\u0489" * 20 + "\u202e\u2066" + "👩\u200d👩\u200d👧" * 5 + "\n"),
    "zalgo": lambda: _fill("R" + "\u0489\u0301" * 2000 + "\n"),
    "half-surrogates": lambda: _fill("\ud800KeyError: \udfff\n"),
    "json": lambda: b'{"a":' * (SIZE // 5),
    "fences": lambda: _fill("```\n"),
    "quotes": lambda: _fill("> " * 500 + "\n"),
    "entities": lambda: _fill("&lt;&amp;lt;"),
    "mentions": lambda: _fill("RuntimeError: <!channel> @everyone [x](http://y) ```\n"),
    "secrets": lambda: _lines("export HF_TOKEN=hf_{n:034d}\n"),
    "nccl": lambda: _lines("host{n}:{n}:{n} [0] NCCL INFO comm 0x1 rank {n} nranks 99999999 cudaDev 0\n"),
    "exception-classes": lambda: _lines("{W}Error: {x}\n"),
    "exception-messages": lambda: _lines("RuntimeError: {w} {x} {w}\n"),
    "exceptions-stamped": lambda: _lines("2026-11-20 12:01:03,114 ERROR {w}: {w}Error: {n}\n"),
    "exceptions-vocabulary": lambda: _lines("ValueError: {w} {x} is not in the vocabulary\n"),
    "exceptions-worded-ranks": lambda: _lines("[rank{m}]: {W}Error: {x}\n"),
    "tracebacks-worded-ranks": lambda: _lines(
        '[rank{m}]: Traceback (most recent call last):\n[rank{m}]:   File "/srv/a.py", line 3, in main\n'
        "[rank{m}]:     step()\n[rank{m}]: RuntimeError: {w} {x}\n"
    ),
    "tracebacks-worded": lambda: _lines(
        'Traceback (most recent call last):\n  File "/srv/{w}.py", line {n}, in {w}\n    {w}({x})\n{W}Error: {x} {w}\n'
    ),
    "tracebacks-worded-chained": lambda: _lines(
        'Traceback (most recent call last):\n  File "/srv/{w}.py", line {n}, in {w}\n    {w}({x})\n{W}Error: {x} {w}\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
    ),
    "tracebacks-lost": lambda: b"".join(
        b"[rank%d]: Traceback (most recent call last):\n" % (n % 64) + b"[rank77]: the loader has read one more shard\n" * 300
        for n in range(SIZE // 13_000)
    ),
    "tracebacks-worded-deep": lambda: (
        b"Traceback (most recent call last):\n" + _lines('  File "/srv/{w}.py", line {n}, in {w}\n    raise {W}Error: {x}\n')
    ),
    "hosts-slurmstepd": lambda: _lines("slurmstepd-{w}: error: Detected 1 oom_kill event in StepId={n}.0. Some of the step tasks have been OOM Killed.\n"),
    "hosts-srun": lambda: _lines("srun: error: {w}: task {n}: Exited with exit code 1\n"),
    "hosts-nccl": lambda: _lines("{w}:{n}:{n} [0] misc/socket.cc:484 NCCL WARN Call to connect returned Connection refused, {x}\n"),
    "hosts-peers": lambda: _lines("[rank{m}]: RuntimeError: [{w}] Connection closed by peer [10.0.0.1]:{n}\n"),
    "attempts-worded": lambda: _lines("Submitted batch job {n}\n{W}Error: {x}\nslurmstepd: error: *** JOB {n} ON {w} CANCELLED AT 2026-11-20T12:01:03 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"),
    "dumps-worded": lambda: _lines('[rank{n}]: Current thread 0x{n} (most recent call first):\n[rank{n}]:   File "/srv/{w}.py", line 1 in {x}\n'),
    "crashes-worded": lambda: _lines('Fatal Python error: Segmentation fault\n\nThread 0x{n} (most recent call first):\n  File "/srv/{w}.py", line 1 in {x}\n'),
    "survived-worded": lambda: _lines("{W}Error: {x}\nattempt 2/5 succeeded after {W}Error\n"),
    "exits-labelled": lambda: _lines("{m}: {w}: srun: error: {w}: task {n}: Killed\n"),
    "exits-of-tasks": lambda: _lines("{n}: srun: error: node{n}: task {n}: Killed\n"),
    "agents": lambda: _lines("[default{m}]: E1120 12:01:03.114000 {n} torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: {n} (pid: {n}) of binary: /usr/bin/{w}\n"),
    "maps": lambda: _lines("host{n}:{n}:{n} [0] NCCL INFO comm 0x1 rank {n} nranks 4096 cudaDev 0 busId 1000 commId 0x1 - Init COMPLETE\n"),
    "watchdogs-labelled": lambda: _lines(
        "{n}: [rank{n}]:[E321 02:07:08.412345678 ProcessGroupNCCL.cpp:607] [Rank {n}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600000 milliseconds\n"
    ),
    "mixed": lambda: b"".join(lines for part in zip(*(_pieces(make()) for make in (KINDS[kind] for kind in _MIXED)), strict=False) for lines in part)[:SIZE],
    "literals": _literals,
    "examples": _examples,
    "pids": lambda: _lines("(Worker pid={n}, ip=10.0.0.1) KeyError: 'x'\n"),
}  # fmt: skip
"""What kills a diagnosis, or makes it slow, if anything does."""


def measured(data: bytes) -> Iterator[tuple[str, float]]:
    """(what, how much) of one run of the program on this input: its exit status, CPU seconds, MB at most."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.log"
        path.write_bytes(data)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.monotonic()
        program = (
            "import atexit, sys; from pathlib import Path; from slurmdoctor.cli import main\n"
            "def peak():\n"
            "    told = Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0]\n"  # getrusage counts the parent
            "    print('PEAK', int(told) // 1024, file=sys.stderr, flush=True)\n"
            "atexit.register(peak)\n"  # the program ends at once: no `finally` is reached
            "main()"
        )
        command = [sys.executable, "-c", program, "diagnose", "--format", "json", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            yield from {"status": 124.0, "cpu": 60.0, "wall": 60.0, "MB": -1.0}.items()
            return
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("PEAK")]
        yield "status", done.returncode
        yield "cpu", after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        yield "wall", time.monotonic() - begun
        yield "MB", float(peak[-1].split()[1]) if peak else -1.0


def main(kinds: list[str]) -> None:
    for kind in kinds or KINDS:
        told = dict(measured(KINDS[kind]()))
        slow = "  <<<" if told["cpu"] > 2 or told["MB"] > 200 or told["status"] not in (0, 2) else ""
        print(
            f"{kind:24} status {told['status']:.0f}  {told['cpu']:6.2f} s CPU  {told['wall']:6.2f} s  {told['MB']:5.0f} MB{slow}",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
