"""The lines that prove a finding, the best first, each once."""

from __future__ import annotations

from typing import Any

from builders import case, event, incident, report, timeline
from slurmdoctor.infer.evidence import choose_evidence
from slurmdoctor.model import CollectiveStatus, Event, Finding, Incident, Origin, Suspicion, reason


def chosen(root: Incident | None, events: tuple[Event, ...] = (), **more: Any) -> list[Event]:
    rank, collectives = more.pop("rank", None), more.pop("collectives", ())
    cause = more.pop("cause", root.cause if root else None)
    finding = Finding("failed", root, cause, origin=Origin(rank=rank), **more)
    return list(choose_evidence(finding, case(timeline(events=events, collectives=collectives))).evidence)


def places(found: list[Event]) -> list[int]:
    return [one.hit.offset for one in found]


def test_the_roots_lines_come_first_then_its_proofs_then_three_victims() -> None:
    main, more = event("gpu-fault", at=10, rank=3), event("gpu-fault", at=11, rank=3)
    proofs = tuple(
        event("gpu-fault", role=role, at=at) for at, role in ((20, "confirmation"), (21, "hint"), (22, "root"))
    )
    others = (
        event("gpu-fault", role="cascade", at=18),
        event("gpu-fault", role="either", at=19),
        event("cuda-error", at=17),
    )
    victims = tuple(incident("peer-lost", role="cascade", at=at) for at in (30, 31, 32, 33))
    root = Incident(main, (more, main))
    assert places(chosen(root, (*others, *proofs), cascade=victims)) == [10, 11, 20, 21, 30, 31, 32]
    assert places(chosen(None, proofs, cascade=victims)) == [30, 31, 32]
    assert places(chosen(root, (*others, proofs[2]))) == [10, 11, 22]


def test_one_more_incident_of_the_cause_is_shown_where_it_is_the_same_ranks_or_a_report() -> None:
    root = incident("gpu-fault", at=10, rank=3)
    own, other = incident("gpu-fault", at=20, rank=3), incident("gpu-fault", at=15, rank=4)
    reported = incident("gpu-fault", at=25, rank=5, report=report("Killed", 5))
    assert places(chosen(root, same=(other, own, reported), rank=3)) == [10, 20]
    assert places(chosen(root, same=(other, reported, own), rank=3)) == [10, 25]
    assert places(chosen(root, same=(other,), rank=3)) == [10]


def test_a_line_is_shown_once_and_eight_are_enough() -> None:
    main = event("gpu-fault", at=10)
    root = Incident(main, (main, *(event("gpu-fault", at=at) for at in (10, 11, 11, 12, 13, 14, 15, 16, 17, 18))))
    assert places(chosen(root)) == [10, 11, 12, 13, 14, 15, 16, 17]
    assert chosen(root)[0] is main
    files = Incident(main, (main, event("gpu-fault", at=10, source=1)))
    assert len(chosen(files)) == 2


def test_beside_a_suspect_a_rank_is_shown_that_waits_for_it() -> None:
    def wait(order: int, op: str | None) -> CollectiveStatus:
        return CollectiveStatus(1, "0", 1, order=order, seq=7, op=op)

    root = incident("python-error", at=10, rank=3)
    waits = tuple(incident("collective-timeout", role="either", at=at, rank=at) for at in (20, 21, 22))
    collectives = (wait(20, None), wait(21, "ALLREDUCE"), wait(22, "ALLREDUCE"))
    suspicion = Suspicion("missing", (3,), (), reason("did-not-wait"), "medium")
    assert places(chosen(root, same=waits, collectives=collectives, suspicion=suspicion)) == [10, 21]
    assert places(chosen(root, same=waits, collectives=collectives)) == [10]
