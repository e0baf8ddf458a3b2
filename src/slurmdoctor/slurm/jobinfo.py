"""A job's record, from the text of `scontrol show job` and `sacct`. Pure.

Formats: Slurm 20 to 26. scontrol prints `Key=value` pairs, several a line; sacct a table, aligned or with `|`; both JSON.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from slurmdoctor.model import FAILED, RUNNING, WAITING, JobRecord, Quote, Step, expand_nodes, from_sacct, spans
from slurmdoctor.slurm.json_rows import rows as json_rows

_WORST = (
    "NODE_FAIL",
    "BOOT_FAIL",
    "OUT_OF_MEMORY",
    "FAILED",
    "TIMEOUT",
    "DEADLINE",
    "PREEMPTED",
    "REQUEUED",
    "CANCELLED",
)


def read(texts: Iterable[tuple[str, str]], job_id: str | None = None) -> JobRecord | None:
    """The job in the texts, each of which comes with its name: the one asked for, or the one that failed worst."""
    jobs, step = _read(texts, job_id)
    if not jobs:
        return None
    chosen = worst(jobs)
    others = tuple(job.label for job in jobs if job is not chosen and job.state in FAILED)
    return replace(_narrowed(chosen, step) if step else chosen, siblings=others)


def worst(jobs: Iterable[JobRecord]) -> JobRecord:
    """The one that failed worst."""
    return min(jobs, key=_badness)


def tasks(texts: Iterable[tuple[str, str]], array: str) -> list[JobRecord]:
    """All tasks of an array, those that wait as one; none where the id is no array's."""
    jobs, _ = _read(texts, array)
    # those that wait have no number: scontrol and sacct write them differently, and the first one counts
    by_task = {job.array_task: job for job in reversed(jobs) if job.array_job == array}
    return [by_task[task] for task in sorted(by_task, key=lambda task: (task is None, task))]


def by_name(texts: Iterable[tuple[str, str]]) -> dict[str, JobRecord]:
    """All jobs in the texts, by each id that people and files call them by."""
    found: dict[str, JobRecord] = {}
    for job in _read(texts, None)[0]:
        for name in _names(job):
            found.setdefault(name, job)
    return found


def _read(texts: Iterable[tuple[str, str]], job_id: str | None) -> tuple[list[JobRecord], str]:
    """The jobs that the id means, with those of their nodes that are down; and the step that it names."""
    records: list[JobRecord] = []
    tables: list[JobRecord] = []
    bad: dict[str, str] = {}
    for name, text in texts:
        if "JobId=" in text:
            records += read_scontrol(text, name)
        bad |= bad_nodes(text)
        for job in read_sacct(text, name):
            (tables if "sacct" in job.sources else records).append(job)
    wanted, _, step = (job_id or "").partition(".")
    found = [job for job in _joined(records, tables) if not wanted or wanted in _names(job, families=True)]
    return [_finished(job, bad) for job in found], step


def _finished(job: JobRecord, bad: Mapping[str, str]) -> JobRecord:
    down = {n: w for n, w in bad.items() if n in job.nodes}
    if job.failed_node is not None:
        down.setdefault(job.failed_node, "FAILED (sacct: its failure ended the job)")
    # of a job that was restarted Slurm carries it over from the run before
    return replace(job, bad_nodes=down, derived=None if job.restarts else job.derived)


def looks_like_slurm(text: str) -> bool:
    """Whether a text is one that `read` understands."""
    if text.lstrip()[:1] == "{":
        return '"jobs"' in text
    return re.search(rf"JobId=|NodeName=|{_HEAD}", text[:4000], re.M) is not None


def _joined(records: Sequence[JobRecord], tables: Sequence[JobRecord]) -> list[JobRecord]:
    """The records of scontrol and sacct on the same job as one: sacct has the steps and who cancelled, scontrol the exact codes."""
    left: dict[str, list[JobRecord]] = {}
    for row in tables:
        left.setdefault(row.id, []).append(row)
    found: list[JobRecord] = []
    for record in records:
        rows = next((left[name] for name in sorted(_names(record)) if left.get(name)), None)
        found.append(_merged(record, rows.pop(0)) if rows else record)
    return [*found, *(row for rows in left.values() for row in rows)]


