"""Who was first: by the root's line, by a witness, by what is printed again; and how the rank is known."""

from typing import Any

from msgspec.structs import replace

from builders import case, event, failed, incident, observed, report, timeline
from slurmdoctor.infer.first_rank import measure_extent, name_first_rank
from slurmdoctor.model import Clocks, ExitReport, Finding, Incident, JobRecord, Order, Origin, RankMap, reason

ONLY, FIRST = reason("only-error"), reason("first-unexplained", order="timestamps", aligned=False)


def named(
    root: Incident | None,
    *others: Incident,
    reports: tuple[ExitReport, ...] = (),
    known: RankMap | None = None,
    order: Order = "timestamps",
    clocks: Clocks = Clocks(),  # noqa: B008
    **more: Any,
) -> Finding:
    """The finding with its first rank; of the others those of the root's cause are `same`, the rest its cascade."""
    incidents = [i for i in (root, *others) if i is not None]
    same = tuple(i for i in others if root is not None and i.cause == root.cause)
    finding = failed(root, same=same, cascade=tuple(i for i in others if i not in same), **more)
    line_up = timeline(incidents, reports, order, clocks=clocks)
    return name_first_rank(finding, incidents, case(line_up, observed(known)))


def test_how_a_rank_is_known_shows_the_order_and_aligned_clocks() -> None:
    root, other = incident("cuda-oom", 3, 10.0, 1), incident("peer-lost", 4, None, 2)
    clocks = Clocks(ahead={"n": 5.0}, steps={"n": 3}, reference="m")
    by_time, by_place = (named(root, other, order=order, clocks=clocks).how for order in ("timestamps", "file"))
    assert by_time == (reason("first-unexplained", order="timestamps", aligned=True),)
    assert by_place == (reason("first-unexplained", order="file", aligned=False),)


def test_a_local_rank_that_is_taken_for_the_rank_is_shown_as_assumed() -> None:
    assumed = reason("local-rank-assumed")
    root = incident("cuda-oom", 3, 10.0, 1, rank_basis="lone-launcher")
    assert named(root).how == (ONLY, assumed)
    plain = incident("cuda-oom", 3, 10.0, 1)
    assert named(plain, incident("cuda-oom", 3, 11.0, 2, rank_basis="lone-launcher")).how == (FIRST, assumed)
    together = named(plain, incident("cuda-oom", 4, 11.0, 2, rank_basis="lone-launcher"), known=RankMap(world_size=8))
    assert assumed not in together.how


def test_all_ranks_that_failed_alike() -> None:
    two = incident("cuda-oom", 0, 10.0, 1), incident("cuda-oom", 1, 10.5, 2)
    found = named(*two, known=RankMap(world_size=2))
    assert (found.how, found.together) == ((reason("all-alike", count=2, rank=0, all=True),), (0, 1))
    assert named(*two).together == (0, 1), "ranks count from 0"
    assert named(*two).how == (reason("all-alike", count=2, rank=0, all=False),), "the size is not known"
    assert (found.origin.rank, named(*two).origin.rank) == (None, None), "of all at once none was first"
    late = incident("cuda-oom", 1, 20.5, 2)
    assert named(two[0], late, known=RankMap(world_size=2)).origin.rank == 0, "ten seconds later is not at once"
    some = named(*two, known=RankMap(world_size=3))
    assert (some.how, some.together) == ((reason("all-alike", count=2, rank=0, all=False),), (0, 1))
    assert named(*two, known=RankMap(seen=frozenset({2}))).together == (0, 1)


def test_of_some_that_failed_alike_one_may_stand_out() -> None:
    one, other = incident("cuda-oom", 1, 10.0, 1), incident("cuda-oom", 2, 11.0, 2)
    assert named(one, other).origin.rank is None
    by_clock = named(one, incident("cuda-oom", 2, 11.1, 2))
    assert by_clock.how == (reason("first-of-alike", order="timestamps", aligned=False, ranks=(1, 2)),)
    assert (by_clock.origin.rank, by_clock.together) == (1, ())
    traceback = replace(one.main, traceback=("frame", "error"))
    assert named(replace(one, main=traceback, events=(traceback,)), other).origin.rank == 1
    both = replace(traceback, origin=other.main.origin)
    of_two = replace(other, main=both, events=(both,))
    assert named(replace(one, main=traceback, events=(traceback,)), of_two).origin.rank is None
    worded = replace(other.main, rule="cuda-oom/other")
    assert named(one, replace(other, main=worded, events=(worded,))).origin.rank == 1, "in words of its own"
    first, second = (replace(report(1, rank), first=rank == 1) for rank in (1, 2))
    assert named(one, other, reports=(first, second)).origin.rank == 1, "the launcher calls it the first"
    assert named(incident("cuda-oom", 0, 10.0, 1), known=RankMap(world_size=1)).how == (ONLY,)


