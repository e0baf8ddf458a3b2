"""Failures over time: columns stacked by cause, drawn as SVG that fits any width, and the same as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, isfinite, log10

from slurmdoctor.report import plural
from slurmdoctor.report.page.tags import Markup, fold, join, tag
from slurmdoctor.survey.answers import Answers, Cost, Period
from slurmdoctor.survey.page.costs import costliest
from slurmdoctor.survey.page.figures import code, day, hours, known, note, of, short
from slurmdoctor.survey.page.tables import table

MOST_COLUMNS = 40
_COLOURS = 6
"""Causes with a colour of their own; the rest share one."""
_HIGH, _TOP, _FOOT = 160, 8, 22
"""Pixels of the columns, above them and below."""
_LABELS, _MONTHS = 6, 4
"""Labels that a narrow figure has room for; those of months are longer."""
_STEPS = (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10, 12, 16, 20, 40)
_LONGEST = {"day": 1, "week": 7, "month": 31}
"""Days of a period."""
_Value = Callable[[Cost], float]


def colours(answers: Answers) -> dict[str, str]:
    """The causes that cost most -> their colours, the same on the whole page."""
    return {cost.what: f"c{at + 1}" for at, cost in enumerate(costliest(answers.causes, answers)[:_COLOURS])}


def over_time(answers: Answers, colour: Mapping[str, str]) -> list[Markup | None]:
    """The columns, what their colours mean, and the table."""
    if not answers.periods:
        return [tag("p", "No job shows when it ended, so there is nothing to show over time.")]
    periods = answers.periods[-MOST_COLUMNS:]
    drawn = [("Failed jobs", lambda cost: float(cost.jobs), "failed jobs")]
    if answers.failed_with_hours:
        drawn.insert(not answers.by_hours, ("GPU hours lost", lambda cost: cost.gpu_hours_lost, "GPU hours lost"))
    figures = [
        tag("figure", tag("figcaption", tag("b", f"{head} per {_unit(answers)}")), _chart(periods, value, colour, what, answers))
        for head, value, what in drawn
    ]  # fmt: skip
    return [
        tag("div", tag("div", *figures, class_="charts"), _legend(periods, colour), class_="panel"),
        fold("The same as a table", _table(periods, colour, answers)),
        _notes(periods, answers),
    ]


def _notes(periods: Sequence[Period], answers: Answers) -> Markup | None:
    """What the columns leave out."""
    unit, dated = _unit(answers), answers.jobs - answers.undated
    elsewhere = dated - sum(period.jobs for period in periods)
    apart = any((after.begins - before.begins).days > _LONGEST.get(unit, 0) for before, after in pairwise(periods))
    return note(
        f"{elsewhere:,} of {plural(dated, 'job')} ended at other times: in no column." if elsewhere > 0 else "",
        f"{answers.undated:,} of {plural(answers.jobs, 'job')} show no time: in no column." if answers.undated else "",
        "The columns are not next to each other in time: those between them had fewer jobs." if apart else "",
    )


def _unit(answers: Answers) -> str:
    return answers.period if answers.period in ("day", "week", "month") else "period"


def _label(period: Period, answers: Answers) -> str:
    return f"{period.begins:%b %Y}" if answers.period == "month" else day(period.begins)


def _chart(periods: Sequence[Period], value: _Value, colour: Mapping[str, str], what: str, answers: Answers) -> Markup:
    sums = [sum(map(value, period.causes)) for period in periods]
    marks = ticks(max(sums, default=0.0), whole=what == "failed jobs")
    top, wide, high = marks[-1], 100 / len(periods), _TOP + _HIGH + _FOOT
    lines, scale = [], []
    for mark in marks:
        y = _TOP + _HIGH * (1 - mark / top)
        lines.append(tag("line", x1="0%", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        scale.append(tag("text", hours(mark), x="100%", y=f"{y + 4:.1f}", text_anchor="end"))
    names = [_label(period, answers) for period in periods]
    stacks = [
        _stack(period, value, colour, at * wide, wide, top, f"{names[at]}: {hours(sums[at])} {what}")
        for at, period in enumerate(periods)
    ]
    step = -(-len(periods) // (_MONTHS if answers.period == "month" else _LABELS))
    labels = [
        tag("text", names[at], x=f"{(at + 0.5) * wide:.2f}%", y=_TOP + _HIGH + 17, text_anchor="middle")
        for at in range(0, len(periods), step)
    ]
    most = max(range(len(periods)), key=sums.__getitem__)
    said = f"{plural(len(periods), 'column')} of {what}; the highest is {hours(sums[most])}, {names[most]}. The table below has all numbers."
    return tag(
        "div",
        tag("svg", *scale, class_="scale", height=high, aria_hidden="true"),
        tag("svg", *lines, *stacks, *labels, class_="columns", height=high, aria_hidden="true"),
        class_="plot", role="img", aria_label=said,
    )  # fmt: skip


def ticks(most: float, *, whole: bool) -> list[float]:
    """Round numbers from zero to the next one that is not less, in four steps; counts have no halves."""
    most = most if isfinite(most) and most > 0 else 1.0
    if whole and most < 4:
        return [float(mark) for mark in range(ceil(most) + 1)]
    power = 10.0 ** floor(log10(most))
    tops = [step * power for step in _STEPS if step * power >= most]
    top = next((one for one in tops if not whole or one % 4 == 0), tops[-1])
    return [top * part / 4 for part in range(5)]


def _stack(
    period: Period, value: _Value, colour: Mapping[str, str], x: float, wide: float, top: float, said: str
) -> Markup:
    parts, y = [tag("title", said)], float(_TOP + _HIGH)
    for shade, amount in _by_colour(period, value, colour).items():
        high = amount / top * _HIGH
        if 0 < high <= _HIGH + 1:
            y -= high
            parts.append(tag("rect", x=f"{x + wide * 0.14:.2f}%", y=f"{y:.1f}", width=f"{wide * 0.72:.2f}%",
                             height=f"{high:.1f}", class_=shade))  # fmt: skip
    hit = tag("rect", x=f"{x:.2f}%", y=_TOP, width=f"{wide:.2f}%", height=_HIGH, class_="hit")
    return tag("g", *parts, hit)


def _by_colour(period: Period, value: _Value, colour: Mapping[str, str]) -> dict[str, float]:
    """Each colour's sum in the order of the legend, the rest last: on top."""
    sums = dict.fromkeys([*colour.values(), "c0"], 0.0)
    for cost in period.causes:
        sums[colour.get(cost.what, "c0")] += value(cost)
    return sums


