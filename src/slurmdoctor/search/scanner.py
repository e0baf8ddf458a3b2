"""Searches a job's logs for all matchers, front to back, once: bytes → `SearchResult`.

Why it is fast: three questions are asked of a line, and each only where the one before says yes.

1. Does it hold a literal? An engine in C finds all of them in one pass over a block (`engine`, `literals`).
2. Was a line of its *shape* confirmed before? Lines that differ in their digits only have one shape (`shapes`): of
   `[rank3]: step 1200 failed` and `[rank7]: step 1301 failed` the first is confirmed, and all further ones are counted (`walk`, in C, too).
3. Does the matcher's regex take it? That is tried on the first line of a shape, or on every line where its digits decide (`reader`).

The counts are those that every regex on every line would give; `tests/test_scan.py` has that slow search, and compares. Of each writer
a bounded number of places is kept (`tally`), so memory grows with the ranks and not with the log.

Limits: of a line longer than `LONG_LINE` only the text around the literal is looked at. Where a time limit is met, `HEADS` of it
have gone into reading from the front; then the last bytes of each file are read, since jobs tell there how they ended.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slurmdoctor.input import BLOCK, Block, Source
from slurmdoctor.model import NEVER, Deadline, Matcher, Reason, SearchResult, reason
from slurmdoctor.processes import cores
from slurmdoctor.search.literals import Literals
from slurmdoctor.search.reader import LONG_LINE as LONG_LINE, ConfirmLine, CouldMatch, Reader, StripLabels
from slurmdoctor.search.tally import Part, group_by_matcher
from slurmdoctor.search.writer_key import WriterKey

if TYPE_CHECKING:
    from slurmdoctor.input import Source


HEADS, TAILS = 0.6, 0.8
"""Shares of a time limit after which the reading from the front ends, and that of the files' ends; the rest is for what they show."""
_TAIL = 8 * 1024 * 1024
"""Bytes of a file's end that are read, then; all ends together are no longer than this share of what was read before, so that"""
_OF_HEADS = 6
"""they take half of their time, yet each is as long as"""
_LEAST_TAIL = 64 * 1024
_SURE = 8
"""So many ends are read even where the heads took their time, too: a start on a busy machine takes longer than a short limit."""


def scan(
    sources: Sequence[Source],
    matchers: Sequence[Matcher],
    strip_labels: StripLabels,
    confirm_line: ConfirmLine,
    could_match: CouldMatch,
    writer_keys: Sequence[WriterKey],
    block_size: int | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    deadline: Deadline = NEVER,
    literals: Literals | None = None,
) -> SearchResult:
    """Read every source once, in so many processes where there is enough to read, until the deadline.

    `progress` gets the bytes read since, those of other processes estimated. `literals` are the matchers', where they are known.
    """
    literals = literals or Literals(matchers)
    processes = processes_for(sources, jobs)

    def report(size: int) -> None:
        if progress is not None:
            progress(size * processes)

    def read(number: int, start: int, stop: int | None, share: float = HEADS) -> Part:
        reader = Reader(literals, matchers, strip_labels, confirm_line, could_match, writer_keys[number], number)
        blocks = _Timed(sources[number].blocks(block_size or BLOCK, start, stop), deadline, share, report)
        part = reader.read(blocks, start, sources[number].size, blocks.late)
        part.cut = blocks.cut
        return part

    parts: dict[int, Part] = {}
    cut = False
    for part in read_parts(sources, read, jobs):
        _join(part, parts, sources)
        cut |= part.cut
    if cut:
        for part in _tails(sources, parts, read, processes):
            _join(part, parts, sources)
    index = []
    for number, source in enumerate(sources):
        part = parts[number]
        source.lines = part.lines
        source.length = max(source.length, part.end)
        index.append((part.offsets, part.counts))
    endless = any(part.cut and not sources[number].divisible for number, part in parts.items())
    searched = sum(source.searched for source in sources)
    # pipes and compressed logs are known as they are read
    total = None if endless else sum(_readable(source) or source.searched for source in sources)
    complete = not cut or searched == total
    late = () if complete else (reason("out-of-time", seconds=deadline.seconds, searched=searched, total=total),)
    gaps = [reason("left-out", name=source.name, bytes=source.gap.bytes) for source in sources if source.gap]
    groups = [(part.source, group) for part in parts.values() for group in part.groups.values()]
    return SearchResult(
        groups=group_by_matcher(groups, matchers),
        line_index=tuple(index),
        matchers_for=lambda line: [matchers[number] for number in literals.wanted(line)],
        notes=(*late, *gaps, *_same_lines(parts.values())),
        complete=complete and not gaps,
    )


