"""Numbers, names and dates as the page writes them: short, harmless, and each number with what it is of. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from math import isfinite

from slurmdoctor.report import one_line, plural
from slurmdoctor.report.page.tags import LONGEST, Markup, join, tag

UNKNOWN = "unknown"
"""What `Cost.what` says of failures without a known cause."""


def short(text: str | None, most: int = 60) -> str:
    """A text of any origin in one line, cut."""
    plain = one_line((text or "")[:LONGEST])
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def job_id(text: str, most: int = 40) -> str:
    """A job's id; of one that is a path the end, which tells most."""
    plain = one_line(text[-LONGEST:])
    return short(text, most) if "/" not in plain or len(plain) <= most else "…" + plain[1 - most :]


def name(text: str | None, most: int = 60) -> Markup:
    """A name of the dataset; one in letters from right to left does not turn what is beside it."""
    return tag("bdi", short(text, most) or "(none)")


def code(text: str | None, most: int = 40) -> Markup:
    """A cause's id."""
    return tag("code", short(text, most) or "(none)")


def hours(value: float | None) -> str:
    """`0.75`, `12.5`, `18,205`: as precise as one reads it."""
    if value is None or not isfinite(value):
        return "not known"
    if abs(value) < 0.995:
        return f"{value:.2f}" if abs(value) >= 0.005 else "0" if value == 0 else "under 0.01"
    return f"{value:.1f}".removesuffix(".0") if abs(value) < 99.95 else f"{value:,.0f}"


def gpu_hours(value: float | None) -> str:
    """`1 GPU hour`, `18,205 GPU hours`."""
    if value is None:
        return "an unknown number of GPU hours"
    return f"{hours(value)} GPU hour" + "s" * (hours(value) != "1")


def share(part: float, whole: float) -> str:
    """`37 %`, `4.1 %`; empty where there is nothing to be a part of."""
    if not whole or not isfinite(part) or not isfinite(whole):
        return ""
    percent = part / whole * 100
    if part and abs(percent) < 0.1:
        return "under 0.1 %"
    rounded = f"{percent:.0f}" if 10 <= percent < 99 or percent >= 100 else f"{percent:.1f}".removesuffix(".0")
    return f"{'99.9' if rounded == '100' and part < whole else rounded} %"


def of(part: int, whole: int, noun: str) -> str:
    """`13.4 % of 20,312 jobs`."""
    told = share(part, whole)
    return f"{told} of {plural(whole, noun)}" if told else f"of {plural(whole, noun)}"


def known(with_hours: int, jobs: int) -> str:
    """Of how many jobs a sum of GPU hours is, where it is not of all."""
    return "" if with_hours >= jobs else f"known of {with_hours:,} of {plural(jobs, 'job')}"


def day(when: date) -> str:
    """`Nov 3`."""
    return f"{when:%b} {when.day}"


def span(first: date | None, last: date | None) -> str:
    """`May 25 to Nov 22, 2026`."""
    if first is None or last is None:
        return ""
    if (first.year, first.month, first.day) == (last.year, last.month, last.day):
        return f"{day(first)}, {first.year}"
    year = "" if first.year == last.year else f", {first.year}"
    return f"{day(first)}{year} to {day(last)}, {last.year}"


def listed(items: Iterable[str], count: int, most: int) -> str:
    """The first of so many, and how many more there are."""
    shown = ", ".join(item for item, _ in zip(items, range(most), strict=False))
    return f"{shown} and {count - most:,} more" if count > most else shown


def note(*sentences: str) -> Markup | None:
    """What is to be known of the part above."""
    told = [sentence for sentence in sentences if sentence]
    return tag("p", join(told, " "), class_="note") if told else None