def _merged(record: JobRecord, row: JobRecord) -> JobRecord:
    filled: dict[str, Any] = {
        name: getattr(row, name) for name in JobRecord.__struct_fields__ if getattr(record, name) is None
    }
    if row.state in FAILED and record.state not in FAILED | RUNNING | WAITING:
        filled["state"] = row.state
    return replace(
        record,
        **filled,
        nodes=max(record.nodes, row.nodes, key=len),  # scontrol leaves out those that a job lost
        steps=row.steps,
        earlier=row.earlier,
        quotes={**row.quotes, **record.quotes},
        sources=record.sources | row.sources,
    )


def _names(job: JobRecord, families: bool = False) -> set[str]:
    """The ids that mean the job: its own, also as a task or a component; and those of the whole array or het job."""
    component = (f"{leader}+{job.het_offset}" for leader in job.het_ids[:1])
    names = {job.id, job.label, job.raw_id or job.id, *component}
    return names | {re.split("[_+]", name)[0] for name in names} if families else names


def _badness(job: JobRecord) -> tuple[int, int, str]:
    """Failed jobs first, then running ones; the lowest array task among equals."""
    rank = 0 if job.state in FAILED else 1 if job.state in RUNNING else 3 if job.state in WAITING else 2
    among = _WORST.index(job.state) if job.array_task is None and job.state in _WORST else job.array_task or 0
    return (rank, among, job.id)


def _narrowed(job: JobRecord, step: str) -> JobRecord:
    """The job as seen from one of its steps."""
    own = next((s for s in job.steps if s.id == step), None)
    if own is None:
        return replace(job, step=step, missing=(*job.missing, f"step {job.id}.{step} (not in sacct's table)"))
    known = {name: getattr(own, name) for name in ("state", "exit", "nodes", "elapsed")}
    quotes = {**job.quotes, "state": own.quote, "exit": own.quote} if own.quote else job.quotes
    return replace(
        job, **{k: v for k, v in known.items() if v not in (None, ())}, step=step, steps=(own,), quotes=quotes
    )


NOTHING = frozenset({"", "(null)", "N/A", "None", "Unknown", "UNLIMITED", "Partition_Limit", "None assigned", "NONE"})
_NUMBER = r"\d{1,15}"
"""One of a size that means anything."""
_TIME = re.compile(rf"(?:({_NUMBER})-)?({_NUMBER})(?::({_NUMBER}))?(?::({_NUMBER}))?(?:\.\d+)?")


def whole(text: str | None) -> int | None:
    found = re.match(_NUMBER, text or "")
    return int(found[0]) if found else None


def seconds(text: str | None) -> int | None:
    """Slurm's times: `90` (minutes), `1:30` (minutes:seconds), `01:30:00`, `2-00:00:00`, `1-12`, `00:00:05.123`."""
    found = _TIME.fullmatch((text or "").strip())
    if not found:
        return None
    days, a, b, c = (int(x or 0) for x in found.groups())
    if found[1]:
        return days * 86400 + a * 3600 + b * 60 + c
    return a * 3600 + b * 60 + c if found[4] else a * 60 + b


def size(text: str | None) -> int | None:
    """`800M`, `12268K`, `1.5G`, `400` (megabytes, as sbatch --mem takes it) in bytes."""
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{0,9})?)([KMGTP]?)(?:i?B)?", (text or "").strip(), re.I)
    if not found:
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


Get = Callable[[str], str | None]
"""What a program tells under a name of its own."""
_NAMES: Mapping[Callable[[str], Any], Mapping[str, str]] = {
    str: {
        "name": "JobName Name", "user": "User", "account": "Account", "cluster": "Cluster", "reason": "Reason",
        "partition": "Partition", "work_dir": "WorkDir", "command": "Command", "submit_line": "SubmitLine",
        "std_out": "StdOut", "std_err": "StdErr", "raw_id": "JobIDRaw", "array_job": "ArrayJobId",
        "failed_node": "FailedNode", "comment": "Comment", "admin_comment": "AdminComment",
        "system_comment": "SystemComment",
    },
    whole: {
        "uid": "UID", "num_nodes": "NumNodes NNodes AllocNodes", "num_tasks": "NumTasks NTasks", "restarts": "Restarts",
        "het_offset": "HetJobOffset PackJobOffset",
    },
    seconds: {"time_limit": "TimeLimit Timelimit"},
    stamp: {
        "submitted": "SubmitTime Submit", "start": "StartTime Start", "end": "EndTime End", "preempted_at": "PreemptTime",
    },
    gpus: {"gpus": "AllocTRES TRES"},
    from_sacct: {"derived": "DerivedExitCode"},
}  # fmt: skip
"""How fields of a record are read, and what scontrol and sacct call them; of several names the first one that is there counts."""