def _same_lines(parts: Iterable[Part]) -> tuple[Reason, ...]:
    count = sum(part.unasked for part in parts)
    return (reason("lines-alike", count=count),) if count else ()


def _join(part: Part, parts: dict[int, Part], sources: Sequence[Source]) -> None:
    """Add a part to those before it of its source."""
    sources[part.source].searched += part.searched
    if part.source in parts:
        parts[part.source].join(part)
    else:
        parts[part.source] = part


def _tails(
    sources: Sequence[Source],
    parts: Mapping[int, Part],
    read: Callable[[int, int, int | None, float], Part],
    processes: int,
) -> Iterator[Part]:
    """The ends of the files that were not read to their end. They begin at a line, or at a line that outgrows them."""
    unread = [(number, source) for number, source in enumerate(sources) if parts[number].end < _readable(source)]
    heads = sum(source.searched for source in sources) // processes
    length = max(_LEAST_TAIL, min(_TAIL, heads // _OF_HEADS // max(1, len(unread))))
    for count, (number, source) in enumerate(unread):
        size = _readable(source)
        start = max(parts[number].end, size - length)
        yield read(number, source.line_start(start) if start else 0, size, TAILS if count >= _SURE else math.inf)


def _readable(source: Source) -> int:
    """Where a file ends that can be read at any place; 0 for others."""
    return (source.size or 0) if source.divisible else 0


class _Timed:
    """Blocks, until a share of the time is over; then `cut` is true. The size of each is reported once it was read."""

    def __init__(
        self, blocks: Iterable[Block], deadline: Deadline, share: float, report: Callable[[int], None]
    ) -> None:
        self._blocks = blocks
        self._report = report
        self._deadline = deadline
        self._share = share
        self.cut = False

    def __iter__(self) -> Iterator[Block]:
        if self.late():  # not even the first block is read: there may be thousands of files
            return
        for block in self._blocks:
            if self.late():
                return
            yield block
            self._report(block.size)

    def late(self) -> bool:
        """Whether to read no further; asked within a block, too, where a line in it takes long."""
        self.cut = self.cut or self._deadline.passed(self._share)
        return self.cut


WORTH = 32 * 1024 * 1024
"""Bytes a process: to start it and to join what it found costs as much as to read a few megabytes."""
MOST_PROCESSES = 16

Stretch = tuple[int, int, "int | None"]
"""(source, start, stop); None is the end, wherever it may be."""
Read = Callable[[int, int, "int | None"], Part]


def usual_jobs() -> int:
    """As many processes as this one may use cores for, within reason: other people work on a login node, too."""
    return max(1, min(cores(), 4))


def read_parts(sources: Sequence[Source], read: Read, jobs: int) -> Iterator[Part]:
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


def processes_for(sources: Sequence[Source], jobs: int) -> int:
    """How many processes it takes, if it may be so many."""
    return max(1, min(jobs, MOST_PROCESSES, sum(map(_readable, sources)) // WORTH))


def _shares(sources: Sequence[Source], jobs: int) -> list[list[Stretch]]:
    """The stretches that each process reads, about as many bytes each. Pipes and compressed logs are read by the first."""
    sizes = list(map(_readable, sources))
    total = sum(sizes)
    jobs = processes_for(sources, jobs)
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
