"""Takes off who wrote and when, as Slack, Discord, Teams, WhatsApp, Telegram and IRC copy it into a paste."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slurmdoctor.input.rows import Row, share
from slurmdoctor.matching import lazy

if TYPE_CHECKING:
    import regex

_AMPM = r"\d{1,2}:\d\d ?[AaPp]\.?[Mm]\.?"
_HOUR = r"\d{1,2}:\d\d"
_DAY = (
    r"(?:(?:[Tt]oday|[Yy]esterday)|\d{1,2}[./-]\d{1,2}(?:[./-]\d{2,4})?\.?|\d{4}-\d\d-\d\d"
    r"|(?:Mon|Tues?|Wed|Thu|Thurs|Fri|Sat|Sun|Wednes|Satur)(?:day)?"
    r"|[A-Z][a-z]{2,8} \d{1,2}(?:st|nd|rd|th)?(?:, \d{4})?)"
)
_ON = rf"(?:{_DAY},?(?: at)? )"
_NAME = r"(?![^\n:]{0,40}(?:Error|Exception|Warning|Interrupt)\b)[^\W\d_][\w.'’()/-]*(?:,? [\w.'’()/-]+){0,4}"
_HEADERS = tuple(
    lazy(rf"^\s*(?:{pattern})\s*$")
    for pattern in (
        rf"{_NAME}(?: APP)?[ ]{{1,3}}(?:[—–-] ?)?{_ON}?{_AMPM}",  # Slack, Teams, Discord
        rf"{_NAME} [—–] {_ON}?{_HOUR}",  # Discord
        rf"{_NAME} \[{_ON}?{_AMPM}\]",  # older Slack
        rf"\[?{_ON}?{_AMPM}\]?",  # Slack: the time below the name
        rf"\[{_ON}?{_AMPM}\] ?{_NAME}",  # Teams
        rf"\[{_ON}{_HOUR}\] ?{_NAME}",
        rf"{_NAME}, \[{_ON}{_HOUR}(?::\d\d)?\]",  # Telegram
        rf"{_ON}{_AMPM} {_NAME}",
    )
)
_PREFIXES = tuple(
    lazy(rf"^{pattern}")
    for pattern in (
        rf"\[{_ON}?{_AMPM}\] ?(?:{_NAME}: ?)?",  # Discord's compact view, Teams
        rf"\[{_DAY}, {_HOUR}(?::\d\d)?(?: ?[AaPp][Mm])?\] {_NAME}: ",  # WhatsApp
        rf"{_DAY}, {_HOUR}(?: ?[AaPp][Mm])? - {_NAME}: ",
        rf"{_NAME}  ?{_AMPM}  ?(?=\S)",
        rf"\[?{_HOUR}\]? <[@+ ]?[\w|\[\]-]{{1,24}}> ",  # IRC, Matrix bridges
    )
)
_ALL_ALONG = (
    lazy(r"^<[@+ ]?(?!stdin|string|frozen|module|std(?:out|err)|\d+>)[\w|\[\]-]{1,24}> "),
    lazy(rf"^\[{_HOUR}\] (?!(?:INFO|DEBUG|WARN|WARNING|ERROR|CRITICAL|FATAL|[\w.]+:\d+)\b)(?P<who>{_NAME}): ?"),
)
"""Prefixes that a log might have too: taken for a chat's where most lines begin so, with few names."""
_TIME = lazy(
    r":(?:(?<=[\s\[—–-]\d:)|(?<=[\s\[—–-]\d\d:))\d\d"
    r"(?: ?[AaPp]\.?[Mm]|\]|:\d\d(?: ?[AaPp][Mm])?\](?:\s*\n|\s*$|(?<=, \d\d?:\d\d:[^\]]{2,5}\]))| - | <|\s*\n|\s*$)"
)
"""A time as each of these forms has it, but for a single one; few logs have one that ends so."""
_EDITED = lazy(r" ?\((?:edited|bearbeitet|modifié|editado)\)\s*$")


def signed(text: str) -> bool:
    """Whether a time or a name stands somewhere as a chat writes it."""
    return "\n<" in text or _TIME.search(text) is not None


def people(rows: Sequence[Row]) -> list[Row] | None:
    """Who wrote and when, as Slack, Discord, Teams, WhatsApp, Telegram and IRC copy it."""
    chosen = [p for p in _ALL_ALONG if share(rows, p) >= 0.6 and _few(rows, p)]
    prefixes = (*_PREFIXES, *chosen)
    hit = False

    def bare(line: str) -> str:
        nonlocal hit
        if not chosen and not _TIME.search("\n" + line):
            return line
        if len(line) < 90 and any(header.match(line) for header in _HEADERS):
            hit = True
            return ""
        for prefix in prefixes:
            if (found := prefix.match(line)) and found.end():
                hit = True
                return line[found.end() :]
        return line

    changed = [(number, bare(line)) for number, line in rows]
    return [(number, _EDITED.sub("", line)) for number, line in changed] if hit else None


def _few(rows: Sequence[Row], pattern: regex.Pattern[str]) -> bool:
    return len({found[0].partition(" ")[2] for _, line in rows if (found := pattern.match(line))}) <= 8
