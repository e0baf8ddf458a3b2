"""Searches a job's logs for all matchers, front to back, once: bytes → `SearchResult`.

Why it is fast: three questions are asked of a line, and each only where the one before says yes.

1. Does it hold a literal? An engine in C finds all of them in one pass over a block (`engine`, `literals`).
2. Was a line of its *shape* confirmed before? Lines that differ in their digits only have one shape (`shapes`): of
   `[rank3]: step 1200 failed` and `[rank7]: step 1301 failed` the first is confirmed, and all further ones are counted (`walk`, in C, too).
3. Does the matcher's regex take it? That is tried on the first line of a shape, or on every line where its digits decide (`reader`).

The counts are those that every regex on every line would give; `tests/test_scan.py` has that slow search, and compares. Of each writer
a bounded number of places is kept (`tally`), so memory grows with the ranks and not with the log.

Limits: of a line longer than `LONG_LINE` only the text around the literal is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from slurmdoctor.input.sources import BLOCK, Block, Source
from slurmdoctor.model.matches import Matcher, SearchResult
from slurmdoctor.search import many
from slurmdoctor.search.engine import Name
from slurmdoctor.search.literals import Literals
from slurmdoctor.search.reader import LONG_LINE as LONG_LINE
from slurmdoctor.search.reader import ConfirmLine, CouldMatch, Part, Reader, StripLabels
from slurmdoctor.search.tally import group_by_matcher
from slurmdoctor.search.writer_key import WriterKey


def scan(
    sources: Sequence[Source],
    matchers: Sequence[Matcher],
    strip_labels: StripLabels,
    confirm_line: ConfirmLine,
    writer_keys: Sequence[WriterKey],
    block_size: int | None = None,
    engine: Name | None = None,
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    could_match: CouldMatch | None = None,
) -> SearchResult:
    """Read every source once, in so many processes where there is enough to read.

    `progress` is called again and again with the bytes read since; what other processes read is estimated.
    """
    literals = Literals(matchers, engine)
    processes = many.processes(sources, jobs)

    def read(number: int, start: int, stop: int | None) -> Part:
        reader = Reader(literals, matchers, strip_labels, confirm_line, writer_keys[number], number, could_match)
        blocks = sources[number].blocks(block_size or BLOCK, start, stop)
        return reader.read(blocks if progress is None else _reported(blocks, progress, processes), start)

    parts: dict[int, Part] = {}
    for part in many.parts(sources, read, jobs):
        if part.source in parts:
            parts[part.source].join(part)
        else:
            parts[part.source] = part
    index = []
    for number, source in enumerate(sources):
        part = parts[number]
        source.lines = part.lines
        source.length = max(source.length, part.end)
        index.append((part.offsets, part.counts))
    groups = [(part.source, group) for part in parts.values() for group in part.groups.values()]
    once = [(part.source, match, place) for part in parts.values() for match, place in part.once.items()]
    return SearchResult(
        groups=group_by_matcher(groups, once, matchers),
        line_index=tuple(index),
        matchers_for=lambda line: [matchers[number] for number in literals.wanted(line)],
    )


def _reported(blocks: Iterable[Block], progress: Callable[[int], None], processes: int) -> Iterator[Block]:
    for block in blocks:
        yield block
        progress(block.size * processes)
