"""Tables, bars and numbers of a survey's text. Names come from logs and accounts: they are masked and made harmless here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurmdoctor.report import Line, cells, cut, one_line, plural, redact, wrap_words

_BAR = 12
"""Columns of the longest bar."""
_LONGEST_NAME = 28
_LONGEST = 2_000
"""Characters of a name that are looked at."""
GAP = "  "


def clean(text: object, width: int = _LONGEST_NAME) -> str:
    """A name as a part of a line."""
    return cut(one_line(redact(str(text)[:_LONGEST])), width)


def whole(text: str) -> str:
    """A line to be copied, of any length."""
    return one_line(redact(text))


def hours(amount: float | None) -> str:
    """`0.4`, `12`, `1,234`."""
    if amount is None:
        return "-"
    return f"{amount:,.0f}" if amount >= 9.95 or not amount else f"{amount:.1f}" if amount >= 0.05 else "<0.1"


def share(part: float, of: float) -> str:
    """`18.7 %`; of nothing there is no share."""
    return f"{100 * part / of:.1f} %" if of else "-"


def bar(part: float, most: float) -> str:
    """A bar of `part`, where the longest one shows `most`; what is there is seen."""
    return "━" * max(round(_BAR * part / most), 1 if part > 0 else 0) if most > 0 else ""


def head(title: str, note: str, width: int) -> list[Line]:
    """A section's title, and beside or below it what its numbers are of."""
    if not note:
        return [[], [("head", title)]]
    if cells(title) + len(GAP) + cells(note) <= width:
        return [[], [("head", title), ("", GAP), ("dim", note)]]
    return [[], [("head", title)], *said(note, width, "dim")]


def said(text: str, width: int, style: str = "") -> list[Line]:
    return [[(style, line)] for line in wrap_words(text, width)]


def table(names: Sequence[str], rows: Iterable[Sequence[str]], width: int, left: Sequence[int] = (0,)) -> list[Line]:
    """Rows below their columns' names. The columns `left` are texts, the others numbers; the last text column yields to the width."""
    rows = list(rows)
    widths = [max(cells(row[at]) for row in (names, *rows)) for at in range(len(names))]
    used = sum(widths) + len(GAP) * (len(names) - 1)
    if used > width:
        last = max(left)
        widths[last] = max(8, widths[last] - (used - width))
    lines: list[Line] = []
    for number, row in enumerate((names, *rows)):
        line: Line = []
        for at, text in enumerate(row):
            shown = cut(text, widths[at])
            room = " " * (widths[at] - cells(shown))
            style = "dim" if number == 0 else "key" if at == 0 else ""
            line += [("", GAP)] if at else []
            line += [(style, shown), ("", room)] if at in left else [("", room), (style, shown)]
        lines.append(line)
    return lines


def more(count: int, noun: str, where: str = "") -> list[Line]:
    """How many are not shown."""
    return [[("dim", f"and {plural(count, f'more {noun}')}{where}")]] if count > 0 else []
