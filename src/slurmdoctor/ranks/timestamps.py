"""Reads time stamps as logs print them."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

from slurmdoctor.matching import lazy
from slurmdoctor.model import ASSUMED_YEAR, zone_of
from slurmdoctor.search import DIGITS

_STAMP = lazy(
    r"(?:(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]"
    r"|(?P<month>\d{1,2})-?(?P<day>\d\d) "
    r"|(?:[A-Z][a-z]{2} )?(?:(?P<name>[A-Z][a-z]{2}) +(?P<day>\d{1,2})|(?P<day>\d{1,2}) (?P<name>[A-Z][a-z]{2}) (?P<year>\d{4})) )?"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?(?: (?P<half>[AP])M)?(?: [A-Z]{2,5})?(?: (?P<year>\d{4}))?"
)
"""ISO 8601 with its variants, glog's `MMDD HH:MM:SS.f` (the month's zero may be missing, as PyTorch prints it), syslog's, dmesg's and date's, and
a bare clock."""
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=4096)
def parse_time(stamp: str, year: int = ASSUMED_YEAR, zone: int | None = None) -> tuple[float, bool] | None:
    """Seconds since the epoch, and whether the stamp held a date with a year. None where the stamp is no time.

    They are counted as the clocks of the log's `zone` (UTC where it has none) show them: a stamp that names no zone is of that one.
    A bare clock is placed on 1 January.
    """
    found = _STAMP.fullmatch(stamp)
    if found is None or (found["name"] and found["name"] not in _MONTHS):
        return None
    month = _MONTHS.index(found["name"]) + 1 if found["name"] else int(found["month"] or 1)
    in_year = int(found["year"] or year) if found["day"] else ASSUMED_YEAR
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + 12 * (found["half"] == "P")
    seconds = _whole_seconds(in_year, month, int(found["day"] or 1), hour, int(found["minute"]), int(found["second"]))
    if seconds is None:
        return None
    if found["zone"]:
        seconds += (zone or 0) - zone_of(found["zone"])
    return seconds + float(f"0.{found['fraction'] or 0}"), bool(found["year"]) or in_year != ASSUMED_YEAR


def may_be_stamped(line: bytes) -> bool:
    """Whether a line can hold a time stamp: each one that `parse_time` reads holds a clock with seconds."""
    return b"00:00:00" in line.translate(DIGITS, b"\0") or b"\x1b" in line


@lru_cache(maxsize=4096)
def _whole_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    except ValueError:
        return None
    return (moment - _EPOCH).total_seconds()
