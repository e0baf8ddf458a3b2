"""What each rank did over time, drawn as strips of SVG: one a row, with the root cause's moment marked in all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from slurmdoctor.model import Lane, Lanes, Mark, Span, State
from slurmdoctor.report.page.folding import Row, length
from slurmdoctor.report.page.tags import Markup, escape, join, place, tag
from slurmdoctor.report.quantities import duration, plural
from slurmdoctor.report.redactor import one_line

WORDS: dict[State, str] = {
    "running": "running",
    "waiting": "waiting for others",
    "failed": "failed first",
    "followed": "failed after it",
    "silent": "silent",
    "gone": "gone",
    "finished": "finished",
}
"""State -> what the legend and a screen reader say."""
_MOST_STEPS = 12
"""Ticks of training steps in one strip."""
_HEIGHT, _THIN, _GAP = 18, 6, 2
_LABEL = 12.0
"""Percent of the width that a label of the axis takes."""
_STACKED = 6
"""Rows that a folded group shows at once."""


class Scale(Struct, frozen=True):
    """From the times of lanes to places on the page."""

    width: float
    start: float

    @classmethod
    def of(cls, lanes: Lanes) -> Scale:
        """The scale of what is shown."""
        return cls(length(lanes) or 1.0, lanes.start)

    def share(self, at: float) -> float:
        """A time as a percentage of what is shown."""
        return min(max(at / self.width * 100, 0.0), 100.0)

    def place(self, at: float) -> str:
        """A time as a place in a strip."""
        return f"{self.share(at):.2f}%"

    def moment(self, at: float) -> str:
        """The time of day, as the log's clock shows it."""
        return time.strftime("%H:%M:%S", time.gmtime(self.start + at))


def definitions() -> Markup:
    """The patterns and signs that all strips of the page use: states differ by pattern, not by colour alone."""
    signs = (
        tag("symbol", tag("circle", r=7), tag("path", d="M-3 -3 3 3M3 -3 -3 3"), id="first", overflow="visible"),
        tag("symbol", tag("path", d="M0 -5 5 4 -5 4Z"), id="error", overflow="visible"),
        tag("symbol", tag("path", d="M-3.5 -3.5h7v7h-7z"), id="exit", overflow="visible"),
    )
    patterns = (_pattern("waiting", "M-1 7 7 -1M-1 1 1 -1M5 7 7 5"), _pattern("followed", "M0 0 6 6M6 0 0 6"))
    return tag("svg", tag("defs", *patterns, *signs), width=0, height=0, class_="defs", aria_hidden="true")


def _pattern(name: str, path: str) -> Markup:
    back = tag("rect", width=6, height=6, class_="back")
    return tag("pattern", back, tag("path", d=path), id=name, width=6, height=6, patternUnits="userSpaceOnUse")


def legend(lanes: Lanes) -> Markup:
    """The states and signs that the strips show."""
    seen = {span.state for lane in lanes.lanes for span in lane.spans}
    kinds = {mark.kind for lane in lanes.lanes for mark in lane.marks}
    bars = [(_bar(state, "0", "100%", 5, 8), word) for state, word in WORDS.items() if state in seen]
    signs = (("first", "root cause"), ("error", "error"), ("exit", "end of a process"), ("step", "training step"))
    bars += [(_sign(kind, "50%", 9), word) for kind, word in signs if kind in kinds]
    keys = [tag("li", tag("svg", drawn, width=22, height=_HEIGHT, aria_hidden="true"), word) for drawn, word in bars]
    return tag("ul", *keys, class_="legend", aria_label="Legend")


def axis(lanes: Lanes, scale: Scale) -> Markup:
    """The times along the top, as the log writes them."""
    labels, taken = [], -_LABEL
    for at, label in lanes.ticks:
        x = scale.share(at)
        if at < 0 or at > scale.width or x - taken < max(_LABEL, 1.2 * len(label)):
            continue
        anchor = "start" if x < _LABEL / 2 else "end" if x > 100 - _LABEL / 2 else "middle"
        labels.append(tag("text", one_line(label), x=f"{x:.2f}%", y=12, text_anchor=anchor))
        taken = x
    return tag("svg", *labels, class_="axis", height=16, aria_hidden="true")


