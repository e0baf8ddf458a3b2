"""Words the lanes: times as the log writes them, the file and number of each line, and how processes ended."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate

from slurmdoctor.model import Course, Courses, Lane, Lanes, Mark, Observations, Sighting, Span, format_time
from slurmdoctor.report.exits import exit_words

Numbers = Mapping[tuple[int, int], "int | None"]
Scale = Callable[[float], float]
"""From the axis of courses to that of lanes."""
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
    clock = courses.clock
    whole = _scale(courses, courses.courses, observed, numbers)
    # places in the files of two ranks do not compare
    own = [_scale(courses, [one], observed, numbers) for one in courses.courses] if courses.apart and not clock else []
    end = whole(courses.end)
    ticks = _times(courses, observed.zone) if clock else _lines(_first_row(courses, observed), end)
    scales = own or [whole] * len(courses.courses)
    return Lanes(
        lanes=tuple(_lane(one, at, observed, numbers, title) for one, at in zip(courses.courses, scales, strict=True)),
        start=courses.start if clock else None,
        end=courses.end if clock else end,
        clock=clock,
        ticks=tuple(ticks),
        began=min(0.0, courses.began - courses.start if clock else 1.0 - _first_row(courses, observed)),
    )


def _lane(course: Course, scale: Scale, observed: Observations, numbers: Numbers, title: str) -> Lane:
    ended = exit_words(course.ending) if course.ending is not None else ""
    said = {"first": title, "exit": ended}
    spans = (Span(scale(span.start), scale(span.end), span.state) for span in course.spans)
    return Lane(
        ranks=course.ranks,
        node=course.node,
        standing=course.standing,
        spans=tuple(spans),
        marks=tuple(_mark(one, scale, observed, numbers, said.get(one.kind, "")) for one in course.sightings),
        ended=ended,
        left_out=course.left_out,
    )


def _mark(one: Sighting, scale: Scale, observed: Observations, numbers: Numbers, said: str) -> Mark:
    """A mark; where no line is shown of it, with what is said instead."""
    if one.place is None:
        return Mark(scale(one.at), one.kind, one.cause, one.text or said or one.cause or "", None, None, one.rank)
    file = observed.files[one.place[0]].name
    return Mark(scale(one.at), one.kind, one.cause, one.text, file, numbers.get(one.place), one.rank)


# ── the axis ─────────────────────────────────────────────────────────────────────────────────


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


def _lines(start: float, length: float) -> Iterator[tuple[float, str]]:
    """Round line numbers."""
    step = next(step * 10**power for power in range(12) for step in (1, 2, 5) if length / (step * 10**power) <= _TICKS)
    at = -(-start // step) * step
    while at <= start + length:
        yield at - start, f"line {round(at):,}"
        at += step


def _scale(courses: Courses, shown: Sequence[Course], observed: Observations, numbers: Numbers) -> Scale:
    """From the axis of courses to seconds from its start; to lines where there is no clock.

    The lines of marks stand exactly, and what is between them in proportion.
    """
    if courses.clock:
        return lambda at: at - courses.start
    start = _first_row(courses, observed)
    known = {courses.start: start, courses.end: max(start + 1.0, _row(courses, courses.end, observed))}
    above = _lines_above(courses, observed)
    for one in (one for course in shown for one in course.sightings if one.place is not None):
        number = numbers.get(one.place) if one.place is not None else None
        if one.place is not None and number is not None:
            known[one.at] = max(start, above[one.place[0]] + number)
    places = sorted(known)
    rows = list(accumulate((known[place] for place in places), max))

    def scale(at: float) -> float:
        after = min(max(bisect_right(places, at), 1), len(places) - 1)
        low, high = places[after - 1], places[after]
        row = rows[after - 1] + (rows[after] - rows[after - 1]) * (at - low) / (high - low)
        return max(0.0, row - start)

    return scale


def _lines_above(courses: Courses, observed: Observations) -> list[float]:
    """Of each file the lines of those before it, in the job's text."""
    if courses.apart:
        return [0.0] * len(observed.files)
    return [0.0, *accumulate(float(file.lines) for file in observed.files)]


def _first_row(courses: Courses, observed: Observations) -> float:
    return _row(courses, courses.start, observed)


def _row(courses: Courses, at: float, observed: Observations) -> float:
    """About which line stands at a place."""
    files = [max(observed.files, key=lambda file: file.bytes)] if courses.apart else observed.files
    lines = 0.0
    for file in files:
        if at <= file.bytes or file is files[-1]:
            return 1.0 + round(lines + file.lines * at / max(1, file.bytes))
        lines, at = lines + file.lines, at - file.bytes
    return 1.0
