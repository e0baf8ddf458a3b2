"""Several jobs on one page: how many ended alike, a row each, and each job's own page folded."""

from __future__ import annotations

from collections.abc import Container, Sequence

from slurmdoctor.report.jobs import Row, counted
from slurmdoctor.report.page.tags import Markup, fold, join, tag
from slurmdoctor.report.quantities import plural

_KINDS = {"failed": "bad", "no-failure": "good", "unknown": "doubt"}
_SPOKEN = {"failed": "failed", "no-failure": "healthy", "unknown": "unknown"}


_MOST_ROWS = 1000


def head(rows: Sequence[Row]) -> Markup:
    """How many jobs there are, how many failed, and what ended them."""
    failed = sum(row.verdict == "failed" for row in rows)
    counts = counted(rows).partition(": ")[2]
    title = tag("h1", tag("span", f"{failed:,} of {plural(len(rows), 'job')} failed"))
    return tag("header", title, tag("p", counts, class_="about"), class_="verdict")


def table(rows: Sequence[Row], whole: Container[int]) -> Markup:
    """A row a job; it leads to the job's own page where that is here too."""
    head = [tag("th", name, scope="col") for name in ("Job", "Result", "What happened", "Cause")]
    body = [_row(at, row, at in whole) for at, row in enumerate(rows[:_MOST_ROWS])]
    shown = tag("table", tag("caption", "All jobs"), tag("thead", tag("tr", *head)), tag("tbody", *body))
    more = len(rows) - len(body)
    notes = [f"{plural(more, 'more job')} not shown."] if more else []
    if any(at not in whole for at in range(len(rows))):
        notes.append("Jobs without a link are in the table alone: this page would be too large.")
    return tag("section", shown, tag("p", " ".join(notes), class_="note") if notes else None, aria_label="All jobs")


def job(at: int, row: Row, *own: Markup) -> Markup:
    """A job's own page, folded; a browser opens it for a link that leads into it."""
    summary = join((_sign(row), tag("b", row.label), " ", tag("span", row.headline)))
    return fold(summary, tag("div", *own, id=f"job-{at}"), class_="job")


def _row(at: int, row: Row, linked: bool) -> Markup:
    label = tag("a", row.label, href=f"#job-{at}") if linked else row.label
    cause = tag("code", row.cause) if row.cause else None
    result = tag("td", _sign(row), _SPOKEN[row.verdict], class_="word")
    return tag("tr", tag("th", label, scope="row"), result, tag("td", row.headline), tag("td", cause))


def _sign(row: Row) -> Markup:
    return tag("span", row.mark, class_=f"small {_KINDS[row.verdict]}", aria_hidden="true")
