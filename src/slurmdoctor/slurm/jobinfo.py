"""A job's record, from the text of `scontrol show job` and `sacct`. Pure.

Formats: Slurm 20 to 25. scontrol prints `Key=value` pairs, several a line; sacct a table, aligned or with `|`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from slurmdoctor.exits import Death, expand, expand_nodes, from_code, from_sacct

RUNNING = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING", "STOPPED", "CONFIGURING"})
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
FAILED = frozenset(
    {
        "FAILED",
        "TIMEOUT",
        "DEADLINE",
        "OUT_OF_MEMORY",
        "NODE_FAIL",
        "BOOT_FAIL",
        "PREEMPTED",
        "CANCELLED",
        "REVOKED",
        "LAUNCH_FAILED",
    }
)
_WORST = ("NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY", "FAILED", "TIMEOUT", "DEADLINE", "PREEMPTED", "CANCELLED")

_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w:/()-]*)=")
_WHOLE_LINE = frozenset(
    {"Command", "WorkDir", "StdOut", "StdErr", "StdIn", "Comment", "AdminComment", "SystemComment", "JobName", "Name"}
)
_NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "UNLIMITED", "Partition_Limit", "None assigned", "NONE"})
_SIGNALS_OF_SACCT = frozenset({4, 6, 7, 8, 9, 11, 15})
"""sacct prints codes from 128 on less 128, so 137 as 9. These plain codes are, as good as always, signals."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A line of Slurm's own words."""

    source: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the job, as sacct tells it."""

    id: str
    """`0`, `batch`, `extern`."""
    name: str = ""
    state: str | None = None
    exit: Death | None = None
    nodes: tuple[str, ...] = ()
    elapsed: int | None = None
    max_rss: int | None = None
    """Bytes, of the largest task."""
    cancelled_by: int | None = None
    """The uid behind `CANCELLED by 1000`."""
    quote: Quote | None = None

    @property
    def failed(self) -> bool:
        return self.state in FAILED or (
            self.exit is not None and self.exit.exit_class != "ok" and self.state != "COMPLETED"
        )


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One job (an array task, a component of a het job). What Slurm did not tell is None."""

    id: str
    name: str | None = None
    state: str | None = None
    cancelled_by: int | None = None
    """The uid behind `CANCELLED by 1000`."""
    uid: int | None = None
    """The job's own user."""
    reason: str | None = None
    exit: Death | None = None
    """How the batch script ended."""
    derived: Death | None = None
    """The highest exit code of the job's steps."""
    nodes: tuple[str, ...] = ()
    bad_nodes: Mapping[str, str] = field(default_factory=dict)
    """Nodes of this job that Slurm itself calls down, drained or failed, and its words."""
    num_nodes: int | None = None
    num_tasks: int | None = None
    tasks_per_node: int | None = None
    time_limit: int | None = None
    """Seconds."""
    elapsed: int | None = None
    start: float | None = None
    end: float | None = None
    """Seconds since the epoch as if local time were UTC, like a log's own stamps."""
    preempted_at: float | None = None
    restarts: int | None = None
    req_mem: int | None = None
    """Bytes a node."""
    partition: str | None = None
    work_dir: str | None = None
    command: str | None = None
    std_out: str | None = None
    std_err: str | None = None
    array_job: str | None = None
    array_task: int | None = None
    het_offset: int | None = None
    het_ids: tuple[str, ...] = ()
    """The ids of all components."""
    steps: tuple[Step, ...] = ()
    step: str | None = None
    """The step that was asked for, where one was."""
    exit_status: int | None = None
    """What the job's own shell saw, where a footer handed it over."""
    running_children: tuple[str, ...] = ()
    """Programs that still ran when the shell ended, where a footer looked."""
    warned_by: str | None = None
    """The signal for which the script asks before the limit: `SIGUSR1`."""
    warned_before: int | None = None
    """Seconds before the limit at which the script asks for a signal (`--signal=B:USR1@120`)."""
    siblings: tuple[str, ...] = ()
    """Other failed tasks of the array, or other components."""
    quotes: Mapping[str, Quote] = field(default_factory=dict)
    told_by: frozenset[str] = frozenset()
    """`scontrol`, `sacct`: who told."""
    missing: tuple[str, ...] = ()
    """What was asked and not told, each with its reason."""

    @property
    def work_steps(self) -> tuple[Step, ...]:
        """The steps that ran programs: neither the script nor the container for adopted processes."""
        return tuple(s for s in self.steps if s.id not in ("batch", "extern", "interactive"))

    @property
    def max_rss(self) -> int | None:
        return max((s.max_rss for s in self.steps if s.max_rss), default=None)

    @property
    def ended(self) -> bool:
        return self.state is not None and self.state not in RUNNING | WAITING


