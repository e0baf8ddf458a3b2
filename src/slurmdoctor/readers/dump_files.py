"""Which flight recorder dumps belong to a job: those that are named, that lie beside its log, or whose place the log tells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from glob import glob

from slurmdoctor.input import ends_of
from slurmdoctor.knowledge import text
from slurmdoctor.model import Reason, UserError, reason
from slurmdoctor.readers.flight_dumps import MOST_DUMPS, Dump, load_all, rank_of
from slurmdoctor.readers.flight_recorder import Graph, graph_of

_PLACE, _NAME = text("dump-place"), text("dump-name")
_FOLDERS = 8
"""Folders that are looked into for dumps that nobody named."""
_LATE = 3_600.0
"""Seconds, besides the operation's own time-out, for which dumps of one failure may be apart."""
_ZONES = 14 * 3_600.0
"""How far a clock without a zone may be off."""


def named(paths: Iterable[str]) -> list[str]:
    """The files of these paths: files, folders, globs. Raises UserError where there are none."""
    files: list[str] = []
    for path in paths:
        every = [path] if os.path.lexists(path) else sorted(glob(path))  # noqa: PTH207 - a pattern may be absolute
        if not every:
            raise UserError(
                f"no such dumps: {path}", "name a folder of dumps, or the dumps: --dumps 'DIR/nccl_trace_rank_*'"
            )
        for one in every:
            files += _in_folder(one) if os.path.isdir(one) else [one]  # noqa: PTH112 - never raises
    return files[:MOST_DUMPS]


def beside(logs: Sequence[str]) -> list[str]:
    """Files with names of dumps in the folders of the logs, and those whose place the logs tell."""
    places = [one["prefix"] for log in logs[:_FOLDERS] for end in ends_of(log) for one in _PLACE.finditer(end)]
    folders = dict.fromkeys(os.path.dirname(path) or "." for path in (*logs[:_FOLDERS], *places))  # noqa: PTH120
    every = [path for folder in list(folders)[:_FOLDERS] for path in _in_folder(folder)]
    return [path for path in every if _NAME.search(path) or path.startswith(tuple(places))][:MOST_DUMPS]


def _in_folder(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(one.path for one in entries if rank_of(one.name) is not None and one.is_file())
    except OSError:
        return []


def read_dumps(paths: Sequence[str], failed: str | None = None, jobs: int = 1) -> tuple[Graph, tuple[Reason, ...]]:
    """The graph of the dumps that are as old as the failure, where its time is known, and as each other; notes on the others."""
    found = list(load_all(paths, jobs))
    dumps = [one for one in found if isinstance(one, Dump)]
    unread = [one for one in found if not isinstance(one, Dump)]
    newest = max((one.time for one in dumps if one.time is not None), default=0.0)
    written = max((one.written for one in dumps), default=0.0)
    begin, end = _around(failed)
    stale = set()
    for one in dumps:
        time, last = (one.written, written) if one.time is None else (one.time, newest)
        patience = _LATE + (one.last.timeout_ms / 1000 if one.last is not None else 0)
        if time < max(last, begin) - patience or (one.time is not None and time > end + _LATE):
            stale.add(one.path)
    fresh = {one.rank: one for one in sorted(dumps, key=lambda one: one.time or 0.0) if one.path not in stale}
    notes = [
        reason("dumps-unread", count=len(unread), name=unread[0][0], why=unread[0][1]) if unread else None,
        reason("dumps-stale", count=len(stale), name=min(stale)) if stale else None,
    ]
    return graph_of(fresh), tuple(filter(None, notes))


def _around(failed: str | None) -> tuple[float, float]:
    """Between which times the failure was: its clock may have no zone."""
    if failed is None:
        return 0.0, float("inf")
    at = datetime.fromisoformat(failed)
    if at.tzinfo is not None:
        return at.timestamp(), at.timestamp()
    at = at.replace(tzinfo=timezone.utc)
    return at.timestamp() - _ZONES, at.timestamp() + _ZONES
