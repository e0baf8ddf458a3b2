"""A port that is taken: by the other launchers of the job's own node, or by another job."""

from __future__ import annotations

import pytest

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.slurm.script.parse import parse

_RUN = """\
Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/run.py", line 892, in run
    elastic_launch(
"""
_INIT = """\
Traceback (most recent call last):
  File "/scratch/demo/train.py", line 12, in main
    dist.init_process_group("nccl")
"""
NEW = "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
OLD = "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use)."
OLDEST = "RuntimeError: Address already in use"
DERIVED = "SLURM_JOB_ID % 20000"
ONE_TASK = "`--ntasks-per-node=1`"


def log(
    tasks: range, error: str, label: str = "{r}: ", frames: str = _RUN, ends: bool = True, node: str = "gpu07"
) -> str:
    """Tasks of one node that could not bind, as srun shows them."""
    lines = f"{frames}{error}\n".splitlines(keepends=True)
    text = "".join(label.format(r=r) + line for r in tasks for line in lines)
    named = f"tasks {tasks[0]}-{tasks[-1]}" if len(tasks) > 1 else f"task {tasks[0]}"
    return text + f"srun: error: {node}: {named}: Exited with exit code 1\n" * ends


def said(found: Diagnosis) -> str:
    assert found.cause is not None
    assert found.cause.id == "address-in-use"
    return " ".join(fix.do for fix in found.fixes)


@pytest.mark.parametrize("error", [NEW, OLD, OLDEST])
@pytest.mark.parametrize("label", ["{r}: ", "", "[task {r}] "])
@pytest.mark.parametrize("tasks", [range(1, 8), range(1, 4), range(8, 15)], ids=str)
def test_s6_mb16_several_tasks_of_a_node_want_one_launcher_per_node(error: str, label: str, tasks: range) -> None:
    found = diagnose(log(tasks, error, label))
    assert found.fixes[0].do.startswith(f"Set {ONE_TASK}: {len(tasks)} tasks each started a launcher")
    assert DERIVED not in said(found)


def test_s6_mb16_on_both_nodes() -> None:
    found = diagnose(log(range(1, 8), NEW) + log(range(9, 16), NEW, node="gpu08"))
    assert found.fixes[0].do.startswith(f"Set {ONE_TASK}: 14 tasks")
    assert DERIVED not in said(found)


def test_s6_mb16_without_srun_and_labels() -> None:
    found = diagnose(log(range(1, 8), NEW, label="", ends=False))
    assert ONE_TASK in found.fixes[0].do
    assert DERIVED not in said(found)


@pytest.mark.parametrize("frames", [_RUN, _INIT], ids=["torchrun", "srun"])
@pytest.mark.parametrize("label", ["0: ", "", "[rank0]: "])
@pytest.mark.parametrize("error", [NEW, OLD])
def test_kf9_en5_one_process_that_cannot_bind_meets_another_job(error: str, label: str, frames: str) -> None:
    found = diagnose(log(range(1), error, label, frames))
    assert DERIVED in found.fixes[0].do
    assert "29500" in found.fixes[0].do
    assert ONE_TASK not in said(found)


def test_mb16_the_script_that_proves_it_needs_no_other_port() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\nsrun torchrun --nproc_per_node=8 train.py\n"
    found = diagnose(log(range(1, 8), NEW), script=parse(script, "job.sbatch"))
    assert found.fixes[0].do.startswith("job.sbatch:")
    assert DERIVED not in said(found)