def strip(rows: Sequence[Row], scale: Scale, root: float | None) -> Markup:
    """One row, or those of a folded group above each other."""
    drawn = [row for row in rows if row.lane.spans or row.first]
    shown = drawn[:_STACKED] or rows[:1]
    one = len(shown) == 1
    height = _HEIGHT if one else max(len(shown) * (_THIN + _GAP) + _GAP, _HEIGHT)
    parts: list[Markup] = []
    signs: list[Markup] = []
    for number, row in enumerate(shown):
        top, thick = (5, 8) if one else (_GAP + number * (_THIN + _GAP), _THIN)
        parts += [_span(span, scale, top, thick) for span in row.lane.spans]
        seen = (mark for mark in _drawn(row.lane) if one or (row.first and mark.kind == "first"))
        signs += [_sign(_kind(mark, row), scale.place(mark.at), top + thick / 2) for mark in seen]
    if root is not None:
        x = scale.place(root)
        parts.append(tag("line", x1=x, x2=x, y1=-9, y2=height + 9, class_="root"))
    told = "; ".join(_spoken(row, scale) for row in shown)
    return tag("svg", *parts, *signs, class_="strip", height=height, role="img", aria_label=told)


def marks(lane: Lane, scale: Scale) -> Markup | None:
    """The lines of the log that tell of a row's ranks; of a training step its tick is enough."""
    told: dict[tuple[str | None, int | None, str], Mark] = {}
    for mark in lane.marks:  # a line that tells of several ranks is a mark of each
        if mark.kind != "step":
            told.setdefault((mark.file, mark.line, mark.text), mark)
    items = [_told(mark, scale) for mark in told.values()]
    if lane.left_out:
        items.append(tag("li", tag("span", class_="at"), f"and {plural(lane.left_out, 'more line')}"))
    return tag("ul", *items, class_="marks") if items else None


def _told(mark: Mark, scale: Scale) -> Markup:
    where, text = place(mark.file, mark.line), one_line(mark.text)
    said = join((tag("q", text), tag("span", where, class_="place"))) if where else escape(text)
    return tag("li", tag("span", scale.moment(mark.at), class_="at"), tag("span", said))


def earlier(lanes: Lanes) -> str:
    """What the strips do not show of the run."""
    if lanes.began >= 0:
        return ""
    return f"The run began {duration(-lanes.began)} before the left edge."


def _spoken(row: Row, scale: Scale) -> str:
    """What a row shows, in words."""
    ends = ((WORDS[span.state], scale.moment(span.end)) for span in row.lane.spans)
    return ", ".join(f"{word} until {at}" for word, at in ends)


def _kind(mark: Mark, row: Row) -> str:
    """The root cause's sign stands with the rank that the verdict names alone; the first line of it is an error of its rank."""
    return "error" if mark.kind == "first" and not row.first else mark.kind


def _drawn(lane: Lane) -> list[Mark]:
    steps = [mark for mark in lane.marks if mark.kind == "step"]
    kept = steps[:: max(1, -(-len(steps) // _MOST_STEPS))]
    return sorted(
        [*kept, *(mark for mark in lane.marks if mark.kind != "step")], key=lambda mark: (mark.kind == "first", mark.at)
    )


def _span(span: Span, scale: Scale, top: float, thick: float) -> Markup:
    start, end = scale.share(span.start), scale.share(span.end)
    return _bar(span.state, f"{start:.2f}%", f"{max(end - start, 0):.2f}%", top, thick)


def _bar(state: State, x: str, width: str, top: float, thick: float) -> Markup:
    """A state's bar: none at all is drawn as a line, so that silence is seen."""
    if state in ("silent", "gone", "finished"):
        high = 3 if state == "finished" else 2
        return tag("rect", x=x, width=width, y=top + thick / 2 - high / 2, height=high, class_=state)
    return tag("rect", x=x, width=width, y=top, height=thick, class_=state)


def _sign(kind: str, x: str, middle: float) -> Markup:
    if kind == "step":
        return tag("line", x1=x, x2=x, y1=middle - 4, y2=middle + 4, class_="step")
    return tag("use", href=f"#{kind}", x=x, y=middle, class_=kind)
