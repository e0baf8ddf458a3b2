"""A time as people give it to sacct, or as `7d`. Pure."""

from __future__ import annotations

import contextlib
import re
from datetime import date, datetime, timedelta
from datetime import time as clock_time

from slurmdoctor.model import UserError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(
    r"(?:now\s*-\s*)?(\d{1,6})\s{0,9}(s|sec(?:ond)?s?|min(?:ute)?s?|h|hours?|d|days?|w|weeks?)?(\s{1,9}ago)?", re.I
)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*(am|pm)?", re.I)
_DAY = re.compile(
    r"(?P<y>\d{4})-(?P<m>\d\d?)-(?P<d>\d\d?)"
    r"|(?P<m1>\d\d?)(?P<gap>[./])(?P<d1>\d\d?)(?:(?P=gap)(?P<y1>\d{4}|\d\d))?"
    r"|(?P<m2>\d\d)(?P<d2>\d\d)(?P<y2>\d\d)?"
)
_NAMED_DAYS = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}


def moment(text: str, option: str, now: datetime) -> datetime:
    """`2026-11-01`, `2026-11-01T12:00`, `11/01`, `today`, `now-7days`, `7d`: local, without a zone. Raises UserError."""
    said = text.strip()
    found = None
    with contextlib.suppress(ValueError, OverflowError):  # a 13th month
        found = _relative(said.lower(), now) or _absolute(said, now)
    if found is None:
        raise UserError(
            f"{option} {text!r} is no time", "give a day or a time such as 2026-11-01, 2026-11-01T12:00, today, or 7d"
        )
    return found


def _relative(said: str, now: datetime) -> datetime | None:
    if said == "now":
        return now
    if said in _NAMED_DAYS:
        return _at(now.date() + timedelta(days=_NAMED_DAYS[said]))
    ago = _AGO.fullmatch(said)
    if ago and (ago[2] or said.startswith("now")):
        return now - timedelta(**{_UNITS[(ago[2] or "s")[0].lower()]: int(ago[1])})
    return None


def _absolute(said: str, now: datetime) -> datetime | None:
    """A day, a time of today, or both with `T`, `-` or a blank between them."""
    if clock := _clock(said):
        return _at(now.date(), clock)
    day = _DAY.match(said)
    if day is None:
        return None
    rest = said[day.end() :]
    found = clock_time() if not rest else _clock(rest[1:].strip()) if rest[0] in "Tt- " else None
    return None if found is None else _at(_day(day, now), found)


def _clock(text: str) -> clock_time | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour = int(found[1])
    if found[4]:
        hour = hour % 12 + (12 if found[4].lower() == "pm" else 0)
    return clock_time(hour, int(found[2]), int(found[3] or 0))


def _day(found: re.Match[str], now: datetime) -> date:
    """The day; without a year the last one that is not to come."""
    month, day = int(found["m"] or found["m1"] or found["m2"]), int(found["d"] or found["d1"] or found["d2"])
    year = found["y"] or found["y1"] or found["y2"]
    if year:
        return date(int(year) + (2000 if len(year) == 2 else 0), month, day)
    try:
        this = date(now.year, month, day)
    except ValueError:  # 29 February
        return date(now.year - 1, month, day)
    return this if this <= now.date() else date(now.year - 1, month, day)


def _at(day: date, clock: clock_time = clock_time()) -> datetime:
    return datetime.combine(day, clock)
