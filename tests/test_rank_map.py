"""Which rank an origin is: each way in which a log shows it, and that asking changes nothing."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import KNOWLEDGE, line, report as made_report
from slurmdoctor.model import ExitReport, Line, Origin, RankMap
from slurmdoctor.ranks.rank_map import RankMapBuilder

FORMS = KNOWLEDGE.rank_lines
LOCAL = Origin(local_rank=2, node="gpu-2")


def report(witness: str, **known: Any) -> ExitReport:
    return made_report(1, **{"witness": witness, "kind": "launcher", **known})


AGENT = report("torchelastic agent", local_rank=2, kind="agent")


def learnt(*lines: Line, reports: tuple[ExitReport, ...] = ()) -> RankMap:
    return RankMapBuilder(FORMS, {}).finish(lines, reports)


@pytest.mark.parametrize(
    ("known", "origin", "rank", "basis"),
    [
        (RankMap(), Origin(rank=7), 7, "as-written"),
        (RankMap(of_path={0: {"rank": "3"}}), Origin(), 3, "path"),
        (RankMap(of_path={0: {"task": "4"}}), Origin(), 4, "task"),
        (RankMap(of_path={0: {"task": "4"}}, tasks_are_ranks=False), Origin(), None, None),
        (RankMap(rank_of_pid={(None, 71): 5}), Origin(pid=71), 5, "pid"),
        (RankMap(rank_of_pid={("gpu-1", 71): 5}), Origin(pid=71, node="gpu-2"), None, None),
        (RankMap(rank_of_local={("gpu-2", 2): 10}), LOCAL, 10, "node-and-local-rank"),
        (RankMap(rank_of_local={("gpu-1", 2): 10}), LOCAL, None, None),
        (RankMap({0: "gpu-2"}, rank_of_local={("gpu-2", 0): 0}), Origin(local_rank=2), 2, "one-node"),
        (RankMap(lone_launcher=True), Origin(local_rank=2), 2, "lone-launcher"),
        (RankMap(), Origin(local_rank=2), None, None),
    ],
)
def test_a_rank_is_known_in_one_of_these_ways(known: RankMap, origin: Origin, rank: int | None, basis: str) -> None:
    found, how = known.resolve(origin, 0)
    assert (found.rank, how) == (rank, basis)


def test_the_path_of_a_file_names_its_process_only() -> None:
    known = RankMap(of_path={0: {"rank": "3", "node": "gpu-1"}})
    assert known.resolve(Origin(), 0)[0] == Origin(rank=3, node="gpu-1")
    assert known.resolve(Origin()) == (Origin(), None)
    assert known.resolve(Origin(), 1) == (Origin(), None)
    assert RankMapBuilder(FORMS, {0: {"node": "gpu-1"}}).finish((), ()).node_of == {}, "node-2.log names no rank"


def test_a_ranks_node_is_filled_in() -> None:
    known = RankMap({3: "gpu-1"})
    assert known.resolve(Origin(rank=3))[0].node == "gpu-1"
    assert known.resolve(Origin(rank=3, node="gpu-9"))[0].node == "gpu-9"


def init(rank: int, world: int, origin: Origin, local: int = 1) -> Line:
    return line(f"comm 0x1 rank {rank} nranks {world} cudaDev {local} busId 1", origin=origin)


def test_a_sub_groups_ranks_are_not_the_jobs() -> None:
    one, other = Origin(node="gpu-1", pid=71), Origin(node="gpu-1", pid=70)
    known = learnt(init(5, 16, one, 5), init(1, 2, one, 5), init(0, 2, other, 4))
    assert (known.world_size, known.seen) == (16, frozenset({5}))
    assert known.resolve(Origin(pid=71, node="gpu-1"))[0].rank == 5


def test_tasks_are_ranks_unless_each_is_a_launcher() -> None:
    srun = report("srun", node="gpu-1", tasks=(6, 7))
    assert learnt(reports=(srun,)).ranks_of(srun) == ((6, 7), "task")
    assert learnt(reports=(srun,)).node_of == {6: "gpu-1", 7: "gpu-1"}
    launched = learnt(reports=(srun, AGENT))
    assert (launched.ranks_of(srun), launched.node_of) == (((), None), {})


def test_a_lone_launchers_local_ranks_are_ranks_until_a_second_node_shows() -> None:
    assert learnt(reports=(AGENT,)).ranks_of(AGENT) == ((2,), "lone-launcher")
    other = replace(AGENT, line=replace(AGENT.line, label=b"1: "))
    steps = (report("srun", node="gpu-1", tasks=(0,)), report("srun", node="gpu-2", tasks=(1,)))
    for known in (
        learnt(reports=(AGENT, other)),
        learnt(reports=(AGENT, *steps)),
        learnt(line("world size: 16"), reports=(AGENT,)),
        learnt(line("on gpu-2: rank 11 of 16"), reports=(AGENT,)),
    ):
        assert known.ranks_of(AGENT) == ((), None)


def test_asking_changes_nothing() -> None:
    known = learnt(reports=(AGENT,))
    before = repr(known)
    known.resolve(Origin(local_rank=3), 0)
    assert repr(known) == before


def test_a_line_is_learnt_whole() -> None:
    known = learnt(line("start on gpu-2: rank 11 of 16, local rank 3, pid 4711"), line("on gpu-3: rank 11 of 8"))
    assert known == RankMap(
        node_of={11: "gpu-2"},
        rank_of_pid={("gpu-2", 4711): 11, (None, 4711): 11},
        rank_of_local={("gpu-2", 3): 11},
        world_size=16,
        seen=frozenset({11}),
        lone_launcher=False,
    )


def test_a_communicator_counts_where_none_larger_was_seen() -> None:
    known = learnt(init(3, 4, Origin(rank=7, node="n1", pid=70)), init(2, 4, Origin(node="n2", pid=71)))
    assert known.rank_of_local == {("n1", 1): 7, ("n2", 1): 2}
    assert known.rank_of_pid == {("n1", 70): 7, (None, 70): 7, ("n2", 71): 2, (None, 71): 2}
    assert (known.world_size, known.seen) == (4, frozenset({2, 7}))


def test_a_table_of_failures_places_its_ranks() -> None:
    table = report("torchelastic", rank=5, node="n1", local_rank=1, pid=77, kind="table")
    known = learnt(reports=(table, report("torchelastic", node="n1", local_rank=2, kind="table")))
    assert (known.node_of, known.rank_of_local, known.seen) == ({5: "n1"}, {("n1", 1): 5}, frozenset({5}))
    assert known.rank_of_pid == {("n1", 77): 5, (None, 77): 5}
    assert not known.tasks_are_ranks
    assert learnt(line("world size: 99999999")).world_size is None, "no job is so large"


def test_a_lone_launcher_has_no_more_ranks_than_one_node() -> None:
    def lone(*texts: str, local_rank: int | None = None) -> bool:
        agent = report("torchelastic agent", local_rank=local_rank, kind="agent")
        return learnt(*(line(text) for text in texts), reports=(agent,)).lone_launcher

    assert lone("world size: 8")
    assert not lone("world size: 9")
    assert lone("GLOBAL_RANK: 7, MEMBER: 8/8")
    assert not lone("GLOBAL_RANK: 8, MEMBER: 8/8")
    assert lone("GLOBAL_RANK: 2, MEMBER: 3/8", local_rank=2)
    assert not lone("GLOBAL_RANK: 3, MEMBER: 4/8", local_rank=2)
    assert not lone("on n1: rank 0", "on n2: rank 1")
