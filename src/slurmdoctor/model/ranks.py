"""Which rank runs where, as the log shows it; resolves an origin to its rank and node."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from slurmdoctor.model.events import ExitReport, Origin
from slurmdoctor.model.words import RankBasis


class RankMap(Struct, frozen=True):
    """Which rank runs where. A sub-group's rank and a local rank are never taken for global ranks."""

    node_of: Mapping[int, str] = field(default_factory=dict)
    rank_of_pid: Mapping[tuple[str | None, int], int] = field(default_factory=dict)
    """By node and process id; by the process id alone under the node None."""
    rank_of_local: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By node and local rank."""
    of_path: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """What the path of each source names: rank, local_rank, task, node, attempt."""
    world_size: int | None = None
    """The job's number of ranks, where the log names it."""
    seen: frozenset[int] = frozenset()
    """The ranks that the log places somewhere."""
    tasks_are_ranks: bool = True
    """False where each of Slurm's tasks is a launcher of several ranks."""
    lone_launcher: bool = False
    """One launcher prints in the log, and nothing in it shows a second node."""

    @property
    def one_node(self) -> bool:
        """Whether the log shows that the whole job ran on one node: local ranks are ranks there."""
        nodes = set(self.node_of.values())
        return len(nodes) == 1 and bool(self.rank_of_local) and all(k[1] == v for k, v in self.rank_of_local.items())

    def resolve(self, origin: Origin, source: int | None = None) -> tuple[Origin, RankBasis | None]:
        """The origin with its rank and node filled in, and how the rank is known; None where it is not.

        `source` is the file that its process wrote; None where another program prints about the process.
        """
        path = {} if source is None else self.of_path.get(source, {})
        rank, basis = self._rank_of(origin, path)
        local = origin.local_rank
        if local is None and "local_rank" in path:
            local = int(path["local_rank"])
        node = origin.node if origin.node is not None else path.get("node")
        if rank is None:
            rank, basis = self._mapped(node, local, origin.pid)
        if rank is not None and node is None:
            node = self.node_of.get(rank)
        if (rank, local, node) == (origin.rank, origin.local_rank, origin.node):
            return origin, basis
        return replace(origin, rank=rank, local_rank=local, node=node), basis

    def ranks_of(self, report: ExitReport) -> tuple[tuple[int, ...], RankBasis | None]:
        """The ranks that an exit report is about, and how they are known; none where they are not."""
        if report.rank is not None:
            return (report.rank,), "as-written"
        if report.tasks and self.tasks_are_ranks:
            return report.tasks, "task"
        if report.local_rank is None:
            return (), None
        origin, basis = self.resolve(Origin(local_rank=report.local_rank, node=report.node, pid=report.pid))
        return (() if origin.rank is None else (origin.rank,)), basis

    def _rank_of(self, origin: Origin, path: Mapping[str, str]) -> tuple[int | None, RankBasis | None]:
        """The rank by the line itself or by its file's path."""
        if origin.rank is not None:
            return origin.rank, "as-written"
        if origin.local_rank is None and "rank" in path:
            return int(path["rank"]), "path"
        if "task" in path and self.tasks_are_ranks:
            return int(path["task"]), "task"
        return None, None

    def _mapped(self, node: str | None, local: int | None, pid: int | None) -> tuple[int | None, RankBasis | None]:
        """The rank by what other lines tell of its process."""
        if pid is not None:
            rank = self.rank_of_pid.get((node, pid), self.rank_of_pid.get((None, pid)))
            if rank is not None:
                return rank, "pid"
        if local is None:
            return None, None
        if node and (node, local) in self.rank_of_local:
            return self.rank_of_local[node, local], "node-and-local-rank"
        if self.one_node:
            return local, "one-node"
        if self.lone_launcher:
            return local, "lone-launcher"
        return None, None
