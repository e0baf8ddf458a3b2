"""Tables that stay tables for a screen reader and become cards on a phone, and the bars in their cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurmdoctor.report.page.tags import Content, Markup, tag


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[Content]], kind: str = "") -> Markup:
    """A row is headed by its first cell. Columns whose name ends in `#` hold plain numbers."""
    names = [column.rstrip("#") for column in columns]
    numbers = ["number" if column.endswith("#") else None for column in columns]
    head = (tag("th", shown, scope="col", class_=number) for shown, number in zip(names, numbers, strict=True))
    body = (
        tag("tr", tag("th", row[0], scope="row"), *(
            tag("td", cell, class_=number, data_label=shown if cell else None)
            for cell, shown, number in zip(row[1:], names[1:], numbers[1:], strict=True)
        ))
        for row in rows
    )  # fmt: skip
    parts = (tag("caption", caption), tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("table", *parts, class_=f"figures {kind}".rstrip())


def measure(told: str, about: str, length: float, colour: str = "plain-bar") -> Markup:
    """A number with what it is of, over its bar; `length` is its part of the longest one's."""
    width = f"{min(max(length, 0.0), 1.0) * 100:.1f}%"
    bar = tag(
        "svg", tag("rect", width=width, height=7, rx=1.5, class_=colour), height=7, class_="bar", aria_hidden="true"
    )
    said = tag("span", tag("b", told), " ", tag("span", about, class_="of") if about else None, class_="told")
    return Markup(said + bar)


def length(value: float, longest: float) -> float:
    """A bar's length as a part of the longest one."""
    return value / longest if longest > 0 else 0.0