def read(texts: Iterable[tuple[str, str]], job_id: str | None = None) -> JobInfo | None:
    """The job that the texts (each with its name) tell of: the one asked for, or the worst of those that are there."""
    records: list[JobInfo] = []
    tables: list[JobInfo] = []
    bad: dict[str, str] = {}
    for name, text in texts:
        if "JobId=" in text:
            records += read_scontrol(text, name)
        elif "NodeName=" in text:
            bad |= bad_nodes(text)
        else:
            tables += read_sacct(text, name)
    wanted, _, step = (job_id or "").partition(".")
    jobs = _matching([*_joined(records, tables)], wanted)
    if not jobs:
        return None
    chosen = min(jobs, key=_badness)
    others = tuple(_label(job) for job in jobs if job is not chosen and job.state in FAILED)
    chosen = replace(chosen, siblings=others, bad_nodes={n: w for n, w in bad.items() if n in chosen.nodes})
    return _narrowed(chosen, step) if step else chosen


def looks_like_slurm(text: str) -> bool:
    """Whether a text is one that `read` understands."""
    head = text[:4000]
    return "JobId=" in head or "NodeName=" in head or re.search(r"^\s*JobID(?:Raw)?[\s|]", head, re.M) is not None


# ── scontrol ─────────────────────────────────────────────────────────────────────────────────


def read_scontrol(text: str, name: str = "scontrol show job") -> list[JobInfo]:
    """All records of `scontrol show job [-d]`."""
    found: list[JobInfo] = []
    pairs: dict[str, str] = {}
    places: dict[str, Quote] = {}
    for number, line in enumerate([*text.splitlines(), "JobId="], 1):
        if line.lstrip().startswith("JobId="):
            if pairs:
                found.append(_of_scontrol(pairs, places))
            pairs, places = {}, {}
        for key, value in _pairs(line):
            if key not in pairs:
                pairs[key] = value
                places[key] = Quote(name, number, line.strip())
    return found


def _pairs(line: str) -> Iterable[tuple[str, str]]:
    keys = list(_KEY.finditer(line))
    for at, key in enumerate(keys):
        if key[1] in _WHOLE_LINE:
            yield key[1], line[key.end() :].strip()
            return
        end = keys[at + 1].start() if at + 1 < len(keys) else len(line)
        yield key[1], line[key.end() : end].strip()


_QUOTED = {"JobState": "state", "ExitCode": "exit", "DerivedExitCode": "derived", "PreemptTime": "preempt"}


def _of_scontrol(pairs: Mapping[str, str], places: Mapping[str, Quote]) -> JobInfo:
    get = {k: v for k, v in pairs.items() if v not in _NOTHING}.get
    user = re.search(r"\((\d+)\)", get("UserId") or "")
    quotes = {to: places[key] for key, to in _QUOTED.items() if key in places}
    per_node = re.match(r"(\d+):", get("NtasksPerN:B:S:C") or "")
    nodes = tuple(expand_nodes(get("NodeList") or ""))
    return JobInfo(
        id=pairs.get("JobId", "").strip(),
        name=get("JobName") or get("Name"),
        state=(get("JobState") or "").partition(" ")[0] or None,
        uid=int(user[1]) if user else None,
        reason=get("Reason"),
        exit=from_sacct(pairs.get("ExitCode", "")),
        derived=from_sacct(pairs.get("DerivedExitCode", "")),
        nodes=nodes,
        num_nodes=_number(get("NumNodes")),
        num_tasks=_number(get("NumTasks")),
        tasks_per_node=int(per_node[1]) or None if per_node else None,
        time_limit=seconds(get("TimeLimit")),
        elapsed=seconds(get("RunTime")),
        start=stamp(get("StartTime")),
        end=stamp(get("EndTime")),
        preempted_at=stamp(get("PreemptTime")),
        restarts=_number(get("Restarts")),
        req_mem=_mem_per_node(get),
        partition=get("Partition"),
        work_dir=get("WorkDir"),
        command=get("Command"),
        std_out=get("StdOut"),
        std_err=get("StdErr"),
        array_job=get("ArrayJobId"),
        array_task=_number(get("ArrayTaskId")),
        het_offset=_number(get("HetJobOffset") or get("PackJobOffset")),
        het_ids=_ids(get("HetJobIdSet") or get("PackJobIdSet")),
        quotes=quotes,
        told_by=frozenset({"scontrol"}),
    )