def test_of_ranks_that_stood_still_alike_none_was_first() -> None:
    found = named(incident("hang", 0, 10.0, 1), incident("hang", 1, 10.1, 2))
    assert (found.origin.rank, found.how) == (None, (reason("stood-still-alike", ranks=(0, 1)),))
    assert named(incident("hang", 0, 10.0, 1)).origin.rank == 0


def test_a_launcher_that_counts_more_processes_than_it_names_names_none() -> None:
    root = incident("command-not-found", 0, 10.0, 1, captures={"rank": "0"}, role="root")
    counted = incident("command-not-found", None, 10.0, 2, captures={"more_ranks": "3"}, role="hint")
    assert named(root).origin.rank == named(replace(root, main=event("command-not-found", 0)), counted).origin.rank == 0
    assert named(root, counted).origin.rank is None
    assert witnessed(report(1, 3)).origin.rank == 3
    box = report(1, 3, kind="box")
    reported = incident("exit-code", 3, 10.0, 1, report=box)
    assert [named(reported, reports=(box, report(1, *more, kind="box"))).origin.rank for more in ((3,), (4,))] == [
        3,
        None,
    ]


def test_of_several_that_one_report_names_only_its_own_end_counts() -> None:
    own = report(3, 4, 5)
    found = named(incident("exit-code", None, 10.0, 1, report=own), reports=(own, report(6, 7)))
    assert found.how == (reason("ended-alike", ranks=(4, 5)),)


def test_a_silent_exit_is_alone() -> None:
    one, other = (incident("killed", rank, report=report("Killed", rank)) for rank in (2, 5))
    assert measure_extent(failed(one, same=(other,), origin=one.main.origin), case()).extent.ranks == (2,)


def test_without_a_line_slurms_lost_node_is_the_place() -> None:
    def node(cause: str, *bad: str, **more: Any) -> str | None:
        return named(None, cause=cause, record=JobRecord("4", bad_nodes=dict.fromkeys(bad, "DOWN")), **more).origin.node

    assert (node("node-failure", "n1"), node("node-failure", "n1", "n2"), node("host-oom", "n1")) == ("n1", None, None)
    assert node("node-failure", "n1", origin=Origin(node="n9")) == "n9"


def test_of_several_processes_that_crashed_a_rank_printed_again_is_no_ones() -> None:
    def crashed(at: int, **place: Any) -> Incident:
        one = event("cuda-oom", None, 10.0, at)
        one = replace(one, origin=replace(one.origin, **place))
        return Incident(one, (one,))

    one, again = crashed(1, pid=5), incident("cuda-oom", 3, 12.0, 9)
    assert {named(one, two, again).origin.rank for two in (crashed(2, pid=5), crashed(2))} == {3}
    assert {named(one, two, again).origin.rank for two in (crashed(2, pid=6), crashed(2, pid=5, node="n2"))} == {None}
    for pid, rank in ((None, 3), (5, 3), (6, None)):
        assert named(one, crashed(2, pid=6), reports=(report(1, 3, pid=pid),)).origin.rank == rank


def test_other_events_of_an_incident_do_not_count_as_alike() -> None:
    main, beside = event("cuda-oom", 0, 10.0, 1, others=frozenset({2})), event("peer-lost", 1, 10.0, 2)
    found = named(Incident(main, (main, beside)), known=RankMap(world_size=3))
    assert found.how == (reason("all-alike", count=2, rank=0, all=False),)


def test_uncaught_exceptions_of_different_kinds_are_not_alike() -> None:
    one = incident("python-error", 0, 10.0, 1, captures={"exception": "KeyError"})
    other = incident("python-error", 1, 10.0, 2, captures={"exception": "ValueError"})
    assert named(one, other).how == (FIRST,)
    assert named(one, replace(one, main=other.main, events=other.events)).how == (FIRST,)
    twin = incident("python-error", 1, 10.0, 2, captures={"exception": "KeyError"})
    assert named(one, twin).together == (0, 1)


