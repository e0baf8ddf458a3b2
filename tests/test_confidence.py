"""How sure a verdict is, as docs/confidence.md has it, and the reasons that the order gives."""

from typing import Any

import pytest
from msgspec.structs import replace

from builders import case, finish, incident, report, timeline
from slurmdoctor.infer.confidence import rate_confidence
from slurmdoctor.model import Finding, Incident, Origin, Suspicion, Timeline, reason
from slurmdoctor.report.reasons import sentence

OTHER = (incident("storage-io", at=9),)


def rated(root: Incident | None, seen: Timeline | None = None, **more: Any) -> Finding:
    rank = more.pop("rank", None)
    finding = Finding("failed", root, root.cause if root else None, origin=Origin(rank=rank), **more)
    return rate_confidence(finding, case(seen))


@pytest.mark.parametrize(
    ("root", "confidence"),
    [
        (None, "low"),
        (incident("exit-code", report=report(1, 3)), "low"),
        (incident("python-error", role="hint"), "low"),
        (incident("python-error", role="hint", report=report(1, 3)), "medium"),
        (incident("python-error"), "high"),
        (incident("python-error", role="confirmation"), "high"),
        (incident("python-error", role="either"), "medium"),
        (incident("python-error", survived=True), "medium"),
        (incident("python-error", outlived="perhaps"), "medium"),
        (incident("peer-lost", role="cascade"), "low"),
        (incident("nccl-transport", role="cascade"), "medium"),
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
    assert agreed.reasons == (reason("table-agrees"),)
    outlived = incident("python-error", rank=3, outlived="perhaps")
    assert rated(outlived, timeline(reports=(report(1, rank=3, first=True),)), rank=3).confidence == "high"
    assert beside(rank=3).confidence == beside(rank=4, first=True).confidence == "medium"
    unknown = rated(root, timeline(reports=(report(1, first=True),), order="unknown"), rivals=OTHER)
    assert unknown.confidence == "medium"


def test_tasks_that_slurm_saw_fail_leave_doubt_on_another_that_raised() -> None:
    root, of_table = incident("cuda-oom", rank=3, traceback=("x",)), report(1, 5, kind="table")
    for ended in (report(1, 5), report(1, 3, 5), of_table, report(143, 5)):
        seen = timeline(reports=(ended,))
        assert rated(root, seen, rank=3).confidence == ("medium" if ended == report(1, 5) else "high")
        assert rated(root, seen).confidence == "high"


def test_a_program_that_finished_after_it_leaves_doubt() -> None:
    root = incident("python-error", at=10)
    assert rated(root, timeline(finished=finish(at=20))).confidence == "medium"
    assert rated(root, timeline(finished=finish(at=5))).confidence == "high"


def test_the_order_and_what_follows_are_reasons() -> None:
    root = incident("python-error")
    followers = tuple(incident(cause, role="cascade") for cause in ("f", "b", "c", "d", "e", "b"))
    seen = timeline(order="timestamps")
    first = reason("first-in-order", by="time", ranks=0)
    follows = reason("follows", by="time", causes=("f", "b", "c", "d"), within=None)
    before = (reason("before"),)
    assert rated(root, seen, cascade=followers, reasons=before).reasons == (*before, first, follows)
    unknown = rated(root, timeline(order="unknown"), cascade=followers).reasons
    assert unknown == (reason("follows", by=None, causes=("f", "b", "c", "d"), within=None),)
    assert rated(root, seen).reasons == ()
    assert rated(incident("exit-code"), seen, cascade=followers).reasons == ()


@pytest.mark.parametrize(
    ("root", "other", "by", "said"),
    [
        (Origin(time=100.0), Origin(time=700.0), "time", "earliest error among 2 ranks by time"),
        (Origin(time=100.0), Origin(time=86_400.0 * 20_000 + 700.0, dated=True), "time", "by time"),
        (Origin(time=100.0), Origin(), "partly", "by line order (timestamps incomplete)"),
        (Origin(), Origin(), "line", "by line order (no timestamps)"),
    ],
)
def test_what_shows_that_it_was_first_is_told_as_it_is(root: Origin, other: Origin, by: str, said: str) -> None:
    """Also where events as a whole could only be ordered by line (row m of users.md)."""
    first, after = incident("python-error", rank=3, at=1), incident("peer-lost", role="cascade", rank=4, at=2)
    first = replace(first, main=replace(first.main, origin=replace(root, rank=3)))
    after = replace(after, main=replace(after.main, origin=replace(other, rank=4)))
    order = rated(first, timeline(order="file"), cascade=(after,)).reasons[0]
    assert order.values["by"] == by
    assert said in sentence(order)


def test_an_error_printed_below_what_follows_from_it_is_not_called_the_earliest() -> None:
    late, before = incident("python-error", at=9), incident("peer-lost", role="cascade", at=2)
    said = "; ".join(map(sentence, rated(late, timeline(order="file"), cascade=(before,)).reasons))
    assert said == "the peer-lost follow from it, also those printed above it: output is buffered"
