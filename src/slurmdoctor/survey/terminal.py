"""A report of a survey at the terminal, by rich: the first rows of each table, and what is to be copied in one piece."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Literal

from slurmdoctor.report import Look
from slurmdoctor.survey.sections import Cell, Copy, Drawing, Facts, Kind, Part, Report, Say, Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

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
        parts = [
            one for one in section.parts if not isinstance(one, Drawing) and not (isinstance(one, Say) and one.page)
        ]
        kinds = [one for one in parts if isinstance(one, Kind)]
        if parts:
            caption = f"  {parts[0].caption}" if isinstance(parts[0], Table) else ""
            console.print()
            console.print(Text.assemble((section.title.upper(), "bold cyan"), (caption, "dim")))
        for part in parts:
            if part not in kinds[_KINDS:]:
                _print(console, part, draft=part in kinds[:1])
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    return "\n".join(lines).encode(seen.encoding, "replace").decode(seen.encoding) + "\n"


def _print(console: Console, part: Part, draft: bool = True) -> None:
    if isinstance(part, Say):
        console.print(part.text.replace("`", ""), style=_STYLES.get(part.style))
    elif isinstance(part, Copy):
        console.print(part.text, style="yellow", soft_wrap=True)
    elif isinstance(part, Kind):
        console.print(f"{part.about}: {part.pattern}", no_wrap=True, overflow="ellipsis")
        if draft and part.draft:
            _print(console, part.draft)
    elif isinstance(part, Facts):
        console.print("; ".join(f"{name}: {value}" for name, value in part.rows) + ".", style="dim")
    elif isinstance(part, Table) and part.first:
        _print_table(console, part)


def _print_table(console: Console, table: Table) -> None:
    """The columns that there is room for; what a name means comes last."""
    from rich.table import Table as Grid
    from rich.text import Text

    shown = table.rows[: table.first]
    meanings = [Text(row[0].about if isinstance(row[0], Cell) else "") for row in shown]
    heads = [*table.columns, *([""] if any(meanings) else [])]
    rows = [[*map(_text, row), meaning] for row, meaning in zip(shown, meanings, strict=True)]
    widths = [max(len(head.rstrip("#")), *(row[at].cell_len for row in rows)) for at, head in enumerate(heads)]
    fixed = [head.endswith("#") or "GPU" in head or head == "Failed jobs" for head in heads]
    least = [width if whole else min(width, _TEXT) for whole, width in zip(fixed, widths, strict=True)]
    while (room := console.width - sum(least) - 2 * len(least) + 2) < 0 and len(least) > 1:
        least.pop()
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for head, width, low in zip(heads, widths, least, strict=False):
        more = max(0, min(width - low, room))
        room -= more
        side: Literal["left", "right"] = "right" if head.endswith("#") else "left"
        grid.add_column(head.rstrip("#"), justify=side, width=low + more, no_wrap=True, overflow="ellipsis")
    for row in rows:
        grid.add_row(*row[: len(least)])
    console.print(grid)
    if len(table.rows) > table.first:
        console.print(f"and {len(table.rows) - table.first:,} more, on the page", style="dim")


def _text(cell: Cell | str) -> Text:
    from rich.text import Text

    if isinstance(cell, str):
        return Text(cell)
    part, percent, _ = cell.about.partition(" %")
    shown = Text.assemble((cell.text, _STYLES.get(cell.style, "")), (f"  {part}{percent}" if percent else "", "dim"))
    if cell.bar is None:
        return shown
    bar = "━" * max(round(_BAR * cell.bar), 1 if cell.bar > 0 else 0)
    return Text.assemble((f"{bar:{_BAR}} ", "cyan"), shown)
