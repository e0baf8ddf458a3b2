"""Counts, sizes and durations as people read them. Pure."""

from __future__ import annotations

from collections.abc import Sequence


def plural(count: int, noun: str) -> str:
    """`1 rank`, `63 ranks`, `1,890 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def listed(words: Sequence[str], link: str = "and") -> str:
    """`exit codes`, `exit codes and lost peers`, `a, b and c`."""
    return f" {link} ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def size(count: int) -> str:
    """`1 byte`, `12 kB`, `1.5 GB`."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if amount < 1000 or unit == "TB":
            break
        amount /= 1000
    if count == 1:
        return "1 byte"
    return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 100 else f"{amount:.1f} {unit}"


def duration(seconds: float) -> str:
    """`0.4 s`, `35 s`, `1 m 3 s`, `10 m`, `2 h 5 m`: two figures are enough."""
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    for unit, length, part, part_length in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if whole >= length:
            if whole >= 10 * length:
                return f"{round(whole / length)} {unit}"
            parts = round(whole / part_length)
            each = length // part_length
            return f"{parts // each} {unit}" + (f" {parts % each} {part}" if parts % each else "")
    return f"{whole} s"


def delay(seconds: float) -> str:
    """A duration after (or before) the first failure: `+10 m`, `-0.4 s`."""
    return ("-" if seconds < 0 else "+") + duration(abs(seconds))


def ago(seconds: float) -> str:
    """How old something is, in one figure: `12 s ago`, `3 min ago`, `5 h ago`, `2 days ago`."""
    for unit, length, most in (("s", 1, 60), ("min", 60, 60), ("h", 3600, 48)):
        if round(seconds / length) < most:
            return f"{round(seconds / length)} {unit} ago"
    return f"{round(seconds / 86400):,} days ago"
