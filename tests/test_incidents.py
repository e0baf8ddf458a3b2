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


def count(*events: Event) -> int:
    return len(parted(*events))


@pytest.mark.parametrize(
    ("second", "incidents"),
    [
        (event("cuda-oom", 1, 99.0, 2147), 1),
        (event("cuda-oom", 1, 99.0, 2148), 2),
        (event("cuda-oom", 1, 15.0, 9000), 1),
        (event("cuda-oom", 1, 15.1, 9000), 2),
        (event("cuda-oom", 1, 5.0, 9000), 1),
        (event("cuda-oom", 1, None, 9000), 2),
        (event("cuda-oom", 2, 10.0, 110), 2),
        (event("cuda-oom", 1, 10.0, 110, source=1), 2),
        (event("cuda-oom", None, 10.0, 110), 2),
    ],
)
def test_one_writers_events_near_each_other_are_one_incident(second: Event, incidents: int) -> None:
    assert count(event("cuda-oom", 1, 10.0, 100), second) == incidents


def test_writers_without_a_rank_are_told_apart_by_node() -> None:
    one = event("cuda-oom", None, 10.0, 100, node="n1")
    assert count(one, event("cuda-oom", None, 10.0, 200, node="n1")) == 1
    assert count(one, event("cuda-oom", None, 10.0, 200, node="n2")) == 2
    assert count(one, event("cuda-oom", None, 10.0, 9000, node="n1")) == 2, "their clock tells nothing of one process"


def test_a_chain_is_one_incident_wherever_it_stands() -> None:
    assert count(event("cuda-oom", 1, 10.0, 100, group=7), event("peer-lost", 1, 99.0, 9000, group=7)) == 1
    assert count(event("cuda-oom", 1, 10.0, 100, group=7), event("peer-lost", 2, 10.0, 200, group=7)) == 1


def test_two_chains_are_one_incident_only_of_a_known_rank() -> None:
    assert count(event("cuda-oom", 1, 10.0, 100, group=7), event("cuda-oom", 1, 10.0, 200, group=8)) == 1
    assert count(event("cuda-oom", None, 10.0, 100, group=7), event("cuda-oom", None, 10.0, 200, group=8)) == 2
    assert count(event("cuda-oom", None, 10.0, 100, group=7), event("cuda-oom", None, 10.0, 200)) == 1
    assert count(event("cuda-oom", None, 10.0, 100), event("cuda-oom", None, 10.0, 200, group=8)) == 1


def test_a_confirmation_joins_confirmations_only() -> None:
    seen = event("host-oom", 1, 10.0, 100, role="confirmation")
    assert count(seen, event("killed", 1, 10.0, 200)) == 2
    assert count(event("killed", 1, 10.0, 50), seen) == 2
    assert count(seen, event("host-oom", 1, 10.0, 200, role="confirmation")) == 1


def test_what_a_rank_meets_after_it_gave_up_waiting_is_another_incident() -> None:
    wait = event("collective-timeout", 1, 10.0, 100)
    assert count(wait, event("cuda-oom", 1, 10.0, 200)) == 2
    assert count(wait, event("python-error", 1, 10.0, 200)) == 1
    assert count(wait, event("peer-lost", 1, 10.0, 200)) == 1
    assert count(event("collective-timeout", 1, 10.0, 100, role="root"), event("cuda-oom", 1, 10.0, 200)) == 1
    assert count(wait, event("python-error", 1, 10.0, 150), event("cuda-oom", 1, 10.0, 200)) == 1
    assert count(event("nccl-transport", 1, 10.0, 100, role="either"), event("cuda-oom", 1, 10.0, 200)) == 1


def test_an_event_may_belong_to_an_incident_before_the_last_one() -> None:
    killed, seen = event("killed", 1, 10.0, 100), event("host-oom", 1, 10.0, 200, role="confirmation")
    assert parted(killed, seen, event("peer-lost", 1, 10.0, 300)) == [
        ("host-oom", ["host-oom"]),
        ("peer-lost", ["killed", "peer-lost"]),
    ]


@pytest.mark.parametrize(
    ("events", "named"),
    [
        (("cuda-oom", "storage-io"), "cuda-oom"),
        (("python-error", "storage-io"), "storage-io"),
        (("sigterm", "python-error"), "python-error"),
        (("sigterm", "killed"), "sigterm"),
        (("collective-timeout", "python-error"), "collective-timeout"),
        (("nccl-connect", "cuda-oom"), "cuda-oom"),
        (("peer-lost", "cuda-oom"), "cuda-oom"),
        (("python-error", "peer-lost"), "peer-lost"),
    ],
)
def test_the_most_telling_event_names_an_incident(events: tuple[str, ...], named: str) -> None:
    known = {
        "nccl-connect": ("nccl-transport", "either"),
        "sigterm": ("sigterm", "cascade"),
        "killed": ("killed", "cascade"),
    }
    made = []
    for order, cause in enumerate(events):
        cause, role = known.get(cause, (cause, None))
        made.append(event(cause, 1, 10.0, 100 * order, role=role))
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
