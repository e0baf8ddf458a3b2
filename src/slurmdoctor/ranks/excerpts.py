"""The store of excerpts: the lines around those that the search found, read once and taken apart once.

Readers ask it for the line at a place, for its writer's lines around it, and for all lines of a stretch. It keeps what it read, of
logs below a megabyte all, and each line that it took apart. A log may grow: what was written since is read when it is asked for.

Work is counted in lines that are passed over in search of the same writer's, about 2 microseconds each; each stage has its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, islice
from typing import TypeVar

from slurmdoctor.input import Source
from slurmdoctor.matching import lazy
from slurmdoctor.model import (
    NEVER,
    Deadline,
    Event,
    Line,
    Origin,
    Reason,
    SearchResult,
    SourceFormat,
    Surroundings,
    reason,
)
from slurmdoctor.ranks.labels import LabelReader, may_be_stamped
from slurmdoctor.search import HEAD, LONG_LINE, WriterKey

PEELED = 10
"""Units of work for a line that is taken apart."""
MOST: Mapping[str, int] = {
    "places": 300_000,
    "tracebacks": 300_000,
    "stamps": 200_000,
    "stacks": 60_000,
    "messages": 60_000,
    "survival": 180_000,
}
"""Units that each stage may spend: half a second at most. A job with few lines that tell something comes nowhere near."""
_AS_GOOD = ("stamps", "survival")
"""Stages whose answers are as good without far lines."""

_WHOLE = 1024 * 1024
"""Bytes of a log that is kept whole; of a longer one a page around the last place is."""
_PAGE = 64 * 1024
_KEPT_PAGES = 64 * 1024 * 1024
"""Bytes that are kept of all logs, and"""
_KEPT_LINES = 8 * 1024 * 1024
"""bytes of lines that are kept taken apart."""
_USUAL_LINE = 1024
_LOOK_BACK = 16 * 1024
_FEW = 60
"""Lines of a writer that are looked at in search of a time, and"""
_FAR_ABOVE = 1024 * 1024
"""bytes."""
_WALKED = 1024
"""Bytes that cost as much as a line that is passed over."""
_FAR = 512 * 1024 * 1024
"""Bytes that are searched, in all, for what a writer printed far above."""
_SHOWN = 4
"""Lines of which the surroundings are shown, and how many lines of these above and below."""
_LONGEST_SHOWN = 2000
"""Characters of such a line."""
_KEY_ENDS = lazy(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_BEGINS = "-----BEGIN "
_BLOB = lazy(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{60,}={0,2}$")

Item = TypeVar("Item")
Place = tuple[int, int]
"""Source and offset of a line."""


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
                if self._left <= 0 and stage not in _AS_GOOD:
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
        """What the report says of shares that did not suffice."""
        return (reason("read-in-part", count=self._short),) if self._short else ()


class Excerpts:
    """The job's lines around what was found."""

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
        self._lines: dict[tuple[int, int, int], Line] = {}
        self._kept_pages = self._kept_lines = 0
        self.meter = Meter()
        """What was read around lines, and what may be."""
        self._far = _FAR
        self._starts = [0, *accumulate(source.length for source in sources)]

    def out_of_time(self) -> bool:
        """Whether to read no more lines."""
        self.complete = self.complete and not self._deadline.passed()
        return not self.complete

    def order(self, source: int, offset: int) -> int:
        """Position in the whole job's text."""
        return self._starts[source] + offset

    # ── lines ─────────────────────────────────────────────────────────────────────────────────

    def at(self, source: int, offset: int) -> Line:
        """The line that starts here (or the piece of a long line, or of one with carriage returns)."""
        data = self._row(source, offset)
        back = data.find(b"\r")
        return self.line(source, offset, data[:back] if 0 <= back < len(data) - 1 else data)

    def after(self, line: Line, limit: int = 400) -> Iterator[Line]:
        """The following lines of the same writer (same label), nearest first."""
        offset = line.end
        mark = self._mark(line)
        sought = b"\n" + mark if line.raw.encode().startswith(mark) else mark
        left = limit * 8
        while limit > 0 and left > 0 and offset < self.sources[line.source].length and self.meter.spend():
            data = self._row(line.source, offset)
            if mark in data[:HEAD] and (one := self.line(line.source, offset, data)).label == line.label:
                yield one
                limit -= 1
            offset += len(data) + 1
            left -= 1
            if mark:
                passed, offset = self._ahead(line.source, offset, sought)
                left -= passed

    def before(self, line: Line, limit: int = 12) -> Iterator[Line]:
        """The preceding lines of the same writer, nearest first."""
        for offset, raw in self._above(line, _LOOK_BACK):
            if self.label(line.source, raw) == line.label:
                yield self.line(line.source, offset, raw)
                limit -= 1
                if limit == 0:
                    return

    def above(self, line: Line, limit: int, reach: int = _LOOK_BACK) -> Iterator[Line]:
        """The preceding lines, whoever wrote them, nearest first."""
        rows = self.rows(line.source, line.offset - reach, line.offset)
        begun = bool(rows) and rows[-1][0] + len(rows[-1][1]) == line.offset
        for offset, raw in rows[::-1][begun : limit + begun]:
            yield self.line(line.source, offset, raw)

    def below(self, line: Line, limit: int, reach: int = _LOOK_BACK) -> Iterator[Line]:
        """The following lines, whoever wrote them, nearest first."""
        for offset, raw in self.rows(line.source, line.end, line.end + reach)[:limit]:
            yield self.line(line.source, offset, raw)

    def rows(self, source: int, start: int, stop: int) -> list[tuple[int, bytes]]:
        """(offset, bytes) of the lines that begin between two places, without their line ends."""
        offset = max(0, start - 1)
        data = self.text(source, offset, stop - offset)
        rows = []
        for raw in data.removesuffix(b"\n").split(b"\n"):
            rows.append((offset, raw))
            offset += len(raw) + 1
        return rows[start > 0 :] if data else []

    def stamped_before(self, line: Line, label: bytes) -> Line | None:
        """The last line with a time of this line's writer; where thousands of ranks write, it is far above."""
        for offset, raw in islice(self._above(line, _FAR_ABOVE), _FEW):
            if may_be_stamped(raw) and self.label(line.source, raw) == label:
                above = self.line(line.source, offset, raw)
                if above.origin.time is not None:
                    return above
        return None

    def line(self, source: int, offset: int, data: bytes) -> Line:
        """The line of these bytes, which stand here without their line end: taken apart once."""
        key = source, offset, len(data)
        known = self._lines.get(key)
        if known is not None:
            return known
        self.meter.spend(PEELED + len(data) // _WALKED)
        raw = data.decode("utf-8", "replace").rstrip("\r")
        origin, text = self._labels.strip_labels(raw, self._formats[source])
        label = self.label(source, data)
        end = offset + len(data) + 1
        self._kept_lines += len(data) + _USUAL_LINE
        if self._kept_lines > _KEPT_LINES:
            self._lines.clear()
            self._kept_lines = 0
        made = Line(source, offset, end, raw, text, origin, label, self.order(source, offset))
        self._lines[key] = made
        return made

    # ── writers ───────────────────────────────────────────────────────────────────────────────

    def label(self, source: int, line: bytes) -> bytes:
        """The words that tell this line's writer apart."""
        return self._writer_keys[source](line)

    def writer_key(self, source: int) -> WriterKey:
        """What finds these words: one for all sources whose lines have the same labels."""
        return self._writer_keys[source]

    def writer(self, source: int, label: bytes) -> Origin | None:
        """Who writes under this label; None where its lines must be read for it."""
        local = self._formats[source].outer_rank_is_local
        rank = None if local else self._writer_keys[source].rank(label)
        return None if rank is None else Origin(rank=rank)

    def ranks_per_node(self, source: int) -> int | None:
        """How many ranks a node has, where the log tells."""
        return self._formats[source].per_node

    def _mark(self, line: Line) -> bytes:
        """The first piece of the label, which is in each line of its writer."""
        raw = line.raw.encode()
        start, stop, *_ = self._writer_keys[line.source].span(raw)
        return b"" if "\ufffd" in line.raw[:HEAD] else raw[start:stop]

    def _above(self, line: Line, reach: int) -> Iterator[tuple[int, bytes]]:
        """(offset, bytes) of the preceding lines that may be the same writer's, nearest first.

        The first piece of a label is in each of its writer's lines: those between are passed over. Without one the search
        reaches less far.
        """
        mark = self._mark(line)
        leads = line.raw.encode().startswith(mark)
        lowest = line.offset - (reach if mark else _LOOK_BACK)
        for start, data in self._stretches_above(line.source, line.offset, max(0, lowest)):
            end = len(data)
            while end > 0 and (at := data.rfind(mark, 0, end)) >= 0:
                if not self.meter.spend(1 + (end - at) // _WALKED):
                    return
                if mark:
                    end = data.find(b"\n", at, end) + 1 or end
                begin = data.rfind(b"\n", 0, end - 1) + 1
                if begin == 0 and start > 0:
                    break
                if not leads or data.startswith(mark, begin):
                    yield start + begin, data[begin : end - data.endswith(b"\n", begin, end)]
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
        """(offset, bytes) of stretches that end at a line's end, nearest first: mostly what is looked for is near."""
        size = _LOOK_BACK
        start = max(lowest, stop - size)
        while data := self.text(source, start, stop - start):
            yield start, data
            if start == lowest:
                return
            # the line that this stretch cuts is seen whole in the next one
            stop = start + data.find(b"\n") + 1
            size *= 4
            start = max(lowest, stop - min(size, self._far))
            self._far -= stop - start

    # ── bytes ─────────────────────────────────────────────────────────────────────────────────

    def text(self, source: int, start: int, size: int) -> bytes:
        """A stretch of the raw text."""
        start = max(0, start)
        at, page = self._page(source, start, size)
        return page[start - at : start - at + size]

    def _row(self, source: int, offset: int) -> bytes:
        """The line, or what is looked at of a long one, from here to its end."""
        start, page = self._page(source, offset, LONG_LINE)
        end = page.find(b"\n", offset - start, offset - start + LONG_LINE)
        return page[offset - start : end if end >= 0 else offset - start + LONG_LINE]

    def _page(self, source: int, offset: int, size: int) -> tuple[int, bytes]:
        """(offset, bytes) of a stretch that holds so many bytes from here, or all to the source's end."""
        start, page = self._pages.get(source, (0, b""))
        length = self.sources[source].length
        if start <= offset and min(offset + size, length) <= start + len(page):
            return start, page
        self._kept_pages -= len(page)
        start, size = (0, length) if length <= _WHOLE else (max(0, offset - _LOOK_BACK), max(_PAGE, size + _LOOK_BACK))
        page = self.sources[source].read(start, size)
        if len(page) <= _WHOLE:
            self._kept_pages += len(page)
            if self._kept_pages > _KEPT_PAGES:
                self._pages.clear()
                self._kept_pages = len(page)
            self._pages[source] = start, page
        else:
            self._pages.pop(source, None)
        return start, page

    # ── for the report ────────────────────────────────────────────────────────────────────────

    def numbers(self, places: Iterable[Place]) -> dict[Place, int | None]:
        """The 1-based numbers of the lines at these places, (source, offset); None behind text that was not read."""
        found: dict[Place, int | None] = {}
        for source, here in groupby(sorted(set(places)), key=lambda place: place[0]):
            at, lines = -1, -1
            for _, offset in here:
                at, lines = max(self._found.lines_before(source, offset), (at, lines))
                lines = lines + self.text(source, at, offset - at).count(b"\n") if lines >= 0 else -1
                at = offset
                found[source, offset] = self._shown_number(source, offset, lines)
        return found

    def _shown_number(self, source: int, offset: int, lines: int) -> int | None:
        above, gap = self.sources[source].lines_above, self.sources[source].gap
        if lines < 0 or above is None or (gap and offset >= gap.offset):
            return None
        number = lines + 1
        numbers = self.sources[source].numbers
        return (numbers[number - 1] if number <= len(numbers) else number) + above

    def surroundings(self, evidence: Iterable[Event], numbers: Mapping[Place, int | None]) -> tuple[Surroundings, ...]:
        """The lines around the first lines of the evidence, whoever wrote it, but for those that only followed."""
        proofs = [event.hit.place for number, event in enumerate(evidence) if number == 0 or event.role != "cascade"]
        found = []
        for source, offset in list(dict.fromkeys(proofs))[:_SHOWN]:
            log, low = self.sources[source], max(0, offset - _LOOK_BACK)
            # without what stands before the quoted text in its own line, and lines that the stretch cuts
            above = self.text(source, low, offset - low).split(b"\n")[low > 0 : -1]
            below = self.text(source, offset, _LOOK_BACK).split(b"\n")[1:]
            cut = offset + _LOOK_BACK < log.length or below[-1:] == [b""]
            shown = _shown(above[-_SHOWN:]), _shown(below[: -1 if cut else None][:_SHOWN])
            found.append(Surroundings(log.name, numbers[source, offset], *shown, not log.numbers))
        return tuple(found)


def _shown(raw: Sequence[bytes]) -> tuple[str, ...]:
    """The lines as a terminal leaves them: of a progress bar its last state."""
    texts = (line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace") for line in raw)
    return _without_key([_BLOB.sub("…", text.rstrip()[:_LONGEST_SHOWN]) for text in texts])


def _without_key(texts: list[str]) -> tuple[str, ...]:
    """Nothing of a private key whose beginning is too far above to be known as one."""
    for at, text in enumerate(texts):
        if _KEY_BEGINS in text:
            break
        if found := _KEY_ENDS.search(text):
            return (*("…" for _ in range(at)), text[found.start() :], *texts[at + 1 :])
    return tuple(texts)
