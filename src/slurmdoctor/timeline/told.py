"""What a log tells beside its errors: when the steps stopped, who kept whom waiting, what a crash dump shows.

The fixes ask for it by name (docs/rules.md), and a time limit on a job that stood still is called what it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from slurmdoctor.infer.finding import Finding
from slurmdoctor.model import Incident, Observations, Progress
from slurmdoctor.model.ranges import ranges
from slurmdoctor.ranks.origins import format_time
from slurmdoctor.search.compiled import lazy
from slurmdoctor.timeline.order import Timeline

SHORTEST_STALL = 600.0
"""Seconds without a step below which nobody calls it a stall."""
_FRAME = lazy(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+),? in (?P<function>\S+)')
_ENDED_BY_SLURM = ("time-limit", "cancelled")


def settle(finding: Finding, story: Timeline, assembled: Observations) -> dict[str, Any]:
    """Sharpen the finding by how the job stood when it ended, and return what that adds to the facts."""
    told = _attempts(story, assembled)
    if assembled.memory is not None:
        told["memory"] = assembled.memory
    if finding.earlier:
        told["earlier"] = [dict(one) for one in finding.earlier]
    if finding.root is not None:
        _show_stack(finding, finding.root)
    if finding.cause in _ENDED_BY_SLURM:
        told |= _stood(finding, story)
        if told.get("ended") == "hung" and finding.cause == "time-limit":
            finding.cause, finding.rule, finding.confidence = "hang", None, "medium"
            finding.reasons.append(
                f"no step since {told['stalled_since']}, {told['idle_min']} min before the time limit: it stood still"
            )
        elif told.get("ended") == "finished":
            finding.reasons.append(
                "the program had finished; what ran on was the script, or a process in its background"
            )
    return told


def names(finding: Finding, story: Timeline, assembled: Observations) -> dict[str, Any]:
    """What only the fixes ask for."""
    found: dict[str, Any] = {}
    if finding.exit is not None:
        found["exit_code"] = finding.exit.shell_code
    root = finding.root
    if root is None:
        return found
    if "nodes" in root.main.captures:
        found["failed_nodes"] = root.main.captures["nodes"]  # `nodes` is also how many there are
    frames = [m for entry in root.main.traceback if (m := _FRAME.match(entry))]
    if frames:
        found["frames"] = tuple(m["function"] for m in frames)
        if root.main.stack_of:
            innermost = frames[-1]
            place = f"{innermost['file'].rpartition('/')[2]}:{innermost['line']}"
            found |= {"stack_function": innermost["function"], "stack_place": place}
    if finding.cause == "nccl-id-timeout":
        found |= _waiting(finding, root, assembled)
    return found


# ── ncclUniqueId: slow, dead, or not to be reached? ──────────────────────────────────────────


def _waiting(finding: Finding, root: Incident, assembled: Observations) -> dict[str, Any]:
    """What rank 0 did while the others waited; or that those who waited are all on other nodes, and rank 0 said nothing."""
    busy = finding.origin.rank == 0 and finding.how and finding.how.partition("waited for it: ")[2]
    if busy:
        return {"rank0_busy": busy}
    node_of = assembled.maps.node_of
    incidents = [i for i in (root, *finding.same) if i.cause == "nccl-id-timeout"]
    waiting = {rank for i in incidents for e in i.events for rank in e.ranks}
    home = node_of.get(0)
    nodes = {node_of.get(rank) for rank in waiting}
    if not waiting or home is None or None in nodes or home in nodes:
        return {}
    if not any(node == home for rank, node in node_of.items() if rank not in waiting and rank > 0):
        return {}
    return {"far_ranks": ranges(sorted(waiting)), "far_nodes": tuple(sorted(n for n in nodes if n)), "home_node": home}


# ── how it stood at its end ──────────────────────────────────────────────────────────────────


def _stood(finding: Finding, story: Timeline) -> dict[str, Any]:
    """Whether the job had finished, stood still, or made steps to its end, by the clock of its own log."""
    done, last = story.finished, story.last_progress
    if done is not None and (last is None or done.order > last.order):
        return {"ended": "finished"}
    if last is None or finding.root is None:
        return {}
    if last.step is not None and last.step == last.steps:
        return {"ended": "finished"}
    end = finding.root.main.origin.time
    times = _times(story.progress)
    if end is None or len(times) < 4:
        return {}
    from statistics import median  # here: it is slow to import, and a job that hung can wait for it

    pauses = [b - a for a, b in pairwise(times)]
    idle = end - times[-1]
    if idle < -60:
        return {}  # two clocks
    if idle > max(SHORTEST_STALL, 3 * max(pauses), 10 * median(pauses)):
        since = format_time(times[-1], finding.root.main.origin.dated)
        return {"ended": "hung", "stalled_since": since, "idle_min": round(idle / 60)}
    return {"ended": "progressing"}


def _times(steps: Sequence[Progress]) -> list[float]:
    found = {step.time if step.time is not None else step.clock_time for step in steps}
    return sorted(time for time in found if time is not None)


def _attempts(story: Timeline, assembled: Observations) -> dict[str, Any]:
    """How often the job was started anew, and how many steps it gained since the first time."""
    begins = [m for m in assembled.marks if m.signal.kind == "attempt" and m.captures.get("restart")]
    restarts = max((int(m.captures["restart"]) for m in begins), default=0)
    if not restarts:
        return {}
    first = min(m.order for m in begins)
    before = [p.step for p in story.progress if p.step is not None and p.order < first]
    after = [p.step for p in story.progress if p.step is not None and p.order > first]
    gained = {"gained": max(0, max(after) - max(before))} if before and after else {}
    return {"restarts": restarts, **gained}


# ── faulthandler ─────────────────────────────────────────────────────────────────────────────


def _show_stack(finding: Finding, root: Incident) -> None:
    """Say whose frames a crash dump shows."""
    if not root.main.stack_of:
        return
    who = "the thread that crashed" if root.main.stack_of == "current" else "the main thread"
    frame = _FRAME.match(root.main.traceback[-2])
    if frame is not None:
        place = f"{frame['file'].rpartition('/')[2]}:{frame['line']}"
        finding.reasons.append(f"faulthandler shows {who} in {frame['function']} ({place})")
