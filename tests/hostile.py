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
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from slurmdoctor.knowledge import folders, load
from tables import table

SIZE = 10 * 1024 * 1024
_LINES: dict[str, str] = table("hostile_lines")


def _fill(piece: str, size: int = SIZE) -> bytes:
    data = piece.encode("utf-8", "surrogatepass")
    return data * (size // len(data)) + data[: size % len(data)]


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


def _mixed() -> bytes:
    """Ten lines of one kind after ten of another."""
    parts = zip(*(_pieces(KINDS[kind]()) for kind in _MIXED), strict=False)
    return b"".join(lines for part in parts for lines in part)[:SIZE]


KINDS: dict[str, Callable[[], bytes]] = {
    **{kind: partial(_lines, line) for kind, line in _LINES.items()},
    "brackets-one-line": lambda: _fill("([{<"),
    "brackets-lines": lambda: _fill("([{<" * 40 + "\n"),
    "brackets-nested": lambda: b"[" * (SIZE // 2) + b"]" * (SIZE // 2),
    "headers": lambda: _fill("Traceback (most recent call last):\n"),
    "tracebacks-deep": lambda: (
        b"Traceback (most recent call last):\n" + _lines('  File "a.py", line {n}, in f\n    g()\n')
    ),
    "words-one-line": lambda: _fill(
        "CUDA out of memory. Tried to allocate 1 GiB RuntimeError: Traceback (most recent call last): "
    ),
    "one-word": lambda: b"A" * SIZE,
    "one-word-end": lambda: b"A" * (SIZE - 7) + b"Error: x",
    "dots": lambda: _fill("a."),
    "blanks": lambda: b" " * SIZE,
    "tabs-lines": lambda: _fill("\t" * 80 + "\n"),
    "newlines": lambda: b"\n" * SIZE,
    "returns": lambda: b"\r" * SIZE,
    "rates": lambda: _fill("it/s"),
    "digits": lambda: b"7" * SIZE,
    "zeros": lambda: b"\0" * SIZE,
    "zeros-in-text": lambda: _fill("Key\0Error: x\n\0"),
    "controls": lambda: _noise(lambda dice: dice.choice(range(1, 32))),
    "escapes": lambda: _fill("\x1b[31mKeyError\x1b[0m: \x1b]8;;http://x\x07y\n"),
    "escapes-open": lambda: b"\x1b]" * (SIZE // 2),
    "random": lambda: _noise(lambda dice: dice.randrange(256)),
    "invalid-utf8": lambda: _fill("KeyError: ")[: SIZE // 2] + b"\xff\xfe\xc3\x28" * (SIZE // 8),
    "unicode": lambda: _fill(
        "KéyError: " + "e\u0301\u0316\u0489" * 20 + "\u202e\u2066" + "👩\u200d👩\u200d👧" * 5 + "\n"
    ),
    "zalgo": lambda: _fill("R" + "\u0489\u0301" * 2000 + "\n"),
    "half-surrogates": lambda: _fill("\ud800KeyError: \udfff\n"),
    "json": lambda: b'{"a":' * (SIZE // 5),
    "fences": lambda: _fill("```\n"),
    "quotes": lambda: _fill("> " * 500 + "\n"),
    "entities": lambda: _fill("&lt;&amp;lt;"),
    "mentions": lambda: _fill("RuntimeError: <!channel> @everyone [x](http://y) ```\n"),
    "tracebacks-lost": lambda: b"".join(
        b"[rank%d]: Traceback (most recent call last):\n" % (n % 64)
        + b"[rank77]: the loader has read one more shard\n" * 300
        for n in range(SIZE // 13_000)
    ),
    "tracebacks-worded-deep": lambda: (
        b"Traceback (most recent call last):\n"
        + _lines('  File "/srv/{w}.py", line {n}, in {w}\n    raise {W}Error: {x}\n')
    ),
    "mixed": _mixed,
    "literals": _literals,
    "examples": _examples,
}
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
