"""Reads time stamps as logs print them."""

from __future__ import annotations

from datetime import datetime, timezone
from functools import lru_cache

from slurmdoctor.matching import lazy
from slurmdoctor.model import ASSUMED_YEAR, zone_of
from slurmdoctor.search import DIGITS

_ISO = lazy(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?")
_GLOG = lazy(r"(\d{1,2})-?(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_SYSLOG = lazy(r"(?:[A-Z][a-z]{2} )?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?: (\d{4}))?")
_CLOCK = lazy(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=4096)
def parse_time(stamp: str, year: int = ASSUMED_YEAR, zone: int | None = None) -> tuple[float, bool] | None:
    """Seconds since the epoch, and whether the stamp held a date with a year. None where the stamp is no time.

    They are counted as the clocks of the log's `zone` (UTC where it has none) show them: a stamp that names no zone is of that one.

    Knows ISO 8601 with its variants, glog's `MMDD HH:MM:SS.f` (the month's zero may be missing, as PyTorch prints it),
    syslog's and dmesg's, and a bare clock, which is placed on 1 January.
    """
    if m := _ISO.fullmatch(stamp):
        seconds = _seconds(int(m[1]), int(m[2]), int(m[3]), int(m[4]), int(m[5]), int(m[6]), m[7])
        if seconds is not None and m[8]:
            seconds += (zone or 0) - zone_of(m[8])
        return None if seconds is None else (seconds, True)
    if m := _GLOG.fullmatch(stamp):
        seconds = _seconds(year, int(m[1]), int(m[2]), int(m[3]), int(m[4]), int(m[5]), m[6])
        return None if seconds is None else (seconds, year != ASSUMED_YEAR)
    if (m := _SYSLOG.fullmatch(stamp)) and m[1] in _MONTHS:
        named = int(m[7]) if m[7] else year
        seconds = _seconds(named, _MONTHS.index(m[1]) + 1, int(m[2]), int(m[3]), int(m[4]), int(m[5]), m[6])
        return None if seconds is None else (seconds, named != ASSUMED_YEAR)
    if m := _CLOCK.fullmatch(stamp):
        seconds = _seconds(ASSUMED_YEAR, 1, 1, int(m[1]), int(m[2]), int(m[3]), m[4])
        return None if seconds is None else (seconds, False)
    return None


def may_be_stamped(line: bytes) -> bool:
    """Whether a line can hold a time stamp: each one that `parse_time` reads holds a clock with seconds."""
    return b"00:00:00" in line.translate(DIGITS, b"\0") or b"\x1b" in line


def _seconds(
    year: int, month: int, day: int, hour: int, minute: int, second: int, fraction: str | None
) -> float | None:
    whole = _whole_seconds(year, month, day, hour, minute, second)
    return None if whole is None else whole + (float(f"0.{fraction}") if fraction else 0.0)


@lru_cache(maxsize=4096)
def _whole_seconds(year: int, month: int, day: int, hour: int, minute: int, second: int) -> float | None:
    try:
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    except ValueError:
        return None
    return (moment - _EPOCH).total_seconds()
