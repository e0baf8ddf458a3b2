"""Learns from lines and exit reports which rank runs where: by process id, and by node and local rank."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from slurmdoctor.matching import apart, captures, compiled, named
from slurmdoctor.model import MOST_RANKS, ExitReport, Line, LineFormat, RankLine, RankMap, number

_NUMBERS = ("rank", "world", "local", "pid", "comm_rank", "comm_size")
_ON_ONE_NODE = 8
"""The most ranks that a node usually has."""


class RankMapBuilder:
    """Makes a map of what lines and exit reports name. What is read first counts."""

    def __init__(self, forms: Sequence[RankLine], of_path: Mapping[int, Mapping[str, str]]) -> None:
        self._forms = forms
        self._of_path = of_path
        self._node_of: dict[int, str] = {}
        self._rank_of_pid: dict[tuple[str | None, int], int] = {}
        self._rank_of_local: dict[tuple[str, int], int] = {}
        self._rank_of_bus: dict[tuple[str | None, str], int] = {}
        self._world: int | None = None
        self._seen: set[int] = set()
        self._daemons = False
        self._named = defaultdict[int, dict[int, int | None]](dict)
        """Of each source the ranks that its lines name, and the size of a communicator in which they count."""

    def _take(self, found: Mapping[str, str], line: Line) -> None:
        """Take in what a line names of a rank and where it runs."""
        origin = line.origin
        rank, world, local, pid, comm_rank, comm_size = (
            number(found[name]) if name in found else None for name in _NUMBERS
        )
        node = found.get("node")
        self._daemons |= "daemon" in found
        if comm_size is not None:
            # the largest communicator is the job's; ranks in smaller ones are sub-group ranks
            if comm_size < (self._world or 0):
                return
            world, rank = comm_size, comm_rank if origin.rank is None else origin.rank
            node = node or origin.node
        if max(rank or 0, world or 0) > MOST_RANKS:
            return
        if world is not None:
            self._world = max(world, self._world or 0)
        if rank is not None:
            self._add(rank, node, local, pid if pid is not None else origin.pid)
            if bus := found.get("bus", "").lower().lstrip("0"):
                self._rank_of_bus.setdefault((node, bus), rank)
            self._named[line.source][rank] = comm_size

    def _own_paths(self) -> Iterator[tuple[int, Mapping[str, str]]]:
        """What the paths name, but for a file whose lines name one rank, another one: its number is a local rank then."""
        for source, path in self._of_path.items():
            named = [str(rank) for rank, size in self._named[source].items() if size in (None, self._world)]
            if len(named) == 1 and not {"rank", "local_rank"}.isdisjoint(path):
                other = {"local_rank": path["rank"]} if path.get("rank", named[0]) != named[0] else {}
                path = {**path, **other, "rank": named[0]}
            yield source, path

    def finish(self, lines: Iterable[Line], reports: Sequence[ExitReport]) -> RankMap:
        """The map of what lines name, and torchelastic's tables and srun's exit reports besides."""
        for line in lines:
            taken = (captures(form.pattern, line.text, form.of_site) for form in self._forms)
            if (found := next(filter(None, taken), None)) is not None:
                self._take(found, line)
        tasks_are_ranks = not self._daemons and not any(r.kind in ("agent", "table") for r in reports)
        for report in reports:
            if report.kind == "table" and report.rank is not None:
                self._add(report.rank, report.node, report.local_rank, report.pid)
        lone = self._is_lone(reports)
        for report in reports if tasks_are_ranks else ():
            for task in report.tasks:
                if report.node:
                    self._node_of.setdefault(task, report.node)
        of_path = dict(self._own_paths())
        for path in of_path.values():
            if "rank" in path and "node" in path:
                self._node_of.setdefault(number(path["rank"]), path["node"])
        return RankMap(
            node_of=self._node_of,
            rank_of_pid=self._rank_of_pid,
            rank_of_local=self._rank_of_local,
            rank_of_bus=self._rank_of_bus,
            of_path=of_path,
            world_size=self._world,
            seen=frozenset(self._seen),
            tasks_are_ranks=tasks_are_ranks,
            lone_launcher=lone,
        )

    def _is_lone(self, reports: Sequence[ExitReport]) -> bool:
        """Whether one launcher prints in the log, and nothing shows a second node or more ranks than one node has."""
        agents = {(r.line.source, r.line.label, r.line.origin.pid) for r in reports if r.kind == "agent"}
        nodes = {r.node for r in reports if r.node} | set(self._node_of.values())
        last_local = max((r.local_rank for r in reports if r.local_rank is not None), default=_ON_ONE_NODE - 1)
        more = (self._world or 0) > _ON_ONE_NODE or max(self._seen, default=0) > last_local
        return len(agents) <= 1 and len(nodes) <= 1 and not more

    def _add(self, rank: int, node: str | None, local: int | None, pid: int | None) -> None:
        self._seen.add(rank)
        if node:
            self._node_of.setdefault(rank, node)
            if local is not None:
                self._rank_of_local.setdefault((node, local), rank)
        if pid is not None:
            self._rank_of_pid.setdefault((node, pid), rank)
            self._rank_of_pid.setdefault((None, pid), rank)


def of_paths(paths: Mapping[int, str], patterns: Sequence[LineFormat]) -> dict[int, Mapping[str, str]]:
    """What the files' paths name of the processes that wrote them.

    What may be a node is one where the files name several, and each rank on one of them: `run1_rank0.log` tells none.
    What may be a task of a step is one where the files name several: a lone `slurm-4711_3.out` is of an array's task.
    A number without a word for it is a task's where files differ in it alone, and count from 0.
    """
    found = {number: dict(of_path(path, patterns)) for number, path in paths.items()}
    tasks = {number: path.pop("maybe_task") for number, path in found.items() if "maybe_task" in path}
    if len(set(tasks.values())) > 1:
        for number, task in tasks.items():
            found[number]["task"] = task
    numbered = defaultdict[str, dict[int, str]](dict)
    for number, path in found.items():
        if "maybe_rank" in path:
            numbered[re.sub(r"(?<!\d)\d{1,9}(?=\D*$)", "#", paths[number])][number] = path.pop("maybe_rank")
    for counted in numbered.values():
        if len(counted) > 1 and 0 in map(int, counted.values()):
            for number, rank in counted.items():
                found[number]["task"] = rank
    nodes = {number: path.pop("maybe_node") for number, path in found.items() if "maybe_node" in path}
    ranks = [found[number]["rank"] for number in nodes if "rank" in found[number]]
    if len(set(nodes.values())) > 1 and len(set(ranks)) == len(ranks):
        for number, node in nodes.items():
            found[number].setdefault("node", node)
    return dict(found)


def of_path(path: str, patterns: Sequence[LineFormat]) -> Mapping[str, str]:
    """What a file's path names of the process that wrote it: rank, local_rank, task, node, attempt."""
    for form in patterns:
        found = compiled(apart(form.pattern)).search(path) if form.may_be_in(path) else None
        if found is not None:
            return named(found)
    return {}