def _ids(text: str | None) -> tuple[str, ...]:
    """`25-27,31`, as Slurm writes a set of job ids."""
    found: list[str] = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += (
                map(str, range(int(first), min(int(last or first), int(first) + 128) + 1))
                if (last or first).isdigit()
                else ()
            )
    return tuple(found)


def _mem_per_node(get: Callable[[str], str | None]) -> int | None:
    if node := get("MinMemoryNode"):
        return size(node) or None
    tres = re.search(r"\bmem=([\d.]+[KMGTP]?)", get("AllocTRES") or get("TRES") or "")
    total, nodes = size(tres[1]) if tres else None, _number(get("NumNodes"))
    return total // nodes if total and nodes else None


def bad_nodes(text: str) -> dict[str, str]:
    """Nodes that `scontrol show node` calls down, drained or failed, each with Slurm's words."""
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=NodeName=)", text):
        name = re.search(r"NodeName=(\S+)", block)
        state = re.search(r"\bState=(\S+)", block)
        if name and state and re.search(r"DOWN|DRAIN|FAIL|NOT_RESPONDING|\*", state[1]):
            reason = re.search(r"\bReason=(.+)", block)
            found[name[1]] = f"{state[1]}" + (f" ({reason[1].strip()})" if reason else "")
    return found


# ── sacct ────────────────────────────────────────────────────────────────────────────────────


def read_sacct(text: str, name: str = "sacct") -> list[JobInfo]:
    """All jobs of a sacct table; a job that stands there twice (resized, requeued) counts as it stands last."""
    jobs: dict[str, JobInfo] = {}
    steps: dict[str, dict[str, Step]] = {}
    for row, quote in _rows(text, name):
        ident = row.get("JobID") or row.get("JobIDRaw") or ""
        job, _, step = ident.partition(".")
        if not job:
            continue
        if step:
            steps.setdefault(job, {})[step] = _step(step, row, quote)
        else:
            steps[job] = {} if job in jobs else steps.get(job, {})
            jobs[job] = _of_sacct(job, row, quote)
    return [replace(info, steps=tuple(steps.get(job, {}).values())) for job, info in jobs.items()]


def _rows(text: str, name: str) -> Iterable[tuple[dict[str, str], Quote]]:
    header: list[str] = []
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*JobID(?:Raw)?\b", line):
            piped = "|" in line
            header = [cell.strip() for cell in (line.split("|") if piped else line.split())]
            spans = []
        elif header and not spans and re.fullmatch(r"[-\s]+", line) and "-" in line:
            spans = [(m.start(), m.end()) for m in re.finditer(r"-+", line)]
        elif header and line.strip():
            cells = [line[a:b] for a, b in spans] if spans else line.split("|")
            row = {key: cell.strip() for key, cell in zip(header, cells, strict=False) if key}
            yield row, Quote(name, number, " ".join(line.replace("|", " ").split()))


def _state(row: Mapping[str, str]) -> tuple[str | None, int | None]:
    words = (row.get("State") or "").split()
    by = re.search(r"by (\d+)", row.get("State") or "")
    state = words[0].rstrip("+") if words else None
    full = next((s for s in (*FAILED, *RUNNING, *WAITING) if state and len(state) >= 6 and s.startswith(state)), state)
    return full, int(by[1]) if by else None