def _legend(periods: Sequence[Period], colour: Mapping[str, str]) -> Markup:
    seen = {cost.what for period in periods for cost in period.causes}
    keys = [(shade, code(what)) for what, shade in colour.items() if what in seen]
    if others := len(seen - colour.keys()):
        keys.append(("c0", Markup(plural(others, "other cause"))))
    items = [
        tag("li", tag("svg", tag("rect", width=12, height=12, rx=2, class_=shade), width=12, height=12, aria_hidden="true"), told)
        for shade, told in keys
    ]  # fmt: skip
    return tag("ul", *items, class_="legend", aria_label="Colors, from the bottom up")


def _table(periods: Sequence[Period], colour: Mapping[str, str], answers: Answers) -> Markup:
    rows = []
    for period in periods:
        failed = sum(cost.jobs for cost in period.causes)
        lost, counted = sum(c.gpu_hours_lost for c in period.causes), sum(c.with_hours for c in period.causes)
        about = known(counted, failed)
        lost_of = (
            f"{hours(lost)} ({about})"
            if counted and about
            else hours(lost)
            if counted
            else "not known"
            if failed
            else "0"
        )
        begins = (
            f"{period.begins:%b %Y}"
            if answers.period == "month"
            else tag("span", period.begins.isoformat(), class_="date")
        )
        rows.append([begins, f"{period.jobs:,}", f"{failed:,}, {of(failed, period.jobs, 'job')}" if failed else "0", lost_of, _mix(period, colour)])  # fmt: skip
    heads = (
        f"{_unit(answers).capitalize()} from" if answers.period != "month" else "Month",
        "Jobs that ended#",
        "Failed",
        "GPU hours lost",
        "Failed jobs by cause",
    )
    return table(f"Jobs by the {_unit(answers)} in which they ended", heads, rows)


def _mix(period: Period, colour: Mapping[str, str]) -> Markup:
    named = [cost for cost in period.causes if cost.what in colour]
    rest = sum(cost.jobs for cost in period.causes) - sum(cost.jobs for cost in named)
    told = [f"{cost.jobs:,} {short(cost.what, 32)}" for cost in sorted(named, key=lambda cost: -cost.jobs)]
    return join([*told, *([f"{rest:,} of other causes"] if rest else [])], ", ")
