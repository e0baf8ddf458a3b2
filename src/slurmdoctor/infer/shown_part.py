"""Which part of a run is shown: the time around its failure, or all of a run that did not fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurmdoctor.infer.seen import Scene
from slurmdoctor.model import HANG, Finding

_LEAD = 0.15
"""The part before the failure that is shown at least, in lengths of the failure."""
_WHOLE = 4.0
"""The same at most; and a run that is no longer than so many times what would be shown is shown whole."""
_SMALL = 0.05
"""A failure that is shorter, beside the steps before it, is a moment."""
_LEAST_LEAD = {True: 60.0, False: 4096.0}
"""Seconds, or bytes, before a failure without a step before it."""
_BEFORE = 4
"""Steps before a failure that are shown, where it is not too short."""
_STOPPED = 5
"""Steps that others made without a rank before it is said to have stopped."""
ROOM = 0.02
"""The share of what is shown that stands before the failure at least, and behind the last line."""


def all_places(scene: Scene) -> Iterable[float]:
    """Where anything was seen."""
    for seen in scene.ranks.values():
        for at in (seen.first, seen.last, seen.error, seen.exit, seen.done):
            if at is not None:
                yield at
    yield from scene.nodes_ended.values()
    if scene.ended is not None:
        yield scene.ended
    if scene.waited is not None:
        yield scene.waited


def onset(scene: Scene, finding: Finding, standing: Mapping[int, str]) -> float:
    """When it began: with the first failure, as ranks began to wait, or as the job or a rank fell silent."""
    found = [at for at in (scene.failed, scene.waited) if at is not None]
    if scene.last_step is None:
        return min(found)
    if stood_still(scene, finding):
        found.append(scene.last_step)
    usual = scene.longest_pause
    for rank, seen in scene.ranks.items():
        pause = seen.pause or usual
        quiet = standing.get(rank) in ("silent", "suspect") and pause > 0
        if quiet and seen.last is not None and scene.last_step - seen.last > _STOPPED * pause:
            found.append(seen.last)
    return min(found)


def stood_still(scene: Scene, finding: Finding) -> bool:
    """Whether no rank made a step for long before Slurm ended the job."""
    if finding.cause == HANG:
        return True
    pause = scene.longest_pause
    if scene.ended is None or scene.last_step is None or pause == 0:
        return False
    return scene.ended - scene.last_step > _STOPPED * pause


def first_shown(scene: Scene, began: float, end: float, since: float, clock: bool) -> float:
    """Where the shown part begins: with the last steps before the failure, as long as the failure can still be seen."""
    least, lasted = _LEAST_LEAD[clock], end - since
    steps = sorted({one.at for seen in scene.ranks.values() for one in seen.sightings if one.at < since})
    before = since - steps[-_BEFORE:][0] if steps else least
    if lasted > _SMALL * before:
        before = min(before, _WHOLE * lasted)
    start = since - max(before, _LEAD * lasted, ROOM * lasted)
    if end - began <= _WHOLE * max(end - start, least):
        start = began
    return min(max(start, began), since - ROOM * lasted) if clock else max(start, began)
