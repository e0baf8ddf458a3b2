"""The text of `scontrol show job` and `scontrol show node`: `Key=value` pairs, several a line. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from slurmdoctor.model import JobRecord, Quote, expand_nodes, from_sacct, spans
from slurmdoctor.slurm.values import NOTHING, gpus, seconds, size, stamp, whole

_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w:/()-]*)=")

_WHOLE_LINE = frozenset(
    {"Command", "WorkDir", "StdOut", "StdErr", "StdIn", "Comment", "AdminComment", "SystemComment", "JobName", "Name"}
)


def read_scontrol(text: str, name: str = "scontrol show job") -> list[JobRecord]:
    """All records of `scontrol show job [-d]`."""
    found: list[JobRecord] = []
    pairs: dict[str, str] = {}
    places: dict[str, Quote] = {}
    for number, line in enumerate([*text.splitlines(), "JobId="], 1):
        if line.lstrip().startswith(("JobId=", "NodeName=")):
            if "JobId" in pairs:
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


def _of_scontrol(pairs: Mapping[str, str], places: Mapping[str, Quote]) -> JobRecord:
    get = {k: v for k, v in pairs.items() if v not in NOTHING}.get
    user = re.match(r"([^()]*)\((\d+)\)", get("UserId") or "")
    quotes = {to: places[key] for key, to in _QUOTED.items() if key in places}
    nodes = tuple(expand_nodes(get("NodeList") or ""))
    ident, array, task = pairs.get("JobId", "").strip(), get("ArrayJobId"), get("ArrayTaskId") or ""
    unstarted = bool(array and task and not task.isdigit())  # `4-9%2`: those of an array that wait, in one record
    return JobRecord(
        id=f"{array}_[{task}]" if unstarted else ident,
        name=get("JobName") or get("Name"),
        state=(get("JobState") or "").partition(" ")[0] or None,
        uid=whole(user[2]) if user else None,
        user=(user[1] or None) if user else None,
        account=get("Account"),
        gpus=gpus(get("AllocTRES") or get("TRES")),
        submitted=stamp(get("SubmitTime")),
        reason=get("Reason"),
        exit=from_sacct(pairs.get("ExitCode", "")),
        derived=from_sacct(pairs.get("DerivedExitCode", "")),
        nodes=nodes,
        num_nodes=whole(get("NumNodes")),
        num_tasks=whole(get("NumTasks")),
        tasks_per_node=whole(get("NtasksPerN:B:S:C")) or None,
        time_limit=seconds(get("TimeLimit")),
        elapsed=seconds(get("RunTime")),
        start=stamp(get("StartTime")),
        end=stamp(get("EndTime")),
        preempted_at=stamp(get("PreemptTime")),
        restarts=whole(get("Restarts")),
        req_mem=_mem_per_node(get),
        partition=get("Partition"),
        work_dir=get("WorkDir"),
        command=get("Command"),
        std_out=get("StdOut"),
        std_err=get("StdErr"),
        comment=get("Comment"),
        array_job=array,
        array_task=None if unstarted else whole(task),
        het_offset=whole(get("HetJobOffset") or get("PackJobOffset")),
        het_ids=_ids(get("HetJobIdSet") or get("PackJobIdSet")),
        quotes=quotes,
        sources=frozenset({"scontrol"}),
    )


def _ids(text: str | None) -> tuple[str, ...]:
    """`25-27,31`, as Slurm writes a set of job ids."""
    of_text = spans((text or "").split(","))
    return tuple(str(n) for low, high in of_text for n in range(int(low), min(int(high), int(low) + 128) + 1))


def _mem_per_node(get: Callable[[str], str | None]) -> int | None:
    if node := get("MinMemoryNode"):
        return size(node) or None
    tres = re.search(r"\bmem=([\d.]+[KMGTP]?)", get("AllocTRES") or get("TRES") or "")
    total, nodes = size(tres[1]) if tres else None, whole(get("NumNodes"))
    return total // nodes if total and nodes else None


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
