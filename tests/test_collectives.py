"""A culprit that said nothing: named from the sequence numbers of those who waited, or left open with the reason."""

from __future__ import annotations

from slurmdoctor.infer.collectives import suspect
from slurmdoctor.model import CollectiveStatus
from slurmdoctor.readers import collectives
from slurmdoctor.search.shapes import Shaped, digits_matter


def waits(rank: int, seq: int = 7, op: str = "ALLREDUCE", size: int = 4, group: str = "0") -> CollectiveStatus:
    return CollectiveStatus(
        rank, group, rank, seq, op, (size, size), None, None, False, 100.0 + rank / 10, rank, 600000
    )


def status(rank: int, enqueued: int, completed: int, dump: bool = False) -> CollectiveStatus:
    return CollectiveStatus(rank, "0", rank, None, None, None, enqueued, completed, dump, 101.0, 100 + rank, None)


def test_the_one_that_never_reported_never_entered() -> None:
    found = suspect([waits(r) for r in range(8) if r != 5], range(8), {})
    assert found is not None
    assert (found.kind, found.ranks, found.confidence) == ("missing", (5,), "medium")


def test_several_that_never_reported_are_named_with_less_confidence() -> None:
    found = suspect([waits(r) for r in range(16) if r not in (5, 9)], range(16), {})
    assert found is not None
    assert (found.kind, found.ranks, found.confidence) == ("missing", (5, 9), "low")


def test_where_all_entered_nobody_is_accused() -> None:
    found = suspect([waits(r) for r in range(8)], range(8), {})
    assert found is not None
    assert (found.kind, found.ranks) == ("all-entered", ())


def test_another_operation_at_the_same_number_is_a_mismatch() -> None:
    found = suspect([*(waits(r) for r in range(7)), waits(7, op="BROADCAST")], range(8), {})
    assert found is not None
    assert (found.kind, found.ranks) == ("mismatch", (7,))


def test_another_size_at_the_same_number_is_a_mismatch() -> None:
    found = suspect([*(waits(r) for r in range(7)), waits(7, size=12)], range(8), {})
    assert found is not None
    assert (found.kind, found.ranks) == ("mismatch", (7,))


def test_who_waits_in_an_earlier_collective_is_behind() -> None:
    found = suspect([*(waits(r) for r in range(7)), waits(7, seq=6)], range(8), {})
    assert found is not None
    assert (found.kind, found.ranks) == ("behind", (7,))


def test_enqueued_equals_completed_on_one_rank_shows_that_it_did_not_come() -> None:
    works = [*(waits(r) for r in range(7)), *(status(r, 9, 6) for r in range(7)), status(7, 6, 6)]
    found = suspect(works, range(8), {})
    assert found is not None
    assert (found.kind, found.ranks) == ("behind", (7,))


def test_dump_signal_lines_prove_nothing() -> None:
    works = [*(waits(r) for r in range(8)), *(status(r, 6, 6, dump=True) for r in range(8))]
    found = suspect(works, range(8), {})
    assert found is not None
    assert found.kind == "all-entered"


def test_half_of_the_ranks_silent_is_no_suspicion() -> None:
    found = suspect([waits(r) for r in range(4)], range(8), {})
    assert found is not None
    assert (found.kind, found.ranks) == ("unclear", ())


def test_no_time_out_no_suspicion() -> None:
    assert suspect([status(0, 3, 3)], range(8), {}) is None


def test_what_is_searched_once_for_a_shape_minds_no_digits() -> None:
    shaped = collectives._patterns()
    assert all(isinstance(one, Shaped) for one in shaped)
    assert [one.pattern for one in shaped if digits_matter(one.pattern)] == []
