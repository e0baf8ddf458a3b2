"""What the log tells of the job beside its failure: sizes, launcher, framework, steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from slurmdoctor.model import Observations
from slurmdoctor.search.compiled import lazy
from slurmdoctor.timeline.order import Timeline

_NUMBER = lazy(r"-?\d{1,18}")
_JOB_IN_NAME = lazy(r"(?:^|/)(?:slurm-(\d+(?:_\d+)?)\.(?:out|err|log)|(\d+)(?:_\d+){1,2}_log\.(?:out|err))(?:\.\w+)?$")
"""Slurm's default file name, also an array task's; submitit's `JOB_TASK_log.out`."""


def collect(assembled: Observations, story: Timeline) -> dict[str, Any]:
    """Facts by name. The first line that tells a fact counts: what is printed later may be a child's or a default."""
    facts: dict[str, Any] = {}
    for mark in assembled.marks:
        if mark.signal.kind != "fact":
            continue
        name = mark.signal.id.partition("/")[0]
        if mark.signal.value is not None:
            facts.setdefault(name, mark.signal.value)
        for key, value in mark.captures.items():
            facts.setdefault(name if key == "value" else key, _plain(value))
    maps = assembled.maps
    world = maps.world_size or facts.get("world_size")
    world = world if isinstance(world, int) else None
    facts["world_size"] = world
    if not isinstance(facts.get("nodes"), int):
        # where some ranks' nodes are not known, there may be more
        named = set(maps.node_of.values()) if world is None or len(maps.node_of) >= world else ()
        facts["nodes"] = len(named) or None
    facts["launcher"] = facts.get("launcher") or _launcher(assembled)
    facts.setdefault("framework", None)
    if "job_id" not in facts and (job_id := _job_id([file.name for file in assembled.files])):
        facts["job_id"] = _plain(job_id)
    facts["attempts"] = story.attempts
    facts["last_step"] = next((p.step for p in reversed(story.progress) if p.step is not None), None)
    return facts


def _launcher(assembled: Observations) -> str | None:
    witnesses = {r.witness for r in assembled.reports}
    for witness, name in (
        ("torchelastic table", "torchrun"), ("torchelastic agent", "torchrun"), ("deepspeed launcher", "deepspeed"),
        ("mpirun", "mpi"), ("srun", "srun"),
    ):  # fmt: skip
        if witness in witnesses:
            return name
    return None


def _job_id(names: Sequence[str]) -> str | None:
    """The job whose name the files bear, where they agree on one."""
    found = {m[1] or m[2] for name in names if (m := _JOB_IN_NAME.search(name))}
    return found.pop() if len(found) == 1 else None


def _plain(value: str) -> Any:
    return int(value) if _NUMBER.fullmatch(value) else value


def with_root(facts: Mapping[str, Any], captures: Mapping[str, str]) -> dict[str, Any]:
    """The names that a fix may use: the job's facts, then the root's own captures."""
    return {**{k: v for k, v in facts.items() if v is not None}, **{k: _plain(v) for k, v in captures.items()}}