def test_the_node_is_the_one_that_the_exit_report_names() -> None:
    root = incident("cuda-oom", 3, 10.0, 10, node="old")

    def node(*reports: ExitReport) -> str | None:
        return named(root, reports=reports).origin.node

    assert node(report(1, 3, at=20, node="new.cluster")) == "new.cluster"
    assert node(report(1, 3, at=20, node="old.cluster")) == "old"
    assert node(report(1, 3, at=10, node="new")) == "old"
    assert node(report(1, 4, at=20, node="new")) == "old"
    assert node(report(1, 3, at=20), report(1, 3, at=30, node="new")) == "new"
    assert named(incident("cuda-oom", 3, 10.0, 10), reports=(report(1, 3, at=20, node="n"),)).origin.node is None


def test_of_ranks_alike_the_one_that_was_not_stopped_is_first() -> None:
    root, other = incident("cuda-oom", 3, 10.0, 1), incident("cuda-oom", 5, 11.0, 2)

    def told(code: int, rank: int, at: int) -> ExitReport:
        return report(code, rank, at=at, kind="launcher")

    stopped, ended = told(-15, 3, 50), told(1, 5, 60)

    def first(*ends: ExitReport, second: Incident = other, order: Order = "timestamps") -> int | None:
        found = named(root, second, reports=ends, order=order).root
        return found.main.origin.rank if found else None

    assert first(stopped, ended) == named(root, other, reports=(stopped, ended)).origin.rank == 5
    assert named(root, other, reports=(stopped, told(-15, 5, 60))).origin.rank is None
    assert first(told(1, 3, 50), ended) == 3
    assert first(stopped, told(-15, 5, 60)) == 3
    assert first(stopped) == 3
    assert first(report(-15, 3, at=50), ended) == 3
    assert first(stopped, ended, second=incident("cuda-oom", 5, 11.1, 2)) == 3
    assert first(stopped, ended, second=incident("cuda-oom", 5, 99.0, 2), order="file") == 5
    assert first(stopped, ended, second=incident("peer-lost", 5, 10.0, 2)) == 3
    found = named(root, other, reports=(stopped, ended), known=RankMap({5: "n2"}))
    assert (found.root, found.origin.node) == (other, "n2")


def test_the_rank_may_stand_where_the_same_error_is_printed_again() -> None:
    root = incident("cuda-oom", None, 10.0, 1)
    again = incident("cuda-oom", 3, 12.0, 2)
    found = named(root, again, known=RankMap({3: "n1"}))
    assert (found.origin, found.how) == (Origin(rank=3, node="n1", time=10.0, dated=True), (reason("printed-again"),))
    both = named(root, again, incident("cuda-oom", 4, 12.0, 3), known=RankMap(world_size=8))
    assert (both.origin.rank, both.how) == (None, (reason("no-rank"),))
    generic = incident("python-error", None, 10.0, 1, captures={"exception": "KeyError"})
    assert named(generic, incident("python-error", 3, 12.0, 2)).origin.rank is None


def witnessed(*reports: ExitReport, known: RankMap | None = None, cause: str = "cuda-oom", **more: Any) -> Finding:
    return named(incident(cause, None, more.pop("at", 10.0), 1, **more), reports=reports, known=known)


def test_the_only_process_that_ended_so_is_the_roots() -> None:
    found = witnessed(report(1, 3, witness="mpirun", node="n1", local_rank=1))
    assert found.origin == Origin(rank=3, node="n1", local_rank=1, time=10.0, dated=True)
    assert found.how == (reason("witness-names", witness="mpirun", rank=3),)
    assert witnessed(report(1, 3), known=RankMap({3: "n9"})).origin.node == "n9"
    assert witnessed(report(1, 3, time=12.0), at=None).origin == Origin(rank=3, time=12.0, dated=True)
    assert witnessed(report(1, 3), at=None).origin == Origin(rank=3)


def test_a_process_that_was_stopped_is_not_the_roots() -> None:
    assert witnessed(report(1, 3), report(-15, 4)).origin.rank == 3
    assert witnessed(report(-15, 4)).origin.rank is None
    assert witnessed(report(-11, 4), report(1, 3), cause="segfault").origin.rank == 4


