"""How far the jobs of one user fail together on the two sides of a comparison: what its test divides the counts by."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from slurmdoctor.survey.questions.counts import UNKNOWN
from slurmdoctor.survey.questions.statistics import clustering
from slurmdoctor.survey.questions.table import Kinds
from slurmdoctor.survey.questions.times import classed

_FEWEST = 20
"""Blocks below which their spread shows nothing: then smaller ones are taken."""
_LEVELS = (
    ("one user", 'cluster, coalesce("user", key)'),
    ("one user and job name (digits aside)", "cluster, \"user\", name, CASE WHEN name = '' THEN key END"),
    ("one user, job name (digits aside) and day", "cluster, \"user\", name, day, CASE WHEN name = '' THEN key END"),
)
"""What the jobs of a block have in common, and in SQL."""


class Clusters(Struct, frozen=True):
    """How many failures count as one, because they come together."""

    block: str = _LEVELS[0][0]
    """What the jobs of a block have in common."""
    all: float = 1.0
    causes: Mapping[str, float] = {}
    sizes: Mapping[int, float] = {}
    """By the smallest size of a class."""


def clusters(before: Any, after: Any, kinds: Kinds) -> Clusters:
    """Of the jobs on two connections."""
    sides = before, after
    named, block = next((level for level in _LEVELS if max(_number(side, level[1]) for side in sides) >= _FEWEST), _LEVELS[-1])  # fmt: skip
    (jobs, failed), (other_jobs, other_failed) = (_failed(side, block) for side in sides)
    users = [*{**jobs, **other_jobs}]

    def of(counts: Mapping[int, int], others: Mapping[int, int]) -> float:
        return clustering((counts.get(one, 0), jobs[one], others.get(one, 0), other_jobs[one]) for one in users)

    return Clusters(
        block=named,
        all=of(_sum(failed), _sum(other_failed)),
        causes={cause: of(failed[cause], other_failed[cause]) for cause in {*failed, *other_failed}},
        sizes=_sizes(_by_size(before, block, kinds), _by_size(after, block, kinds)),
    )


def _number(side: Any, block: str) -> int:
    return int(side.execute(f"SELECT count(DISTINCT hash({block})) FROM jobs").fetchone()[0])


def _failed(side: Any, block: str) -> tuple[Counter[int], dict[str, Counter[int]]]:
    """The jobs of each block, and the failed ones by cause."""
    jobs: Counter[int] = Counter()
    failed: dict[str, Counter[int]] = defaultdict(Counter)
    rows = side.execute(
        f"SELECT hash({block}) AS block, outcome = 'failed' AS failed, coalesce(cause, '{UNKNOWN}') AS what, count(*) FROM jobs GROUP BY ALL"
    )
    for one, fails, what, count in rows.fetchall():
        jobs[one] += count
        if fails:
            failed[what][one] += count
    return jobs, failed


def _sum(failed: Mapping[str, Counter[int]]) -> Counter[int]:
    whole: Counter[int] = Counter()
    for counts in failed.values():
        whole.update(counts)
    return whole


_Hours = dict[int, dict[int, tuple[int, float]]]
"""Smallest size -> block -> failures and hours."""


def _by_size(side: Any, block: str, kinds: Kinds) -> _Hours:
    found: _Hours = defaultdict(dict)
    rows = side.execute(f"SELECT smallest, hash({block}) AS block, count(*) FILTER (WHERE fails), sum(elapsed_s) / 3600 FROM ({classed(kinds)}) WHERE smallest IS NOT NULL GROUP BY ALL")  # fmt: skip
    for smallest, one, failures, hours in rows.fetchall():
        found[smallest][one] = failures, hours
    return found


def _sizes(before: _Hours, after: _Hours) -> dict[int, float]:
    none = 0, 0.0
    return {
        smallest: clustering(
            (*before[smallest].get(one, none), *after[smallest].get(one, none))
            for one in {**before[smallest], **after[smallest]}
        )
        for smallest in before.keys() & after.keys()
    }
