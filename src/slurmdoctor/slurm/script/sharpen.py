"""What the script adds to a diagnosis: sizes that the log does not tell, and the line to change. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from slurmdoctor.model import Diagnosis, Remedy
from slurmdoctor.slurm.script.lint import Finding, lint
from slurmdoctor.slurm.script.model import Script
from slurmdoctor.slurm.script.plan import plan

_FACTS = (
    "tp",
    "pp",
    "cp",
    "ep",
    "num_experts",
    "num_heads",
    "num_layers",
    "micro_batch",
    "global_batch",
    "seq_length",
    "nodes",
    "gpus_per_node",
    "tasks_per_node",
    "nproc",
    "time_min",
    "mem_gib",
    "signal_seconds",
    "launcher",
)
_PROVES = frozenset({"address-in-use", "nemo-home", "parallelism", "cuda-max-connections", "container", "slurm-step"})
"""Causes that a mistake in the script explains whole, so that the verdict is sure."""
_OF_THE_END = frozenset({"background-left", "after-exec"})
"""Mistakes that matter to a time limit only where the work was done before it."""
_HIDES = frozenset({"exit-status-in-pipe", "exit-status-lost"})
MOST = 2


def facts(script: Script, known: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of the script that the log does not tell."""
    told = plan(script).facts
    found = {name: told[name] for name in _FACTS if isinstance(told.get(name), (int, float, str))}
    if told.get("fixed_port"):
        found["master_port"] = told["fixed_port"]
    return {name: value for name, value in found.items() if known.get(name) is None}


def sharpen(diagnosis: Diagnosis, script: Script) -> Diagnosis:
    """Prove the cause by the script where it can, and name the line to change first."""
    if diagnosis.verdict != "failed" or diagnosis.cause is None:
        return diagnosis
    mistakes = lint(script)
    cause = diagnosis.cause.id
    fitting = [m for m in mistakes if cause in m.causes and _applies(m, diagnosis)][:MOST]
    hiding = [m for m in mistakes if m.check in _HIDES and _hidden(diagnosis)][:1]
    if not fitting and not hiding:
        return diagnosis
    name = script.name.rpartition("/")[2]
    reasons = [f"{name}:{m.line}: {m.says}" for m in (*fitting, *hiding)]
    first = [Remedy(f"{name}:{m.line}: {m.mend}", f"{m.says}. {m.why}") for m in fitting]
    last = [Remedy(f"{name}:{m.line}: {m.mend}", m.why) for m in hiding]
    named = diagnosis.cause
    if cause in _PROVES and any(m.level == "error" for m in fitting):
        named = replace(named, confidence="high")
    retry = diagnosis.retry
    if fitting and retry is not None and retry.advice == "as-is":
        retry = replace(retry, advice="after-fix", why="the script first: as it is, the same happens again")
    return replace(
        diagnosis,
        retry=retry,
        cause=named,
        reasons=(*diagnosis.reasons, *reasons),
        fixes=(*first, *diagnosis.fixes, *last),
    )


def _applies(mistake: Finding, diagnosis: Diagnosis) -> bool:
    signalled = bool(diagnosis.facts.get("signalled"))
    if mistake.check == "signal-not-handled":
        return signalled
    if mistake.check == "signal-window-short":
        return not signalled  # nothing was saved in the window
    if mistake.check in _OF_THE_END:
        return diagnosis.facts.get("ended") == "finished"
    return mistake.level != "note"


def _hidden(diagnosis: Diagnosis) -> bool:
    return diagnosis.facts.get("script_ended") == 0
