"""The lines that prove a finding, the best first, each once."""

from typing import Any

from builders import case, event, incident, timeline
from slurmdoctor.infer.evidence import choose_evidence
from slurmdoctor.model import CollectiveStatus, Event, Finding, Incident, Origin, Suspicion, reason


def chosen(root: Incident | None, events: tuple[Event, ...] = (), **more: Any) -> list[Event]:
    rank, collectives = more.pop("rank", None), more.pop("collectives", ())
    cause = more.pop("cause", root.cause if root else None)
    finding = Finding("failed", root, cause, origin=Origin(rank=rank), **more)
    return list(choose_evidence(finding, case(timeline(events=events, collectives=collectives))).evidence)


def places(found: list[Event]) -> list[int]:
    return [one.hit.offset for one in found]


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
