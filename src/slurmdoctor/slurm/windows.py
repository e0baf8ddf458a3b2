"""The jobs that ended in a time, from sacct: one call for each day, read as it comes; and a time as people give it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone

from slurmdoctor.model import RUNNING, Frozen, JobRecord, UserError
from slurmdoctor.slurm import query
from slurmdoctor.slurm.jobinfo import SEPARATOR, jobs, quoted, rows

COMPLETED = frozenset({"COMPLETED"})
PATIENCE = 1800.0
"""Seconds that sacct may be silent: slurmdbd gathers all steps of a day before it says a word, minutes for 300,000 jobs."""
_MARGIN = timedelta(hours=1)
"""Steps that ended before a window are cut off; and a midnight may come twice, or not at all, as clocks change."""
_NO_END = RUNNING | {"RESIZING", "REVOKED"}
"""States of rows that are not the end of a run: a resized job goes on in its next row, a revoked one on another cluster."""


class Window(Frozen):
    """A time, at most a day, local and without a zone; its end is not in it."""

    begin: datetime
    end: datetime

    def holds(self, record: JobRecord) -> bool:
        """Whether the job ended in it: every job that has ended did so in one window alone."""
        return record.end is not None and _utc(self.begin) <= record.end < _utc(self.end)

    def __str__(self) -> str:
        return f"{self.begin:%Y-%m-%d}"


class Asked(Frozen):
    """Whose jobs, and how much of them."""

    user: str | None = None
    partition: str | None = None
    completed: bool = False
    """Whether more than the rows is to be known of jobs that Slurm calls completed: their steps."""


def days(since: datetime, until: datetime) -> Iterator[Window]:
    """The days of a time; the first and the last one may be cut."""
    begin = since
    while begin < until:
        midnight = datetime.combine(begin.date() + timedelta(days=1), datetime.min.time())
        yield Window(begin, min(midnight, until))
        begin = midnight


def fields() -> list[str]:
    """The fields that this version of sacct knows, of those that are of use."""
    instead = "run this where sacct answers, or name the folders of the logs"
    try:
        known = query.known_fields("".join(query.stream(["sacct", "-e"], PATIENCE)))
    except UserError as error:
        raise UserError(error.message, instead) from None
    if not known:
        raise UserError("sacct does not tell its fields", instead)
    return [name for name in known if not name.endswith("Comment")]  # sites keep kilobytes there


def command(window: Window, asked: Asked, names: Sequence[str]) -> list[str]:
    """The call for one day: every run of every job in it, with its steps."""
    begin, end = (f"{one:%Y-%m-%dT%H:%M:%S}" for one in (window.begin - _MARGIN, window.end + _MARGIN))
    whose = [f"--user={asked.user}"] if asked.user else ["--allusers"]
    return [
        "sacct", *whose, *([f"--partition={asked.partition}"] if asked.partition else []), "--duplicates", "--noconvert",
        "--parsable2", f"--delimiter={SEPARATOR}", f"--starttime={begin}", f"--endtime={end}",
        f"--format={','.join(names)}",
    ]  # fmt: skip


def ended(
    window: Window,
    asked: Asked,
    names: Sequence[str],
    patience: float = PATIENCE,
    other: Callable[[JobRecord], None] = lambda job: None,
) -> Iterator[JobRecord]:
    """The jobs that ended in the window, with their steps; `other` is called with the rest, as with those that still run.

    Raises UserError where sacct does not answer, or stops.
    """
    pieces = query.stream(command(window, asked, names), patience)
    bare = frozenset() if asked.completed else COMPLETED
    for job in jobs(((row, quoted(row)) for row in rows(pieces, names)), bare):
        if window.holds(job) and job.state not in _NO_END:
            yield job
        else:
            other(job)


# ── GPUs ──


def counts_gpus() -> bool:
    """Whether this cluster's accounts tell GPUs, so that a job without any is known to have had none."""
    for _, text in query.ask({"scontrol show config": ["scontrol", "show", "config"]}, query.PATIENCE).texts:
        return re.search(r"^AccountingStorageTRES\s*=.*\bgres/gpu\b", text, re.M) is not None
    return False


def _utc(moment: datetime) -> float:
    return moment.replace(tzinfo=timezone.utc).timestamp()


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(
    r"(?:now\s*-\s*)?(\d{1,6})\s{0,9}(s|sec(?:ond)?s?|m(?:in(?:ute)?s?)?|h|hours?|d|days?|w|weeks?)?(\s{1,9}ago)?"
)
_NAMED_DAYS = {"today": 0, "yesterday": -1}


def moment(text: str, option: str, now: datetime) -> datetime:
    """`2026-11-01`, `2026-11-01T12:00`, `today`, `now-7days`, `7d`: local, without a zone. Raises UserError."""
    words = text.strip().lower()
    found = None
    with contextlib.suppress(ValueError, OverflowError):  # a 13th month
        found = _relative(words, now) or datetime.fromisoformat(words)
    if found is None or found.tzinfo is not None:
        raise UserError(
            f"{option} {text!r} is no time", "give a day or a time such as 2026-11-01, 2026-11-01T12:00, today, or 7d"
        )
    return found


def _relative(words: str, now: datetime) -> datetime | None:
    if words == "now":
        return now
    if words in _NAMED_DAYS:
        return datetime(now.year, now.month, now.day) + timedelta(days=_NAMED_DAYS[words])
    ago = _AGO.fullmatch(words)
    if ago and (ago[2] or words.startswith("now")):
        return now - timedelta(**{_UNITS[(ago[2] or "s")[0]]: int(ago[1])})
    return None
