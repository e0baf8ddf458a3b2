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


# ── sequence numbers ─────────────────────────────────────────────────────────────────────────


def works(*ranks: int) -> tuple[CollectiveStatus, ...]:
    return tuple(CollectiveStatus(r, "0", r, 1.0, r, 7, "ALLREDUCE", (4, 4), timeout_ms=600) for r in ranks)


def by_numbers(seen: Observations, cause: str = "abort", **more: Any) -> Finding:
    finding = failed(incident(cause, 0, 100.0, 1), rule="made", **more)
    line_up: Timeline = timeline(collectives=seen.collectives, reports=seen.reports)
    return find_suspect(finding, case(line_up, seen))


def test_sequence_numbers_make_an_abort_a_timeout() -> None:
    exits = (report(-9, 5), report(1, 4, 6))
    found = by_numbers(observed(collectives=works(0, 1, 2, 3, 4, 6, 7), reports=exits))
    assert (found.cause, found.rule) == (WAIT, "made")
    assert found.suspicion is not None
    assert found.suspicion.ranks == (5,)
    assert found.suspicion.how.values["ended"] == ((5, exits[0].exit, "srun"),)


@pytest.mark.parametrize("cause", ["hang", "time-limit", "cuda-oom"])
def test_numbers_tell_nothing_of_other_causes(cause: str) -> None:
    seen = observed(collectives=works(0, 1, 2, 3, 4, 6, 7))
    assert replace(by_numbers(seen, cause), reasons=(), silent=()) == failed(incident(cause, 0, 100.0, 1), rule="made")


def test_what_the_suspect_printed_last_is_a_reason() -> None:
    words = {5: line("  loading shard 7  " + "x" * 200)}
    found = by_numbers(observed(collectives=works(0, 1, 2, 3, 4, 6, 7), last_words=words), reasons=(reason("first"),))
    assert [r.code for r in found.reasons] == ["first", "never-reported", "meanwhile"]
    assert found.reasons[2].values == {"rank": 5, "text": "loading shard 7  " + "x" * 83}
    open_ = by_numbers(observed(collectives=works(*range(8)), last_words=words))
    assert [r.code for r in open_.reasons] == ["waits-unclear"]
    several = by_numbers(observed(RankMap(world_size=10), collectives=works(0, 1, 2, 3, 4, 6, 7, 8), last_words=words))
    assert [r.code for r in several.reasons] == ["never-reported"]
    behind = [replace(w, seq=6) if w.rank == 5 else w for w in works(*range(8))]
    assert by_numbers(observed(collectives=behind, last_words=words)).reasons[1].code == "meanwhile"


def test_the_suspects_own_incident_becomes_the_root() -> None:
    root = incident(WAIT, 0, 100.0, 1)
    own, reported = incident(WAIT, 7, 90.0, 2), incident(WAIT, 7, 80.0, 3, report=report(1))
    other = incident(WAIT, 2, 100.0, 4)
    behind = [replace(w, seq=6) if w.rank == 7 else w for w in works(*range(8))]
    seen = observed(collectives=behind)
    line_up = timeline([root, own, other], collectives=seen.collectives)
    found = find_suspect(failed(root, same=(reported, other, own)), case(line_up, seen))
    assert (found.root, found.same) == (own, (root, reported, other))


# ── ranks that others name ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("captures", "how", "confidence"),
    [
        ({"missing_ranks": "3, 5"}, reason("named-missing", report="barrier", ranks=(3, 5)), "low"),
        ({"missing_ranks": "3"}, reason("named-missing", report="barrier", ranks=(3,)), "medium"),
        ({"lagging_ranks": "12 x"}, reason("named-missing", report="desync", ranks=(12,)), "medium"),
    ],
)
def test_a_barrier_or_a_desync_report_names_who_did_not_come(captures: Any, how: Any, confidence: Any) -> None:
    naming = incident(WAIT, 2, 101.0, 5, captures=captures)
    for finding in (
        failed(wait(0), same=(naming,)),
        failed(wait(0), cascade=(naming,)),
        failed(naming, same=(wait(0),)),
    ):
        found = find_suspect(finding, case(timeline(), observed(RankMap(world_size=64))))
        assert found.suspicion == Suspicion("missing", how.values["ranks"], (), how, confidence)


def test_other_causes_name_nobody_who_is_missing() -> None:
    finding = failed(wait(0), cascade=(incident("cuda-oom", 2, 101.0, 5, captures={"missing_ranks": "3"}),))
    assert find_suspect(finding, case(timeline(), observed())).suspicion is None


# ── stack dumps ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("cause", "named"), [("time-limit", "hang"), ("hang", "hang"), (WAIT, WAIT)])
def test_the_rank_that_stands_elsewhere_is_the_suspect(cause: str, named: str) -> None:
    finding = failed(incident(cause, None, 100.0, 1), rule="made")
    words = {2: line("reading")}
    seen = observed(dumps=dumps("wait", "wait", "read", "wait"), last_words=words)
    found = find_suspect(finding, case(timeline(), seen))
    how = reason("stands-elsewhere", ranks=(2,), here="read (a.py:2)", usual="wait (a.py)")
    assert found.suspicion == Suspicion("behind", (2,), (0, 1, 2, 3), how, "medium", stands_in="read (a.py:2)")
    assert (found.cause, found.rule, found.reasons) == (named, None if cause == "time-limit" else "made", (how,))


def test_a_cause_that_hides_no_hang_has_no_suspect() -> None:
    seen = observed(dumps=dumps("wait", "wait", "read", "wait"))
    for finding in (failed(incident("cuda-oom", 0, 1.0, 1)), failed(None)):
        assert find_suspect(finding, case(timeline(), seen)) == finding


# ── the place of the suspect ─────────────────────────────────────────────────────────────────


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
    found = name_suspect(
        failed(wait(0), origin=Origin(rank=0, node="n1", time=5.0)), suspicion, case(None, observed(known))
    )
    assert (found.how, found.origin) == ((reason("made"),), origin)


# ── who was waited for ───────────────────────────────────────────────────────────────────────


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
        assert found.how == (reason("waited-for-unknown", ranks=ranks),)
        assert found.origin == Origin(time=5.0, dated=True)


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
