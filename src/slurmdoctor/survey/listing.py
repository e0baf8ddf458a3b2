"""Which jobs there are: those whose logs lie in folders, with Slurm's saved answers where these are given, or those that its accounts
name, whose logs are found as `diagnose` finds them, without a call for each.
"""

from __future__ import annotations

import os
import pickle
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.input import UnreadError, did_you_mean, expand
from slurmdoctor.model import Frozen, JobFiles, JobRecord, LogNotFoundError, UserError
from slurmdoctor.pipeline import split
from slurmdoctor.slurm import (
    COMPLETED,
    Asked,
    LogIndex,
    begins as own_text_begins,
    by_name,
    counts_gpus,
    days,
    end as own_text_end,
    ended,
    epoch,
    fields,
    is_named_after,
    logs_of,
    read_text,
    saved,
    warned,
    worst,
)
from slurmdoctor.slurm.script import Script, parse_beside, read, submitted
from slurmdoctor.survey.rows import ALL, Choice, Item, Log

MOST_FILES = 1_000_000
"""Files of one survey; what follows in the order of the names is reported, and not read."""


_ROOT = "root"
_SAMPLE = 5_000
"""Jobs whose logs' owners are looked at, to tell whether there are several."""


class Found(Frozen):
    """The jobs of the folders."""

    jobs: Sequence[JobFiles] = ()
    skipped: Sequence[UnreadError] = ()
    """What lies in the folders and is not read, each with the reason."""
    others: Sequence[str] = ()
    """Files that are no logs by their names."""
    records: Mapping[str, JobRecord] = field(default_factory=dict)
    """By each id that a job is known by."""
    choice: Choice = ALL
    incomplete = False
    nothing = "no job of these logs is one that the options ask for"

    @property
    def notes(self) -> Sequence[str]:
        """What was left out, in one line."""
        are = "file or folder was" if len(self.skipped) == 1 else "files or folders were"
        return [f"{len(self.skipped):,} {are} left out, the first: {one}" for one in self.skipped[:1]]

    @property
    def no_logs(self) -> str | None:
        """How many files were left out by their names, with one of them."""
        if not self.others:
            return None
        are = "files are no logs by their names" if len(self.others) > 1 else "file is no log by its name"
        return f"{len(self.others):,} {are}, as {self.others[0]}; to read one, name it as a PATH"

    def __iter__(self) -> Iterator[Item]:
        several = self._several_users()
        only = next(iter(self.records.values()), None) if len(self.jobs) == 1 else None
        for job in self.jobs:
            item = _item(job, self.records.get(job.id or "", only if job.id is None else None))
            if self._counts(item):
                yield item if several and item.user != _ROOT else replace(item, user=None)

    def _several_users(self) -> bool:
        """Whether the logs are of several users; one owner may be who copied or unpacked them."""
        sample = self.jobs[:: max(1, len(self.jobs) // _SAMPLE)]
        owners = {name_of(log_of(job.files[0])[1]) for job in sample}
        return len(owners - {_ROOT, None}) > 1

    def _counts(self, item: Item) -> bool:
        """Whether the job is one of those that are asked for. It ended when its newest log was last written."""
        record, choice = item.record, self.choice
        if choice.users and ((record and record.user) or item.user) not in choice.users:
            return False
        if choice.partitions and (record is None or record.partition not in choice.partitions):
            return False
        newest = max((log.mtime_ns for log in item.logs), default=0) / 1e9
        if choice.since is not None and newest < choice.since.timestamp():
            return False
        return choice.until is None or newest < choice.until.timestamp()


def find_in_folders(paths: Sequence[str], slurm_info: Sequence[str] = (), choice: Choice = ALL) -> Found:
    """The jobs of the files that the paths name (files, folders, globs). Raises UserError where nothing is there."""
    for path in paths:
        if path == "-":
            raise UserError("a survey reads no standard input", "name the folders of the logs")
        if not os.path.lexists(path) and not any(c in path for c in "*?["):
            raise LogNotFoundError(f"{path} is not there", did_you_mean(path))
    found = expand(paths, most=MOST_FILES, each_folder=True)
    texts = saved(slurm_info)
    jobs = split(found.paths, survey=True)
    return Found(jobs, found.skipped, found.others, by_name(texts), choice)


def log_of(path: str, begins: int = 0) -> tuple[Log, int]:
    """The log with its stamp, and its owner; a log that is not there is an empty one, and -1."""
    try:
        status = os.stat(path)  # noqa: PTH116 - of a million files
    except (OSError, ValueError):
        return Log(path), -1
    return Log(path, status.st_ino, status.st_size, status.st_mtime_ns, min(begins, status.st_size)), status.st_uid


@cache
def name_of(uid: int) -> str | None:
    """The user's name; the number of one whom this machine does not know."""
    import pwd

    if uid < 0:
        return None
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def key_of(record: JobRecord) -> str:
    """The key of one run of a job: Slurm may give an id again, but not in the same second."""
    return f"{record.cluster or ''}:{record.label}@{'' if record.submitted is None else int(record.submitted)}"


@lru_cache(maxsize=4096)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def _item(job: JobFiles, record: JobRecord | None) -> Item:
    begins = own_text_begins(job.files, {}, record, copies=True) if record is not None else {}
    logs, owners = zip(*(log_of(path, begins.get(path, 0)) for path in job.files), strict=True)
    # what else a job is called, and which files without its id are its own, depends on the other jobs
    bare = (job.id or "").partition("_")[0]
    first = min(job.files, key=lambda path: (bare not in path.rpartition("/")[2], path.count("/"), path))
    folder, _, name = first.rpartition("/")
    place = _real(folder or ("/" if first.startswith("/") else "."))
    return Item(
        key=(f"{place}:{job.id}" if job.id else f"{place}/{name}") if record is None else key_of(record),
        id=job.id if record is None else record.label,
        name=_called(job),
        logs=logs,
        record=record,
        user=name_of(owners[0]),
    )


def _called(job: JobFiles) -> str | None:
    """The job's name where a file's name or its folder tells it; a log's own name with its ending is none."""
    if job.name not in {end for path in job.files for end in (path, path.rpartition("/")[2])}:
        return job.name
    return job.files[0].rpartition("/")[0].rpartition("/")[2] or None if job.known_by == "folder" else None


AGAIN = frozenset({"REQUEUED", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"})
"""States after which Slurm may start a job again."""
_OWN = re.compile(r"slurmdoctor-(?:survey|\d+)")
"""Names of jobs that only read logs: Dask's workers, and what `hook --kind dependency` sends behind another job."""
_SLACK = 5.0
"""Seconds after its end in which a run that is requeued may still print,"""
_LAST_WORDS = 60.0
"""and one whose node is silent: what is written later is the next run's, though that has not ended yet."""
_CLOCK, _SCRIPT_CLOCK = 5.0, 60.0
"""Seconds by which the clock of a file server may differ: for logs, for scripts."""
_LATE = 120.0
"""Seconds after a job's end in which its last output may still come."""
_LARGEST = 1 << 20
"""Bytes; a script is smaller."""
_OUTPUT_OF_A_STEP = re.compile(r"^(?!#).*\bsrun\b.*\s(?:-[oe]|--output|--error)", re.M)


class Accounts(Struct):
    """The jobs that ended in a time. Each is an item once; what could not be learnt is noted."""

    since: datetime
    until: datetime
    asked: Asked = Asked()
    fields: list[str] = field(default_factory=list)
    """Those that this sacct knows."""
    notes: list[str] = field(default_factory=list)
    """What is missing, a line each, once all jobs were listed."""
    failed_days: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    """By the reason."""

    no_logs = None

    @property
    def incomplete(self) -> bool:
        """Whether sacct did not answer for a day."""
        return self.failed_days > 0

    @property
    def nothing(self) -> str:
        """The message where no job is found."""
        asked = ("user", self.asked.user), ("partition", self.asked.partition)
        whose = "".join(f" of {what} {names.replace(',', ' or ')}" for what, names in asked if names)
        return f"no job{whose} ended from {self.since:%Y-%m-%d %H:%M} to before {self.until:%Y-%m-%d %H:%M}"

    def __iter__(self) -> Iterator[Item]:
        """Raises UserError where sacct answers for none of the days."""
        every = list(days(self.since, self.until))
        finder = _Finder(self.asked.completed, counts_gpus())
        for window in every:
            try:
                for job in ended(window, self.asked, self.fields, other=finder.wrote):
                    if not job.nodes and not job.elapsed:
                        self.left_out["they ended before they started"] += 1
                    elif _OWN.fullmatch(job.name or ""):
                        self.left_out["slurmdoctor's own, which read logs"] += 1
                    else:
                        yield from finder.take(job)
            except UserError as error:
                self.failed_days += 1
                if self.failed_days == len(every):
                    self.notes.clear()
                    none = f"none of {len(every):,} days; the last one" if len(every) > 1 else "nothing of that day"
                    raise UserError(f"sacct told {none}: {error.message}", error.mend) from None
                self.notes.append(f"{window}: {error}; jobs of that day are missing")
            yield from finder.rest()
        yield from finder.last()
        self.notes += [f"left out as {why}: {count:,}" for why, count in self.left_out.items()]


def find_accounted(since: datetime, until: datetime, asked: Asked) -> Accounts:
    """The jobs that ended from a time on and before another. Raises UserError where sacct does not answer at all."""
    return Accounts(since, until, asked, fields())


class _Finder:
    """Makes items of records. Those of one job come one after the other."""

    def __init__(self, completed: bool, counts_gpus: bool) -> None:
        self._completed, self._counts_gpus = completed, counts_gpus
        self._index = LogIndex(())
        self._runs: list[JobRecord] = []
        """Of one job, which may have run several times."""
        self._before: Counter[str] = Counter()
        """How often jobs that may run again have run."""
        self._het: dict[str, list[JobRecord]] = defaultdict(list)
        self._held: list[bytes] = []
        """Jobs whose logs bear names that others may use wait until all jobs are listed."""
        self._folders: set[str | None] = set()
        """Where these worked."""
        self._began: dict[str, list[tuple[float, str, str]]] = defaultdict(list)
        """File -> when each of its jobs began, how it is called, and who it is."""

    def take(self, job: JobRecord) -> Iterator[Item]:
        if job.gpus is None and self._counts_gpus:
            job = replace(job, gpus=0)
        if job.het_offset is not None:
            self._het[f"{job.cluster}:{_head(job)}@{job.submitted}"].append(job)
            return
        if self._runs and _name(self._runs[0]) != _name(job):
            yield from self.rest()
        self._runs.append(job)

    def rest(self) -> Iterator[Item]:
        """The runs that wait for a later one of the same job."""
        runs, self._runs = sorted(self._runs, key=lambda job: (job.submitted or 0, job.start or 0)), []
        for job, following in zip_longest(runs, runs[1:]):
            before = self._before[_name(job)]
            later = following.start if following else None
            if following or job.state in AGAIN:
                self._before[_name(job)] += 1
                if later is None:
                    later = (job.end or 0) + (_SLACK if job.state == "REQUEUED" else _LAST_WORDS)
            yield from self._given(job if job.restarts or not before else replace(job, restarts=before), later)

    def last(self) -> Iterator[Item]:
        """Jobs of several components, each with the log of its first one; and those that waited."""
        for parts in self._het.values():
            yield from self._given(joined(sorted(parts, key=lambda job: job.het_offset or 0)), None)
        for packed in self._held:
            yield self._settled(pickle.loads(packed))

    def wrote(self, job: JobRecord) -> None:
        """A job that is not read may have written to a file of one that is."""
        if job.work_dir in self._folders or any(run.work_dir == job.work_dir for run in self._runs):
            with suppress(Exception):  # where its files are not found, they are nobody's
                self._shares(job, logs_of(job, script_of(job)[0], self._index)[0])

    def _shares(self, job: JobRecord, files: Sequence[str]) -> bool:
        """Whether one of these files is not the job's alone by its name."""
        shared = [path for path in files if not is_named_after(path, job)]
        for path in shared:
            if job.start is not None:
                self._began[path].append((job.start, job.label, _name(job)))
        return bool(shared)

    def _given(self, job: JobRecord, later: float | None) -> Iterator[Item]:
        item = self._item(job, later)
        if not item.read:
            self.wrote(job)
        if self._shares(job, [log.path for log in item.logs]):
            self._folders.add(job.work_dir)
            self._held.append(pickle.dumps(item, pickle.HIGHEST_PROTOCOL))
        else:
            yield item

    def _settled(self, item: Item) -> Item:
        """A job that waited, without the logs that a later job has written to: a file is the last job's, as that one emptied it."""
        job, logs, notes = item.record, [], [*item.notes]
        if job is None or job.end is None:
            return item
        for log in item.logs:
            written = log.mtime_ns / 1e9
            after = [
                (start, label)
                for start, label, who in self._began.get(log.path, ())
                if who != _name(job) and start >= job.end and epoch(start, 0) <= written + _CLOCK
            ]
            if after and not log.ends:  # else Slurm's lines show which part is this job's
                name = log.path.rpartition("/")[2]
                notes.append(f"log {log.path} (a later job ({max(after)[1]}) has written to {name})")
                continue
            logs.append(log)
            if not log.ends and not is_named_after(log.path, job) and written > epoch(job.end, 1) + _LATE:
                notes.append(f"log {log.path} (written to after the job's end: it may show another job)")
        return replace(item, logs=tuple(logs), notes=tuple(notes))

    def _item(self, job: JobRecord, later: float | None) -> Item:
        key, label = key_of(job), job.label
        if job.state in COMPLETED and not self._completed:
            bare = replace(job, steps=(), quotes={}, submit_line=None)
            return Item(key, label, job.name, record=bare, read=False)
        script, path = script_of(job)
        if path is not None:
            job = warned(job, script)
        logs: tuple[Log, ...] = ()
        owner = -1
        try:
            files, job = logs_of(job, script, self._index)
            logs, job, owner = _stamped(files, job, later)
        except Exception as error:  # one odd name must not end the survey: the row says that there is no log
            job = replace(job, missing=(*job.missing, f"logs ({type(error).__name__}: {error})"))
        user = None if job.user else name_of(owner)
        return Item(
            key, label, job.name, logs, job, path, user, tuple(why for why in job.missing if why.startswith("log"))
        )


def _stamped(files: list[str], job: JobRecord, later: float | None) -> tuple[tuple[Log, ...], JobRecord, int]:
    """The logs with their stamps and what of each is this run's; the record with what is gone; the owner."""
    begins = own_text_begins(files, {}, job)
    logs: list[Log] = []
    owner = job.uid if job.uid is not None else -1
    for path in files:
        log, uid = log_of(path, begins.get(path, 0))
        if uid >= 0 and job.uid not in (None, uid, os.geteuid()):  # what Slurm knows of the path, the user has said
            job = replace(job, missing=(*job.missing, f"log {path} (not a file of the job's user)"))
            continue
        owner = uid if owner < 0 else owner
        end = own_text_end(path, job, log.begins, later)
        if end is not None and end <= log.begins:
            job = replace(job, missing=(*job.missing, f"log {path} (a later run has written to it)"))
        else:
            logs.append(log if end is None else replace(log, ends=end))
    return tuple(logs), job, owner


def joined(parts: list[JobRecord]) -> JobRecord:
    """The components of a het job as one job: it is as its worst one, on the nodes and the GPUs of all."""
    first, job = parts[0], worst(parts)
    known = [part.gpus for part in parts if part.gpus is not None]
    nodes = tuple(dict.fromkeys(node for part in parts for node in part.nodes))
    return replace(
        job,
        id=_head(first),
        raw_id=_head(first),
        het_offset=None,
        het_ids=tuple(part.raw_id or part.id for part in parts),
        nodes=nodes,
        num_nodes=sum(part.num_nodes or 0 for part in parts) or None,
        gpus=sum(known) if known else None,
        elapsed=max((part.elapsed for part in parts if part.elapsed is not None), default=None),
        steps=tuple(step for part in parts for step in part.steps),
        std_out=first.std_out,
        std_err=first.std_err,
    )


def _head(job: JobRecord) -> str:
    return job.id.partition("+")[0]


def _name(job: JobRecord) -> str:
    return f"{job.cluster}:{job.raw_id or job.id}"


# ── the batch script, where it is on this disk: asking Slurm for each would be a call a job ──


def script_of(job: JobRecord) -> tuple[Script | None, str | None]:
    """The script that the job's command line names, in its working folder, where something there looks like one; and its path.

    One that was changed since the job was submitted tells where its logs are, and no more: it comes without its path.
    """
    name = _script_in(job.submit_line or "")
    if name is None or job.work_dir is None:
        return None, None
    path = os.path.join(job.work_dir, name)  # noqa: PTH118 - of thousands
    try:
        status = os.stat(path)  # noqa: PTH116
        script = _parsed(path, status.st_ino, status.st_size, status.st_mtime_ns)
    except (OSError, ValueError, UserError):
        return None, None
    if script is None:
        return None, None
    if job.submitted is not None and status.st_mtime <= epoch(job.submitted, 1) + _SCRIPT_CLOCK:
        return script, path
    return Script(script.name, "", directives=script.directives), None


def _script_in(line: str) -> str | None:
    """`job.sh` of `sbatch -N2 job.sh 8 fast`."""
    given, words = submitted(line)
    elsewhere = any(option.name in ("wrap", "chdir") for option in given)
    return words[0] if words and not elsewhere and re.match(r"(?:\S*/)?sbatch\s", line) else None


@lru_cache(maxsize=1024)
def _parsed(path: str, inode: int, size: int, mtime_ns: int) -> Script | None:
    if not 0 < size <= _LARGEST:
        return None
    text = read_text(path, whole=False)
    if not text.startswith("#!"):
        return None
    name = Path(path).name
    if _OUTPUT_OF_A_STEP.search(text):
        script = parse_beside(text, name)
        if not script.fault:  # one that cannot be parsed still says where its log is
            return script
    return Script(name, text, directives=tuple(read(text)[0]))
