"""The sentences on files that were not read, or not to their end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurmdoctor.report.quantities import plural
from slurmdoctor.report.redact import one_line, redact

_UNREAD = {
    "dangling": "dangling link", "loop": "circular link", "denied": "without permission", "missing": "vanished",
    "vanished": "vanished", "replaced": "replaced meanwhile", "shrunk": "cut short meanwhile", "damaged": "damaged",
    "no-decoder": "zstd without a decoder", "binary": "no text", "pipe": "pipe", "device": "device", "socket": "socket",
    "folder": "folder", "broken": "the disk does not answer", "too-long": "too long a name", "too-many": "one too many",
    "too-large": "too large",
}  # fmt: skip
_NOUNS = frozenset({"dangling", "loop", "pipe", "device", "socket", "folder"})


def not_read(v: Mapping[str, Any]) -> str:
    """`2 files were not read: 1 pipe (live), 1 damaged (a.gz)`."""
    return f"{plural(v['count'], 'file')} {'was' if v['count'] == 1 else 'were'} not read: {_kinds(v)}"


def read_in_part(v: Mapping[str, Any]) -> str:
    """`of 1 file only a part was read: 1 damaged (a.gz)`."""
    return f"of {plural(v['count'], 'file')} only a part was read: {_kinds(v)}"


def _kinds(v: Mapping[str, Any]) -> str:
    """`9 dangling links (latest.log, …), 3 damaged (a.gz, b.gz, c.gz)`."""
    kinds = []
    for why, count, names in v["kinds"]:
        word = _UNREAD[why] + "s" * (why in _NOUNS and count > 1)
        told = ", ".join(one_line(redact(name))[:60] for name in names) + ", …" * (count > len(names))
        kinds.append(f"{count:,} {word} ({told})")
    return ", ".join(kinds)
