"""The rest of the page: how the failure spread, why the verdict is this one, what else was considered, and the job."""

from __future__ import annotations

from typing import Any

from slurmdoctor.model import Cascade, Diagnosis, ranges
from slurmdoctor.report import words
from slurmdoctor.report.page.tags import Markup, place, sentence, tag
from slurmdoctor.report.quantities import delay, listed, plural
from slurmdoctor.report.redactor import one_line

_UNITS = {"gib": "GiB", "mib": "MiB", "gb": "GB", "ms": "ms", "s": "s", "seconds": "s", "minutes": "min", "hours": "h"}
_ORDERS = {"timestamps": "by time stamps", "file": "by lines: there are no time stamps", "unknown": "not known"}


def spread(diagnosis: Diagnosis) -> Markup | None:
    """From the root cause to those that followed."""
    first = diagnosis.first_failure
    if not diagnosis.cascade:
        return None
    when = words.clock(shown) if (shown := first.clock or first.time) else "first"
    root = tag("li", tag("span", when, class_="when"), tag("b", words.headline(diagnosis)),
               tag("span", place(first.file, first.line), class_="place"), class_="origin")  # fmt: skip
    return tag("ol", root, *(_follower(item, diagnosis) for item in diagnosis.cascade), class_="chain")


def _follower(item: Cascade, diagnosis: Diagnosis) -> Markup:
    who = plural(item.ranks, "rank") if item.ranks else words.others(diagnosis)
    what = words.agreeing(item.title or item.cause, item.ranks or 2)
    when = delay(item.delay) if item.delay is not None else "then"
    number = f"{plural(item.count, 'line')}, the first at " if item.count > 1 else ""
    return tag("li", tag("span", when, class_="when"), tag("b", f"{who} {what}"),
               tag("span", number + place(item.file, item.line), class_="place"))  # fmt: skip


def why(diagnosis: Diagnosis) -> Markup | None:
    """The reasons, one an item."""
    reasons = dict.fromkeys(filter(None, (*diagnosis.reasons, diagnosis.first_failure.how)))
    return _items([sentence(reason) for reason in reasons])


def also(diagnosis: Diagnosis) -> list[Markup]:
    """Other causes that the log does not rule out, and what is to be known of the reading."""
    seen = diagnosis.coverage
    rivals = [
        tag(
            "div",
            tag("dt", tag("code", one_line(rival.id)), f" {rival.confidence} confidence"),
            tag("dd", sentence(rival.why)),
        )
        for rival in diagnosis.others
    ]
    notes = [sentence(note) for note in seen.notes]
    if seen.silent_ranks:
        who = ("ranks " if len(seen.silent_ranks) > 1 else "rank ") + ranges(seen.silent_ranks, 60)
        notes.append(sentence(f"{who} printed nothing"))
    if seen.missing and words.other_record(diagnosis) is None:
        notes.append(sentence(f"not checked: {listed(list(map(one_line, seen.missing)))}"))
    found = [tag("dl", *rivals, class_="rivals") if rivals else None, _items(notes)]
    return [part for part in found if part]


def facts(diagnosis: Diagnosis) -> Markup:
    """What is known of the job, and what was read."""
    seen = diagnosis.coverage
    rows = [("Read", words.read(diagnosis)), ("Order of events", _ORDERS[seen.order])]
    rows += [(_name(name), _value(value)) for name, value in diagnosis.facts.items()]
    return tag(
        "dl",
        *(tag("div", tag("dt", one_line(name)), tag("dd", value)) for name, value in rows if value),
        class_="facts",
    )


def _name(fact: str) -> str:
    """`timeout_ms` as `Timeout (ms)`."""
    *words, last = str(fact).split("_")
    unit = _UNITS.get(last) if words else None
    return (
        f"{' '.join(words)} ({unit})".capitalize().replace(unit.lower(), unit)
        if unit
        else " ".join((*words, last)).capitalize()
    )


def _value(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(_value(one) for one in value)
    return one_line(str(value))


def _items(items: list[Markup]) -> Markup | None:
    return tag("ul", *(tag("li", item) for item in items)) if items else None
