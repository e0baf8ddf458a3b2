"""How far the clocks of nodes (or files) are apart, learnt from the training steps that several of them report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from slurmdoctor.model import Clocks, Origin, Progress, RankMap

LEAST = 3.0
"""Seconds: clocks that are nearer than this, or ranks that are that much slower, are left as they are."""
_LEAST_STEPS = 3
_SPREAD = 0.2
"""A clock's offset stays the same; what varies by more than this share of it is slowness."""


def learn(progress: Sequence[Progress], maps: RankMap, names: Sequence[str]) -> Clocks:
    """Compare the stamps of the same step on different nodes; without nodes, in different files."""

    files = [name.rpartition("/")[2] for name in names] if len(set(names)) > 1 else [""] * len(names)

    def where(source: int, rank: int | None, node: str | None) -> str:
        return node or maps.resolve(Origin(rank=rank), source)[0].node or files[source]

    stamps = _stamps(progress, where)
    if len(stamps) < 2:
        return Clocks()
    reference = max(stamps, key=lambda name: (len(stamps[name]), name))
    ahead: dict[str, float] = {}
    steps: dict[str, int] = {}
    from statistics import median  # here: it is slow to import, and few logs have two clocks

    for name, own in stamps.items():
        common = sorted(own.keys() & stamps[reference].keys())
        apart = [own[step] - stamps[reference][step] for step in common]
        if name == reference or len(apart) < _LEAST_STEPS:
            continue
        middle = median(apart)
        spread = median(abs(a - middle) for a in apart)
        if abs(middle) >= LEAST and spread <= max(1.0, _SPREAD * LEAST) and max(apart) - min(apart) < abs(middle):
            ahead[name], steps[name] = middle, len(apart)
    return Clocks(ahead, steps, reference, where)


def _stamps(
    progress: Sequence[Progress], where: Callable[[int, int | None, str | None], str]
) -> dict[str, dict[int, float]]:
    """For each clock the time of each step: of those that each of its writers reports but once."""
    once = Counter((p.source, p.label, p.rank, p.step) for p in progress)
    found: dict[str, dict[int, float]] = {}
    for p in progress:
        if p.step is None or p.time is None or once[(p.source, p.label, p.rank, p.step)] > 1:
            continue
        name = where(p.source, p.rank, None)
        if name:
            found.setdefault(name, {}).setdefault(p.step, p.time)
    return found
