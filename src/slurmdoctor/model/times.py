"""Times as a verdict shows them: `2026-11-20T12:01:03`."""

from __future__ import annotations

from datetime import datetime, timedelta

_EPOCH = datetime(1970, 1, 1)


def format_time(time: float | None, dated: bool = True) -> str | None:
    """ISO 8601 to the second; without a year as `--11-21T09:24:45`; a bare clock as `09:24:45`."""
    if time is None:
        return None
    moment = _EPOCH + timedelta(seconds=time)
    if dated:
        return moment.strftime("%Y-%m-%dT%H:%M:%S")
    if (moment.month, moment.day) == (1, 1):
        return moment.strftime("%H:%M:%S")
    return moment.strftime("--%m-%dT%H:%M:%S")


def parse_time(text: str) -> float | None:
    """Seconds since the epoch of an ISO 8601 time as Slurm writes it, `2026-11-20T12:01:03`; None for what is none."""
    try:
        return (datetime.fromisoformat(text[:19]) - _EPOCH).total_seconds()
    except ValueError:
        return None