def sacct_exit(pair: str) -> Death | None:
    """sacct's own `code:signal`: it takes 128 off codes from 128 on."""
    death = from_sacct(pair)
    if death and death.signal is None and death.code in _SIGNALS_OF_SACCT:
        return from_code(128 + death.code)
    return death


def _step(ident: str, row: Mapping[str, str], quote: Quote) -> Step:
    state, by = _state(row)
    return Step(
        ident,
        row.get("JobName", ""),
        state,
        sacct_exit(row.get("ExitCode", "")),
        tuple(expand_nodes(_plain(row.get("NodeList")) or "")),
        seconds(row.get("Elapsed")),
        size(row.get("MaxRSS")),
        by,
        quote,
    )


def _of_sacct(job: str, row: Mapping[str, str], quote: Quote) -> JobInfo:
    state, by = _state(row)
    array = re.fullmatch(r"(\d+)_(\d+)", job)
    het = re.fullmatch(r"(\d+)\+(\d+)", job)
    nodes = tuple(expand_nodes(_plain(row.get("NodeList")) or ""))
    count = _number(row.get("NNodes") or row.get("AllocNodes")) or len(nodes) or None
    return JobInfo(
        id=job,
        name=row.get("JobName") or None,
        state=state,
        cancelled_by=by,
        uid=_number(row.get("UID")),
        reason=_plain(row.get("Reason")),
        exit=sacct_exit(row.get("ExitCode", "")),
        derived=sacct_exit(row.get("DerivedExitCode", "")),
        nodes=nodes,
        num_nodes=count,
        num_tasks=_number(row.get("NTasks")),
        time_limit=seconds(row.get("Timelimit") or row.get("TimeLimit")),
        elapsed=seconds(row.get("Elapsed")),
        start=stamp(row.get("Start")),
        end=stamp(row.get("End")),
        restarts=_number(row.get("Restarts")),
        req_mem=_requested(row.get("ReqMem"), count),
        partition=row.get("Partition") or None,
        work_dir=_plain(row.get("WorkDir")),
        std_out=_plain(row.get("StdOut")),
        std_err=_plain(row.get("StdErr")),
        array_job=array[1] if array else None,
        array_task=int(array[2]) if array else None,
        het_offset=int(het[2]) if het else None,
        quotes={"sacct": quote, "state": quote, "exit": quote},
        told_by=frozenset({"sacct"}),
    )


def _requested(text: str | None, nodes: int | None) -> int | None:
    """ReqMem a node: `4Gn` is, `400Mc` is a core and tells nothing here, `800M` is the whole job's."""
    if not text or text.endswith("c"):
        return None
    if text.endswith("n"):
        return size(text[:-1])
    total = size(text)
    return total // nodes if total and nodes else total


# ── one job of both ──────────────────────────────────────────────────────────────────────────


def _joined(records: Sequence[JobInfo], tables: Sequence[JobInfo]) -> list[JobInfo]:
    """scontrol and sacct on the same job as one; sacct knows steps and who cancelled, scontrol the plain codes."""
    left = list(tables)
    found: list[JobInfo] = []
    for record in records:
        row = next((r for r in left if r.id in _names(record)), None)
        if row is not None:
            left.remove(row)
        found.append(_merged(record, row) if row else record)
    return [*found, *left]


def _merged(record: JobInfo, row: JobInfo) -> JobInfo:
    filled: Any = {
        name: getattr(row, name)
        for name in _FROM_EITHER
        if getattr(record, name) is None and getattr(row, name) is not None
    }
    if row.state in FAILED and record.state not in FAILED | RUNNING:
        filled["state"] = row.state
    if len(row.nodes) > len(record.nodes):  # scontrol forgets the nodes that a job lost
        filled["nodes"] = row.nodes
    quotes = {**row.quotes, **record.quotes}
    return replace(record, **filled, steps=row.steps, quotes=quotes, told_by=record.told_by | row.told_by)


_FROM_EITHER = (
    "cancelled_by",
    "uid",
    "derived",
    "num_tasks",
    "time_limit",
    "elapsed",
    "start",
    "end",
    "restarts",
    "req_mem",
    "work_dir",
    "std_out",
    "std_err",
    "exit",
    "state",
    "reason",
    "num_nodes",
    "partition",
)


