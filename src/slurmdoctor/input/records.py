"""Unpacks a log that is kept as records of JSON, one a line: Docker's `{"log": "...", "stream": "stderr", "time": "..."}`, structlog's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from slurmdoctor.input.rows import Row, share
from slurmdoctor.matching import lazy

_RECORD = lazy(r'^\s*\{(?:[^"\n]*"[\w.@-]+": ?[^\n]{1,400}?)??"(?:log|message|msg|text|line)": ?"')
_TEXTS = ("log", "message", "msg", "text", "line")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "asctime")
_NEARLY_ALL = 0.8
"""Share of the lines that are records."""


def recorded(text: str) -> bool:
    """Whether a line begins as a record does."""
    return '\n{"' in text


def records(rows: Sequence[Row]) -> list[Row] | None:
    """The lines in the records, with their time and rank before them as loggers print them."""
    if share(rows, _RECORD) < _NEARLY_ALL:
        return None
    return [(number, line) for number, row in rows for line in _lines(row)]


def _lines(row: str) -> Iterator[str]:
    from json import loads  # here: most pastes hold no records

    try:
        record = loads(row)
    except ValueError:
        record = None
    text = _first(record, _TEXTS) if isinstance(record, dict) else None
    if not isinstance(record, dict) or text is None:
        yield row
        return
    time, rank = _first(record, _TIMES), record.get("rank")
    label = f"{time} " if time else ""
    label += f"[rank{rank}]: " if isinstance(rank, int) else ""
    for line in text.rstrip("\r\n").split("\n"):
        yield label + line


def _first(record: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    """The first of these that holds a text."""
    return next((record[key] for key in keys if isinstance(record.get(key), str)), None)
