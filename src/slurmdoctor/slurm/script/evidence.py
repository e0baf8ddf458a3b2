"""What the batch script says of a job that failed: sizes that the log does not print, and its mistakes."""

from __future__ import annotations

from slurmdoctor.model import ScriptEvidence
from slurmdoctor.slurm.script.lint import lint
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
"""Facts of the script that fixes may use."""


def evidence_of(script: Script) -> ScriptEvidence:
    """The script's facts and mistakes, as far as a failure may have to do with them."""
    planned = plan(script).facts
    facts = {name: planned[name] for name in _FACTS if isinstance(planned.get(name), (int, float, str))}
    if planned.get("fixed_port"):
        facts["master_port"] = planned["fixed_port"]
    return ScriptEvidence(script.name.rpartition("/")[2], facts, tuple(lint(script)))
