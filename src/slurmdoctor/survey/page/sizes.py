"""How long jobs of each size run until one fails: points with their intervals on a log axis, and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log10

from msgspec import Struct

from slurmdoctor.report import plural
from slurmdoctor.report.page.tags import Markup, tag
from slurmdoctor.survey.answers import Answers, SizeClass
from slurmdoctor.survey.page.figures import hours, note
from slurmdoctor.survey.page.tables import table

_MOST = 12
_HEIGHT = 26


class Axis(Struct, frozen=True):
    """Hours on a log axis of whole decades."""

    low: int
    high: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Axis:
        """The decades that hold these hours."""
        logs = [log10(value) for value in values if isfinite(value) and value > 0]
        low = max(floor(min(logs, default=0.0)), -4)
        return cls(low, max(min(ceil(max(logs, default=1.0)), 9), low + 1))

    def place(self, value: float) -> str:
        """Where so many hours are, in percent of the width."""
        at = (log10(value) - self.low) / (self.high - self.low) if value > 0 else 0.0
        return f"{min(max(at, 0.0), 1.0) * 100:.2f}%"

    @property
    def ticks(self) -> list[float]:
        """The decades; of few also what is between them."""
        steps = (1, 2, 5) if self.high - self.low <= 2 else (1,)
        return [*(step * 10.0**power for power in range(self.low, self.high) for step in steps), 10.0**self.high]


def sizes(answers: Answers) -> list[Markup | None]:
    """A strip a class of sizes, and the table of them."""
    if not answers.sizes:
        return [tag("p", "No job shows both its GPUs and how long it ran.")]
    shown = answers.sizes[:_MOST]
    ends = [
        end
        for size in shown
        for end in (size.low, size.mttf, size.high, size.machine_low, size.machine_mttf, size.machine_high)
    ]
    axis = Axis.of([end for end in ends if end is not None])
    left_out = [
        "A point is the hours that jobs of this size ran, divided by their failures; its line is the 95 % interval.",
        "Ends by Slurm or a person (time limit, preemption, cancellation) are no failures here.",
        f"Left out: {plural(answers.sizes_left_out, 'job')} without a GPU, or whose GPUs or hours are not known." if answers.sizes_left_out else "",
        f"{plural(len(answers.sizes) - _MOST, 'larger size')} not shown." if len(answers.sizes) > _MOST else "",
    ]  # fmt: skip
    return [_drawn(shown, axis), _table(shown), note(*left_out)]


def _gpus(size: SizeClass) -> str:
    if size.largest is None:
        return f"{size.smallest:,} or more GPUs"
    return (
        plural(size.smallest, "GPU") if size.smallest == size.largest else f"{size.smallest:,} to {size.largest:,} GPUs"
    )


def _drawn(shown: Sequence[SizeClass], axis: Axis) -> Markup:
    lines = [tag("line", x1=at, x2=at, y1=0, y2=_HEIGHT, class_="grid") for at in map(axis.place, axis.ticks)]
    rows = []
    for size in shown:
        marks = [*lines, *_point(axis, size.low, size.mttf, size.high, 8, "all"),
                 *_point(axis, size.machine_low, size.machine_mttf, size.machine_high, 18, "machine")]  # fmt: skip
        drawn = tag("svg", *marks, height=_HEIGHT, class_="points")
        rows.append(tag("div", tag("span", _gpus(size), class_="name"), drawn, class_="lane"))
    labels = [
        tag("text", f"{hours(tick)} h", x=axis.place(tick), y=12,
            text_anchor="start" if at == 0 else "end" if at == len(axis.ticks) - 1 else "middle")
        for at, tick in enumerate(axis.ticks)
    ]  # fmt: skip
    head = tag(
        "div", tag("span", "Hours until a failure"), tag("svg", *labels, height=16, class_="axis"), class_="lane head"
    )
    keys = [
        ("all", "failures of any cause"),
        ("machine", "of these, failures that a node, a link or storage can bring about"),
    ]
    legend = tag("ul", *(_key(kind, told) for kind, told in keys if kind == "all" or any(s.machine_low is not None for s in shown)),
                 class_="legend")  # fmt: skip
    return tag("div", legend, head, *rows, class_="lanes", aria_hidden="true")


def _key(kind: str, told: str) -> Markup:
    drawn = tag("svg", _sign(kind, "50%", 6), width=14, height=12)
    return tag("li", drawn, told)


def _sign(kind: str, x: str, y: int) -> Markup:
    """The two differ by shape, not by color alone."""
    if kind == "all":
        return tag("circle", cx=x, cy=y, r=4.5, class_="all")
    return tag("svg", tag("path", d="M0 -5 5 0 0 5 -5 0Z", class_="machine"), x=x, y=y, overflow="visible")


def _point(axis: Axis, low: float | None, mean: float | None, high: float | None, y: int, kind: str) -> list[Markup]:
    if not (mean or low):
        return []  # nothing known, or no time at all, which a log axis cannot show
    start = axis.place(low if low is not None else mean or 0.0)
    end = "100%" if high is None and mean is None else axis.place(high if high is not None else mean or 0.0)
    line = tag("line", x1=start, x2=end, y1=y, y2=y, class_=kind if mean is not None else f"{kind} open")
    cap = tag("line", x1=start, x2=start, y1=y - 4, y2=y + 4, class_=kind) if mean is None else None
    return [part for part in (line, cap, _sign(kind, axis.place(mean), y) if mean is not None else None) if part]


def _table(shown: Sequence[SizeClass]) -> Markup:
    rows = [
        [_gpus(size), f"{size.jobs:,}", hours(size.hours), f"{size.failures:,}", _told(size.mttf, size.low, size.high),
         f"{size.machine_failures:,}", _told(size.machine_mttf, size.machine_low, size.machine_high)]
        for size in shown
    ]  # fmt: skip
    heads = (
        "Size",
        "Jobs#",
        "Hours run#",
        "Failures#",
        "Hours until a failure (95 %)",
        "By a machine#",
        "Hours until one (95 %)",
    )
    return table("Mean time to failure by job size", heads, rows)


def _told(mean: float | None, low: float | None, high: float | None) -> str:
    if not mean:
        return f"none; {hours(low)} or more" if low else ""
    return hours(mean) if low is None or high is None else f"{hours(mean)} ({hours(low)} to {hours(high)})"
