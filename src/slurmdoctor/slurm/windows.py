"""The jobs that ended in a time, from sacct: one call for each day, read as it comes; and a time as people give it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, datetime, time as clock_time, timedelta, timezone

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import RUNNING, JobRecord, Quote, Step, UserError
from slurmdoctor.slurm import query
from slurmdoctor.slurm.jobinfo import FREE, SEPARATOR, of_sacct, rows, step_of

COMPLETED = frozenset({"COMPLETED"})
PATIENCE = 1800.0
"""Seconds that sacct may be silent: slurmdbd gathers all steps of a day before it says a word, minutes for 300,000 jobs."""
_MARGIN = timedelta(hours=1)
"""Steps that ended before a window are cut off; and a midnight may come twice, or not at all, as clocks change."""
_FIRST = [
    "JobID", "State", "ExitCode", "DerivedExitCode", "ElapsedRaw", "Elapsed", "Submit", "Start", "End", "Timelimit",
    "User", "UID", "Account", "Cluster", "Partition", "AllocTRES", "NNodes", "NTasks", "NodeList", "ReqMem", "MaxRSS",
    "Restarts", "Reason",
]  # fmt: skip
"""Fields that hold neither a line end nor a separator."""
_LAST = "JobIDRaw"
_NO_END = RUNNING | {"RESIZING", "REVOKED"}
"""States of rows that are not the end of a run: a resized job goes on in its next row, a revoked one on another cluster."""
_DETAIL = frozenset({"ExitCode", "State", "JobID", "DerivedExitCode", "Start", "End", "NodeList", "Reason"})
"""What a quote of the row shows."""


class Window(Struct, frozen=True):
    """A time, at most a day, local and without a zone; its end is not in it."""

    begin: datetime
    end: datetime

    def holds(self, record: JobRecord) -> bool:
        """Whether the job ended in it: every job that has ended did so in one window alone."""
        return record.end is not None and _utc(self.begin) <= record.end < _utc(self.end)

    def __str__(self) -> str:
        return f"{self.begin:%Y-%m-%d}"


class Asked(Struct, frozen=True):
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


def fields(patience: float = PATIENCE) -> list[str]:
    """The fields that this version of sacct knows, of those that are of use."""
    instead = "run this where sacct answers, or name the folders of the logs"
    try:
        known = {word.lower() for word in "".join(query.stream(["sacct", "-e"], patience)).split()}
    except UserError as error:
        raise UserError(error.message, instead) from None
    if "jobid" not in known:
        raise UserError("sacct does not tell its fields", instead)
    return [name for name in (*_FIRST, *FREE, _LAST) if name.lower() in known]


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
    """The jobs that ended in the window, with their steps; `other` is told of the rest, as of those that still run.

    Raises UserError where sacct does not answer, or stops.
    """
    pieces = query.stream(command(window, asked, names), patience)
    bare = frozenset() if asked.completed else COMPLETED
    for job in jobs(rows(pieces, names), bare):
        if window.holds(job) and job.state not in _NO_END:
            yield job
        else:
            other(job)


# ── the text ──


def jobs(table: Iterable[dict[str, str]], bare: frozenset[str] = frozenset()) -> Iterator[JobRecord]:
    """Each job with its steps, which stand below it; without them in the `bare` states, which are most of all jobs."""
    job: JobRecord | None = None
    steps: list[Step] = []
    for row in table:
        ident, _, step = row["JobID"].partition(".")
        if not step:
            if job is not None:
                yield replace(job, steps=tuple(steps))
            job, steps = of_sacct(ident, row, _quote(row)), []
        elif job is not None and ident == job.id and job.state not in bare:
            steps.append(step_of(step, row, _quote(row)))
    if job is not None:
        yield replace(job, steps=tuple(steps))


def _quote(row: dict[str, str]) -> Quote:
    return Quote("sacct", 0, " ".join(row[name] for name in row if name in _DETAIL and row[name]))


# ── GPUs ──


def counts_gpus(patience: float = query.PATIENCE) -> bool:
    """Whether this cluster's accounts tell GPUs, so that a job without any is known to have had none."""
    for _, text in query.ask({"scontrol show config": ["scontrol", "show", "config"]}, patience).texts:
        return re.search(r"^AccountingStorageTRES\s*=.*\bgres/gpu\b", text, re.M) is not None
    return False


def _utc(moment: datetime) -> float:
    return moment.replace(tzinfo=timezone.utc).timestamp()


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(
    r"(?:now\s*-\s*)?(\d{1,6})\s{0,9}(s|sec(?:ond)?s?|min(?:ute)?s?|h|hours?|d|days?|w|weeks?)?(\s{1,9}ago)?", re.I
)
_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\.\d+)?\s*(am|pm)?", re.I)
_DAY = re.compile(
    r"(?P<y>\d{4})-(?P<m>\d\d?)-(?P<d>\d\d?)"
    r"|(?P<m1>\d\d?)(?P<gap>[./])(?P<d1>\d\d?)(?:(?P=gap)(?P<y1>\d{4}|\d\d))?"
    r"|(?P<m2>\d\d)(?P<d2>\d\d)(?P<y2>\d\d)?"
)
_NAMED_DAYS = {"today": 0, "midnight": 0, "yesterday": -1, "tomorrow": 1}


def moment(text: str, option: str, now: datetime) -> datetime:
    """`2026-11-01`, `2026-11-01T12:00`, `11/01`, `today`, `now-7days`, `7d`: local, without a zone. Raises UserError."""
    said = text.strip()
    found = None
    with contextlib.suppress(ValueError, OverflowError):  # a 13th month
        found = _relative(said.lower(), now) or _absolute(said, now)
    if found is None:
        raise UserError(
            f"{option} {text!r} is no time", "give a day or a time such as 2026-11-01, 2026-11-01T12:00, today, or 7d"
        )
    return found


def _relative(said: str, now: datetime) -> datetime | None:
    if said == "now":
        return now
    if said in _NAMED_DAYS:
        return _at(now.date() + timedelta(days=_NAMED_DAYS[said]))
    ago = _AGO.fullmatch(said)
    if ago and (ago[2] or said.startswith("now")):
        return now - timedelta(**{_UNITS[(ago[2] or "s")[0].lower()]: int(ago[1])})
    return None


def _absolute(said: str, now: datetime) -> datetime | None:
    """A day, a time of today, or both with `T`, `-` or a blank between them."""
    if clock := _clock(said):
        return _at(now.date(), clock)
    day = _DAY.match(said)
    if day is None:
        return None
    rest = said[day.end() :]
    found = clock_time() if not rest else _clock(rest[1:].strip()) if rest[0] in "Tt- " else None
    return None if found is None else _at(_day(day, now), found)


def _clock(text: str) -> clock_time | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    hour = int(found[1])
    if found[4]:
        hour = hour % 12 + (12 if found[4].lower() == "pm" else 0)
    return clock_time(hour, int(found[2]), int(found[3] or 0))


def _day(found: re.Match[str], now: datetime) -> date:
    """The day; without a year the last one that is not to come."""
    month, day = int(found["m"] or found["m1"] or found["m2"]), int(found["d"] or found["d1"] or found["d2"])
    year = found["y"] or found["y1"] or found["y2"]
    if year:
        return date(int(year) + (2000 if len(year) == 2 else 0), month, day)
    try:
        this = date(now.year, month, day)
    except ValueError:  # 29 February
        return date(now.year - 1, month, day)
    return this if this <= now.date() else date(now.year - 1, month, day)


def _at(day: date, clock: clock_time = clock_time()) -> datetime:
    return datetime.combine(day, clock)