def test_a_witness_of_another_node_is_not_asked_where_one_speaks_of_the_roots() -> None:
    assert witnessed(report(1, 3, node="n1"), report(1, 9, node="n2"), node="n2").origin.rank == 9
    assert witnessed(report(1, 3, node="n1"), report(1, 9), node="n2").origin.rank == 9
    assert witnessed(report(1, 3, node="n1"), node="n2").origin.rank == 3


def test_where_no_rank_can_be_named_the_reason_says_why() -> None:
    found = witnessed(report(1, 3, 5, node="n1"), report(1, 4, node="n1"))
    assert (found.origin.node, found.how) == ("n1", (reason("ended-alike", ranks=(3, 4, 5)),))
    assert found.together == (), "one line tells of one process"
    two = RankMap(world_size=2)
    assert witnessed(report(1, 0, 1), known=two).together == ()
    assert witnessed(report(1, 0, 1), known=two, count=2).together == (0, 1)
    assert witnessed(report(1, 4, 5), known=RankMap(world_size=8), count=2).together == (4, 5)
    assert witnessed(report(1, 3, 5, node="n1"), report(1, 4, node="n2")).origin.node is None
    assert witnessed(report(1, 3, 5, node="n1"), node="n2").origin.node == "n2"
    local = witnessed(local_rank=2)
    assert (local.how, local.together) == ((reason("local-rank-only", local_rank=2),), ())
    assert witnessed(known=two).how == (reason("no-rank"),)
    assert witnessed().how == (ONLY,), "of one process nobody asks which rank it was"


def test_the_rank_in_the_default_group_is_better_than_none() -> None:
    root = incident("nccl-transport", None, 10.0, 1, role="root", captures={"group_rank": "5"})
    found = named(root, known=RankMap({5: "n2"}))
    assert found.origin == Origin(rank=5, node="n2", time=10.0, dated=True)
    assert found.how == (reason("group-rank", rank=5),)
    other = incident("nccl-transport", None, 10.0, 2, role="root", captures={"group_rank": "6"})
    assert named(root, other).origin.rank is None
    assert named(root, incident("nccl-transport", None, 10.0, 2, role="root")).origin.rank == 5


def struck(*others: Incident, **more: Any) -> Finding:
    return named(incident("gpu-fault", None, more.pop("at", 10.0), 1, **more), *others)


def test_the_rank_that_died_where_the_system_hit() -> None:
    victim = incident("segfault", 7, 12.0, 2, node="n2")
    how = (reason("struck", cause="gpu-fault", rank=7),)
    found = struck(victim)
    assert (found.origin, found.how) == (Origin(rank=7, node="n2", time=12.0, dated=True), how)
    assert struck(incident("segfault", 7, None, 2)).origin.time == 10.0
    assert struck(incident("peer-lost", 7, 12.0, 2)).origin.rank is None
    assert struck(incident("segfault", None, 12.0, 2), victim).origin.rank == 7
    assert struck(victim, node="n1").origin.rank is None
    assert struck(incident("segfault", 7, 12.0, 2), node="n1").origin.rank == 7
    assert struck(incident("segfault", 6, 12.0, 3, node="n3"), victim, node="n2").origin.rank == 7
    assert struck(victim, captures={"nodes": "n[2-3]"}, node="n1").origin.rank == 7
    assert struck(victim, captures={"node": "n2"}, node="n1").origin.rank == 7
    assert struck(victim, captures={"nodes": "n[5-6]"}, node="n2").origin.rank is None
    assert named(incident("storage-io", None, 10.0, 1, role="root"), victim).origin.rank is None


def test_a_victims_rank_is_not_the_first() -> None:
    unknown = (reason("waited-for-unknown", ranks=(3,)),)
    assert named(incident("peer-lost", 3, 10.0, 1)).how == unknown
    assert named(incident("rendezvous-timeout", 3, 10.0, 1)).how == unknown
    assert named(incident("peer-lost", 3, 10.0, 1, report=report(1, 3))).origin.rank == 3
    assert named(incident("slurm-step", 3, 10.0, 1, role="cascade")).origin.rank == 3
    assert named(incident("abort", 3, 10.0, 1, role="cascade")).how == unknown
