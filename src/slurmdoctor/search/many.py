"""Reads large logs in several processes, a stretch in each, and returns the parts in the order of the text.

The processes are forked. What one of them does not return, for whatever reason, is read again here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from slurmdoctor.search.tally import Part

if TYPE_CHECKING:
    from slurmdoctor.input import Source

WORTH = 32 * 1024 * 1024
"""Bytes a process: to start it and to join what it found costs as much as to read a few megabytes."""
MOST = 16

Stretch = tuple[int, int, "int | None"]
"""(source, start, stop); None is the end, wherever it may be."""
Read = Callable[[int, int, "int | None"], Part]


def usual_jobs() -> int:
    """As many processes as this one may use cores for, within reason: other people work on a login node, too."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        cores = os.cpu_count() or 1
    return max(1, min(cores, 4))


def parts(sources: Sequence[Source], read: Read, jobs: int) -> Iterator[Part]:
    """All parts of all sources in order; each source has one at least."""
    first, *others = _shares(sources, jobs)
    if not hasattr(os, "fork"):
        first, others = [stretch for share in (first, *others) for stretch in share], []
    helpers = [_helper(share, read, sources) for share in others]
    try:
        for stretch in first:
            yield read(*stretch)
        for (_, pipe), share in zip(helpers, others, strict=True):
            try:
                yield from pipe.recv()
            except EOFError:  # it failed
                yield from [read(*stretch) for stretch in share]
    finally:
        for process, pipe in helpers:
            pipe.close()
            process.kill()
            process.join()


def _helper(share: Sequence[Stretch], read: Read, sources: Sequence[Source]) -> tuple[Any, Any]:
    """A forked process that reads one share, and the pipe that it sends the parts through."""
    from multiprocessing import get_context  # here and below: it is slow to import, and a small log needs no helper

    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_read_share, args=(theirs, share, read, sources), daemon=True)
    process.start()
    theirs.close()
    return process, ours


def _read_share(pipe: Any, share: Sequence[Stretch], read: Read, sources: Sequence[Source]) -> None:
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(Exception):  # no traceback: what is not sent is read again
        found = [read(*stretch) for stretch in share]
        # a file that could not be read is tried again where its fault is told
        if not any(sources[number].fault for number, *_ in share):
            pipe.send(found)


def processes(sources: Sequence[Source], jobs: int) -> int:
    """How many processes it takes, if it may be so many."""
    return max(1, min(jobs, MOST, sum(_sizes(sources)) // WORTH))


def _sizes(sources: Sequence[Source]) -> list[int]:
    return [(source.size or 0) if source.divisible else 0 for source in sources]


def _shares(sources: Sequence[Source], jobs: int) -> list[list[Stretch]]:
    """The stretches that each process reads, about as many bytes each. Pipes and compressed logs are read by the first."""
    sizes = _sizes(sources)
    total = sum(sizes)
    jobs = processes(sources, jobs)
    shares: list[list[Stretch]] = [[] for _ in range(jobs)]
    done = 0
    for number, source in enumerate(sources):
        if not source.divisible:
            shares[0].append((number, 0, None))
            continue
        first = min(jobs - 1, done * jobs // max(1, total))
        last = min(jobs - 1, (done + sizes[number]) * jobs // max(1, total))
        edges = [0, *(source.line_start(k * total // jobs - done) for k in range(first + 1, last + 1)), sizes[number]]
        for share, start, stop in zip(range(first, last + 1), edges, edges[1:], strict=False):
            if start < stop or (start == 0 and share == first):
                shares[share].append((number, start, stop))
        done += sizes[number]
    return shares