def _names(job: JobInfo) -> set[str]:
    names = {job.id}
    if job.array_job and job.array_task is not None:
        names.add(f"{job.array_job}_{job.array_task}")
    if job.het_offset is not None:
        head = job.id.partition("+")[0]
        names |= (
            {f"{head}+{job.het_offset}", f"{int(head) - job.het_offset}+{job.het_offset}"} if head.isdigit() else set()
        )
    return names


def _matching(jobs: list[JobInfo], wanted: str) -> list[JobInfo]:
    if not wanted:
        return jobs
    exact = [job for job in jobs if wanted in _names(job)]
    if exact and len(jobs) == 1:
        return exact
    family = [
        job for job in jobs if job.array_job == wanted or any(name.startswith(f"{wanted}+") for name in _names(job))
    ]
    return family if len(family) > 1 else exact or family


def _badness(job: JobInfo) -> tuple[int, int, str]:
    """Failed jobs first, then running ones; the lowest array task among equals."""
    rank = 0 if job.state in FAILED else 1 if job.state in RUNNING else 3 if job.state in WAITING else 2
    if rank == 0 and job.state in _WORST:
        return (0, job.array_task if job.array_task is not None else _WORST.index(job.state), job.id)
    return (rank, job.array_task or 0, job.id)


def _label(job: JobInfo) -> str:
    return f"{job.array_job}_{job.array_task}" if job.array_job and job.array_task is not None else job.id


def _narrowed(job: JobInfo, step: str) -> JobInfo:
    """The job as seen from one of its steps."""
    own = next((s for s in job.steps if s.id == step), None)
    if own is None:
        return replace(job, step=step, missing=(*job.missing, f"step {job.id}.{step} (not in sacct's table)"))
    quotes = {**job.quotes, "state": own.quote, "exit": own.quote} if own.quote else job.quotes
    return replace(
        job,
        step=step,
        state=own.state or job.state,
        exit=own.exit or job.exit,
        nodes=own.nodes or job.nodes,
        elapsed=own.elapsed if own.elapsed is not None else job.elapsed,
        steps=(own,),
        quotes=quotes,
    )


# ── values ───────────────────────────────────────────────────────────────────────────────────


def _plain(text: str | None) -> str | None:
    return text if text and text not in _NOTHING else None


def _number(text: str | None) -> int | None:
    found = re.match(r"\d{1,15}", text or "")
    return int(found[0]) if found else None


def seconds(text: str | None) -> int | None:
    """Slurm's times: `90` (minutes), `1:30` (minutes:seconds), `01:30:00`, `2-00:00:00`, `1-12`, `00:00:05.123`."""
    if not text or text in _NOTHING or text == "INVALID":
        return None
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?(?:\.\d+)?", text.strip())
    if not found:
        return None
    days, a, b, c = (int(x) if x else None for x in found.groups())
    if days is not None:
        return days * 86400 + (a or 0) * 3600 + (b or 0) * 60 + (c or 0)
    if c is not None:
        return (a or 0) * 3600 + (b or 0) * 60 + c
    return (a or 0) * 60 + (b or 0)


def size(text: str | None) -> int | None:
    """`800M`, `12268K`, `1.5G`, `400` (megabytes, as sbatch --mem takes it) in bytes."""
    found = re.fullmatch(r"([\d.]+)([KMGTP]?)(?:i?B)?", (text or "").strip(), re.I)
    if not found or found[1].count(".") > 1:
        return None
    power = "KMGTP".index(found[2].upper()) + 1 if found[2] else 2
    return int(float(found[1]) * 1024**power)


def stamp(text: str | None) -> float | None:
    """`2026-11-20T12:01:03`, as a log's own stamps are read: as if it were UTC."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() if text else None
    except ValueError:
        return None


__all__ = [
    "FAILED",
    "RUNNING",
    "WAITING",
    "JobInfo",
    "Quote",
    "Step",
    "bad_nodes",
    "expand",
    "looks_like_slurm",
    "read",
    "seconds",
    "size",
]
