"""Numbers, sizes and times as Slurm prints them. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timezone

NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "UNLIMITED", "Partition_Limit", "None assigned", "NONE"})
_NUMBER = r"\d{1,15}"
"""One of a size that means anything."""
_TIME = re.compile(rf"(?:({_NUMBER})-)?({_NUMBER})(?::({_NUMBER}))?(?::({_NUMBER}))?(?:\.\d+)?")


def plain(text: str | None) -> str | None:
    return text if text and text not in NOTHING else None


def whole(text: str | None) -> int | None:
    found = re.match(_NUMBER, text or "")
    return int(found[0]) if found else None


def seconds(text: str | None) -> int | None:
    """Slurm's times: `90` (minutes), `1:30` (minutes:seconds), `01:30:00`, `2-00:00:00`, `1-12`, `00:00:05.123`."""
    if not text or text in NOTHING or text == "INVALID":
        return None
    found = _TIME.fullmatch(text.strip())
    if not found:
        return None
    days, a, b, c = (int(x or 0) for x in found.groups())
    if found[1]:
        return days * 86400 + a * 3600 + b * 60 + c
    return a * 3600 + b * 60 + c if found[4] else a * 60 + b


def size(text: str | None) -> int | None:
    """`800M`, `12268K`, `1.5G`, `400` (megabytes, as sbatch --mem takes it) in bytes."""
    found = re.fullmatch(r"([\d.]{1,15})([KMGTP]?)(?:i?B)?", (text or "").strip(), re.I)
    if not found or found[1].count(".") > 1:
        return None
    power = "KMGTP".index(found[2].upper()) + 1 if found[2] else 2
    return int(float(found[1]) * 1024**power)


def used(text: str | None) -> int | None:
    """Memory that sacct measured: `3220K`, and with --noconvert plain bytes."""
    text = (text or "").strip()
    return int(text) if re.fullmatch(_NUMBER, text) else size(text)


def stamp(text: str | None) -> float | None:
    """`2026-11-20T12:01:03`, as a log's own stamps are read: as if it were UTC."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() if text else None
    except ValueError:
        return None


_GPUS = re.compile(rf"(?:^|,)gres/gpu(:[^=,]+)?=({_NUMBER})")


def gpus(tres: str | None) -> int | None:
    """The GPUs of `cpu=8,gres/gpu:a100=4,gres/gpu=4`: those of a type are among those of all. None where it names none."""
    found = _GPUS.findall(tres or "")
    every = [int(count) for kind, count in found if not kind]
    return max(every) if every else sum(int(count) for _, count in found) or None
