"""Counts the work of reading around lines, and tells whether a stage has done its share of it.

The unit is a line that is passed over in search of the same writer's: about 2 microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TypeVar

from slurmdoctor.input import Source
from slurmdoctor.model import NEVER, Deadline, Hit, Line, Origin, Reason, SearchResult, SourceFormat, Writer, reason
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.ranks.timestamps import may_be_stamped
from slurmdoctor.search import HEAD, LONG_LINE, WriterKey

PEELED = 10
"""Units for a line that is taken apart."""
MOST: Mapping[str, int] = {
    "places": 300_000,
    "tracebacks": 300_000,
    "stamps": 200_000,
    "stacks": 60_000,
    "caught": 120_000,
    "messages": 60_000,
    "afterlife": 60_000,
}
"""Units that each stage may spend: half a second at most. A job with few lines that tell something comes nowhere near."""
_UNTOLD = ("stamps", "caught", "afterlife")
"""Stages whose answers are as good without what stands far away."""

Item = TypeVar("Item")


class Meter:
    """The work done, and what is left of the share of the item that is worked on."""

    def __init__(self) -> None:
        self.done = 0
        self._left = sum(MOST.values())
        self._short = 0

    def each(self, stage: str, items: Sequence[Item]) -> Iterator[Item]:
        """The items of a stage, with an equal share of what is left for each; what one leaves, the others have."""
        left = MOST[stage]
        try:
            for number, item in enumerate(items):
                share = self._left = left // (len(items) - number)
                yield item
                left -= share - self._left
                if self._left <= 0 and stage not in _UNTOLD:
                    self._short += 1
        finally:
            self._left = sum(MOST.values())

    def spend(self, units: int = 1) -> bool:
        """Whether there is work left to do for this item; if so, it is so much less."""
        if self._left <= 0:
            return False
        self._left -= units
        self.done += units
        return True

    @property
    def notes(self) -> tuple[Reason, ...]:
        """What to tell of shares that did not suffice."""
        return (reason("read-in-part", count=self._short),) if self._short else ()


_PAGE = 256 * 1024
_USUAL_LINE = 1024
_LOOK_BACK = 16 * 1024
_PATIENCE = 200_000
"""Lines that are looked at in search of those before another of the same writer; then it looks no farther than `_NEAR`."""
_NEAR = 8
_FEW = 60
"""Lines of a writer that are looked at in search of a time, and"""
_FAR_ABOVE = 1024 * 1024
"""bytes."""
_WALKED = 1024
"""Bytes that cost as much as a line that is passed over."""
_FAR = 512 * 1024 * 1024
"""Bytes that are searched, in all, for what a writer printed far above."""


class Lines:
    """The job's lines, read again where needed; one page of each source is kept."""

    def __init__(
        self,
        sources: Sequence[Source],
        found: SearchResult,
        labels: LabelReader,
        formats: Sequence[SourceFormat],
        deadline: Deadline = NEVER,
    ) -> None:
        self.sources = sources
        self._deadline = deadline
        self.complete = True
        """False once somebody asked whether the time is over, and it was."""
        self._found = found
        self._labels = labels
        self._formats = formats
        self.zone = next((form.zone for form in formats), None)
        """Seconds east of UTC of the log's stamps, where they name a zone."""
        self._writer_keys = [labels.writer_key(form) for form in formats]
        self._pages: dict[int, tuple[int, bytes]] = {}
        self.meter = Meter()
        """What was read around lines, and what may be."""
        self._stamps: dict[Writer, tuple[int, int, Line | None]] = {}
        """Writer -> the line whose stamp was asked for last, the lines above it that were looked at, and the answer."""
        self._patience = _PATIENCE
        self._far = _FAR
        starts, total = [], 0
        for source in sources:
            starts.append(total)
            total += source.length
        self._starts = starts

    def out_of_time(self) -> bool:
        """Whether to read no more lines."""
        self.complete = self.complete and not self._deadline.passed()
        return not self.complete

    def order(self, source: int, offset: int) -> int:
        """Position in the whole job's text."""
        return self._starts[source] + offset

    @property
    def paths(self) -> dict[int, str]:
        """The paths of the sources that are files."""
        return {number: source.path for number, source in enumerate(self.sources) if source.path}

    def at(self, source: int, offset: int) -> Line:
        """The line that starts here (or the piece of a long line, or of one with carriage returns)."""
        data = self._near(source, offset)
        end = data.find(b"\n")
        back = data.find(b"\r")
        if end < 0:
            end = len(data)
        cut = back if 0 <= back < end and data[back : back + 2] != b"\r\n" else end
        return self._line(source, offset, data[:cut], offset + cut + 1)

    def after(self, line: Line, limit: int = 400) -> Iterator[Line]:
        """The following lines of the same writer (same label), nearest first."""
        offset = line.end
        mark = self._mark(line)
        sought = b"\n" + mark if line.raw.encode().startswith(mark) else mark
        left = limit * 8
        while limit > 0 and left > 0 and offset < self.sources[line.source].length and self.meter.spend():
            data = self._line_from(line.source, offset)
            head = data[:HEAD]
            if mark in head and self._writer_keys[line.source](head) == line.label:
                yield self._line(line.source, offset, data, offset + len(data) + 1)
                limit -= 1
            offset += len(data) + 1
            left -= 1
            if mark:
                passed, offset = self._ahead(line.source, offset, sought)
                left -= passed

    def before(self, line: Line, limit: int = 12, same_writer: bool = True) -> Iterator[Line]:
        """The preceding lines of the same writer, nearest first."""
        for offset, raw in self._above(line, _LOOK_BACK, same_writer):
            if not same_writer or self.label(line.source, raw[:HEAD]) == line.label:
                yield self._line(line.source, offset, raw.rstrip(b"\r\n"), offset + len(raw))
                limit -= 1
                if limit == 0:
                    return

    def stamped_before(self, line: Hit, label: bytes) -> Line | None:
        """The last line with a time of this line's writer; where thousands of ranks write, it stands far above.

        Asked of lines without one, in the log's order, no line is looked at twice: what the line asked for before was told holds for this one, too.
        """
        before, looked_before, seen_before = self._stamps.get((line.source, label), (-1, 0, None))
        found, looked = None, 0
        if before == line.offset:
            return seen_before
        for offset, raw in islice(self._above(line, _FAR_ABOVE), _FEW):
            looked += 1
            if offset == before:
                looked += looked_before
                near = looked <= _FEW and seen_before is not None and line.offset - seen_before.offset <= _FAR_ABOVE
                found = seen_before if near else None
                break
            if may_be_stamped(raw) and self.label(line.source, raw[:HEAD]) == label:
                above = self._line(line.source, offset, raw.rstrip(b"\r\n"), offset + len(raw))
                if above.origin.time is not None:
                    found = above
                    break
        self._stamps[line.source, label] = line.offset, looked, found
        return found

    def numbers(self, places: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int | None]:
        """The 1-based numbers of the lines at these places, (source, offset); None behind text that was not read."""
        found: dict[tuple[int, int], int | None] = {}
        for source, here in groupby(sorted(set(places)), key=lambda place: place[0]):
            counted = (-1, -1)
            for _, offset in here:
                counted = self._lines_before(source, offset, counted)
                found[source, offset] = self._shown_number(source, offset, counted[1])
        return found

    def _lines_before(self, source: int, offset: int, counted: tuple[int, int]) -> tuple[int, int]:
        """The offset and the lines above it, counted on from the nearest place where they are known; -1 where they are not."""
        at, lines = max(self._found.lines_before(source, offset), counted)
        return offset, lines + self.sources[source].read(at, offset - at).count(b"\n") if lines >= 0 else -1

    def _shown_number(self, source: int, offset: int, lines: int) -> int | None:
        above, gap = self.sources[source].lines_above, self.sources[source].gap
        if lines < 0 or above is None or (gap and offset >= gap.offset):
            return None
        number = lines + 1
        numbers = self.sources[source].numbers
        return (numbers[number - 1] if number <= len(numbers) else number) + above

    def hit(self, line: Line) -> Hit:
        """The line as a Hit."""
        return Hit(line.source, line.offset, line.text, line.raw)

    def text(self, source: int, start: int, size: int) -> bytes:
        """A stretch of the raw text."""
        return self.sources[source].read(start, size)

    def peeled(self, source: int, raw: bytes) -> tuple[Origin, str]:
        return self._labels.strip_labels(raw.decode("utf-8", "replace"), self._formats[source])

    def label(self, source: int, head: bytes) -> bytes:
        """The words that tell this line's writer apart."""
        return self._writer_keys[source](head)

    def writer_key(self, source: int) -> WriterKey:
        """What finds these words: one for all sources whose lines are labelled alike."""
        return self._writer_keys[source]

    def writer(self, source: int, label: bytes) -> Origin | None:
        """Who writes under this label; None where its lines must be read for it."""
        if self._formats[source].outer_rank_is_local:
            return None
        rank = self._writer_keys[source].rank(label)
        return None if rank is None else Origin(rank=rank)

    def _mark(self, line: Line | Hit) -> bytes:
        """The first piece of the label, which stands in each line of its writer."""
        raw = line.raw.encode()
        start, stop, *_ = self._writer_keys[line.source].span(raw)
        return b"" if "\ufffd" in line.raw[:HEAD] else raw[start:stop]

    def _above(self, line: Line | Hit, reach: int, same_writer: bool = True) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of the preceding lines that may be the same writer's, nearest first.

        The first piece of a label stands in each of its writer's lines: those between are passed over. Without one the search
        reaches less far.
        """
        mark = self._mark(line) if same_writer else b""
        leads = line.raw.encode().startswith(mark)
        left = max(self._patience, _NEAR)
        lowest = line.offset - (reach if mark else _LOOK_BACK)
        for start, data in self._stretches_above(line.source, line.offset, max(0, lowest)):
            end = len(data)
            while end > 0 and (at := data.rfind(mark, 0, end)) >= 0:
                if left == 0 or not self.meter.spend(1 + (end - at) // _WALKED):
                    return
                left -= 1
                self._patience = min(self._patience, left)
                if mark:
                    end = data.find(b"\n", at, end) + 1 or end
                begin = data.rfind(b"\n", 0, end - 1) + 1
                if begin == 0 and start > 0:
                    break
                if not leads or data.startswith(mark, begin):
                    yield start + begin, data[begin:end]
                end = begin

    def _ahead(self, source: int, offset: int, sought: bytes) -> tuple[int, int]:
        """The lines without these bytes from here on, and the offset below them; no farther than some hundred lines."""
        start, page = self._page(source, offset - 1, LONG_LINE + 1)
        begin = offset - start
        at = page.find(sought, begin - 1, begin + LONG_LINE)
        stop = max(begin, page.rfind(b"\n", begin - 1, at + 1 if at >= 0 else begin + LONG_LINE) + 1)
        self.meter.spend((stop - begin) // _WALKED)
        return page.count(b"\n", begin, stop), start + stop

    def _stretches_above(self, source: int, stop: int, lowest: int) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of stretches that end at a line's end, nearest first: mostly what is looked for stands near."""
        size = _LOOK_BACK
        start = max(lowest, stop - size)
        data = self._slice(source, start, stop - start)
        while data:
            yield start, data
            if start == lowest:
                return
            # the line that this stretch cuts is seen whole in the next one
            stop = start + data.find(b"\n") + 1
            size *= 4
            start = max(lowest, stop - min(size, self._far))
            self._far -= stop - start
            data = self.text(source, start, stop - start)

    def _line(self, source: int, offset: int, data: bytes, end: int) -> Line:
        self.meter.spend(PEELED + len(data) // _WALKED)
        raw = data.decode("utf-8", "replace")
        origin, text = self._labels.strip_labels(raw, self._formats[source])
        return Line(source, offset, end, raw.rstrip("\r"), text, origin, self._writer_keys[source](data[:HEAD]))

    def _near(self, source: int, offset: int) -> bytes:
        """The bytes from here, to the line's end at least: of lines far apart no whole page is read."""
        start, page = self._pages.get(source, (0, b""))
        if start <= offset and offset + LONG_LINE <= start + len(page):
            return page[offset - start : offset - start + LONG_LINE]
        data = self.sources[source].read(offset, _USUAL_LINE)
        return data if b"\n" in data else self._slice(source, offset, LONG_LINE)

    def _line_from(self, source: int, offset: int) -> bytes:
        """The line, or what is looked at of a long one, from here to its end."""
        start, page = self._page(source, offset, LONG_LINE)
        end = page.find(b"\n", offset - start, offset - start + LONG_LINE)
        return page[offset - start : end if end >= 0 else offset - start + LONG_LINE]

    def _slice(self, source: int, offset: int, size: int) -> bytes:
        start, page = self._page(source, offset, size)
        return page[offset - start : offset - start + size]

    def _page(self, source: int, offset: int, size: int) -> tuple[int, bytes]:
        """(offset, bytes) of a stretch that holds so many bytes from here, or all to the source's end."""
        start, page = self._pages.get(source, (0, b""))
        stop = min(offset + size, self.sources[source].length)
        if offset < start or stop > start + len(page):
            start = max(0, offset - _LOOK_BACK)
            page = self.sources[source].read(start, max(_PAGE, size + _LOOK_BACK))
            self._pages[source] = (start, page)
        return start, page
