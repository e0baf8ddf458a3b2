"""Answers the search what holds of all lines that differ in hexadecimal words only (`search/shapes`)."""

from __future__ import annotations

from slurmdoctor.model import ExitFormat, Matcher, Rule, Signal
from slurmdoctor.readers import collectives
from slurmdoctor.readers.exceptions import begins_frame, exception_of, undecorated
from slurmdoctor.search import MARK, relaxed, takes_all, takes_none


def kinds_of(matcher: Matcher, text: str) -> tuple[str, ...] | None:
    """The kind under which such lines hold the target, none where they do not; None where that depends on what marks stand for.

    `text` is the line without its labels. Where digits matter the target is found absent, or nothing is said.
    """
    target = matcher.target
    if target == "exception" or (isinstance(target, Rule) and target.applies_to == "exception"):
        return () if _is_no_exception(text) else None
    if isinstance(target, Rule) and target.applies_to == "frame" and not begins_frame(text):
        return ()
    if isinstance(target, Rule | Signal):
        return _taken(target.regex, text, matcher.digit_sensitive)
    if target == "stack" or matcher.digit_sensitive:
        return None
    if target == "collective":
        return (collectives.kind_of(text.encode()),)
    return ("",) if isinstance(target, ExitFormat) or target in ("traceback", "map") else None


def _taken(pattern: str, text: str, digit_sensitive: bool) -> tuple[str, ...] | None:
    if digit_sensitive:
        more = relaxed(pattern)
        return () if more is not None and takes_none(more, text) else None
    if takes_all(pattern, text):
        return ("",)
    return () if takes_none(pattern, text) else None


def _is_no_exception(text: str) -> bool:
    """Whether no such line is an exception's own: its class would stand before the first colon."""
    return MARK not in undecorated(text).partition(":")[0] and exception_of(text) is None
