"""The names that a fix may use: facts of the job, captures of the root, and what is known of the failure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.knowledge import layouts, text
from slurmdoctor.model import (
    ID_TIMEOUT,
    SHORT,
    TASK_FAILED,
    Extent,
    Finding,
    Incident,
    Observations,
    Suspicion,
    Timeline,
    expand_nodes,
    fold_nodes,
    ranges,
)
from slurmdoctor.report.frames import Frame, frames, of_the_exception
from slurmdoctor.report.reasons import names_of

_PHASE = text("work-phase")
_NODE_LOCAL = text("node-local")
_MOST_FRAMES = 160
_PARTS = ("src", "lib", "python")
"""Folders of one checkout that hold its packages."""


def names_for_fixes(finding: Finding, timeline: Timeline, observed: Observations) -> dict[str, Any]:
    """Names and their values; a later kind overrides an earlier one."""
    root, origin = finding.root, finding.origin
    names = {name: value for name, value in finding.facts.items() if value is not None}
    if root is not None:
        names |= {name: _plain(value) for name, value in root.main.captures.items()}
    known = {"rank": origin.rank, "local_rank": origin.local_rank, "node": origin.node}
    names |= {name: value for name, value in known.items() if value is not None}
    names["rule"] = finding.rule
    if any(e.rule == TASK_FAILED for e in timeline.events):
        names["task_failed"] = True
    names["seen"] = sorted({e.cause for e in timeline.events if e.role != "hint"})
    if finding.suspicion is not None:
        names |= _of_the_suspect(finding.suspicion)
    names |= _of_the_silent(finding, observed)
    names |= _of_the_extent(finding.extent)
    if finding.exit is not None and (code := finding.exit.shell_code) is not None:
        names["exit_code"] = code
    if root is not None:
        names |= _of_the_root(finding, root, observed)
    names["traceback_seen"] = any(e.traceback for e in observed.events)
    names["node_local"] = _NODE_LOCAL.match(str(names.get("path"))) is not None
    return names | names_of_links(finding) | layouts(names)


def _plain(value: str) -> Any:
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value


def _of_the_suspect(suspicion: Suspicion) -> dict[str, Any]:
    names: dict[str, Any] = {"seq": suspicion.seq, "op": suspicion.op, "stands_in": suspicion.stands_in}
    if suspicion.kind == "mismatch":
        names["odd_ranks"] = ranges(suspicion.ranks, SHORT)
    elif suspicion.ranks:
        names["silent_ranks"] = ranges(suspicion.ranks, SHORT)
        names["suspects"] = names_of(suspicion.ranks)
        if suspicion.kind == "behind" and not suspicion.stands_in:
            names["late_ranks"] = names["silent_ranks"]
    elif suspicion.kind == "all-entered":
        names["all_entered"] = len(suspicion.waiting)
    return {name: value for name, value in names.items() if value is not None}


def _of_the_extent(extent: Extent) -> dict[str, Any]:
    """How far the failure reached, where the log tells: `all` ranks, all those of one `node`, or `one` of several."""
    failed, of = len(extent.ranks), extent.of or 0
    if extent.whole_node:
        return {"reach": "node"}
    if of > 1 and failed in (1, of):
        return {"reach": "all" if failed == of else "one"}
    return {}


def _of_the_silent(finding: Finding, observed: Observations) -> dict[str, Any]:
    """The ranks of which no line was read where nobody else is suspected, and their node where it is one."""
    told = next((r.values["ranks"] for r in finding.reasons if r.code == "says-nothing"), ())
    silent = told or (finding.suspicion.silent if finding.suspicion is not None else ())
    if not silent or (finding.suspicion is not None and finding.suspicion.ranks):
        return {}
    nodes = {observed.rank_map.node_of.get(rank) for rank in silent}
    node = nodes.pop() if len(nodes) == 1 else None
    return {"untold": names_of(silent), **({"untold_node": node} if node else {})}


def _of_the_root(finding: Finding, root: Incident, observed: Observations) -> dict[str, Any]:
    names: dict[str, Any] = {}
    said = (e for i in (root, *finding.same) for e in (i.main, *i.events) if e.cause == root.cause)
    if listed := next((e.captures["nodes"] for e in said if e.captures.get("nodes")), None):
        # `nodes` is also how many there are
        names["nodes"] = names["failed_nodes"] = fold_nodes(expand_nodes(listed))
    stack = frames(root.main.traceback)
    if stack:
        names["frames"] = tuple(frame.function for frame in stack)
        names |= _phase(stack)
        names |= _of_the_import(stack, root.main.captures)
        if root.main.stack_of:
            names |= {"stack_function": stack[-1].function, "stack_place": stack[-1].short_place}
    if not root.main.stack_of:
        known = root.main.captures
        raised = of_the_exception(root.main.traceback, known.get("exception", ""), known.get("message", ""))
        names |= {name: value for name, value in raised.items() if name not in known}
    return names


def _phase(stack: Sequence[Frame]) -> dict[str, Any]:
    """What the program was at: `backward pass`, `model setup`."""
    shown = "\n".join(f"{frame.path}:{frame.function}:{frame.code}" for frame in stack[:_MOST_FRAMES])
    found = _PHASE.search(shown)
    return {"phase": found.lastgroup.replace("_", " ")} if found and found.lastgroup else {}


def _of_the_import(stack: Sequence[Frame], captures: Mapping[str, str]) -> dict[str, str]:
    """The folder of the script, and another copy of the code from which Python imports the package that the exception is about."""
    own = [frame.path for frame in stack if frame.own and frame.path.startswith("/")]
    names = {"frame_file": stack[-1].path.rpartition("/")[2]}
    if not own:
        return names
    names["script_dir"] = own[0].rpartition("/")[0]
    file = captures.get("file") or stack[-1].path
    root, found, _ = file.partition(f"/{captures.get('package') or '?'}/")
    if found and root and "-packages" not in root and _is_other_copy(root, names["script_dir"]):
        names["other_copy"] = root
    return names


def _is_other_copy(root: str, script_dir: str) -> bool:
    """Whether two folders belong to two checkouts: they share no more than a disk, or lie side by side."""
    beside = root.rpartition("/")[0] == script_dir.rpartition("/")[0] and root.rpartition("/")[2] not in _PARTS
    return not f"{script_dir}/".startswith(f"{root}/") and (
        beside or root.split("/")[1:3] != script_dir.split("/")[1:3]
    )


_SAVING = text("saving-function")


def names_of_links(finding: Finding) -> dict[str, Any]:
    """Names and their values."""
    root = finding.root
    if root is None:
        return {}
    names: dict[str, Any] = {"failed": _how_many(finding, root), **finding.node_names}
    alike = (root, *finding.same) if finding.cause == ID_TIMEOUT else (root,)
    stack = frames(next((i.main.traceback for i in alike if i.main.traceback), ()))
    if stack:
        names["frames"] = tuple(frame.function for frame in stack)
    if saving := next((frame.function for frame in reversed(stack) if _SAVING.search(frame.function)), None):
        names["saves_in"] = saving
    return names


def _how_many(finding: Finding, root: Incident) -> int:
    """The ranks that failed alike; without labels so many processes as raised the same."""
    if finding.extent.ranks or not root.main.traceback:
        return max(len(finding.extent.ranks), 1)
    alike = [e.count for i in (root, *finding.same) for e in i.events if e.rule == root.main.rule]
    return max(sum(alike), 1)
