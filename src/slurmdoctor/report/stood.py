"""The sentences on how the job stood at its end: its steps, what was left of its training, and how many GPUs took part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from slurmdoctor.report.quantities import duration

Values = Mapping[str, Any]


def _step(step: int | None) -> str:
    return "" if step is None else f" (step {step})"


def _no_first_step(v: Values) -> str:
    state = v["state"]
    came = "no step came" if state.idle is None else f"no step came in the {duration(state.idle)}"
    return f'{came} after "{state.began}"'


def _launch_size(v: Values) -> str:
    if v["world"] == 1:
        return f"world_size=1, but the job has {v['total']} GPUs: each process trains alone; check that the launcher sets RANK and WORLD_SIZE"
    return (
        f"world_size={v['world']}, but the job has {v['total']} GPUs: only {v['world']} of them train together; "
        "check --nodes and --ntasks-per-node"
    )


def _nothing_trained(v: Values) -> str:
    at = "" if v["step"] is None else f" at step {v['step']}"
    where = f" from {v['path']}" if v["path"] else ""
    do = "; if that is an old run, use another checkpoint folder" if where else ""
    return f"no training step was made: the run resumed{at}{where} and was done at once{do}"


def _stood_still(v: Values) -> str:
    state = v["state"]
    every = "" if state.pause is None else f", though steps had come every {duration(state.pause)}"
    return f"no step in the last {duration(state.idle)}{_step(state.step)}{every}: the job was stalled"


def _had_finished(v: Values) -> str:
    state = v["state"]
    if state.step is not None:
        return f"all {state.step} steps were done; only the script, or a background process of it, was still running"
    before = "" if state.idle is None else f", {duration(state.idle)} before the end"
    return f"the program had finished{before}; only the script, or a background process of it, was still running"


def _made_progress(v: Values) -> str:
    state = v["state"]
    return f"the last step{_step(state.step)} came {duration(state.idle)} before the end: the job was making progress and ran out of time"


STOOD: Mapping[str, str | Callable[[Values], str]] = {
    "had-hung": lambda v: f"{_stood_still(v)}, so a longer limit would not have helped",
    "stood-still": _stood_still,
    "no-first-step": _no_first_step,
    "had-finished": _had_finished,
    "made-progress": _made_progress,
    "trained": 'training had finished ("{text}"): the exit status is that of what ran after it',
    "nothing-trained": _nothing_trained,
    "launch-size": _launch_size,
}
"""Code -> a sentence, or a function of a reason's values."""
