"""Whether a rule matches a line: a literal in the line as printed, then `applies_to` and the regex on its text."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from slurmdoctor.model import Rule, Signal, SourceFormat
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.ranks.source_format import learn
from slurmdoctor.readers.exceptions import exception_of

TIMEOUT = 0.25
"""Seconds that a pattern may take for one line."""


def search(pattern: str, text: str) -> regex.Match[str] | None:
    """The first match in the text; None also where the search takes too long, as in a diagnosis."""
    try:
        return regex.search(pattern, text, timeout=TIMEOUT)
    except TimeoutError:
        return None


def is_kind(kind: str, text: str) -> bool:
    """Whether the line, without its labels, is of the kind that a rule's `applies_to` asks for."""
    if kind == "exception":
        return exception_of(text) is not None
    return kind != "frame" or text.lstrip(" |").startswith("File ")


def peeled(line: str, labels: LabelReader) -> tuple[str, ...]:
    """The line without its labels: as a log of its own, and as one among lines of another kind."""
    views = (labels.strip_labels(line, form)[1] for form in (learn([line], labels), SourceFormat()))
    return tuple(dict.fromkeys(views))


def admits(rule: Rule | Signal, line: str) -> bool:
    return any(literal in line for literal in rule.literals)


def takes(rule: Rule | Signal, line: str, texts: Sequence[str]) -> bool:
    """`line` as printed, `texts` without its labels."""
    return admits(rule, line) and any(_confirms(rule, text) for text in texts)


def _confirms(rule: Rule | Signal, text: str) -> bool:
    kind = rule.applies_to if isinstance(rule, Rule) else "line"
    return is_kind(kind, text) and search(rule.regex, text) is not None
