"""A culprit that said nothing: named from the sequence numbers of those who waited, or left open with the reason."""

import pytest
from msgspec.structs import replace

from slurmdoctor.infer.waiting_ranks import Members, odd_ones, suspect
from slurmdoctor.model import CollectiveStatus, Suspicion, reason
from slurmdoctor.readers import collectives
from slurmdoctor.search.shapes import digits_matter


def waits(rank: int, seq: int = 7, op: str = "ALLREDUCE", size: int = 4, group: str = "0") -> CollectiveStatus:
    return CollectiveStatus(rank, group, rank, 100.0 + rank / 10, rank, seq, op, (size, size), timeout_ms=600000)


def status(rank: int, enqueued: int, completed: int, dump: bool = False) -> CollectiveStatus:
    return CollectiveStatus(rank, "0", rank, 101.0, 100 + rank, enqueued=enqueued, completed=completed, dump=dump)


def found_in(*works: CollectiveStatus, world: int = 8) -> Suspicion:
    found = suspect(works, Members(range(world), True), {})
    assert found is not None
    return found


def outcome(*works: CollectiveStatus, world: int = 8) -> tuple[str, tuple[int, ...]]:
    found = found_in(*works, world=world)
    return found.kind, found.ranks


def test_several_that_never_reported_are_named_with_less_confidence() -> None:
    found = found_in(*(waits(r) for r in range(16) if r not in (5, 9)), world=16)
    assert (found.kind, found.ranks, found.confidence) == ("missing", (5, 9), "low")


def test_enqueued_equals_completed_on_one_rank_shows_that_it_did_not_come() -> None:
    works = [*(waits(r) for r in range(7)), *(status(r, 9, 6) for r in range(7)), status(7, 6, 6)]
    assert outcome(*works) == ("behind", (7,))
    assert suspect([status(0, 3, 3)], Members(range(8), True), {}) is None, "nobody timed out"


@pytest.mark.parametrize(
    ("world", "missing", "kind"), [(16, 4, "missing"), (16, 5, "unclear"), (3, 1, "missing"), (3, 2, "unclear")]
)
def test_at_most_a_quarter_may_be_missing_or_one(world: int, missing: int, kind: str) -> None:
    assert found_in(*(waits(r) for r in range(world - missing)), world=world).kind == kind


def test_what_is_left_open_keeps_who_waited_where() -> None:
    everyone = found_in(*(waits(r) for r in range(8)))
    how = reason("all-entered", count=8, seq=7, op="ALLREDUCE", told=False)
    assert everyone == Suspicion("all-entered", (), tuple(range(8)), how, "low", 7, "ALLREDUCE", of=8)
    half = found_in(*(waits(r) for r in range(4)))
    how = reason("waits-unclear", ranks=(0, 1, 2, 3), seq=7, op="ALLREDUCE", of=8, queued=0, silent=(4, 5, 6, 7))
    assert half == Suspicion("unclear", (), (0, 1, 2, 3), how, "low", 7, "ALLREDUCE", (4, 5, 6, 7), of=8)


def test_a_mismatch_shows_both_kinds_and_who_waited_in_the_usual_one() -> None:
    found = found_in(*(waits(r) for r in range(6)), waits(6, op="BROADCAST"), waits(7, size=12))
    kinds = (("ALLREDUCE", 12), ("BROADCAST", 4))
    assert found == Suspicion(
        "mismatch", (6, 7), tuple(range(6)),
        reason("other-collective", seq=7, ranks=(6, 7), kinds=kinds, others=6, usual=("ALLREDUCE", 4)),
        "medium", 7, "ALLREDUCE", of=8,
    )  # fmt: skip
    barrier = found_in(*(waits(r) for r in range(7)), replace(waits(7, op="BARRIER"), size=None))
    assert barrier.how.values["kinds"] == (("BARRIER", None),), "it has no size"


@pytest.mark.parametrize(
    ("ranks", "odd", "kind"),
    [(3, 1, "mismatch"), (2, 1, "unclear"), (8, 2, "mismatch"), (8, 3, "unclear"), (12, 3, "mismatch")],
)
def test_the_odd_ones_are_few(ranks: int, odd: int, kind: str) -> None:
    works = [waits(r, op="BROADCAST" if r >= ranks - odd else "ALLREDUCE") for r in range(ranks)]
    assert found_in(*works, world=ranks).kind == kind


def test_nobody_stands_out_where_all_differ_or_none_does_or_two_are_compared() -> None:
    assert odd_ones({0: "a", 1: "b", 2: "c", 3: "d"}) is None
    assert odd_ones({0: "a", 1: "b"}) is None
    assert odd_ones({0: "a", 1: "a", 2: "a"}) is None


def test_the_usual_number_and_operation_are_named() -> None:
    found = found_in(*(waits(r, seq=9, op="ALLGATHER") for r in range(4)), *(waits(r) for r in range(4, 7)))
    assert (found.seq, found.op, found.waiting) == (9, "ALLGATHER", (0, 1, 2, 3, 4, 5, 6))


