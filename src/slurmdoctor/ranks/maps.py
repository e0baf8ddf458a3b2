"""Maps learnt from the log: which rank runs where. Process id, host and local rank, and file name to global rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, ClassVar

from slurmdoctor.model import Line, Origin
from slurmdoctor.records import dataclass
from slurmdoctor.search.compiled import lazy

if TYPE_CHECKING:
    from slurmdoctor.model import ExitReport

_NCCL_INIT = lazy(r"\brank (?P<rank>\d+) nranks (?P<world>\d+) cudaDev (?P<local>\d+)")
_START = lazy(
    r"(?i)\b(?:on|host(?:name)?|node)[ =:]+(?P<node>[a-z][\w.-]*)\b[^\n]{0,24}?\brank[ =:]+(?P<rank>\d+)(?:\s*(?:of|/)\s*(?P<world>\d+))?"
    r"(?:[^\n]{0,12}\blocal(?:[ _]rank)?[ =:]+(?P<local>\d+))?(?:[^\n]{0,12}\bpid[ =:]+(?P<pid>\d+))?"
)
_INIT = lazy(
    r"(?i)\[?(?:GLOBAL_RANK|global rank)[ =:]+(?P<rank>\d+),? *(?:MEMBER|local[_ ]rank)[ =:]+(?P<local>\d+)(?:/(?P<world>\d+))?"
)
_WORLD = lazy(r"(?i)\bworld[ _]?size[\"' ]*[=:,]? *(?P<world>\d+)\b")


@dataclass(slots=True)
class RankMaps:
    """What is known of where the ranks run. A sub-group's rank and a local rank are never taken for global ranks."""

    LITERALS: ClassVar[tuple[bytes, ...]] = (
        b" nranks ",
        b": rank ",
        b"GLOBAL_RANK: ",
        b"world_size=",
        b"world size: ",
        b"WORLD_SIZE=",
    )

    node_of: dict[int, str] = field(default_factory=dict)
    rank_of_pid: dict[tuple[str | None, int], int] = field(default_factory=dict)
    rank_of_local: dict[tuple[str, int], int] = field(default_factory=dict)
    worlds: Counter[int] = field(default_factory=Counter)
    of_source: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """What each source's path says."""
    tasks_are_ranks: bool = True
    seen: set[int] = field(default_factory=set)
    lone: bool = False
    """One launcher speaks in the log, and nothing in it shows a second node."""
    assumed: set[int] = field(default_factory=set)
    """Ranks that are local ranks of a lone launcher."""

    def learn(self, line: Line) -> None:
        """Take in a line that names a rank and where it runs."""
        if found := _NCCL_INIT.search(line.text):
            rank, world = int(found["rank"]), int(found["world"])
            # the largest communicator is the job's; ranks in smaller ones are sub-group ranks
            if world < max(self.worlds, default=0):
                return
            self.worlds[world] += 1
            known = line.origin.rank if line.origin.rank is not None else rank
            self._add(known, line.origin.node, int(found["local"]), line.origin.pid)
        elif (found := _START.search(line.text)) or (found := _INIT.search(line.text)):
            groups = found.groupdict()
            pid = int(groups["pid"]) if groups.get("pid") else line.origin.pid
            self._add(
                int(groups["rank"]),
                groups.get("node"),
                int(groups["local"]) if groups.get("local") else None,
                pid,
            )
            if groups.get("world"):
                self.worlds[int(groups["world"])] += 1
        elif found := _WORLD.search(line.text):
            self.worlds[int(found["world"])] += 1

    def learn_reports(self, reports: Iterable[ExitReport]) -> None:
        """Take in what torchelastic's tables and srun's lines say."""
        reports = list(reports)
        tables = [r for r in reports if r.witness == "torchelastic table"]
        self.tasks_are_ranks = not any(r.witness.startswith("torchelastic") for r in reports)
        for report in tables:
            if report.rank is not None:
                self._add(report.rank, report.node, report.local_rank, report.pid)
        agents = {
            (r.line.source, r.line.label, r.line.origin.pid) for r in reports if r.witness == "torchelastic agent"
        }
        nodes = {r.node for r in reports if r.node} | set(self.node_of.values())
        locals_ = {r.local_rank for r in reports if r.local_rank is not None}
        far = max(self.worlds, default=0) > 8 or max(self.seen, default=0) > max(locals_, default=7)
        self.lone = len(agents) <= 1 and len(nodes) <= 1 and not far
        if self.tasks_are_ranks:
            for report in reports:
                for task in report.tasks:
                    if report.node:
                        self.node_of.setdefault(task, report.node)

    def _add(self, rank: int, node: str | None, local: int | None, pid: int | None) -> None:
        self.seen.add(rank)
        if node:
            self.node_of.setdefault(rank, node)
            if local is not None:
                self.rank_of_local.setdefault((node, local), rank)
        if pid is not None:
            self.rank_of_pid.setdefault((node, pid), rank)
            self.rank_of_pid.setdefault((None, pid), rank)

    def place(self, origin: Origin, source: int) -> Origin:
        """The origin with what the maps add to it."""
        path = self.of_source.get(source, {})
        if origin.rank is None and origin.local_rank is None and "rank" in path:
            origin = replace(origin, rank=int(path["rank"]))
        if origin.rank is None and "task" in path and self.tasks_are_ranks:
            origin = replace(origin, rank=int(path["task"]))
        if origin.local_rank is None and "local_rank" in path:
            origin = replace(origin, local_rank=int(path["local_rank"]))
        if origin.node is None and "node" in path:
            origin = replace(origin, node=path["node"])
        if origin.rank is None and origin.pid is not None:
            rank = self.rank_of_pid.get((origin.node, origin.pid), self.rank_of_pid.get((None, origin.pid)))
            origin = replace(origin, rank=rank)
        if origin.rank is None and origin.node and origin.local_rank is not None:
            origin = replace(origin, rank=self.rank_of_local.get((origin.node, origin.local_rank)))
        if origin.rank is None and origin.local_rank is not None and self.one_node:
            origin = replace(origin, rank=origin.local_rank)
        if origin.rank is None and origin.local_rank is not None and self.lone:
            self.assumed.add(origin.local_rank)
            origin = replace(origin, rank=origin.local_rank)
        if origin.rank is not None and origin.node is None:
            node = self.node_of.get(origin.rank)
            origin = origin if node is None else replace(origin, node=node)
        return origin

    @property
    def one_node(self) -> bool:
        """Whether the log shows that the whole job ran on one node: local ranks are ranks there."""
        nodes = set(self.node_of.values())
        return len(nodes) == 1 and bool(self.rank_of_local) and all(k[1] == v for k, v in self.rank_of_local.items())

    @property
    def world_size(self) -> int | None:
        """The job's number of ranks, where the log says it."""
        return max(self.worlds) if self.worlds else None
