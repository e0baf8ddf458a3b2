"""Two sets of answers side by side: what got better or worse, and which changes chance does not explain. Pure."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.survey.answers import Answers, Cost, SizeClass
from slurmdoctor.survey.questions.blocks import Clusters
from slurmdoctor.survey.questions.statistics import ALPHA, holm, rates_differ

Trend = Literal["better", "worse", "new", "gone", "chance"]
"""`new`, `gone`: also beyond chance. `chance`: the difference may be one."""
_TEST = (
    "A change is called better or worse if chance explains it with less than 5 %: exact two-sided test of the two rates, Holm's correction "
    "for all lines of a table. Jobs of {block} may fail together, so the failures are first divided by how much more the rates vary between "
    "such blocks of jobs than single failures would (jackknife)."
)

ALONE = Clusters()
"""Each failure by itself."""


class Change(Struct, frozen=True):
    """A rate before and after, each with what it is of."""

    what: str
    before: int
    before_of: float
    after: int
    after_of: float
    """Jobs, or for a size class the hours that its jobs ran."""
    chance: float
    """The probability of a difference as large as this by chance, corrected for the lines of its table."""
    trend: Trend = "chance"
    hours_before: float = 0.0
    hours_after: float = 0.0
    """GPU hours lost."""
    title: str | None = None


class Side(Struct, frozen=True):
    """The sums of one side."""

    name: str
    jobs: int
    read: int
    """Jobs whose logs were read."""
    failed: int
    gpu_hours: float
    gpu_hours_lost: float
    with_hours: int
    unknown: int
    """Failed jobs whose cause is not known."""
    repeated: int
    """Jobs that died of what the run before died of."""


class Difference(Struct, frozen=True):
    """All that a comparison says."""

    before: Side
    after: Side
    all: Change
    """Failures of any cause."""
    causes: tuple[Change, ...]
    sizes: tuple[Change, ...]
    nodes_new: tuple[str, ...]
    """Nodes that fail more than chance explains only after,"""
    nodes_gone: tuple[str, ...]
    """only before,"""
    nodes_still: tuple[str, ...]
    """and on both sides."""
    same_rules: bool
    """The rows of both sides were made by the same rules; else a cause may be new because its rule is."""
    test: str
    """The test, in words."""
    nodes_not_tested: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Of the suspects of one side those that no job of the other side tests: after, and before."""


def compare(
    names: tuple[str, str],
    before: Answers,
    after: Answers,
    clusters: Clusters = ALONE,
    tested: tuple[Container[str], Container[str]] | None = None,
) -> Difference:
    """What changed from the first answers to the second; `tested` are the nodes that the test of each side is of, if not all are."""
    was, now = ({one.node for one in side.nodes.suspects} for side in (before, after))
    chance = rates_differ(before.failed, before.jobs, after.failed, after.jobs, clusters.all)
    gone_to, came_from = (
        {node for node in one - other if tested and node not in tested[at]}
        for at, one, other in ((1, was, now), (0, now, was))
    )
    whole = Change("all", before.failed, before.jobs, after.failed, after.jobs, chance, hours_before=before.gpu_hours_lost, hours_after=after.gpu_hours_lost)  # fmt: skip
    return Difference(
        before=_side(names[0], before),
        after=_side(names[1], after),
        all=_judged(whole),
        causes=_causes(before, after, clusters),
        sizes=_sizes(before.sizes, after.sizes, clusters),
        nodes_new=tuple(sorted(now - was - came_from)),
        nodes_gone=tuple(sorted(was - now - gone_to)),
        nodes_still=tuple(sorted(was & now)),
        test=_TEST.format(block=clusters.block),
        nodes_not_tested=(tuple(sorted(gone_to)), tuple(sorted(came_from))),
        same_rules=not before.jobs or not after.jobs or before.rules == after.rules,
    )


def _side(name: str, of: Answers) -> Side:
    return Side(name, of.jobs, of.read, of.failed, of.gpu_hours, of.gpu_hours_lost, of.with_hours, of.unknown.jobs, of.repeated_jobs)  # fmt: skip


def _causes(before: Answers, after: Answers, clusters: Clusters) -> tuple[Change, ...]:
    """Each cause of either side; those that changed most first."""
    none = Cost("", 0, 0)
    was, now = ({cost.what: cost for cost in side.causes} for side in (before, after))
    found, chances = [], []
    for what in sorted({*was, *now}):
        a, b = was.get(what, none), now.get(what, none)
        chances.append(rates_differ(a.jobs, before.jobs, b.jobs, after.jobs, clusters.causes.get(what, 1.0)))
        change = Change(what, a.jobs, before.jobs, b.jobs, after.jobs, 1.0, hours_before=a.gpu_hours_lost, hours_after=b.gpu_hours_lost)  # fmt: skip
        found.append(replace(change, title=b.title or a.title))
    return _corrected(found, chances)


def _sizes(before: Iterable[SizeClass], after: Iterable[SizeClass], clusters: Clusters) -> tuple[Change, ...]:
    """Failures an hour by job size, of the classes that both sides have."""
    now = {one.smallest: one for one in after}
    found, chances = [], []
    for a in before:
        if (b := now.get(a.smallest)) is not None:
            what = f"{a.smallest}" if a.largest == a.smallest else f"{a.smallest}-{a.largest or ''}"
            chances.append(rates_differ(a.failures, a.hours, b.failures, b.hours, clusters.sizes.get(a.smallest, 1.0)))
            found.append(Change(what, a.failures, a.hours, b.failures, b.hours, 1.0))
    return tuple(sorted(_corrected(found, chances), key=lambda one: int(one.what.partition("-")[0])))


def _corrected(found: list[Change], chances: list[float]) -> tuple[Change, ...]:
    judged = [_judged(replace(one, chance=chance)) for one, chance in zip(found, holm(chances), strict=True)]
    return tuple(sorted(judged, key=lambda one: (one.trend == "chance", -abs(_rate(one)[1] - _rate(one)[0]), one.what)))


def _rate(change: Change) -> tuple[float, float]:
    return (
        change.before / change.before_of if change.before_of else 0.0,
        change.after / change.after_of if change.after_of else 0.0,
    )


def _judged(change: Change) -> Change:
    """The change, with the word for it."""
    was, now = _rate(change)
    trend: Trend = "chance"
    if change.chance <= ALPHA and was != now:
        trend = "new" if not change.before else "gone" if not change.after else "worse" if now > was else "better"
    return replace(change, trend=trend)