def test_who_is_behind_is_named_with_what_it_waits_in_itself() -> None:
    how = reason("behind", ranks=(7,), waiting=7, seq=7, op="ALLREDUCE", own=((6, "ALLREDUCE"),))
    expected = Suspicion("behind", (7,), tuple(range(7)), how, "medium", 7, "ALLREDUCE", of=8)
    assert found_in(*(waits(r) for r in range(7)), waits(7, seq=6)) == expected


def test_an_idle_rank_of_no_known_group_is_not_the_groups() -> None:
    works = [waits(r) for r in range(7)]
    assert outcome(*works, replace(status(9, 6, 6), group=None)) == ("missing", (7,))
    assert outcome(*works, status(9, 6, 6)) == ("behind", (9,))


def test_who_waits_is_also_told_by_a_status_line_and_by_who_reports_a_time_out() -> None:
    seven, idle = [waits(r) for r in range(7)], replace(status(7, 9, 6), seq=7)
    told = (
        idle,
        replace(idle, group=None),
        replace(status(0, 9, 6, dump=True), reporter=7),
        replace(idle, group="1(tp)"),
    )
    assert [outcome(*seven, one)[0] for one in told] == ["all-entered"] * 3 + ["missing"]


def test_who_is_missing_is_less_sure_where_few_waited_of_an_unknown_number() -> None:
    for ranks, confidence in ((8, "medium"), (7, "low")):
        found = suspect([waits(r) for r in range(1, ranks)], Members(range(ranks), False), {})
        assert found is not None
        assert (found.ranks, found.confidence) == ((0,), confidence)


def test_the_group_that_timed_out_first_decides() -> None:
    early = [replace(waits(r, seq=3, group="1(tp)"), time=50.0) for r in (0, 1)]
    late = [waits(r) for r in range(8)]
    assert found_in(*late, *early).waiting == (0, 1)
    assert found_in(*late, *(replace(w, time=None) for w in early)).waiting == tuple(range(8))
    unstamped = [replace(w, time=None, order=w.order + 20) for w in late]
    assert found_in(*unstamped, *(replace(w, time=None) for w in early)).waiting == (0, 1)


def test_a_time_out_that_names_no_group_is_of_its_status_lines() -> None:
    def named(rank: int, seq: int) -> CollectiveStatus:
        return replace(status(rank, 9, 6), group="2(dp)", seq=seq)

    unnamed = [replace(waits(r, seq=4), group=None) for r in (0, 1)]
    other = [replace(waits(r, seq=5), time=50.0) for r in (2, 3, 4)]
    assert found_in(*other, *(replace(w, time=40.0) for w in unnamed), named(0, 4)).waiting == (0,)
    # without any, it is of the default group, as those that name it
    assert found_in(*other, replace(unnamed[0], time=60.0, seq=5)).waiting == (0, 2, 3, 4)


def in_group(name: str | None, *placed: tuple[int, int]) -> list[CollectiveStatus]:
    """Waits of one group that began at once: (rank in the group, global rank)."""
    return [replace(waits(rank), group=name, group_rank=k, time=100.0) for k, rank in placed]


@pytest.mark.parametrize(
    ("name", "placed", "found"),
    [
        ("1(tp)", [(0, 4), (1, 5), (3, 7)], ("missing", (6,))),
        # every fourth rank
        ("1(dp)", [(1, 5), (2, 9), (3, 13)], ("missing", (1,))),
        # the places show no pattern: nothing is made up
        ("1(tp)", [(0, 4), (1, 5), (3, 9)], ("unclear", ())),
        ("1(tp)", [(0, 9), (1, 5)], ("unclear", ())),
        ("1(tp)", [(0, 4), (2, 7)], ("unclear", ())),
        ("1(tp)", [(1, 4)], ("unclear", ())),
        # a time-out that names no group may be of any
        (None, [(0, 4), (1, 5), (3, 7)], ("missing", (6,))),
        # rank -3 is none
        ("1(dp)", [(1, 1), (2, 5), (3, 9)], ("unclear", ())),
        # ranks of the group that are the global ones: the whole job
        ("1(tp)", [(r, r) for r in range(15)], ("missing", (15,))),
        ("default_pg", [(r, r + 1) for r in range(15)], ("missing", (0,))),
        ("0(dp)", [(r, r + 1) for r in range(15)], ("missing", (0,))),
    ],
)
def test_who_is_missing_in_a_group_follows_from_who_holds_which_place(
    name: str | None, placed: list[tuple[int, int]], found: tuple[str, tuple[int, ...]]
) -> None:
    assert outcome(*in_group(name, *placed), world=16) == found


def test_other_groups_show_no_size() -> None:
    other = [replace(work, time=200.0) for work in in_group("2(dp)", (0, 8), (3, 11))]
    assert outcome(*in_group("1(tp)", (0, 4), (1, 5)), *other, world=16) == ("unclear", ())


def test_what_is_searched_once_for_a_shape_minds_no_digits() -> None:
    names = ("nccl-timeout", "fingerprint", "nccl-status", "nccl-group", "nccl-work")
    assert [name for name in names if digits_matter(collectives.shaped(name).pattern)] == []
