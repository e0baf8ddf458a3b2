"""A survey's report for a terminal, as a page of one file that needs no script and no network, and as metrics of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import StringIO
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from slurmdoctor.model import Frozen
from slurmdoctor.report import Look, plural, render_page
from slurmdoctor.survey.answers import Answers, Cost, Period
from slurmdoctor.survey.sections import (
    Cell,
    Copy,
    Facts,
    Kinds,
    Part,
    Report,
    Say,
    Table,
    colors,
    day,
    describe,
    gpu_hours,
    hours,
    name,
    of,
    share,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

# ── the terminal ──

_KINDS = 2
"""Kinds of last lines."""
_BAR = 12
"""Characters of the longest bar."""
_TEXT = 18
"""Characters to which a column of texts is cut, where the columns do not fit."""
_STYLES = {"good": "bold green", "bad": "bold red", "doubt": "bold yellow", "dim": "dim"}


def show(report: Report, seen: Look) -> str:
    """The report as text of the terminal's width; lines to copy are as long as they are."""
    from rich.console import Console
    from rich.text import Text

    file = StringIO()
    console = Console(
        file=file, width=seen.width, force_terminal=seen.colour, color_system="standard" if seen.colour else None,
        no_color=not seen.colour, highlight=False, emoji=False, markup=False, legacy_windows=False,
    )  # fmt: skip
    console.print(f"{report.title}.", style="bold")
    for one in report.lead:
        _print(console, one)
    if report.chips:
        console.print("; ".join(report.chips), style="dim")
    for section in report.sections:
        if parts := section.parts:
            caption = f"  {parts[0].caption}" if isinstance(parts[0], Table) else ""
            console.print()
            console.print(Text.assemble((section.title.upper(), "bold cyan"), (caption, "dim")))
        for part in parts:
            _print(console, part)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    return "\n".join(lines).encode(seen.encoding, "replace").decode(seen.encoding) + "\n"


def _print(console: Console, part: Part) -> None:
    if isinstance(part, Say):
        console.print(part.text.replace("`", ""), style=_STYLES.get(part.style))
    elif isinstance(part, Copy):
        console.print(part.text, style="yellow", soft_wrap=True)
    elif isinstance(part, Kinds):
        for one in part.kinds[:_KINDS]:
            console.print(f"{one.about}: {one.pattern}", no_wrap=True, overflow="ellipsis")
            console.print(one.draft, style="yellow", soft_wrap=True)
    elif isinstance(part, Facts):
        console.print("; ".join(f"{name}: {value}" for name, value in part.rows) + ".", style="dim")
    elif part.first:
        _print_table(console, part)


def _print_table(console: Console, table: Table) -> None:
    """The columns that there is room for; what a name means comes last."""
    from rich.table import Table as Grid

    shown = table.rows[: table.first]
    columns = [(head, [_text(row[at]) for row in shown]) for at, head in enumerate(table.columns)]
    meanings = [_text(row[0].about if isinstance(row[0], Cell) else "") for row in shown]
    if any(meanings):
        columns.append(("", meanings))
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    room = console.width + 2
    fitting: list[list[Text]] = []
    for head, texts in columns:
        plain = head.rstrip("#")
        width = max(len(plain), *(text.cell_len for text in texts))
        whole = plain != head or "GPU" in head or head == "Failed jobs"
        room -= 2 + (width if whole else min(width, _TEXT))
        if room < 0 and fitting:
            break
        grid.add_column(_text(plain), justify="left" if plain == head else "right", no_wrap=whole)
        fitting.append(texts)
    for row in zip(*fitting, strict=True):
        grid.add_row(*row)
    console.print(grid)
    if len(table.rows) > table.first:
        console.print(f"and {len(table.rows) - table.first:,} more, on the page", style="dim")


def _text(cell: Cell | str) -> Text:
    from rich.text import Text

    shown = Text(no_wrap=True, overflow="ellipsis")
    if isinstance(cell, str):
        return shown.append(cell)
    if cell.bar is not None:
        shown.append(f"{'━' * max(round(_BAR * cell.bar), cell.bar > 0):{_BAR}} ", "cyan")
    shown.append(cell.text, _STYLES.get(cell.style, ""))
    part, percent, _ = cell.about.partition(" %")
    return shown.append(f"  {part}{percent}" if percent else "", "dim")


# ── the page ──

_MOST = 40
"""Columns of a chart."""
_LABELS, _MONTHS = 6, 4
"""Labels that a narrow chart has room for; those of months are longer."""
_DAYS = {"day": 1, "week": 7, "month": 31}
"""Days of a period, at most."""


class Column(Frozen):
    """What failed in a period: in all, and of each color, from the bottom up."""

    label: str
    whole: float
    stack: Mapping[str, float]


class Chart(Frozen):
    """Columns stacked by cause."""

    what: str
    unit: str
    marks: Sequence[float]
    columns: Sequence[Column]
    highest: Column
    step: int
    """Of so many columns one has a label."""


def render(answers: Answers) -> str:
    """The page, in ASCII: no server and no locale can misread it."""
    periods, color = answers.periods[-_MOST:], colors(answers)
    drawn: list[tuple[str, Callable[[Cost], float]]] = [("failed jobs", lambda cost: cost.jobs)]
    if answers.failed_with_hours:
        drawn.insert(not answers.by_hours, ("GPU hours lost", lambda cost: cost.gpu_hours_lost))
    seen = {cost.what for period in periods for cost in period.causes}
    others = len(seen - color.keys())
    return render_page(
        "survey.html.j2",
        "slurmdoctor.survey",
        report=describe(answers),
        charts=[_chart(what, value, periods, answers.period, color) for what, value in drawn if periods],
        legend=[
            *((style, name(what)) for what, style in color.items() if what in seen),
            *([("c0", plural(others, "other cause"))] if others else []),
        ],
        apart=any((b.begins - a.begins).days > _DAYS[answers.period] for a, b in pairwise(periods)),
        answers=answers,
        gpu_hours=gpu_hours,
        hours_of=hours,
        part_of=of,
        share=share,
    )


def _chart(
    what: str, value: Callable[[Cost], float], periods: Sequence[Period], unit: str, color: Mapping[str, str]
) -> Chart:
    columns = []
    for period in periods:
        stack = dict.fromkeys([*color.values(), "c0"], 0.0)
        for cost in period.causes:
            stack[color.get(cost.what, "c0")] += value(cost)
        label = f"{period.begins:%b %Y}" if unit == "month" else day(period.begins)
        columns.append(Column(label, sum(stack.values()), stack))
    highest = max(columns, key=lambda column: column.whole)
    step = -(-len(periods) // (_MONTHS if unit == "month" else _LABELS))
    return Chart(what, unit, marks(highest.whole), columns, highest, step)


def marks(most: float) -> list[float]:
    """Round numbers from zero to the next one that is not less."""
    most = most if isfinite(most) and most > 0 else 1.0
    step = 10.0 ** floor(log10(most))
    return [step * mark for mark in range(ceil(most / step) + 1)]


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
    shown = [
        f'{label}="{"".join(char for char in text if char == chr(10) or char.isprintable()).translate(escapes)}"'
        for label, text in labels.items()
        if text
    ]
    return f"{{{','.join(shown)}}}" if shown else ""
