"""Tells the runs of torchrun apart that wrote into one --log-dir: a folder a run, with a random end to its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from slurmdoctor.input.job_ids import Look
from slurmdoctor.input.job_names import Named
from slurmdoctor.model.jobs import Glance

_MOST = 2_000
"""Runs that are told apart,"""
_LOOKS_A_RUN = 8
"""and files of each that are looked into."""


def runs_of_torchrun(files: Sequence[Named], look: Look) -> list[tuple[Named, ...]]:
    """The files of each run in one folder; runs without an id at one time are one: each node's torchrun makes a folder."""
    runs: dict[str, list[Named]] = defaultdict(list)
    for file in files:
        if file.elastic is not None:
            unnamed = file.torchrun == "none"
            runs[file.elastic if unnamed else file.torchrun or ""].append(file)
    if len(runs) < 2 or len(runs) > _MOST or len({file.folder for group in runs.values() for file in group}) > 1:
        return []
    together: list[tuple[list[Named], Glance]] = []
    for group in runs.values():
        seen = _seen([look(file.path) for file in group[:: max(1, len(group) // _LOOKS_A_RUN)]])
        other = next((one for one in together if _at_once(one, (group, seen))), None)
        if other is None:
            together.append((group, seen))
        else:
            together[together.index(other)] = ([*other[0], *group], _seen([other[1], seen]))
    return [tuple(group) for group, _ in together]


def _seen(glances: Sequence[Glance]) -> Glance:
    """What several files tell together."""
    return Glance(
        ranks=frozenset[int]().union(*(one.ranks for one in glances)),
        begins=min((one.begins for one in glances if one.begins is not None), default=None),
        ends=max((one.ends for one in glances if one.ends is not None), default=None),
    )


def _at_once(one: tuple[Sequence[Named], Glance], other: tuple[Sequence[Named], Glance]) -> bool:
    """Whether two runs without an id may be two nodes' of one job: other ranks, and at one time."""
    if {one[0][0].torchrun, other[0][0].torchrun} != {"none"} or one[1].ranks & other[1].ranks:
        return False
    (begins, ends), (starts, stops) = ((seen.begins, seen.ends) for _, seen in (one, other))
    if begins is None or ends is None or starts is None or stops is None:
        return bool(one[1].ranks and other[1].ranks)
    return begins <= stops and starts <= ends
