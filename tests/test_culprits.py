"""A culprit that printed nothing: from stack dumps, from what others name, from who waited; else nobody."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, failed, incident, line, observed, report, timeline
from slurmdoctor.infer.silence import find_suspect, name_missing_peer, name_suspect
from slurmdoctor.model import (
    CollectiveStatus,
    Finding,
    Incident,
    Observations,
    Origin,
    RankMap,
    StackDump,
    Suspicion,
    Timeline,
    reason,
)

WAIT, LOST = "collective-timeout", "peer-lost"


def wait(rank: int, at: float = 100.0, **more: Any) -> Incident:
    return incident(WAIT, rank, at, more.pop("order", 1000 + rank), **more)


def dumps(*where: str) -> dict[int, StackDump]:
    return {r: StackDump(r, f"{w} (a.py:{r})", line(f"dump {r}", at=r), f"{w} (a.py)") for r, w in enumerate(where)}


def works(*ranks: int) -> tuple[CollectiveStatus, ...]:
    return tuple(CollectiveStatus(r, "0", r, 1.0, r, 7, "ALLREDUCE", (4, 4), timeout_ms=600) for r in ranks)


def by_numbers(seen: Observations, cause: str = "abort", **more: Any) -> Finding:
    finding = failed(incident(cause, 0, 100.0, 1), rule="made", **more)
    line_up: Timeline = timeline(collectives=seen.collectives, reports=seen.reports)
    return find_suspect(finding, case(line_up, seen))


ALL_BUT_5 = works(0, 1, 2, 3, 4, 6, 7)


def test_of_a_hang_those_are_silent_whom_the_log_would_show() -> None:
    for size, printed, silent in ((4, (0, 1), (2, 3)), (None, (0, 1, 3), (2,)), (None, (0, 3), ())):
        seen = observed(RankMap(world_size=size), last_words={rank: line() for rank in printed})
        assert by_numbers(seen, "hang").silent == silent


def test_only_one_that_reported_a_timeout_was_the_first() -> None:
    for other, first in ((5, [5]), (6, [])):
        told = tuple(replace(w, reporter=rank) for w, rank in zip(works(0, 1), (5, other), strict=True))
        why = by_numbers(observed(collectives=told)).reasons
        assert [r.values["rank"] for r in why if r.code == "timed-out-first"] == first


def test_sequence_numbers_make_an_abort_a_timeout() -> None:
    exits = (report(-9, 5), report(1, 4, 6))
    found = by_numbers(observed(collectives=ALL_BUT_5, reports=exits))
    assert found.suspicion is not None
    assert (found.cause, found.rule, found.suspicion.ranks) == (WAIT, "made", (5,))
    assert found.suspicion.how.values["ended"] == ((5, exits[0].exit, "srun"),)


@pytest.mark.parametrize("cause", ["hang", "time-limit", "cuda-oom"])
def test_numbers_tell_nothing_of_other_causes(cause: str) -> None:
    seen = observed(collectives=ALL_BUT_5)
    assert replace(by_numbers(seen, cause), reasons=(), silent=()) == failed(incident(cause, 0, 100.0, 1), rule="made")


def test_what_the_suspect_printed_last_is_a_reason() -> None:
    words = {5: line("  loading shard 7  " + "x" * 200)}

    def why(*collectives: CollectiveStatus, size: int | None = None) -> list[str]:
        seen = observed(RankMap(world_size=size), collectives=collectives, last_words=words)
        return [r.code for r in by_numbers(seen).reasons]

    found = by_numbers(observed(collectives=ALL_BUT_5, last_words=words), reasons=(reason("first"),))
    assert [r.code for r in found.reasons] == ["first", "never-reported", "meanwhile"]
    assert found.reasons[2].values == {"rank": 5, "text": "loading shard 7  " + "x" * 83}
    assert why(*works(*range(8))) == ["waits-unclear"]
    assert why(*ALL_BUT_5, *works(8), size=10) == ["never-reported"]
    assert why(*(replace(w, seq=6) if w.rank == 5 else w for w in works(*range(8))))[1] == "meanwhile"


def test_the_suspects_own_incident_becomes_the_root() -> None:
    root = incident(WAIT, 0, 100.0, 1)
    own, reported = incident(WAIT, 7, 90.0, 2), incident(WAIT, 7, 80.0, 3, report=report(1))
    other = incident(WAIT, 2, 100.0, 4)
    behind = [replace(w, seq=6) if w.rank == 7 else w for w in works(*range(8))]
    seen = observed(collectives=behind)
    line_up = timeline([root, own, other], collectives=seen.collectives)
    found = find_suspect(failed(root, same=(reported, other, own)), case(line_up, seen))
    assert (found.root, found.same) == (own, (root, reported, other))


@pytest.mark.parametrize(("cause", "named"), [("time-limit", "hang"), ("hang", "hang"), (WAIT, WAIT)])
def test_the_rank_that_stands_elsewhere_is_the_suspect(cause: str, named: str) -> None:
    finding = failed(incident(cause, None, 100.0, 1), rule="made")
    words = {2: line("reading")}
    seen = observed(dumps=dumps("wait", "wait", "read", "wait"), last_words=words)
    found = find_suspect(finding, case(timeline(), seen))
    how = reason("stands-elsewhere", ranks=(2,), here="read (a.py:2)", usual="wait (a.py)")
    assert found.suspicion == Suspicion("behind", (2,), (0, 1, 2, 3), how, "medium", stuck_in="read (a.py:2)")
    assert (found.cause, found.rule, found.reasons) == (named, None if cause == "time-limit" else "made", (how,))


def test_a_cause_that_hides_no_hang_has_no_suspect() -> None:
    seen = observed(dumps=dumps("wait", "wait", "read", "wait"))
    for finding in (failed(incident("cuda-oom", 0, 1.0, 1)), failed(None)):
        assert find_suspect(finding, case(timeline(), seen)) == finding


@pytest.mark.parametrize(
    ("ranks", "origin"),
    [
        ((3,), Origin(rank=3, node="n2")),
        ((9,), Origin(rank=9)),
        ((2, 3), Origin(node="n2")),
        ((1, 3), Origin()),
        ((), Origin(rank=0, node="n1", time=5.0)),
    ],
)
def test_one_suspect_is_the_first_rank_and_several_may_share_a_node(ranks: tuple[int, ...], origin: Origin) -> None:
    known = RankMap({0: "n1", 1: "n1", 2: "n2", 3: "n2"})
    suspicion = Suspicion("missing", ranks, (), reason("made"), "low")
    finding = failed(wait(0), origin=Origin(rank=0, node="n1", time=5.0))
    found = name_suspect(finding, suspicion, case(None, observed(known)))
    assert (found.how, found.origin) == ((reason("made"),), origin)


def peer(joined: str, expected: str, *ranks: int, known: RankMap | None = None) -> Finding:
    captures = {"joined": joined, "expected": expected}
    those = enumerate(ranks or [None])
    root, *same = (incident("rendezvous-timeout", rank, 5.0, order, captures=captures) for order, rank in those)
    return name_missing_peer(failed(root, same=tuple(same), reasons=(reason("a"),)), root, case(None, observed(known)))


def test_the_rank_that_never_joined_is_the_suspect() -> None:
    found = peer("3", "4", 0, 1, 3, known=RankMap({2: "n2"}))
    assert found.suspicion is None, "a line places rank 2: it was there"
    found = peer("3", "4", 0, 1, 3)
    how = reason("never-a-word", waiting=(0, 1, 3), ranks=(2,))
    assert found.suspicion == Suspicion("missing", (2,), (0, 1, 3), how, "medium")
    assert (found.how, found.reasons, found.origin) == ((how,), (reason("a"), how), Origin(rank=2))


@pytest.mark.parametrize(
    ("joined", "expected", "ranks", "known", "missing"),
    [
        ("2", "4", (0, 1), None, (2, 3)),
        ("1", "4", (0,), None, None),
        ("2", "4", (0, 1, 2), None, None),
        ("x", "4", (0, 1, 2), None, None),
        ("3", "x", (0, 1, 2), None, None),
        ("3", "4", (0, 1), RankMap(seen=frozenset({2})), (3,)),
        ("3", "4", (0, 1, 2), RankMap(world_size=4), (3,)),
        ("3", "4", (0, 1, 2), RankMap(world_size=8), None),
        ("0", "0", (), None, None),
        ("1", "2", (), RankMap(seen=frozenset({0})), None),
    ],
)
def test_who_did_not_come_must_agree_with_the_count_of_those_who_came(
    joined: str, expected: str, ranks: tuple[int, ...], known: RankMap | None, missing: tuple[int, ...] | None
) -> None:
    found = peer(joined, expected, *ranks, known=known)
    assert (found.suspicion and found.suspicion.ranks) == missing
    if found.suspicion is not None:
        assert found.suspicion.confidence == ("medium" if len(found.suspicion.ranks) == 1 else "low")
    else:
        assert (found.how, found.origin) == ((reason("waited-for-unknown", ranks=ranks),), Origin(time=5.0, dated=True))


def busy(at: float | None, cause: str = "nccl-id-timeout", rank: int = 1, since: float | None = 100.0) -> Finding:
    root = incident(cause, rank, since, 5)
    words = line("  tokenizing  " + "x" * 200, origin=Origin(rank=0, node="n1", time=at))
    return name_missing_peer(failed(root), root, case(None, observed(last_words={0: words})))


def test_rank_0_that_still_prints_after_the_wait_was_busy() -> None:
    found = busy(161.0)
    how = reason("rank-0-busy", text="tokenizing  " + "x" * 88)
    assert (found.how, found.reasons) == ((how,), (how,))
    assert found.origin == Origin(rank=0, node="n1", time=100.0, dated=True)


def test_rank_0_was_not_seen_busy() -> None:
    unknown = (reason("waited-for-unknown", ranks=(1,)),)
    assert busy(160.0).how == unknown
    assert busy(None).how == unknown
    assert busy(161.0, since=None).how == unknown
    assert busy(161.0, "rendezvous-timeout").how == unknown
    assert busy(161.0, rank=0).how == (reason("waited-for-unknown", ranks=(0,)),)
    root = incident("nccl-id-timeout", 1, 100.0, 5)
    assert name_missing_peer(failed(root), root, case(None, observed())).how == unknown
