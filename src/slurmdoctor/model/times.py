"""Times as a verdict shows them: `2026-11-20T12:01:03`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)
_ZONED = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)")


def format_time(time: float | None, dated: bool = True, line: str = "", zone: int | None = None) -> str | None:
    """ISO 8601 to the second, the time of day alone where no year is known.

    `line` is what the log shows there: where its stamp names a zone, the time is as it was written. `zone` is the log's own, in
    which `time` is counted; it is named where the time was carried there from another line.
    """
    if time is None:
        return None
    for year, month, day, clock, offset in _ZONED.findall(line):
        written = parse_time(f"{year}-{month}-{day}T{clock}")
        if written is not None and abs(written - zone_of(offset) + (zone or 0) - time) < 1:
            return f"{year}-{month}-{day}T{clock}{_named(zone_of(offset))}"
    try:
        moment = _EPOCH + timedelta(seconds=time)
    except OverflowError:  # a stamp of the year 1 or 9999, in the zone of another line
        return None
    shown = moment.strftime("%H:%M:%S")
    if not dated:
        return shown
    return moment.isoformat(timespec="seconds") + ("" if zone is None or shown in line else _named(zone))


def when(shown: str | None) -> tuple[str | None, str | None]:
    """(the moment, None where the log tells no date; the time of day) of a time that `format_time` made."""
    if shown is None:
        return None, None
    _, dated, clock = shown.partition("T")
    return (shown, clock) if dated else (None, shown)


def zone_of(offset: str) -> int:
    """Seconds east of UTC: of `+08:00`, `-0530` or `Z`."""
    if offset == "Z":
        return 0
    return (-1 if offset[0] == "-" else 1) * (int(offset[1:3]) * 3600 + int(offset[-2:]) * 60)


def _named(zone: int) -> str:
    hours, minutes = divmod(abs(zone) // 60, 60)
    if hours >= 24:  # no zone of this earth, nor of ISO 8601
        return ""
    return f"{'-' if zone < 0 else '+'}{hours:02}:{minutes:02}"


def parse_time(text: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 time as Slurm writes it, `2026-11-20T12:01:03`; None for what is none."""
    try:
        return (datetime.fromisoformat(text[:19]) - _EPOCH).total_seconds()
    except ValueError:
        return None


def span(seconds: float) -> str:
    """As a person says it of a wait: `61 min`, `3 h 46 min`, `26 h`."""
    minutes = round(seconds / 60)
    hours, rest = divmod(minutes, 60)
    if minutes < 120:
        return f"{minutes} min"
    return f"{hours} h {rest} min" if hours < 10 and rest else f"{round(minutes / 60)} h"
