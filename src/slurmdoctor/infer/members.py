"""Who belongs to the job, and to a process group; the largest rank that was seen is never taken for the last one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from slurmdoctor.model import LIMITS, MOST_RANKS, CollectiveStatus, ExitReport, JobRecord, Observations

_SEVERAL_A_TASK = ("torchrun", "accelerate", "deepspeed", "ray")
"""Launchers of which each of Slurm's tasks runs one, for several ranks."""
_TWO = 2
"""Places that show the distance of a group's ranks."""


class Members(NamedTuple):
    """The ranks of the job or of a group, as far as they are known."""

    ranks: Sequence[int]
    """In order. Ranks count from 0, so those below a known one exist, too."""
    complete: bool
    """Whether the log tells how many there are."""

    @property
    def size(self) -> int | None:
        """How many there are; None where the log does not tell."""
        return len(self.ranks) if self.complete else None


def world_of(observed: Observations, record: JobRecord | None = None) -> Members:
    """The job's ranks."""
    seen = observed.ranks_seen
    size = world_size(observed, record)
    return Members(range(min(size or max(seen, default=-1) + 1, MOST_RANKS)), size is not None)


def world_size(observed: Observations, record: JobRecord | None = None) -> int | None:
    """How many ranks the job has: the first of the places that tell it which leaves room for each rank that was seen."""
    last = max(observed.ranks_seen, default=0)
    return next((size for size in _told_sizes(observed, record) if last < size <= MOST_RANKS), None)


def _told_sizes(observed: Observations, record: JobRecord | None) -> Iterator[int]:
    facts = observed.numbers
    yield observed.rank_map.world_size or 0
    yield facts.get("world_size", 0)
    yield facts.get("num_processes", 0)
    yield facts.get("nodes", 0) * facts.get("nproc", 0)
    if not observed.rank_map.tasks_are_ranks or observed.started_by in _SEVERAL_A_TASK:
        return
    tasks = facts.get("job_tasks", 0), facts.get("nodes", 0) * facts.get("tasks_per_node", 0)
    yield from (size for size in tasks if size > 1)  # one task alone may start any number of ranks
    if record is not None and observed.started_by == "srun":
        yield record.num_tasks or 0
    yield ended_tasks(observed.reports)


def ended_tasks(reports: Sequence[ExitReport]) -> int:
    """The step's tasks, where Slurm tells of nearly all how they ended: it does so when it ends a step.

    0 where it does not, and where each node has one task: that may be a launcher of several ranks.
    """
    told = [report for report in reports if report.kind == "step" and report.tasks]
    ended = {task for report in told for task in report.tasks}
    size = max(ended, default=0) + 1
    nearly_all = len(ended) >= LIMITS.step_told * size
    return size if nearly_all and size > len({report.node for report in told}) else 0


def members_of(
    group: str,
    works: Sequence[CollectiveStatus],
    waits: Sequence[CollectiveStatus],
    status: Sequence[CollectiveStatus],
    world: Members,
) -> Members:
    """The global ranks of a group: the whole job for the default one, else worked out from who holds which group rank.

    `waits` are the works of this group that timed out.
    """
    sizes = {w.group_size for w in waits} - {None}
    size = sizes.pop() if len(sizes) == 1 else None
    named = [w for w in works if w.group == group]
    placed = {w.group_rank: w.rank for w in (*waits, *named) if w.group_rank is not None}
    if (named and _is_default(group)) or all(k == v for k, v in placed.items()):
        fits = size is not None and max((*placed.values(), *(w.rank for w in waits))) < size
        return Members(range(size), True) if size is not None and fits else world
    return _by_places(placed, size or 0, _usual_size(group, works))


def _is_default(group: str) -> bool:
    return group.startswith("0") or "default" in group


def _by_places(placed: Mapping[int, int], size: int, usual: int) -> Members:
    """The members where ranks of one distance hold neighbouring places; those placed alone where they do not."""
    alone = Members(sorted(placed.values()), size == len(placed))
    if len(placed) < _TWO:
        return alone
    (low, base), (high, top) = min(placed.items()), max(placed.items())
    stride, rest = divmod(top - base, high - low)
    if rest or stride <= 0 or any(base + (k - low) * stride != v for k, v in placed.items()):
        return alone
    places = range(max(high + 1, size, usual))
    return Members([r for k in places if (r := base + (k - low) * stride) >= 0], size > high)


def _usual_size(group: str, works: Sequence[CollectiveStatus]) -> int:
    """The places that are seen in other groups of the same name: as many as this one has, at least."""
    kind = group.partition("(")[2]
    others: dict[str, int] = defaultdict(int)
    for work in works:
        if (
            work.group
            and work.group_rank is not None
            and work.group != group
            and kind
            and work.group.partition("(")[2] == kind
        ):
            others[work.group] = max(others[work.group], work.group_rank + 1)
    return max(others.values(), default=0)
