"""What a script is going to do, in numbers: nodes, tasks, launchers, sizes of the model's parallelism."""

from __future__ import annotations

from slurmdoctor.script.model import Script


def step_outputs(script: Script) -> list[str]:
    """File name patterns that the script gives its steps (`srun --output=log-%t`)."""
    return []
