"""Reads large logs in several processes, a stretch in each, and returns the parts in the order of the text.

The processes are forked, and hand back plain values in marshal's form through a pipe. What one of them does
not return, for whatever reason, is read again here.
"""

from __future__ import annotations

import contextlib
import marshal
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from slurmdoctor.search.tally import LineGroup, Part

if TYPE_CHECKING:
    from slurmdoctor.input import Source

WORTH = 32 * 1024 * 1024
"""Bytes a process: to start it and to join what it found costs as much as to read a few megabytes."""
MOST = 16

Stretch = tuple[int, int, "int | None"]
"""(source, start, stop); None is the end, wherever it may be."""


def usual_jobs() -> int:
    """As many processes as this one may use cores for, within reason: other people work on a login node, too."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # macOS
        cores = os.cpu_count() or 1
    return max(1, min(cores, 4))


def parts(sources: Sequence[Source], read: Callable[[int, int, int | None], Part], jobs: int) -> Iterator[Part]:
    """All parts of all sources in order; each source has one at least."""
    shares = _shares(sources, jobs)
    if len(shares) == 1 or not hasattr(os, "fork"):
        for stretch in (stretch for share in shares for stretch in share):
            yield read(*stretch)
        return
    helpers = [_Helper(share, read, sources) for share in shares[1:]]
    try:
        for stretch in shares[0]:
            yield read(*stretch)
        for helper, share in zip(helpers, shares[1:], strict=True):
            found = helper.parts()
            if found is None:
                found = [read(*stretch) for stretch in share]
            yield from found
    finally:
        for helper in helpers:
            helper.end()


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


class _Helper:
    """A forked process that reads one share."""

    def __init__(
        self, share: Sequence[Stretch], read: Callable[[int, int, int | None], Part], sources: Sequence[Source]
    ) -> None:
        ours, theirs = os.pipe()
        self._pid = os.fork()
        if self._pid:
            os.close(theirs)
            self._pipe = ours
            return
        status = 1
        try:  # nothing of the parent's may go on here: no output, no clean-up, no traceback
            import signal  # here and below: it is slow to import, and a small log needs no helper

            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.close(ours)
            data = marshal.dumps([_packed(read(*stretch)) for stretch in share])
            with os.fdopen(theirs, "wb") as pipe:
                pipe.write(data)
            # a file that could not be read is tried again where its fault is told
            status = int(any(sources[number].fault for number, *_ in share))
        finally:
            os._exit(status)

    def parts(self) -> list[Part] | None:
        """What it read; None where it failed."""
        with os.fdopen(self._pipe, "rb") as pipe:
            self._pipe = -1
            data = pipe.read()
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return [_unpacked(part) for part in marshal.loads(data)] if status == 0 else None

    def end(self) -> None:
        """Stop it, where it still runs."""
        if self._pipe >= 0:
            os.close(self._pipe)
        if self._pid:
            import signal

            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)


def _packed(part: Part) -> tuple[Any, ...]:
    groups = [group.packed() for group in part.groups.values()]
    return (
        part.source,
        part.start,
        groups,
        part.once,
        part.offsets,
        part.counts,
        part.lines,
        part.end,
        part.unasked,
        part.cut,
    )


def _unpacked(packed: tuple[Any, ...]) -> Part:

    source, start, groups, *rest = packed
    return Part(source, start, {group[0]: LineGroup(*group) for group in groups}, *rest)
