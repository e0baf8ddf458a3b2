"""GitHub's annotations (workflow commands): verdicts and findings beside the lines that they are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from slurmdoctor.model import Diagnosis
from slurmdoctor.report import words
from slurmdoctor.report.quantities import listed, plural
from slurmdoctor.report.redactor import one_line

Kind = Literal["error", "warning", "notice"]
MOST = 10
"""Annotations of one kind that GitHub takes from a step; it drops the others without a word."""
_LONGEST = 4000
"""Characters of a message; GitHub cuts longer ones."""


class Annotation(Struct, frozen=True):
    """A message beside a line of a file, or of the whole run."""

    kind: Kind
    title: str
    text: str
    file: str | None = None
    line: int | None = None


def render(diagnosis: Diagnosis) -> str:
    """The verdict on one job."""
    return commands([annotation(diagnosis)])


def annotation(diagnosis: Diagnosis) -> Annotation:
    """A failure as an error beside the log's line, else a warning or a notice."""
    file, line, _, _ = words.shown_line(diagnosis)
    file = None if file and file.startswith("<") else file  # a pasted text
    if diagnosis.verdict != "failed":
        kind: Kind = "warning" if diagnosis.verdict == "unknown" else "notice"
        return Annotation(
            kind, "slurmdoctor", f"{words.headline(diagnosis)} (read {words.read(diagnosis)})", file, line
        )
    fixes = [f"Fix: {fix.do}" for fix in diagnosis.fixes[:1]]
    text = ". ".join(part.rstrip(".") for part in (words.headline(diagnosis), *fixes))
    return Annotation("error", f"slurmdoctor: {words.tag(diagnosis)}", text, file, line)


def commands(found: Iterable[Annotation]) -> str:
    """The workflow commands, as many as GitHub takes, and a line on how many there are beside these."""
    shown: list[str] = []
    seen: Counter[Kind] = Counter()
    for item in found:
        seen[item.kind] += 1
        if seen[item.kind] <= MOST:
            shown.append(_command(item))
    more = [plural(seen[kind] - MOST, f"more {kind}") for kind in seen if seen[kind] > MOST]
    rest = [f"GitHub shows {MOST} annotations of a kind; there are {listed(more)}"] if more else []
    return "".join(row + "\n" for row in (*shown, *rest))


def _command(item: Annotation) -> str:
    properties = {"file": item.file, "line": item.line if item.file else None, "title": item.title}
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value is not None)
    return f"::{item.kind} {given}::{_data(one_line(item.text)[:_LONGEST])}"


def _data(text: str) -> str:
    return one_line(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
