"""What `slurmdoctor lint` proposes for a command, run: each task has its own value afterwards, and only then.

`srun` is played by a script of a few lines: two tasks, one after the other, each with its own SLURM_PROCID.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from slurmdoctor.slurm.script.linter import lint
from slurmdoctor.slurm.script.parser import parse

SRUN = """#!/bin/bash
while [ "${1:0:1}" = - ]; do shift; done
for id in 0 1; do
  SLURM_NODEID=$id SLURM_PROCID=$id SLURM_LOCALID=0 "$@" || exit
done
"""
SHOW = """#!/bin/bash
printf '<%s>' "$@"; echo
"""
HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8\n"


@pytest.fixture
def bin_(tmp_path: Path) -> Path:
    for name, text in (("srun", SRUN), ("show", SHOW)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def printed(text: str, bin_: Path) -> list[str]:
    """What the tasks of a script print."""
    (bin_ / "job.sh").write_text(text)
    environ = {"PATH": f"{bin_}:/usr/bin:/bin", "SLURM_NODEID": "0", "SLURM_PROCID": "0", "SLURM_NNODES": "2"}
    ran = subprocess.run(
        ["bash", bin_ / "job.sh", "last"], env=environ, capture_output=True, text=True, check=False, cwd=bin_
    )
    return ran.stdout.splitlines()


def cured(text: str) -> str:
    """The script as its first finding asks for it."""
    found = [m for m in lint(parse(text)) if m.level == "error"]
    assert len(found) == 1, [(m.check, m.fix) for m in found]
    lines, commands = text.splitlines(), re.findall(r"`([^`]*)`", found[0].fix)
    for command in commands:
        if "srun" in command:
            (at,) = (n for n, line in enumerate(lines) if "srun" in line)
            end = next(n for n in range(at, len(lines)) if not lines[n].endswith("\\"))
            lines[at : end + 1] = [command]
        else:
            before = command.replace("\\$", "$")
            lines[found[0].line - 1] = lines[found[0].line - 1].replace(before, command)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("script", "right"),
    [
        ("srun show --node_rank=$SLURM_NODEID a", ["<--node_rank={}><a>"]),
        ("srun --mpi=none -l show --node_rank $SLURM_NODEID a", ["<--node_rank><{}><a>"]),
        ('srun show --node_rank="$SLURM_NODEID" "two words"', ["<--node_rank={}><two words>"]),
        ("srun show --node_rank=${SLURM_NODEID} 'it is' \"it's\"", ["<--node_rank={}><it is><it's>"]),
        ("srun show --rank ${SLURM_PROCID:-0}", ["<--rank><{}>"]),
        ("srun show $((SLURM_PROCID + 0)) $((1 + 1)) $(echo x)", ["<{}><2><x>"]),
        ("HERE=kept\nsrun show --to=$HERE --rank=$SLURM_PROCID", ["<--to=kept><--rank={}>"]),
        ("export HERE=seen\nsrun show --to=$HERE --rank=$SLURM_PROCID", ["<--to=seen><--rank={}>"]),
        ('ARGS=(--a "b c")\nsrun show $SLURM_PROCID "${ARGS[@]}" d', ["<{}><--a><b c><d>"]),
        ('srun show $SLURM_PROCID "$1"', ["<{}><last>"]),
        ("srun show \\\n  --node_rank=$SLURM_NODEID \\\n  b 2>&1 | cat", ["<--node_rank={}><b>"]),
        ("NODE_RANK=$SLURM_NODEID\nsrun show --node_rank=$NODE_RANK", ["<--node_rank={}>"]),
        ('CMD="show --rank=$SLURM_PROCID"\nsrun $CMD b', ["<--rank={}><b>"]),
        ('CMD="show --rank=$SLURM_PROCID"\nsrun bash -c "$CMD b"', ["<--rank={}><b>"]),
        ('CMD="\nshow \\\n  --rank=${SLURM_PROCID} \\\n  b\n"\nsrun bash -c "$CMD"', ["<--rank={}><b>"]),
        ('srun bash -c "show --rank=$SLURM_PROCID b"', ["<--rank={}><b>"]),
        ('HERE=x\nsrun bash -c "show --rank=${SLURM_PROCID} $HERE"', ["<--rank={}><x>"]),
        ('RANK_=$SLURM_PROCID\nsrun bash -c "show --rank=$RANK_"', ["<--rank={}>"]),
        ("srun show --node_rank=\\$SLURM_NODEID a", ["<--node_rank={}><a>"]),
        ("srun show '--node_rank=$SLURM_NODEID' a", ["<--node_rank={}><a>"]),
        ("srun 'show --node_rank=$SLURM_NODEID a'", ["<--node_rank={}><a>"]),
        ('srun "show --node_rank=$SLURM_NODEID a"', ["<--node_rank={}><a>"]),
        ("if true; then srun show $SLURM_NODEID; fi", ["<{}>"]),
        ("cat > task.sh <<EOF\nshow $SLURM_PROCID a\nEOF\nsrun bash task.sh", ["<{}><a>"]),
    ],
)
def test_a_cure_gives_each_task_its_own_value(script: str, right: list[str], bin_: Path) -> None:
    expected = [line.format(task) for task in (0, 1) for line in right]
    assert printed(HEAD + script + "\n", bin_) != expected
    mended = cured(HEAD + script + "\n")
    assert printed(mended, bin_) == expected, mended
    assert [m.check for m in lint(parse(mended)) if m.level == "error"] == [], mended


@pytest.mark.parametrize(
    "script",
    [
        "srun bash -c 'show --node_rank=$SLURM_NODEID'",
        'srun bash -c "show --node_rank=\\$SLURM_NODEID"',
        "srun -w $SLURMD_NODENAME -N 1 -n 1 hostname",
        "srun -N 1 -n 1 show --rank $SLURM_PROCID",
        "srun --job-name=step-$SLURM_STEP_ID show",
        "srun show --local_rank=$SLURM_LOCALID",
        "echo $SLURM_PROCID $SLURM_NODEID\nsrun show",
        "cat > notes.txt <<EOF\n$SLURM_NODEID\nEOF\nsrun show",
        "srun bash <<'EOF'\nshow $SLURM_PROCID\nEOF",
        "srun bash -c '\nNODE_RANK=$SLURM_NODEID\nshow $NODE_RANK\n'",
        "srun awk '{print $1}' file.txt",
    ],
)
def test_a_script_that_is_right_is_left_in_peace(script: str) -> None:
    assert [m for m in lint(parse(HEAD + script + "\n")) if m.level != "note"] == []


def test_a_line_that_exports_several_moves_as_a_whole() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8\n"
    script += "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS\nsrun python train.py\n"
    moved = "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID WORLD_SIZE=$SLURM_NTASKS; python train.py"
    found = [finding for finding in lint(parse(script)) if finding.check == "exported-too-early"]
    assert len(found) == 2
    assert all(moved in finding.fix for finding in found)
