"""Words the lanes: times as the log writes them, the file and number of each line, and how processes ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmdoctor.model import Course, Courses, Lane, Lanes, Mark, Observations, Sighting, Span, format_time
from slurmdoctor.report.exits import exit_words

Numbers = Mapping[tuple[int, int], "int | None"]
_TICKS = 7
"""Labels of an axis, at most."""
_DAY = 86_400.0
_STEPS = (
    *(n / 1000 for n in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200),
)
"""Seconds between labels; days beyond."""


def draw(courses: Courses, observed: Observations, numbers: Numbers, title: str) -> Lanes:
    """What a page draws. `title` says what a rank did that printed nothing of its failure."""
    start = courses.start
    return Lanes(
        lanes=tuple(_lane(one, start, observed, numbers, title) for one in courses.courses),
        start=start,
        end=courses.end,
        ticks=tuple(_times(courses, observed.zone)),
        began=min(0.0, courses.began - start),
    )


def _lane(course: Course, start: float, observed: Observations, numbers: Numbers, title: str) -> Lane:
    ended = exit_words(course.ending) if course.ending is not None else ""
    said = {"first": title, "exit": ended}
    return Lane(
        ranks=course.ranks,
        node=course.node,
        standing=course.standing,
        spans=tuple(Span(span.start - start, span.end - start, span.state) for span in course.spans),
        marks=tuple(_mark(one, start, observed, numbers, said.get(one.kind, "")) for one in course.sightings),
        ended=ended,
        left_out=course.left_out,
    )


def _mark(one: Sighting, start: float, observed: Observations, numbers: Numbers, said: str) -> Mark:
    """A mark; where no line is shown of it, with what is said instead."""
    at = one.at - start
    if one.place is None:
        return Mark(at, one.kind, one.cause, one.text or said or one.cause or "", None, None, one.rank)
    file = observed.files[one.place[0]].name
    return Mark(at, one.kind, one.cause, one.text, file, numbers.get(one.place), one.rank)


def _times(courses: Courses, zone: int | None) -> Iterator[tuple[float, str]]:
    """Round times; the first one with its date and zone."""
    width = courses.end - courses.start
    step = next((step for step in _STEPS if width / step <= _TICKS), _DAY * (1 + width // (_DAY * _TICKS)))
    begin = -(-courses.start // step) * step
    if begin > courses.end:
        begin = courses.start
    at = begin
    while at <= courses.end:
        first = at == begin
        shown = format_time(round(at, 3), courses.dated and (first or step >= _DAY), zone=zone if first else None) or ""
        yield at - courses.start, shown.replace("T", " ") + (f".{round(at % 1 * 1000):03}" if step < 1 else "")
        at += step
