"""Whether a rule takes a line: a literal in the line as printed, then `on` and regex on the peeled line."""

from __future__ import annotations

from collections.abc import Sequence

import regex

from slurmdoctor.model import LineFormat, Rule, Signal
from slurmdoctor.origins import learn, peel
from slurmdoctor.tracebacks import exception_of

TIMEOUT = 0.25
"""Seconds that a pattern may take for one line."""


def stands(on: str, text: str) -> bool:
    """Whether the line, without its labels, is of the kind that a rule's `on` asks for."""
    if on == "exception":
        return exception_of(text, strict=False) is not None
    return on != "frame" or text.lstrip(" |").startswith("File ")


def peeled(line: str, formats: Sequence[LineFormat]) -> str:
    """The line without the labels that it carries when it is a log of its own."""
    return peel(line, formats, learn([line], formats))[1]


def admits(watch: Rule | Signal, line: str) -> bool:
    return any(literal in line for literal in watch.literals)


def takes(rule: Rule | Signal, line: str, text: str) -> bool:
    """`line` as printed, `text` without its labels."""
    on = rule.on if isinstance(rule, Rule) else "line"
    return (
        admits(rule, line)
        and stands(on, text)
        and regex.search(rule.regex, text, timeout=TIMEOUT) is not None
    )
