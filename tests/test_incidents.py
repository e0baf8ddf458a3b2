"""Events of one writer at one time are one incident; its most telling event names it."""

from typing import Any

import pytest

from builders import case, event, timeline
from slurmdoctor.infer.outcome import gather_incidents
from slurmdoctor.model import Event


def parted(*events: Event, order: Any = "timestamps") -> list[tuple[str, list[str]]]:
    """Of each incident the cause and its events' causes."""
    found = gather_incidents(events, case(timeline(events=events, order=order)))
    return [(i.cause, [e.cause for e in i.events]) for i in found]


def oom(rank: int | None = 1, at: int = 200, time: float | None = 10.0, **more: Any) -> Event:
    return event("cuda-oom", rank, time, at, **more)


def after(cause: str, at: int = 200, **more: Any) -> Event:
    return event(cause, 1, 10.0, at, **more)


CONFIRMED = after("host-oom", 100, role="confirmation")
WAITED = after("collective-timeout", 100)


@pytest.mark.parametrize(
    ("one", "other", "incidents"),
    [
        # near each other in bytes or seconds, of one rank and one file
        (oom(at=100), oom(at=2147, time=99.0), 1),
        (oom(at=100), oom(at=2148, time=99.0), 2),
        (oom(at=100), oom(at=9000, time=15.0), 1),
        (oom(at=100), oom(at=9000, time=15.1), 2),
        (oom(at=100), oom(at=9000, time=5.0), 1),
        (oom(at=100), oom(at=9000, time=None), 2),
        (oom(at=100), oom(2, at=110), 2),
        (oom(at=100), oom(at=110, source=1), 2),
        (oom(at=100), oom(None, at=110), 2),
        # writers without a rank are told apart by node; their clock tells nothing of one process
        (oom(None, 100, node="n1"), oom(None, node="n1"), 1),
        (oom(None, 100, node="n1"), oom(None, node="n2"), 2),
        (oom(None, 100, node="n1"), oom(None, 9000, node="n1"), 2),
        # a chain is one incident wherever it stands, two chains only of a known rank
        (oom(at=100, group=7), event("peer-lost", 1, 99.0, 9000, group=7), 1),
        (oom(at=100, group=7), event("peer-lost", 2, 10.0, 200, group=7), 1),
        (oom(at=100, group=7), oom(group=8), 1),
        (oom(None, 100, group=7), oom(None, group=8), 2),
        (oom(None, 100, group=7), oom(None), 1),
        (oom(None, 100), oom(None, group=8), 1),
        # a confirmation joins confirmations only
        (CONFIRMED, after("killed"), 2),
        (after("killed", 50), CONFIRMED, 2),
        (CONFIRMED, after("host-oom", role="confirmation"), 1),
        # what a rank meets after it gave up waiting is another incident, but for a generic error or a lost peer
        (WAITED, oom(), 2),
        (WAITED, after("python-error"), 1),
        (WAITED, after("peer-lost"), 1),
        (after("collective-timeout", 100, role="root"), oom(), 1),
        (after("collective-timeout", 100, role="cascade"), oom(), 1),
        (after("nccl-transport", 100, role="either"), oom(), 1),
    ],
)
def test_one_writers_events_of_one_matter_are_one_incident(one: Event, other: Event, incidents: int) -> None:
    assert len(parted(one, other)) == incidents


def test_a_generic_error_joins_what_comes_after_a_wait() -> None:
    assert len(parted(WAITED, after("python-error", 150), oom())) == 1


def test_an_event_may_belong_to_an_incident_before_the_last_one() -> None:
    found = parted(after("killed", 100), after("host-oom", 200, role="confirmation"), after("peer-lost", 300))
    assert found == [("host-oom", ["host-oom"]), ("peer-lost", ["killed", "peer-lost"])]


@pytest.mark.parametrize(
    ("events", "named"),
    [
        (("cuda-oom", "storage-io"), "cuda-oom"),
        (("python-error", "storage-io"), "storage-io"),
        (("sigterm", "python-error"), "python-error"),
        (("sigterm", "killed"), "sigterm"),
        (("collective-timeout", "python-error"), "collective-timeout"),
        (("nccl-transport", "cuda-oom"), "cuda-oom"),
        (("peer-lost", "cuda-oom"), "cuda-oom"),
        (("python-error", "peer-lost"), "peer-lost"),
    ],
)
def test_the_most_telling_event_names_an_incident(events: tuple[str, ...], named: str) -> None:
    roles = {"killed": "cascade"}
    made = [after(cause, 100 * n, role=roles.get(cause)) for n, cause in enumerate(events)]
    assert [cause for cause, _ in parted(*made)] == [named]


def test_a_victims_words_make_what_they_lead_to_a_victims_too() -> None:
    lost = event("peer-lost", 1, 10.0, 100, group=7)
    assert parted(lost, event("cuda-oom", 1, 10.0, 200, group=7)) == [("cuda-oom", ["peer-lost", "cuda-oom"])]
    assert parted(event("python-error", 1, 10.0, 50, group=7), lost)[0][0] == "peer-lost"
    assert parted(event("python-error", 1, 10.0, 50, group=6), lost)[0][0] == "python-error"
    assert parted(lost, event("python-error", 1, 10.0, 150, group=6))[0][0] == "peer-lost"


def test_on_one_line_what_may_be_either_comes_before_a_victims_words() -> None:
    lost = event("peer-lost", 1, 10.0, 100)
    assert parted(lost, event("nccl-transport", 1, 10.0, 100, role="either"))[0][0] == "nccl-transport"
    assert parted(lost, event("nccl-transport", 1, 10.0, 120, role="either"))[0][0] == "peer-lost"
    assert parted(lost, event("abort", 1, 10.0, 100, role="either"))[0][0] == "peer-lost"