def _known(row: Mapping[str, str]) -> Get:
    return {key: text for key, text in row.items() if text not in NOTHING}.get


def _record(job: str, get: Get, **own: Any) -> JobRecord:
    """A job's record, with what one of the programs has its `own` way to tell."""
    fields = {
        field: read(text)
        for read, names in _NAMES.items()
        for field, keys in names.items()
        if (text := next(filter(None, map(get, keys.split())), None)) is not None
    }
    merged = {**fields, **_shared(get), **own}
    nodes = merged.get("num_nodes") or len(merged["nodes"]) or None
    return JobRecord(job, **{**merged, "num_nodes": nodes, "req_mem": _memory(get, nodes)})


def _memory(get: Get, nodes: int | None) -> int | None:
    """Bytes a node that were asked for: ReqMem `4Gn` is a node's, `400Mc` a core's and not used here, `800M` the whole job's."""
    if node := get("MinMemoryNode"):
        return size(node) or None
    tres = re.search(r"\bmem=([\d.]+[KMGTP]?)", get("AllocTRES") or get("TRES") or "")
    asked = get("ReqMem") or (tres[1] if tres else "")
    if asked.endswith("n"):
        return size(asked[:-1])
    total = size(asked)
    return total // nodes if total and nodes else total


def _shared(get: Get) -> dict[str, Any]:
    """What both tell of a job, and sacct of a step too."""
    state, by = _state(get("State") or get("JobState") or "")
    raw = whole(get("ElapsedRaw"))
    return {
        "state": state,
        "cancelled_by": by,
        "exit": from_sacct(get("ExitCode") or ""),
        "nodes": tuple(expand_nodes(get("NodeList") or "")),
        "elapsed": seconds(get("Elapsed") or get("RunTime")) if raw is None else raw,
    }


@lru_cache(maxsize=1024)  # of a million rows
def _state(text: str) -> tuple[str | None, int | None]:
    words = text.split()
    state = words[0].rstrip("+") if words else None
    full = next((s for s in (*FAILED, *RUNNING, *WAITING) if state and len(state) >= 6 and s.startswith(state)), state)
    return full, whole(text.partition(" by ")[2])


_KEY = r"[A-Za-z][\w:/()-]*"
_TO_LINE_END = "Command|WorkDir|StdOut|StdErr|StdIn|(?:Admin|System)?Comment|(?:Job)?Name"
"""Keys whose values hold what users write, and go on to the end of their line."""
_PAIR = re.compile(rf"(?:^|\s)((?P<long>{_TO_LINE_END})|{_KEY})=((?(long).*|.*?(?=\s{_KEY}=|$)))")
_QUOTED = {"JobState": "state", "ExitCode": "exit", "DerivedExitCode": "derived", "PreemptTime": "preempt"}


def read_scontrol(text: str, name: str = "scontrol show job") -> list[JobRecord]:
    """All records of `scontrol show job [-d]`."""
    found: list[JobRecord] = []
    pairs: dict[str, str] = {}
    quotes: dict[str, Quote] = {}
    for number, line in enumerate([*text.splitlines(), "JobId="], 1):
        if line.lstrip().startswith(("JobId=", "NodeName=")):
            if "JobId" in pairs:
                found.append(_of_scontrol(pairs, quotes))
            pairs, quotes = {}, {}
        for key, _, value in _PAIR.findall(line):
            pairs.setdefault(key, value.strip())
            if key in _QUOTED:
                quotes.setdefault(_QUOTED[key], Quote(name, number, line.strip()))
    return found


