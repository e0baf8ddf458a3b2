"""A short look at the head and the end of a log: which job wrote it, and when."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from slurmdoctor.input.decode import decoded, kind_of
from slurmdoctor.input.jobs import by_id
from slurmdoctor.input.streams import Pipe
from slurmdoctor.input.trusted import open_regular
from slurmdoctor.input.unread import UnreadError
from slurmdoctor.matching import lazy
from slurmdoctor.model import Glance, JobFiles, parse_time

if TYPE_CHECKING:
    import regex

HEAD, END = 8192, 4096
_MOST_DATED = 2_000
"""Jobs whose logs are looked into for their times,"""
_FEW = 4
"""and files of each."""
_TIME = lazy(r"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)[T _](\d\d:\d\d:\d\d)")


class Looker:
    """Looks into a file once, with patterns for the ids and the ranks that it may tell."""

    def __init__(
        self,
        ids: regex.Pattern[str],
        ranks: regex.Pattern[str],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        self._ids, self._ranks = ids, ranks
        self._texts = texts
        """By name, where they are in no file: then no file is opened."""
        self._seen: dict[str, Glance] = {}

    def __call__(self, path: str) -> Glance:
        if path not in self._seen:
            self._seen[path] = self._look(path)
        return self._seen[path]

    def _look(self, path: str) -> Glance:
        head, end = ends_of(path) if self._texts is None else _ends(self._texts.get(path, b""))
        return Glance(
            frozenset(found["id"] for text in (head, end) for found in self._ids.finditer(text)),
            frozenset(int(found["rank"]) for found in self._ranks.finditer(head)),
        )


def _ends(text: str | bytes) -> tuple[str, str]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return data[:HEAD].decode("utf-8", "replace"), data[HEAD:][-END:].decode("utf-8", "replace")


def times_in(text: str) -> list[float]:
    """The dated times of a text, in the order of its lines."""
    found = (parse_time(f"{y}-{m}-{d}T{clock}") for y, m, d, clock in _TIME.findall(text))
    return [time for time in found if time is not None]


def ends_of(path: str) -> tuple[str, str]:
    """The head and the end of a file as text; of a compressed one the head alone, and nothing of what cannot be read."""
    if not os.path.isfile(path):  # noqa: PTH113 - a pipe is not even opened: what its writer has sent would be lost
        return "", ""
    try:
        number = open_regular(path)
    except (OSError, ValueError, UnreadError):
        return "", ""
    try:
        status = os.fstat(number)
        head = os.pread(number, HEAD, 0)
        kind = kind_of(head)
        if kind not in (None, "binary", "hole"):
            stream = decoded(str(kind), Pipe(path, lambda size: os.read(number, size)), path)
            return stream.read(HEAD)[:HEAD].decode("utf-8", "replace"), ""
        end = os.pread(number, END, max(status.st_size - END, HEAD)) if status.st_size > HEAD else b""
        return head.decode("utf-8", "replace"), end.decode("utf-8", "replace")
    except (OSError, UnreadError):
        return "", ""
    finally:
        os.close(number)


def by_time(jobs: Sequence[JobFiles]) -> tuple[JobFiles, ...]:
    """The jobs in the order of their ends: the last time that a log shows, else when it was last written."""
    looking = len(jobs) <= _MOST_DATED
    return tuple(sorted(jobs, key=lambda job: (_end(job, looking), by_id(job))))


def _end(job: JobFiles, looking: bool) -> float:
    ends = map(ends_of, job.files[:_FEW] if looking else ())
    shown = [max(times) for head, end in ends if (times := times_in(end)[-1:] or times_in(head)[-1:])]
    if shown:
        return max(shown)
    written = []
    for path in job.files:
        with suppress(OSError, ValueError):
            written.append(os.stat(path).st_mtime)  # noqa: PTH116 - of ten thousand files
    # as a log shows it, local and without a zone; copies are made within a minute, and then the ids tell more
    local = datetime.fromtimestamp(max(written)) if written else datetime.max
    return local.replace(second=0, microsecond=0, tzinfo=timezone.utc).timestamp()
