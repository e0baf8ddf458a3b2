"""How sure a verdict is, as docs/confidence.md has it, and the reasons that the order gives."""

from __future__ import annotations

from typing import Any

import pytest

from builders import incident, report, timeline
from slurmdoctor.infer.confidence import rate_confidence
from slurmdoctor.model import Finding, Incident, Origin, Suspicion, Timeline
from slurmdoctor.model.finding import reason

OTHER = (incident("storage-io", at=9),)


def rated(root: Incident | None, seen: Timeline | None = None, **more: Any) -> Finding:
    rank = more.pop("rank", None)
    finding = Finding("failed", root, root.cause if root else None, origin=Origin(rank=rank), **more)
    return rate_confidence(finding, seen or timeline())


@pytest.mark.parametrize(
    ("root", "confidence"),
    [
        (None, "low"),
        (incident("exit-code", report=report(1, 3)), "low"),
        (incident("python-error", "hint"), "low"),
        (incident("python-error", "hint", report=report(1, 3)), "medium"),
        (incident("python-error"), "high"),
        (incident("python-error", "confirmation"), "high"),
        (incident("python-error", "either"), "medium"),
        (incident("python-error", survived=True), "medium"),
        (incident("python-error", spoke=5), "high"),
        (incident("python-error", spoke=6), "medium"),
        (incident("peer-lost", "cascade"), "low"),
        (incident("nccl-transport", "cascade"), "medium"),
        (incident("sigterm"), "low"),
        (incident("killed"), "medium"),
    ],
)
def test_a_root_is_as_sure_as_its_kind(root: Incident | None, confidence: str) -> None:
    assert rated(root).confidence == confidence


def test_what_was_rated_before_stays() -> None:
    for root in (None, incident("python-error")):
        assert rated(root, confidence="medium").confidence == "medium"
    suspicion = Suspicion("missing", (3,), (), reason("did-not-wait"), "low")
    assert rated(incident("collective-timeout"), suspicion=suspicion).confidence == "low"
    assert rated(incident("collective-timeout"), suspicion=suspicion, confidence="high").confidence == "high"


def test_rivals_without_a_clock_leave_doubt() -> None:
    root = incident("python-error", rank=3)
    unordered = timeline(order="file")
    assert rated(root, unordered).confidence == "high"
    assert rated(root, unordered, rivals=OTHER).confidence == "medium"
    assert rated(root, timeline(order="timestamps"), rivals=OTHER).confidence == "high"


def test_a_table_that_names_the_same_first_rank_ends_the_doubt() -> None:
    root = incident("python-error", rank=3)

    def beside(**table: Any) -> Finding:
        return rated(root, timeline(order="file", reports=(report(1, **table),)), rivals=OTHER, rank=3)

    agreed = beside(rank=3, first=True)
    assert agreed.confidence == "high"
    assert agreed.reasons == (reason("table-agrees"), reason("first-in-order", order="file"))
    assert (
        rated(
            incident("python-error", rank=3, spoke=9), timeline(reports=(report(1, rank=3, first=True),)), rank=3
        ).confidence
        == "high"
    )
    assert beside(rank=3).confidence == beside(rank=4, first=True).confidence == "medium"
    unknown = rated(root, timeline(reports=(report(1, first=True),)), rivals=OTHER)
    assert unknown.confidence == "medium"


def test_the_order_and_what_follows_are_reasons() -> None:
    root = incident("python-error")
    followers = tuple(incident(cause, "cascade") for cause in ("f", "b", "c", "d", "e", "b"))
    seen = timeline(order="timestamps")
    first, follows = reason("first-in-order", order="timestamps"), reason("follows", causes=("b", "c", "d", "e"))
    before = (reason("before"),)
    assert rated(root, seen, cascade=followers, reasons=before).reasons == (*before, first, follows)
    assert rated(root, seen, rivals=OTHER).reasons == (first,)
    assert rated(root, timeline(order="unknown"), cascade=followers).reasons == (follows,)
    assert rated(root, seen).reasons == ()
    assert rated(incident("exit-code"), seen, cascade=followers).reasons == ()