def _of_scontrol(pairs: Mapping[str, str], quotes: Mapping[str, Quote]) -> JobRecord:
    get = _known(pairs)
    user, _, uid = (get("UserId") or "").partition("(")  # kim(4001)
    ident, array, task = pairs.get("JobId", "").strip(), get("ArrayJobId"), get("ArrayTaskId") or ""
    unstarted = bool(task and not task.isdigit())  # `4-9%2`: those of an array that wait, in one record
    return _record(
        f"{array}_[{task}]" if unstarted else ident,
        get,
        uid=whole(uid),
        user=user or None,
        tasks_per_node=whole(get("NtasksPerN:B:S:C")) or None,
        array_task=None if unstarted else whole(task),
        het_ids=_ids(get("HetJobIdSet") or get("PackJobIdSet")),
        quotes=quotes,
        sources=frozenset({"scontrol"}),
    )


def _ids(text: str | None) -> tuple[str, ...]:
    """`25-27,31`, as Slurm writes a set of job ids."""
    of_text = spans((text or "").split(","))
    return tuple(str(n) for low, high in of_text for n in range(int(low), min(int(high), int(low) + 128) + 1))


def bad_nodes(text: str) -> dict[str, str]:
    """Nodes that `scontrol show node` reports as down, drained or failed, each with the reason."""
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=NodeName=)", text):
        name = re.search(r"NodeName=(\S+)", block)
        state = re.search(r"\bState=(\S+)", block)
        if name and state and re.search(r"DOWN|DRAIN|FAIL|NOT_RESPONDING|\*", state[1]):
            reason = re.search(r"\bReason=(.+)", block)
            found[name[1]] = f"{state[1]}" + (f" ({reason[1].strip()})" if reason else "")
    return found


def read_sacct(text: str, name: str = "sacct") -> list[JobRecord]:
    """All jobs of a sacct table, or of its JSON. Of a job with several rows (resized, requeued) the last one counts."""
    last: dict[str, JobRecord] = {}
    for job in jobs(_rows(text, name)):
        last[job.id] = replace(job, earlier=_earlier(last[job.id], job) if job.id in last else ())
    return list(last.values())


def _earlier(before: JobRecord, job: JobRecord) -> tuple[JobRecord, ...]:
    """The runs before this one: a resized job goes on in its next row, and ids that Slurm gave anew are months apart."""
    apart = (job.submitted or 0) - (before.end or 0)
    if before.end is not None and job.submitted is not None and apart > _REQUEUED_WITHIN:
        return ()
    again = (before.submitted, before.start) != (job.submitted, job.start) and before.state not in (
        "RESIZING",
        "REVOKED",
    )
    return (*before.earlier, replace(before, earlier=())) if again else before.earlier


_REQUEUED_WITHIN = 86400
"""Seconds from a run's end until it is submitted again: its epilog may take long."""


def jobs(table: Iterable[tuple[Mapping[str, str], Quote]], bare: Set[str] = frozenset()) -> Iterator[JobRecord]:
    """Each job with its steps, which stand below it; without them in the `bare` states, which are most of all jobs."""
    job: JobRecord | None = None
    steps: dict[str, Step] = {}
    for row, quote in table:
        ident, _, step = (row.get("JobID") or row.get("JobIDRaw") or "").partition(".")
        if ident and not step:
            if job is not None:
                yield replace(job, steps=tuple(steps.values()))
            job, steps = _of_sacct(ident, row, quote), {}
        elif job is not None and ident == job.id and job.state not in bare:
            steps[step] = _step_of(step, row, quote)
    if job is not None:
        yield replace(job, steps=tuple(steps.values()))


def quoted(row: Mapping[str, str], name: str = "sacct") -> Quote:
    """What evidence shows of a row that we asked for."""
    return Quote(name, 0, " ".join(row[cell] for cell in _QUOTED_CELLS if row.get(cell)))


def _rows(text: str, name: str) -> Iterable[tuple[dict[str, str], Quote]]:
    if text.lstrip()[:1] == "{":
        yield from ((row, quoted(row, name)) for row in json_rows(text))
        return
    if SEPARATOR in text:
        yield from ((row, quoted(row, name)) for row in rows([text], text.partition("\n")[0].split(SEPARATOR)))
        return
    header: list[str] = []
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(_HEAD, line):
            piped = "|" in line
            header = [cell.strip() for cell in (line.split("|") if piped else line.split())]
            spans = []
        elif line.lstrip().startswith(("JobId=", "NodeName=")):  # scontrol's words below, in one saved file
            header = []
        elif "-" in line and re.fullmatch(r"[-\s]+", line):
            spans = [(m.start(), m.end()) for m in re.finditer(r"-+", line)]
        elif header and line.strip():
            cells = [line[a:b] for a, b in spans] if spans else line.split("|")
            row = {key: cell.strip() for key, cell in zip(header, cells, strict=False)}
            yield row, Quote(name, number, " ".join(line.replace("|", " ").split()))


