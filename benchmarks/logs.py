"""Makes the logs of the benchmark: the same bytes for the same seed, in the words of the programs that print them.

quiet    training to the end, where one rank runs out of memory: losses of five trainers, timers, paths, ids, checkpoints
nccl     the same with NCCL_DEBUG=INFO: half of it are communicators, channels, trees and collectives, with their addresses
noisy    the same with warnings, retries and caught errors all along, each with a text of its own: one line in fifteen
varied   texts of thousands of words: samples, prompts, JSON, tables, and now and then an error that was caught
bars     progress bars of tqdm and Lightning, a line each or one line of many
cascade  a tenth is training; then one rank fails and thousands of others say so, again and again: one line in four

No two pieces of a log are alike: what is new stays new to the end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

from benchmarks.training import Label, lines_of_step, stamp
from benchmarks.trouble import Trouble, aftermath, ending

KINDS = ("quiet", "nccl", "noisy", "varied", "bars", "cascade")
STYLES = ("srun", "torch", "stamped", "tee", "mpi")
_STEPS = 10
"""Of a piece."""
_TURNS = 5
"""Of a piece of the failure."""
_LARGE = 50_000_000
"""From so many bytes on a log is made by all cores."""
Piece = Callable[[int], bytes]


def write(path: Path, kind: str, size: int, style: str = "srun", ranks: int = 4096, seed: int = 1) -> None:
    """Write a log of about this many bytes."""
    with path.open("wb") as file:
        for piece in pieces(kind, size, style, ranks, seed):
            file.write(piece)


def pieces(kind: str, size: int, style: str = "srun", ranks: int = 4096, seed: int = 1) -> Iterator[bytes]:
    """The log's bytes, some ten kilobytes at a time."""
    name = f"{kind} {size} {style} {ranks} {seed}"
    last = "\n".join(ending(Trouble(ranks, Random(name)), ranks // 3)).encode() + b"\n"
    body = size // 10 if kind == "cascade" else size - min(size // 20, 2_000_000)
    written = steps = 0
    for piece in _enough(partial(_training, name, kind, style, ranks), body):
        written += len(piece)
        steps += _STEPS
        yield piece
    first = _failure(name, style, ranks, steps * 2)
    yield first
    rest = size - written - len(first) - len(last)
    yield from _enough(partial(_aftermath, name, style, ranks, steps * 2, 12 if kind == "cascade" else 8), rest)
    yield last


def training(kind: str, size: int, style: str, ranks: int, seed: int) -> Iterator[bytes]:
    """The bytes of a training that goes on and on: whole lines, as many as go into this size, but one at least."""
    name = f"{kind} {size} {style} {ranks} {seed}"
    number = written = 0
    while written < size:
        piece = _training(name, kind, style, ranks, number)
        if written + len(piece) > size:
            piece = piece[: piece.rfind(b"\n", 0, size - written) + 1] or piece[: piece.find(b"\n") + 1]
            size = 0
        yield piece
        written += len(piece)
        number += 1


def _enough(piece: Piece, size: int) -> Iterator[bytes]:
    """Pieces 0, 1, 2 ... until they are as long as this."""
    written = number = 0
    if size < _LARGE:
        while written < size:
            yield (made := piece(number))
            number += 1
            written += len(made)
        return
    with get_context("fork").Pool(os.cpu_count()) as pool:
        while written < size:
            for made in pool.imap(piece, range(number, number + 160), 10):
                number += 1
                if written < size:
                    written += len(made)
                    yield made


def _training(name: str, kind: str, style: str, ranks: int, number: int) -> bytes:
    trouble, label = Trouble(ranks, Random(f"{name} training {number}")), labels(style)
    lines: list[str] = []
    for step in range(number * _STEPS + 1, (number + 1) * _STEPS + 1):
        trouble.at(step)
        lines += lines_of_step(trouble, label)
        if kind in _BETWEEN:
            rank = trouble.a_rank()
            head = label(rank, trouble.now)
            lines += [head + line for line in _BETWEEN[kind](trouble, rank)]
    return _bytes(lines)


def _nccl(trouble: Trouble, rank: int) -> list[str]:
    return [trouble.nccl(rank) for _ in range(20)]


def _prose(trouble: Trouble, rank: int) -> list[str]:
    return [line for _ in range(60) for line in trouble.prose(rank)]


_BETWEEN: dict[str, Callable[[Trouble, int], list[str]]] = {
    "nccl": _nccl,
    "noisy": Trouble.warning,
    "varied": _prose,
    "bars": lambda trouble, rank: list(trouble.bars(rank)),
}
"""What a kind adds to each step of a training."""


def _failure(name: str, style: str, ranks: int, now: int) -> bytes:
    trouble, root = Trouble(ranks, Random(f"{name} failure")), ranks // 3
    return _bytes([labels(style)(root, now) + line for line in trouble.out_of_memory(root)])


def _aftermath(name: str, style: str, ranks: int, now: int, at_once: int, number: int) -> bytes:
    trouble = Trouble(ranks, Random(f"{name} aftermath {number}"))
    turns = range(number * _TURNS + 1, (number + 1) * _TURNS + 1)
    return _bytes(aftermath(trouble, labels(style), ranks // 3, turns, now, at_once))


def _bytes(lines: list[str]) -> bytes:
    return "\n".join(lines).encode() + b"\n"


def labels(style: str) -> Label:
    """What a launcher puts before a line; `plain` is none."""
    return {
        "plain": lambda rank, now: "",
        "srun": lambda rank, now: f"{rank:4}: ",
        "torch": lambda rank, now: f"[rank{rank}]: ",
        "stamped": lambda rank, now: f"{stamp(now)},{rank % 1000:03} [rank {rank}] ",
        "tee": lambda rank, now: f"[default{rank % 8}]:[rank{rank}]: ",
        "mpi": lambda rank, now: f"[1,{rank}]<stderr>:",
    }[style]
