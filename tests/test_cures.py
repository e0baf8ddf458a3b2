"""What lint prints can be pasted: each check's good script is its bad one with the printed fix applied.

`tests/slurm/test_cures.py` runs such scripts on a real Slurm.
"""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from pasting import cured
from slurm.faults import CASES
from slurmdoctor.cli import cli
from slurmdoctor.model import ScriptMistake
from slurmdoctor.slurm.script import checks
from slurmdoctor.slurm.script.linter import lint
from slurmdoctor.slurm.script.parser import parse

CHECKS = checks.load()
PASTED = {case.check for case in CASES if case.check} | {"exported-too-early", "never-filled-in"}
"""The checks whose fix is run on a real Slurm."""
SHELL = [check for check in CHECKS if not (check.bad or "").startswith(("#!", "\n", "slurm:"))]


def shown_of(check: checks.Check) -> tuple[str, ScriptMistake]:
    bad = f"#!/bin/bash\n{check.bad}"
    return bad, next(m for m in lint(parse(bad)) if m.check == check.id)


@pytest.mark.parametrize("check", SHELL, ids=lambda c: c.id)
def test_the_good_script_is_the_bad_one_with_its_fix(check: checks.Check) -> None:
    bad, finding = shown_of(check)
    after = cured(bad, finding)
    if after is None:
        assert check.id not in PASTED
    else:
        assert after == f"#!/bin/bash\n{check.good}"


@pytest.mark.parametrize("check", SHELL, ids=lambda c: c.id)
def test_the_report_cuts_no_command(check: checks.Check) -> None:
    bad, finding = shown_of(check)
    shown = CliRunner().invoke(cli, ["lint", "-"], input=bad, env={"COLUMNS": "80"}).output
    commands = [piece for piece in finding.fix.split("`")[1::2] if len(piece) > 60]
    assert [command for command in commands if f"`{command}`" not in shown] == []


@pytest.mark.parametrize(
    "script",
    [
        "#SBATCH --nodes=2 --ntasks-per-node=8\nsrun python count_words.py",
        "#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=8\nuv sync\nsrun uv run torchrun --standalone --nproc-per-node=8 train.py",
        "#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=8\nsource /lustre/demo/Megatron-LM/.venv/bin/activate\n"
        "torchrun --standalone --nproc-per-node=8 pretrain_gpt.py",
        "#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\nSHORT=${SLURM_JOB_ID:0:4}\nsrun python train.py",
        "#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\ntorchrun --standalone --nproc-per-node=8 train.py",
        "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8\n"
        "mpirun -np 2 torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$HEAD:29400 --nproc-per-node=8 train.py"
        "  # slurmdoctor: ignore[port-fixed]",
        "#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8\n"
        "srun bash -c 'bash -c \"torchrun --nnodes=2 --node_rank=\\$SLURM_NODEID --nproc-per-node=8 train.py\"'",
        # Slurm ignores the tasks per node of srun where sbatch told the tasks
        "#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4\nsrun --ntasks-per-node=2 python train.py",
        "#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\nsrun bash -c 'set -o pipefail; python train.py | tee log'",
        "#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\nOMP_NUM_THREADS=4 RANK=0 srun python train.py",
    ],
)
def test_harmless_twins(script: str) -> None:
    assert lint(parse(f"#!/bin/bash\n{script}\n")) == []


WRAPPED_UP = {
    '"srun train --rank $SLURM_PROCID"': "\"srun bash -c 'train --rank \\$SLURM_PROCID'\"",
    "'srun train --rank $SLURM_PROCID'": r"'srun bash -c '\''train --rank $SLURM_PROCID'\'''",
}


@pytest.mark.parametrize("quoted", WRAPPED_UP)
def test_a_fix_is_written_for_the_quotes_that_it_goes_between(quoted: str) -> None:
    script = "#!/bin/bash\nsbatch -N 2 -n 16 --wrap {}\n".format
    (finding,) = (m for m in lint(parse(script(quoted))) if m.level == "error")
    assert cured(script(quoted), finding) == script(WRAPPED_UP[quoted])