_HEAD = r"^\s*(?:[A-Z]\w*\|)*JobID(?:Raw)?(?=[\s|]|$)"
"""The head of a table; with `-o ALL` the id is not its first cell."""
SEPARATOR = "\x1f"
"""Between the cells of a table that we ask for: a command line may hold any other."""
FIELDS = [
    "JobID", "State", "ExitCode", "DerivedExitCode", "ElapsedRaw", "Elapsed", "Submit", "Start", "End", "Timelimit",
    "User", "UID", "Account", "Cluster", "Partition", "AllocTRES", "NNodes", "NTasks", "NodeList", "ReqMem", "MaxRSS",
    "MaxRSSTask", "MaxRSSNode", "Restarts", "Reason", "FailedNode", "JobName", "Comment", "AdminComment", "SystemComment",
    "SubmitLine", "StdErr", "StdOut", "WorkDir", "JobIDRaw",
]  # fmt: skip
"""What we ask for, as far as a version of sacct knows it. Names and command lines may hold line ends and the separator: what
is on either side of them is known all the same."""
_QUOTED_CELLS = ("JobID", "State", "ExitCode", "DerivedExitCode", "Start", "End", "NodeList", "Reason")
_ID = re.compile(r"\d+(?:_(?:\d+|\[[^\x1f\n]*\])|\+\d+)?(?:\.[\w+]+)?")
_NEW = re.compile(rf"(?:{_ID.pattern}|JobID)\x1f")
_OLD = re.compile(rf"\x1f(?:{_ID.pattern}|JobIDRaw)$")
"""How a row begins, and how it ends."""


def rows(pieces: Iterable[str], names: Sequence[str]) -> Iterator[dict[str, str]]:
    """The rows of the table. A name may hold line ends, and even the separator: then some names of that row are lost."""
    for text in _records(_lines(pieces), len(names)):
        cells = text.split(SEPARATOR)
        if cells[0] == "JobID":  # joined tables repeat their heads
            continue
        if len(cells) > len(names):
            cells = _mended(cells, names)
        yield dict(zip(names, cells, strict=True))


def _lines(pieces: Iterable[str]) -> Iterator[str]:
    rest = ""
    for piece in pieces:
        *lines, rest = (rest + piece).split("\n")
        yield from lines
    if rest:
        yield rest


def _records(lines: Iterable[str], width: int) -> Iterator[str]:
    """Whole rows: the next one begins where an id is at the head of a line, and all cells of this one are there."""
    held: list[str] = []
    cells = 1
    for line in lines:
        if cells >= width and _NEW.match(line) and _OLD.search(held[-1]):
            yield "\n".join(held)
            held, cells = [], 1
        held.append(line)
        cells += line.count(SEPARATOR)
    if cells >= width:
        yield "\n".join(held)


def _mended(cells: list[str], names: Sequence[str]) -> list[str]:
    """A row that has too many cells, for what a user wrote holds the separator: without all of that."""
    torn = [at for at, name in enumerate(names) if name in ("JobName", "SubmitLine") or name.endswith("Comment")]
    behind = torn[-1] + 1
    return [*cells[: torn[0]], *[""] * (behind - torn[0]), *cells[behind - len(names) :]]


def _step_of(ident: str, row: Mapping[str, str], quote: Quote) -> Step:
    largest = {"max_rss_task": whole(row.get("MaxRSSTask")), "max_rss_node": row.get("MaxRSSNode") or None}
    known = {"max_rss": used(row.get("MaxRSS")), **largest, **_shared(_known(row))}
    return Step(ident, row.get("JobName", ""), **known, quote=quote)


def _of_sacct(job: str, row: Mapping[str, str], quote: Quote) -> JobRecord:
    array, _, task = job.partition("_")  # 42_3; 42_[4-9%2] are those that wait
    return _record(
        job,
        _known(row),
        array_job=array if task else None,
        array_task=whole(task),
        het_offset=whole(job.partition("+")[2]),
        quotes={"sacct": quote, "state": quote, "exit": quote},
        sources=frozenset({"scontrol" if "JobState" in row else "sacct"}),
    )
