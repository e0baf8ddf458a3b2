"""The page of a survey's answers: one file that needs no script, no network and no other file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct

from slurmdoctor.report import plural, render_page
from slurmdoctor.survey.answers import Answers, Cost, Period, SizeClass
from slurmdoctor.survey.sections import colors, day, describe, gpus, hours, name

_MOST = 40
"""Columns of a chart."""
_HIGH, _TOP = 160, 8
"""Pixels of the columns, and above them: the template has them, too."""
_LABELS, _MONTHS = 6, 4
"""Labels that a narrow chart has room for; those of months are longer."""
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12, 16, 20, 40)
_LONGEST = {"day": 1, "week": 7, "month": 31}
"""Days of a period."""


class Column(Struct, frozen=True):
    """The failures of a period, from the bottom up."""

    title: str
    label: str
    x: float
    """Percent of the chart's width, as `wide`."""
    stack: Sequence[tuple[float, float, str]]
    """Of each color its top, its height, both in pixels, and its class."""


class Chart(Struct, frozen=True):
    """Columns stacked by cause."""

    title: str
    said: str
    scale: Sequence[tuple[float, str]]
    columns: Sequence[Column]
    wide: float
    step: int
    """Of so many columns one has a label."""


class Axis(Struct, frozen=True):
    """Hours on a log axis of whole decades."""

    sizes: Sequence[SizeClass]
    low: int
    high: int

    @classmethod
    def of(cls, sizes: Sequence[SizeClass]) -> Axis:
        """The decades that hold the hours of these sizes."""
        ends = [
            end
            for one in sizes
            for end in (one.low, one.mttf, one.high, one.machine_low, one.machine_mttf, one.machine_high)
        ]
        logs = [log10(end) for end in ends if end is not None and isfinite(end) and end > 0]
        low = max(floor(min(logs, default=0.0)), -4)
        return cls(sizes, low, max(min(ceil(max(logs, default=1.0)), 9), low + 1))

    def place(self, value: float) -> str:
        """Where so many hours are, in percent of the width."""
        at = (log10(value) - self.low) / (self.high - self.low) if value > 0 else 0.0
        return f"{min(max(at, 0.0), 1.0) * 100:.2f}%"

    @property
    def ticks(self) -> list[float]:
        """The decades; of few also what is between them."""
        steps = (1, 2, 5) if self.high - self.low <= 2 else (1,)
        return [*(step * 10.0**power for power in range(self.low, self.high) for step in steps), 10.0**self.high]


def render(answers: Answers) -> str:
    """The page, in ASCII: no server and no locale can misread it."""
    periods = answers.periods[-_MOST:]
    return render_page(
        "survey.html.j2",
        "slurmdoctor.survey",
        report=describe(answers),
        charts=_charts(periods, answers) if periods else [],
        legend=_legend(periods, answers),
        apart=any((b.begins - a.begins).days > _LONGEST.get(answers.period, 0) for a, b in pairwise(periods)),
        axis=Axis.of(answers.sizes[:12]),
        gpus=gpus,
        hours_of=hours,
    )


def _charts(periods: Sequence[Period], answers: Answers) -> list[Chart]:
    unit = answers.period if answers.period in _LONGEST else "period"
    drawn: list[tuple[str, Callable[[Cost], float]]] = [("failed jobs", lambda cost: float(cost.jobs))]
    if answers.failed_with_hours:
        drawn.insert(not answers.by_hours, ("GPU hours lost", lambda cost: cost.gpu_hours_lost))
    step = -(-len(periods) // (_MONTHS if unit == "month" else _LABELS))
    charts = []
    for what, value in drawn:
        sums = [sum(map(value, period.causes)) for period in periods]
        marks = ticks(max(sums), whole=what == "failed jobs")
        names = [f"{one.begins:%b %Y}" if unit == "month" else day(one.begins) for one in periods]
        wide, most = 100 / len(periods), max(range(len(periods)), key=sums.__getitem__)
        columns = [
            Column(
                f"{label}: {hours(amount)} {what}", label, at * wide, _stack(period, value, marks[-1], colors(answers))
            )
            for at, (period, label, amount) in enumerate(zip(periods, names, sums, strict=True))
        ]
        said = f"{plural(len(periods), 'column')} of {what}; the highest is {hours(sums[most])}, {names[most]}. The table below has all numbers."
        scale = [(_TOP + _HIGH * (1 - mark / marks[-1]), hours(mark)) for mark in marks]
        charts.append(Chart(f"{what[:1].upper()}{what[1:]} per {unit}", said, scale, columns, wide, step))
    return charts


def _stack(
    period: Period, value: Callable[[Cost], float], top: float, color: dict[str, str]
) -> list[tuple[float, float, str]]:
    """In the order of the legend, the rest last: on top."""
    sums, y = dict.fromkeys([*color.values(), "c0"], 0.0), float(_TOP + _HIGH)
    for cost in period.causes:
        sums[color.get(cost.what, "c0")] += value(cost)
    stack = []
    for style, amount in sums.items():
        height = amount / top * _HIGH
        if 0 < height <= _HIGH + 1:
            y -= height
            stack.append((y, height, style))
    return stack


def _legend(periods: Sequence[Period], answers: Answers) -> list[tuple[str, str]]:
    seen, color = {cost.what for period in periods for cost in period.causes}, colors(answers)
    others = len(seen - color.keys())
    keys = [(style, name(what)) for what, style in color.items() if what in seen]
    return keys + ([("c0", plural(others, "other cause"))] if others else [])


def ticks(most: float, *, whole: bool) -> list[float]:
    """Round numbers from zero to the next one that is not less, in four steps; counts have no halves."""
    most = most if isfinite(most) and most > 0 else 1.0
    if whole and most < 4:
        return [float(mark) for mark in range(ceil(most) + 1)]
    power = 10.0 ** floor(log10(most))
    tops = [step * power for step in _STEPS if step * power >= most]
    top = next((one for one in tops if not whole or one % 4 == 0), tops[-1])
    return [top * part / 4 for part in range(5)]


# ── for node_exporter's textfile collector ──


def metrics(answers: Answers, failures: Sequence[tuple[Mapping[str, str], Cost]], by_user: bool) -> str:
    """The answers as metrics of Prometheus; `failures` are the costs by cluster, partition and cause. No job ids are in them."""
    outcomes = ("failed", "healthy", "undecided", "errors", "not_asked")
    made = Environment(
        loader=PackageLoader("slurmdoctor.survey"), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["labels"] = _labels
    return made.get_template("metrics.prom.j2").render(
        answers=answers,
        outcomes=[({"outcome": one}, getattr(answers, one)) for one in outcomes],
        failures=failures,
        sizes=[({"gpus": f"{one.smallest}-{one.largest or ''}"}, one) for one in answers.sizes],
        users=[({"user": one.what}, one) for one in answers.users if by_user],
    )


def _labels(labels: Mapping[str, str]) -> str:
    """`{partition="gpu"}`: in a value, backslash, quote and line end are escaped, and other controls left out."""
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    plain = {
        label: "".join(char for char in text if char == "\n" or char.isprintable()) for label, text in labels.items()
    }
    shown = ",".join(f'{label}="{text.translate(escapes)}"' for label, text in plain.items() if labels[label])
    return f"{{{shown}}}" if shown else ""
