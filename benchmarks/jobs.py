"""Makes thousands of jobs for the benchmark of surveys: sizes as they are in the field, launchers, one file or several, healthy and failed.

The bodies are those of `logs`; what ends a failed job is a line that some rule is proven by, so that the causes are as many as the rules.
The same bytes for the same seed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache, partial
from math import exp
from multiprocessing import get_context
from pathlib import Path
from random import Random

from msgspec import Struct

from benchmarks.logs import KINDS, STYLES, labels, training
from slurmdoctor.knowledge import builtin, load

_MEDIAN, _SPREAD = 100_000, 2.15
"""Of a job's bytes, whose logarithm is normal: the mean is ten times the median, as it is in the field."""
_LEAST, _MOST = 2_000, 200_000_000
_FAILED = 0.7
_PLAIN = 0.4
"""Share of the jobs whose one process prints without a label."""
_TWO_FILES, _FILE_A_RANK = 0.3, 0.05


class Plan(Struct, frozen=True):
    """What one job is like."""

    id: int
    size: int
    kind: str
    style: str
    ranks: int
    failed: bool
    files: int
    """1; 2: standard output and standard error; more: one a rank."""


def plans(count: int, seed: int, size: int | None = None) -> Iterator[Plan]:
    """So many jobs, all of one size where it is given."""
    for number in range(count):
        random = Random(f"job {seed} {number}")
        style = "plain" if random.random() < _PLAIN else random.choice(STYLES)
        ranks = 1 if style == "plain" else 2 ** random.randint(1, 10)
        share = random.random()
        files = 2 if share < _TWO_FILES else min(ranks, 8) if share < _TWO_FILES + _FILE_A_RANK else 1
        long = _MEDIAN * exp(random.gauss(0.0, _SPREAD))
        yield Plan(
            id=4_000_000 + number,
            size=size or int(min(_MOST, max(_LEAST, long))),
            kind=random.choice(KINDS),
            style=style,
            ranks=ranks,
            failed=random.random() < _FAILED,
            files=files,
        )


def write(folder: Path, jobs: Iterator[Plan]) -> int:
    """Write the logs of all jobs below this folder, a user's in a folder of their own, by all cores; the bytes in all."""
    with get_context("fork").Pool(os.cpu_count()) as pool:
        return sum(pool.imap_unordered(partial(_write, folder), jobs, 4))


def _write(folder: Path, plan: Plan) -> int:
    home = folder / f"user{plan.id % 40:02}"
    if plan.files > 2:
        home /= f"job-{plan.id}"
        paths = [home / f"rank_{rank}.log" for rank in range(plan.files)]
    else:
        paths = [home / f"slurm-{plan.id}.{end}" for end in ("out", "err")[: plan.files]]
    home.mkdir(parents=True, exist_ok=True)
    written = 0
    for number, path in enumerate(paths):
        last = _last_words(plan) if number == (len(paths) - 1 if plan.files < 3 else 0) else b""
        with path.open("wb") as file:
            for piece in training(plan.kind, plan.size // plan.files, plan.style, plan.ranks, plan.id + number):
                file.write(piece)
            file.write(last)
            written += file.tell()
    return written


def _last_words(plan: Plan) -> bytes:
    random = Random(f"end {plan.id}")
    label = labels(plan.style)(random.randrange(plan.ranks), 3600)
    if not plan.failed:
        return f"{label}Training completed successfully.\n".encode()
    lines = [f"{label}{line}" for line in random.choice(_failures()).split("\n")]
    if plan.style in ("srun", "tee", "stamped"):
        lines.append(
            f"srun: error: node{random.randrange(500):04}: task {random.randrange(plan.ranks)}: Exited with exit code 1"
        )
    return ("\n".join(lines) + "\n").encode()


@cache
def _failures() -> tuple[str, ...]:
    """A line, or a few, that each rule is proven by."""
    return tuple(rule.match[0] for rule in load((builtin(),)).rules if rule.match and rule.role in ("root", "either"))
