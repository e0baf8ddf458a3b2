"""Rows of sacct from `sacct --json` and `scontrol show job --json`, in the names and notation of sacct's tables. Pure.

Slurm 22.05 to 26.05 (data_parser v0.0.38 to v0.0.46). A number is bare or {set, infinite, number}, a state a word or a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from slurmdoctor.model import FAILED, RUNNING, WAITING

_PATHS = {
    "JobIDRaw": "job_id", "State": "state/current state", "JobState": "job_state", "Reason": "state/reason state_reason",
    "JobName": "step/name name", "User": "association/user user_name", "UID": "user_id", "Account": "account",
    "Cluster": "cluster", "Partition": "partition", "ElapsedRaw": "time/elapsed", "Submit": "time/submission submit_time",
    "Start": "time/start start_time", "End": "time/end end_time", "PreemptTime": "preempt_time",
    "Timelimit": "time/limit time_limit", "ExitCode": "exit_code", "DerivedExitCode": "derived_exit_code",
    "AllocTRES": "tres/allocated tres_alloc_str", "MaxRSS": "tres/requested/max", "NNodes": "allocation_nodes node_count",
    "NTasks": "tasks/count tasks", "NodeList": "nodes/range nodes", "FailedNode": "failed_node", "Restarts": "restart_cnt",
    "MinMemoryNode": "required/memory_per_node memory_per_node", "SubmitLine": "submit_line", "Command": "command",
    "StdOut": "stdout_expanded stdout standard_output", "StdErr": "stderr_expanded stderr standard_error",
    "WorkDir": "working_directory current_working_directory", "Comment": "comment/job comment",
    "AdminComment": "comment/administrator admin_comment", "SystemComment": "comment/system system_comment",
}  # fmt: skip
"""sacct's name of a field -> where it is in the document; of several places the first one that is there counts."""
_TIMES = frozenset({"Submit", "Start", "End", "PreemptTime"})
_STATES = FAILED | RUNNING | WAITING


def rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of all jobs, each with those of its steps below it; none where the text is no such document."""
    try:
        document = decode(text)
    except (DecodeError, RecursionError):
        return
    jobs = document.get("jobs") if isinstance(document, dict) else None
    for job in jobs if isinstance(jobs, list) else ():
        if isinstance(job, dict) and (name := _name(job)):
            yield {"JobID": name, **_row(job)}
            steps = job.get("steps")
            for step in steps if isinstance(steps, list) else ():
                if isinstance(step, dict):
                    ident = _at(step, "step/id/step_id step/id")
                    yield {"JobID": f"{name}.{str(ident).rpartition('.')[2]}", **_row(step)}


def _name(job: Mapping[str, Any]) -> str:
    """The id as sacct's tables write it: `4711`, `4711_3`, `4711_[4-9]`, `4711+1`."""

    def number(places: str) -> str:
        return _cell("", _at(job, places))

    array, leader = number("array/job_id array_job_id"), number("het/job_id het_job_id")
    if array not in ("", "0"):
        return f"{array}_{number('array/task_id array_task_id') or '[' + number('array/task array_task_string') + ']'}"
    return number("job_id") if leader in ("", "0") else f"{leader}+{number('het/job_offset het_job_offset')}"


def _row(of: Mapping[str, Any]) -> dict[str, str]:
    row = {key: cell for key, places in _PATHS.items() if (cell := _cell(key, _at(of, places)))}
    state, by = row.get("State"), _at(of, "kill_request_user")
    if state in ("FAILED", "REQUEUED") and row.get("ExitCode") == "0:0":  # 22.05 writes so for any code
        del row["ExitCode"]
    if state == "CANCELLED" and isinstance(by, str) and (by == "root" or by.isdecimal()):
        row["State"] = f"{state} by {'0' if by == 'root' else by}"
    return row


def _at(of: Mapping[str, Any], places: str) -> Any:
    for place in places.split():
        found: Any = of
        for key in place.split("/"):
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None and found != "":
            return found
    return None


def _cell(key: str, value: Any) -> str:
    """The value as sacct's tables have it."""
    if isinstance(value, list):
        return _of_list(key, value)
    if key.endswith("ExitCode") and isinstance(value, dict):
        code, signal = (_cell("", _at(value, one)) or "0" for one in ("return_code", "signal/id signal/signal_id"))
        return f"{code}:{signal}"
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    if key not in _TIMES or not isinstance(value, int):
        return str(value) if isinstance(value, (str, int)) else ""
    try:  # as sacct prints it: in the time of this machine
        return f"{datetime.fromtimestamp(value):%Y-%m-%dT%H:%M:%S}" if value else ""
    except (ValueError, OverflowError, OSError):
        return ""


def _of_list(key: str, items: list[Any]) -> str:
    """A state with its flags, of which one may be the state that tables print; or resources."""
    if key in ("State", "JobState"):
        words = [word for word in items if isinstance(word, str)]
        return next((word for word in reversed(words) if word in _STATES), words[0] if words else "")
    named = {f"{one.get('type')}/{one.get('name') or ''}": one.get("count") for one in items if isinstance(one, dict)}
    if key == "MaxRSS":
        return _cell("", named.get("mem/"))
    return ",".join(f"{name.rstrip('/')}={count}" for name, count in named.items() if count)
