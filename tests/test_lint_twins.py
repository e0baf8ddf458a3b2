"""Scripts that hold a mistake in its many forms, and scripts that only look like it: what lint promises to tell apart."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from slurmdoctor import LogText, diagnose
from slurmdoctor.cli import cli
from slurmdoctor.model import ScriptMistake
from slurmdoctor.slurm.script.linter import lint
from slurmdoctor.slurm.script.parser import parse

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8\n"
PER_NODE = HEAD.replace("ntasks-per-node=8", "ntasks-per-node=1")
ONE_NODE = PER_NODE.replace("nodes=2", "nodes=1")
TORCHRUN = "torchrun --nnodes=2 --nproc_per_node=8 --node_rank=$SLURM_NODEID --master_port=$MASTER_PORT"


def findings(script: str, name: str = "job.sbatch") -> list[ScriptMistake]:
    return lint(parse(script, name))


def told(script: str, name: str = "job.sbatch") -> list[str]:
    return [m.check for m in findings(script, name)]


def one(script: str, check: str) -> ScriptMistake:
    (found,) = (m for m in findings(script) if m.check == check)
    return found


# ── S15, MB24: expert TP is what the program takes it for ────────────────────────────────────


@pytest.mark.parametrize(
    "program", ["examples/conversion/hf_megatron_roundtrip_multi_gpu.py", "generate.py", "train.py"]
)
def test_s15_expert_tp_is_one_unless_the_program_takes_tp(program: str) -> None:
    assert told(f"{HEAD}srun python {program} --tp 2 --ep 8\n") == []
    assert told(f"{HEAD}srun python {program} --tp 2 --ep 16\n") == []
    assert told(f"{HEAD}srun python {program} --tp 2 --ep 16 --etp 2\n") == ["experts-unlike-gpus"]


def test_s15_megatron_lm_takes_tp_for_it() -> None:
    script = (
        HEAD
        + "export CUDA_DEVICE_MAX_CONNECTIONS=1\nsrun python pretrain_gpt.py --tp 4 --expert-model-parallel-size 8\n"
    )
    found = one(script, "experts-unlike-gpus")
    assert found.says == "expert TP 4 x EP 8 x PP 1 = 32 does not divide 2 x 8 = 16 GPUs"
    assert found.fix == "Set EP 4 or EP 2, or request 4 nodes (32 GPUs)."


def test_mb24_an_ep_beyond_the_gpus_names_no_flag_that_the_program_lacks() -> None:
    found = one(HEAD + "srun python hf_megatron_roundtrip_multi_gpu.py --tp 2 --ep 32\n", "experts-beyond-gpus")
    assert found.says == "EP 32 is larger than the 16 GPUs of the job"
    assert "expert-tensor" not in found.why + found.fix


@pytest.mark.parametrize(
    ("sizes", "fix"),
    [
        ("--tp 8 --pp 3", "Set PP 2 or PP 1, or request 3 nodes (24 GPUs)."),
        ("--tp 6", "Set TP 2 or TP 8, or request 3 nodes (24 GPUs)."),
        ("--tp 32", "Set TP 8 or TP 4, or request 4 nodes (32 GPUs)."),
        ("--tp 4 --micro-batch-size 3 --global-batch-size 32", "Set the global batch to 36, a multiple of 12."),
        ("--ep 8 --num-experts 60", "Set EP 4 or EP 2: that fits 60 experts, 16 processes."),
        ("--tp 8 --num-attention-heads 20", "Set TP 4 or TP 2: that fits 20 heads, 8 GPUs of a node, 16 processes."),
    ],
)
def test_a_fix_that_is_a_number_is_computed_for_this_script(sizes: str, fix: str) -> None:
    assert [m.fix for m in findings(f"{HEAD}srun python train.py {sizes}\n")] == [fix]


# ── S16, ML9: which environment torchrun comes from ──────────────────────────────────────────


@pytest.mark.parametrize(
    "command",
    [
        "uv sync\nuv run torchrun --standalone --nproc_per_node=8 train.py",
        "uv sync\nuv run python -m torch.distributed.run --standalone --nproc_per_node=8 train.py",
        "uv sync\nsource .venv/bin/activate\ntorchrun --standalone --nproc_per_node=8 train.py",
        "uv sync\n.venv/bin/torchrun --standalone --nproc_per_node=8 train.py",
        "conda activate fit\ntorchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
        "module load pytorch/2.5\ntorchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
        "srun --container-image=nemo.sqsh torchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
        "torchrun --standalone --nproc_per_node=8 train.py",
    ],
)
def test_s16_torchrun_of_an_environment_is_left_in_peace(command: str) -> None:
    assert told(f"{ONE_NODE}{command}\n") == []


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("uv sync\ntorchrun --standalone --nproc_per_node=8 train.py", "bare-torchrun"),
        ("uv run prepare.py\nsrun torchrun --standalone --nproc_per_node=8 train.py", "bare-torchrun"),
        (
            "cd /lustre/demo/Megatron-LM\ntorchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
            "bare-torchrun-megatron",
        ),
    ],
)
def test_s24_ml9_bare_torchrun_gets_uv_run(command: str, check: str) -> None:
    assert "uv run python -m torch.distributed.run" in one(f"{ONE_NODE}{command}\n", check).fix


# ── S24 ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sizes", ["", " --tensor-model-parallel-size 2"])
@pytest.mark.parametrize(
    "set_to", ["", "export CUDA_DEVICE_MAX_CONNECTIONS=1\n", "export CUDA_DEVICE_MAX_CONNECTIONS=8\n"]
)
def test_s24_ml8_the_overlap_wants_32_connections(sizes: str, set_to: str) -> None:
    script = f"{HEAD}{set_to}srun python pretrain_gpt.py --overlap-moe-expert-parallel-comm{sizes}\n"
    assert [m.fix for m in findings(script)] == ["Put `export CUDA_DEVICE_MAX_CONNECTIONS=32` before the training."]


@pytest.mark.parametrize(
    "script",
    [
        "export CUDA_DEVICE_MAX_CONNECTIONS=32\nsrun python pretrain_gpt.py --overlap-moe-expert-parallel-comm\n",
        "srun bash -c 'export CUDA_DEVICE_MAX_CONNECTIONS=32; python a.py --overlap-moe-expert-parallel-comm'\n",
        "srun --export=ALL,CUDA_DEVICE_MAX_CONNECTIONS=32 python a.py --overlap-moe-expert-parallel-comm\n",
        "srun env CUDA_DEVICE_MAX_CONNECTIONS=32 python a.py --overlap-moe-expert-parallel-comm\n",
    ],
)
def test_s24_ml8_twins(script: str) -> None:
    assert told(HEAD + script) == []


@pytest.mark.parametrize(
    "left",
    [
        "while true; do date; sleep 120; done &",
        "until false; do date; sleep 120; done &",
        "for i in $(seq 999); do nvidia-smi; sleep 60; done > gpu.log &",
        "(while sleep 120; do date; done) &",
        "{ while sleep 120; do date; done; } &",
        'bash -c "while sleep 120; do date; done" &',
        '[ -z "$QUIET" ] && nvidia-smi dmon &',
        "nvidia-smi dmon > gpu.log 2>&1 &",
        "nohup ./monitor.sh | tee m.log &",
    ],
)
def test_s24_en1_a_loop_in_the_background_is_ended(left: str) -> None:
    assert told(f"{HEAD}{left}\nsrun python train.py\nwait\n") == ["background-left"]
    ended = "trap 'kill $CLOCK' EXIT\n"
    assert told(f"{HEAD}{left}\nCLOCK=$!\n{ended}srun python train.py\n") == []
    assert told(f"{HEAD}{left}\nCLOCK=$!\nsrun python train.py\nkill $CLOCK\n") == []


def test_en1_a_wait_for_work_and_a_monitor_is_kept() -> None:
    (found,) = findings(f"{HEAD}nvidia-smi dmon > gpu.log &\nbwa mem a > b &\nsrun python train.py\nwait\n")
    assert found.fix.endswith("Let the `wait` in line 6 name the process ids of the work.")


def test_en1_the_kill_of_another_process_does_not_end_this_one() -> None:
    script = "date_loop.sh & A=$!\nnvidia-smi dmon & B=$!\nsrun python train.py\nkill $A\nwait\n"
    assert [m.says.split()[0] for m in findings(HEAD + script)] == ["nvidia-smi"]
    assert told(HEAD + script.replace("kill $A", "kill $A $B")) == []


@pytest.mark.parametrize(
    "work",
    [
        "srun -n 8 python a.py &\nsrun -n 8 python b.py &\nwait\n",
        "for seed in 1 2; do srun -n 8 python a.py --seed $seed & done\nwait\n",
        "( srun -n 8 python a.py; echo done ) &\nwait\n",
        "for seed in 1 2; do python a.py --seed $seed & done\nwait\n",
        "for f in *.fa; do bwa mem ref $f > $f.sam & done\nwait\nsamtools merge all.bam *.sam\n",
        "for i in 1 2; do tar xf $i.tar -C /data & done\nwait\nsrun python train.py\n",
        "mpirun -np 4 ./a x & mpirun -np 4 ./a y &\nwait\n./post\n",
        "timeout 600 nvidia-smi -l 30 > gpu.log &\nsrun python train.py\nwait\n",
        "octave a.m & octave b.m & wait\n./collect\n",
        'for f in *; do bwa $f &\npids+=($!); done\nfor p in "${pids[@]}"; do wait $p; done\n',
        "wget -q http://x/d.tar &\nDL=$!\npython warm.py\nwait $DL\nsrun python train.py\n",
        "nvidia-smi dmon > gpu.log &\nsrun python train.py\n",
        "nvidia-smi > gpu.log &\nsrun python train.py\nwait\n",
        "tensorboard --logdir runs &\nT=$!\nsrun python train.py &\nP=$!\nwait $P\n",
        "jupyter lab --port 8888 &\nwait\n",
        "tar czf tensorboard.tgz runs/tensorboard &\nsrun python train.py\nwait\n",
        "jupyter nbconvert --execute a.ipynb &\nsrun python train.py\nwait\n",
        "{ nvidia-smi; ./post; sleep 5; } &\nsrun python train.py\nwait\n",
        "while true; do [ -e done ] && break; sleep 5; done &\nsrun python train.py\nwait\n",
    ],
)
def test_en1_work_side_by_side_is_left_in_peace(work: str) -> None:
    assert told(HEAD + work) == []


def test_s24_ml10_a_working_folder_on_one_node() -> None:
    inside = "srun bash -c 'cd /local/scratch/app && python train.py'\n"
    for command in (
        "cd /tmp/Megatron-LM\nsrun python train.py\n",
        "pushd /scratch/local/app\nsrun python train.py\n",
        inside,
    ):
        assert told(HEAD + command) == ["kept-on-one-node"]
        assert told(ONE_NODE.replace("=8", "=1") + command) == []
    staged = "srun --ntasks-per-node=1 tar -xf app.tar -C /tmp/app\ncd /tmp/app\nsrun python train.py\n"
    assert told(HEAD + staged) == []
    assert told(HEAD + "( cd /tmp/build && make )\nsrun python train.py\n") == []


def test_s24_kf9_a_default_port_is_noted_where_two_jobs_can_meet() -> None:
    script = "export MASTER_PORT=${MASTER_PORT:-29500}\nsrun python train.py\n"
    assert "falls back to the fixed port 29500" in one(HEAD + script, "port-default").says
    assert told(HEAD.replace("--nodes=2", "--nodes=2 --exclusive") + script) == []
    assert told(HEAD + script.replace("29500", "$((20000 + SLURM_JOB_ID % 20000))")) == []


def test_s24_mb25_uv_run_in_containers_syncs_on_every_task() -> None:
    run = "export UV_CACHE_DIR=/lustre/uv\n{first}srun --container-image=/lustre/a.sqsh bash -c 'uv run {flag}python train.py'\n"
    first = "srun -N 1 --ntasks=1 --container-image=/lustre/a.sqsh bash -c 'uv sync'\n"
    assert told(HEAD + run.format(first="", flag="")) == ["implicit-sync"]
    assert told(HEAD + run.format(first=first, flag="")) == []
    assert told(HEAD + run.format(first="", flag="--no-sync ")) == []
    assert told(HEAD + "srun uv run python train.py\n") == []


# ── in the seeds, and overlooked ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("last", "right"),
    [
        ('[ -z "$A" ] && [ $SLURM_LOCALID -eq 0 ] && kill $PID', 'if [ -z "$A" ]; then kill $PID; fi'),
        ("[[ -n $PID ]] && kill $PID  # the monitor", "if [[ -n $PID ]]; then kill $PID; fi"),
        ("[ $STATUS -ne 0 ] && exit 1", "[ $STATUS -ne 0 ] || true"),
        ("[ $? -ne 0 ] && exit 1", "[ $? -ne 0 ] && exit 1\nexit 0"),
    ],
)
def test_a_test_as_the_last_line_fails_a_good_job(last: str, right: str) -> None:
    script = "#!/bin/bash\npython3 train.py --local_rank $SLURM_LOCALID\n"
    assert one(f"{script}{last}\n", "test-at-end").fix.startswith("Write `if ...; then ...; fi` instead of `... && ")
    assert told(f"{HEAD}srun bash -c '\npython3 train.py\n{last}\n'\n") == ["test-at-end"]
    assert "test-at-end" not in told(f"{script}{right}\n")


def test_overlooked_5_a_recipe_of_automodel() -> None:
    recipe = (
        "slurm:\n  nodes: 4\n  ntasks_per_node: 8\n  hf_home: {hf}\n  extra_mounts:\n    - {mount}\n"
        "distributed:\n  tp_size: {tp}\n  dp_size: none\ncheckpoint:\n  enabled: true\n  checkpoint_dir: {folder}\n"
    )
    right = recipe.format(hf="/shared/hf", mount="/shared/data:/data", tp=2, folder="/shared/checkpoints")
    wrong = recipe.format(hf="/root/.cache/hf", mount="data:/data", tp=3, folder="/tmp/checkpoints")
    assert told(right, "run.yaml") == told(right, "<stdin>") == ["not-checked"]
    assert told(wrong, "run.yaml") == [
        "not-checked",
        "hf-home-local",
        "mount-malformed",
        "sizes-unlike-gpus",
        "kept-on-one-node",
    ]
    assert told(right.replace("4", '"{{ nodes }}"'), "run.yaml") == ["not-checked", "placeholder-left"]
    assert told(wrong.replace("enabled: true", "enabled: false"), "run.yaml")[-1] != "kept-on-one-node"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("train.py", "import torch\n", "this is Python, and nothing in it is checked"),
        ("job", "#!/usr/bin/env python3\nprint(1)\n", "this is Python, and nothing in it is checked"),
        (
            "job",
            "#!/usr/bin/python3.11 -u\n#SBATCH --nodes=1\n",
            "of this Python file, only the #SBATCH lines are checked",
        ),
        ("job", "#!/usr/bin/perl\n", "this is perl, and nothing in it is checked"),
        ("model.yaml", "model:\n  tp: 8\n", "this is YAML, and nothing in it is checked"),
        ("model.yaml", "a: [\n", "this is YAML, and nothing in it is checked"),
        ("run.toml", "a = 1\n", "this is TOML, and nothing in it is checked"),
    ],
)
def test_what_is_no_batch_script_is_never_told_to_be_fine(name: str, text: str, says: str) -> None:
    (found,) = findings(text, name)
    assert says in found.says
    assert (found.check, found.level) == ("not-checked", "note")


def test_the_sbatch_lines_of_a_python_script_are_checked() -> None:
    script = '#!/usr/bin/env python3\n#SBATCH --output=$HOME/a.log\nprint("<YOUR_NAME>" if 1 < 2 else "")\n'
    assert told(script) == ["not-checked", "variable-in-directive"]


def test_overlooked_8_a_pid_that_stays_in_its_subshell() -> None:
    lost = "(\n  date_loop.sh &\n  export CLOCK=$!\n)\nsrun python train.py\nkill $CLOCK\n"
    for script in (lost, '[ -z "$QUIET" ] && ' + lost):
        found = one(HEAD + script, "pid-lost")
        assert found.says == "CLOCK is set inside ( ... ), and empty outside: the kill in line 8 ends nothing"
    assert told(HEAD + lost.replace("(", "{").replace(")", "}")) == []
    assert (
        told(HEAD + lost.replace(")\nsrun", "  kill $CLOCK\n)\nsrun").replace("train.py\nkill $CLOCK", "train.py"))
        == []
    )


@pytest.mark.parametrize(
    ("written", "better"),
    [
        ("export CUDA_LAUNCH_BLOCKING=${CUDA_LAUNCH_BLOCKING:0}", "${CUDA_LAUNCH_BLOCKING:-0}"),
        ('OMP_NUM_THREADS="${OMP_NUM_THREADS:8}"', "${OMP_NUM_THREADS:-8}"),
        ("export NCCL_DEBUG=${NCCL_DEBUG:WARN}", "${NCCL_DEBUG:-WARN}"),
    ],
)
def test_overlooked_8_a_default_without_its_dash(written: str, better: str) -> None:
    assert one(f"{HEAD}{written}\nsrun python train.py\n", "default-without-dash").fix == f"Write `{better}`"


@pytest.mark.parametrize(
    "twin", ["A=${A:-0}", "A=${B:1}", "A=${B:0:8}", "A=${B: -1}", "A=${B:i}", "# A=${A:0}", "A=${A:+1}"]
)
def test_overlooked_8_twins(twin: str) -> None:
    assert told(f"{HEAD}{twin}\nsrun python train.py\n") == []


PRELAUNCH = """[ -z "$SLURM_INTERACTIVE" ] && (
  bash -c "while sleep 120; do date; done" &
  export CLOCK=$!
)
if [ -z "$SLURM_INTERACTIVE" ]; then
  exec srun --mpi=none ./launcher.sh
else
  exec srun --overlap ./launcher.sh --interactive
fi
[ -z "$SLURM_INTERACTIVE" ] && kill $CLOCK
"""


def test_overlooked_8_the_whole_prelaunch_script_of_the_seed() -> None:
    found = findings(HEAD + PRELAUNCH)
    assert [f"{m.check}:{m.line}" for m in found] == [
        "background-left:4",
        "pid-lost:5",
        "after-exec:8",
        "test-at-end:12",
    ]
    assert found[0].fix.startswith("Start it outside of ( ... )")  # a trap within them would end it at once
    assert found[2].says == "exec replaces the script here: line 12 and traps never run"


# ── the seeds' other items ───────────────────────────────────────────────────────────────────


def test_mb22_what_keeps_an_old_run_from_being_resumed() -> None:
    run = "srun python scripts/training/run_recipe.py --recipe r{}\n"
    assert told(HEAD + run.format("")) == ["stale-experiments"]
    assert told(HEAD + "# rm -rf nemo_experiments\n" + run.format("")) == ["stale-experiments"]
    assert told(HEAD + "set -e\n" + run.format("") + "rm -rf nemo_experiments\n") == ["stale-experiments"]
    for clears in ("rm -rf nemo_experiments", "rm -r -f ./nemo_experiments/default", 'mv "$W/nemo_experiments" old'):
        assert told(f"{HEAD}{clears}\n" + run.format("")) == []
    assert told(HEAD + run.format(" checkpoint.save=/lustre/ckpt/$SLURM_JOB_ID")) == []


def test_ml6_one_connection_before_blackwell_and_without_fsdp() -> None:
    run = "srun python pretrain_gpt.py --context-parallel-size 2{}\n"
    set_to = "export CUDA_DEVICE_MAX_CONNECTIONS={}\n"
    assert "is not set" in one(HEAD + run.format(""), "max-connections-missing").says
    assert "is 8, with" in one(HEAD + set_to.format(8) + run.format(""), "max-connections-missing").says
    assert told(HEAD + set_to.format(1) + run.format("")) == []
    assert told(HEAD + set_to.format("$N") + run.format("")) == []
    assert told(HEAD.replace("--nodes", "--partition=gb200 --nodes") + run.format("")) == []
    assert told(HEAD + run.format(" --use-megatron-fsdp")) == []


def test_ml7_one_connection_is_refused_by_megatrons_fsdp_alone() -> None:
    for program, check in (
        ("pretrain_gpt.py --use-torch-fsdp2", ["max-connections-fsdp"]),
        ("train.py --use-fsdp", []),
    ):
        assert told(f"{HEAD}export CUDA_DEVICE_MAX_CONNECTIONS=1\nsrun python {program}\n") == check


def test_mb1_a_script_for_gpus_that_requests_none() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4{}\nexport NEMO_HOME=/lustre/nemo\nsrun{} python a.py\n"
    assert "--gpus-per-node=4" in one(script.format("", ""), "gpus-not-requested").fix
    for asks in (
        " --gpus-per-node=4",
        " --gres=gpu:h100:4",
        " --gpus=8",
        " --gpus-per-task=1",
        " --tres-per-task=gres/gpu:1",
    ):
        assert told(script.format(asks, "")) == told(script.format("", asks)) == []
    assert told(script.format("", "").replace("NEMO_HOME", "CUDA_VISIBLE_DEVICES")) == []


def test_mb1_torchrun_with_several_processes_is_for_gpus() -> None:
    script = (
        "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=1\nsrun torchrun --standalone --nproc_per_node=8 train.py\n"
    )
    assert "`#SBATCH --gpus-per-node=8`" in one(script, "gpus-not-requested").fix
    assert told(script.replace("=8", "=1")) == []


def test_kf1_the_sizes_that_count_are_those_of_the_step() -> None:
    few = HEAD.replace("--ntasks-per-node=8 ", "")
    assert told(few + "srun --ntasks-per-node=8 python train.py\n") == []
    assert told(few + "srun --ntasks-per-node=4 python train.py\n") == ["tasks-unlike-gpus"]
    assert told(
        HEAD.replace("nodes=2", "nodes=1").replace("--ntasks-per-node=8", "--ntasks=1") + "srun python a.py\n"
    ) == ["one-task-many-gpus"]


def test_kf2_gloo_on_another_interface_than_nccl() -> None:
    script = (
        HEAD
        + "IB=$(ip -br addr | awk '/^ib/ {print $1}')\nexport NCCL_SOCKET_IFNAME=$IB GLOO_SOCKET_IFNAME={}\nsrun python a.py\n"
    )
    assert told(script.replace("={}", "=em4")) == ["gloo-interface-unlike"]
    assert told(script.replace("={}", "=$IB")) == told(script.replace("={}", "=$NCCL_SOCKET_IFNAME")) == []


@pytest.mark.parametrize(
    "script",
    [
        PER_NODE
        + "i=0\nfor n in $NODES; do\n  srun -N1 -n1 -w $n torchrun --nnodes=2 --node_rank=$i --nproc_per_node=8 a.py &\n"
        "  i=$((i+1))\ndone\nwait\n",
        PER_NODE + "srun python3 MaxText/train.py configs/base.yml\n",
        ONE_NODE + "srun python -m vllm.entrypoints.openai.api_server --tensor-parallel-size 8\n",
        HEAD + "srun ./wrap.sh python train.py --local_rank '$SLURM_LOCALID'\n",
        HEAD + "srun singularity exec --nv a.sif bash -c 'RANK=$SLURM_PROCID python train.py'\n",
        ONE_NODE.replace("=8", "=1") + "python train.py\n",
    ],
)
def test_scripts_of_other_kinds_are_left_in_peace(script: str) -> None:
    assert told(script) == []


# ── forms of scripts ─────────────────────────────────────────────────────────────────────────


def test_arrays_and_functions_are_followed() -> None:
    arrays = 'ARGS=(--tp 6)\nARGS+=(--pp 1)\nsrun python train.py "${ARGS[@]}"\n'
    assert told(HEAD + arrays) == ["sizes-unlike-gpus"]
    function = 'train() {\n  srun python train.py --tp 6 "$@"\n}\ntrain --lr 1\n'
    assert told(HEAD + function) == ["sizes-unlike-gpus"]
    assert told(HEAD + function.replace("train --lr 1", "srun python other.py")) == []


def test_a_heterogeneous_job_is_told_to_be_half_checked() -> None:
    script = (
        PER_NODE + "#SBATCH hetjob\n#SBATCH --nodes=4 --ntasks-per-node=2\nsrun python a.py : python b.py --tp 64\n"
    )
    assert told(script) == ["sizes-not-checked"]


def test_what_is_read_in_may_set_what_is_missing() -> None:
    run = "srun --container-image=a.sqsh bash -c 'uv run --no-sync python scripts/training/finetune.py'\n"
    assert told(HEAD + run) == ["nemo-home-missing", "uv-cache-missing"]
    assert told(f"{HEAD}source settings.sh\n{run}") == ["settings-not-read"]
    assert told(f"{HEAD}source ~/envs/fit/bin/activate\n{run}") == ["nemo-home-missing", "uv-cache-missing"]


def test_line_ends_of_windows_are_one_finding() -> None:
    script = (HEAD + "srun python train.py \\\n  --lr 1\n").replace("\n", "\r\n")
    assert told(script) == ["dos-line-ends"]
    assert one(script, "dos-line-ends").fix == r"Run `sed -i 's/\r$//' job.sbatch`."


@pytest.mark.parametrize("begin", ["", "\n", "\ufeff#!/bin/bash\n", "# my job\n"])
def test_the_first_line_names_the_interpreter(begin: str) -> None:
    script = f"{begin}#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\nsrun python train.py\n"
    assert told(script) == ["no-interpreter"]


def test_sbatch_lines_of_a_here_document_are_not_the_scripts_own() -> None:
    script = (
        "#!/bin/bash\nfor n in 1 2; do\nsbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=$n\nsrun python a.py\nEOF\ndone\n"
    )
    assert told(script) == ["document-not-checked"]


def test_sh_may_not_be_bash() -> None:
    script = (HEAD + "srun python train.py | tee log\n").replace("/bin/bash", "/bin/sh")
    assert "`#!/bin/bash` in the first line" in one(script, "exit-status-in-pipe").fix
    assert "`#!/bin/bash`" not in one(script.replace("/bin/sh", "/bin/bash"), "exit-status-in-pipe").fix
    assert told(script.replace("srun", "set -o pipefail\nsrun")) == ["bash-under-sh"]


# ── comments that leave findings out ─────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "script",
    [
        "export MASTER_PORT=29500  # slurmdoctor: ignore[port-fixed]\n",
        "# slurmdoctor: ignore[port-fixed]\nexport MASTER_PORT=29500\n",
        "# slurmdoctor: ignore[pid-lost, port-fixed]\n# the cluster has one user\nexport MASTER_PORT=29500\n",
        "# slurmdoctor: ignore\nexport MASTER_PORT=29500\n",
        "#slurmdoctor:ignore[ port-fixed ]\nexport \\\n  MASTER_PORT=29500\n",
    ],
)
def test_a_comment_leaves_a_finding_out(script: str) -> None:
    assert told(f"{HEAD}{script}srun python train.py\n") == []


@pytest.mark.parametrize(
    "script",
    [
        "export MASTER_PORT=29500  # slurmdoctor: ignore[pid-lost]\n",
        "# slurmdoctor: ignore[port-fixed]\n\nexport MASTER_PORT=29500\n",
        "echo a  # slurmdoctor: ignore[port-fixed]\nexport MASTER_PORT=29500\n",
        "export MASTER_PORT=29500\n# slurmdoctor: ignore[port-fixed]\n",
    ],
)
def test_a_comment_elsewhere_or_of_another_check_leaves_it_in(script: str) -> None:
    assert told(f"{HEAD}{script}srun python train.py\n") == ["port-fixed"]


def test_an_unknown_id_is_a_note() -> None:
    found = one(f"{HEAD}srun python train.py # slurmdoctor: ignore[port-fixt]\n", "unknown-ignore")
    assert (found.level, found.line, found.fix) == ("note", 3, "Did you mean `ignore[port-fixed]`?")


# ── what is printed ──────────────────────────────────────────────────────────────────────────

SECRET = "hf_" + "abcdefghijABCDEFGHIJ0123456789abcd"


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_a_secret_in_a_line_is_masked_in_quote_and_fix(form: str) -> None:
    script = f"{HEAD}#SBATCH --comment=$HOME/{SECRET}\nsrun python train.py\n"
    found = CliRunner().invoke(cli, ["lint", "--format", form, "-"], input=script)
    assert found.exit_code == 1
    assert "variable-in-directive" in found.output
    assert SECRET[:12] not in found.output
    assert SECRET in CliRunner().invoke(cli, ["lint", "--redact", "off", "--format", form, "-"], input=script).output


def test_the_text_has_a_summary_colour_on_demand_and_whole_commands() -> None:
    script = f"{PER_NODE}export MASTER_PORT=29500\nsrun {TORCHRUN} train.py | tee log\n"
    plain = CliRunner(env={"COLUMNS": "60"}).invoke(cli, ["lint", "-"], input=script).output
    assert plain.endswith("\n\n1 error, 2 warnings\n")
    assert "`export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))`" in plain
    whole = [line for line in plain.splitlines() if line.startswith(("        `", "<stdin>"))]
    assert all(len(line) <= 60 for line in plain.splitlines() if line not in whole)
    assert "\x1b[" not in plain
    coloured = CliRunner(env={"FORCE_COLOR": "1"}).invoke(cli, ["lint", "-"], input=script).output
    assert "\x1b[1;31merror:" in coloured


def test_a_script_without_problems_is_told_so() -> None:
    found = CliRunner().invoke(cli, ["lint", "-"], input=HEAD + "srun python train.py\n")
    assert (found.exit_code, found.output) == (0, "no problems found\n")


@pytest.mark.parametrize(
    "option",
    ["--rdzv-endpoint=$SLURMD_NODENAME:$PORT", "--master_addr $SLURMD_NODENAME", "--master_addr=${SLURMD_NODENAME}"],
)
def test_an_address_is_to_be_the_same_in_all_tasks(option: str) -> None:
    command = f"srun torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d {option} train.py\n"
    assert "expanded-too-early" not in [found.check for found in lint(parse(PER_NODE + command))]


# ── what scripts easily get wrong, and the scripts beside them that are right ──

_ARRAY = "#SBATCH --array=0-9 --ntasks=1\n"


@pytest.mark.parametrize(
    ("script", "found"),
    [
        (f"{_ARRAY}#SBATCH --output=out.log\npython a.py\n", "array-one-log:3"),
        (f"{_ARRAY}#SBATCH -e %x_%A.err\npython a.py\n", "array-one-log:3"),
        (f"{_ARRAY}python a.py > result.csv\n", "output-shared:3"),
        ("#SBATCH --mem=64 --gres=gpu:1\npython a.py\n", "memory-in-megabytes:2"),
        ("#SBATCH --error=logs/a/%j.err\nmkdir -p ./logs/a/\npython a.py\n", "log-folder-late:2"),
        ("#SBATCH --time= 01:00:00\npython a.py\n", "directive-with-blanks:2"),
        ("#SBATCH -n 1\n#sbatch --mem=64G\npython a.py\n", "directive-commented-out:3"),
        ("#SBATCH -N 2 --ntasks-per-node=128 --cpus-per-task=16\nsrun ./a\n", "cpus-beyond-node:2"),
        ("#SBATCH -t 24:00\npython a.py\n", "time-in-minutes:2"),
        (f"{_ARRAY}python a.py ${{SEEDS[SLURM_ARRAY_TASK_ID]}}\n", "array-not-set:3"),
        ("#SBATCH -n 1\npython a.py $SLURM_ARRAY_TASK_ID\n", "array-not-asked:3"),
        ("#SBATCH -n 8\nmpirun -np 8 python a.py 2>&1 | tee a.log\n", "exit-status-in-pipe:3"),
        ("#SBATCH -n 8\nsrun python a.py &\necho started\n", "background-at-end:3"),
        ("#SBATCH -n 8\nfor i in 1 2; do\n  srun -n 1 ./a $i &\ndone\n", "background-at-end:4"),
    ],
)
def test_what_scripts_easily_get_wrong(script: str, found: str) -> None:
    assert [f"{m.check}:{m.line}" for m in findings(f"#!/bin/bash\n{script}")] == [found]


@pytest.mark.parametrize(
    "script",
    [
        f"{_ARRAY}#SBATCH --output=logs/%A_%a.log\npython a.py\n",
        f"{_ARRAY}#SBATCH --output=%4a/out.log\npython a.py\n",
        f"{_ARRAY}#SBATCH --output=%x-%j.log --error=/dev/null\npython a.py\n",
        f"{_ARRAY}#SBATCH --output=all.log --open-mode=append\npython a.py\n",
        "#SBATCH --array=7 --ntasks=1 --output=seven.log\npython a.py\n",
        f"{_ARRAY}python a.py >> result.csv\n",
        f"{_ARRAY}python a.py > result.$SLURM_ARRAY_TASK_ID.csv\n",
        f"{_ARRAY}cd run_$SLURM_ARRAY_TASK_ID\npython a.py > result.csv\n",
        f"{_ARRAY}OUT=r_$SLURM_ARRAY_TASK_ID.csv\npython a.py > $OUT\n",
        f"{_ARRAY}if [ $SLURM_ARRAY_TASK_ID = 0 ]; then python head.py > head.csv; fi\n",
        "#SBATCH --ntasks=8\nsrun python a.py > result.csv\n",
        "#SBATCH --ntasks=8\nsrun bash -c 'python a.py > result.$SLURM_PROCID.csv'\n",
        "#SBATCH --ntasks=8\nsrun -n 1 bash -c 'python a.py > result.csv'\n",
        "#SBATCH --mem=16G\npython a.py\n",
        "#SBATCH --mem=16000\npython a.py\n",
        "#SBATCH --mem=0 --gres=gpu:1\npython a.py\n",
        "#SBATCH --mem-per-cpu=500 --gres=gpu:1\npython a.py\n",
        "#SBATCH --output=logs/%j.out\nmkdir -p ckpt logs/$SLURM_JOB_ID\npython a.py\n",
        "#SBATCH --job-name=a # = b\n#SBATCH --comment='--a = b'\npython a.py\n",
        "# SBATCH options below\n#SBATCH -n 1\n##SBATCH --mem=64G\npython a.py\n# SBATCH --mem=1G\n",
        "#SBATCH --nodes=4 --ntasks=256 --cpus-per-task=2\nsrun ./a\n",
        "#SBATCH --ntasks=64 --cpus-per-task=64\nsrun ./a\n",
        "#SBATCH --time=30:00\npython a.py\n",
        "#SBATCH --time=60:00\npython a.py\n",
        "#SBATCH --time=48:00:00\npython a.py\n",
        "#SBATCH --time=2-00:00\npython a.py\n",
        f"{_ARRAY}mapfile -t FILES < list.txt\npython a.py ${{FILES[$SLURM_ARRAY_TASK_ID]}}\n",
        f"{_ARRAY}read -ra FILES <<< 'a b'\npython a.py ${{FILES[$SLURM_ARRAY_TASK_ID]}} ${{PIPESTATUS[1]}}\n",
        "#SBATCH -n 1\n# $SLURM_ARRAY_TASK_ID is 0\npython a.py ${SLURM_ARRAY_TASK_ID:-0}\n",
        "#SBATCH -n 8\nfor i in 1 2; do\n  srun -n 1 ./a $i &\ndone\nwait\n",
        "#SBATCH -n 8\nsrun -n 1 ./server &\nsrun -n 7 ./client\n",
        "#SBATCH -n 4\nsrun python a.py 2>&1 | tee a.log\nexit ${PIPESTATUS[0]}\n",
        "#SBATCH -n 4\nsrun python a.py |& tee a.log\nstatus=${PIPESTATUS[0]}\nexit $status\n",
        "#SBATCH -n 4\nshopt -so pipefail\nsrun python a.py | tee a.log\n",
        f"{_ARRAY}if (( SLURM_ARRAY_TASK_ID == 0 )); then python a.py > head.csv; fi\n",
        f"{_ARRAY}(( SLURM_ARRAY_TASK_ID == 1 )) && python a.py > one.log\n./b $SLURM_ARRAY_TASK_ID\n",
        f'{_ARRAY}TASK=$SLURM_ARRAY_TASK_ID\nif [ "$TASK" -eq 1 ]; then python a.py > one.log; fi\n',
        f"{_ARRAY}id=${{SLURM_ARRAY_TASK_ID}}\nif test $id = 1; then python a.py > one.log; fi\n",
        "#SBATCH -n 1\n# SBATCH --array=0-9 would run this ten times\n# SBATCH --mem takes megabytes\npython a.py\n",
        "#SBATCH -n 1 --gpus=8\nCUDA_VISIBLE_DEVICES=4,5,6,7 torchrun --standalone --nproc-per-node=4 a.py\n",
        "#SBATCH -N 1 -n 2 --gpus=8\nsrun -n1 --gpus=4 --exact torchrun --standalone --nproc-per-node=4 a.py\n",
    ],
)
def test_what_only_looks_wrong(script: str) -> None:
    assert findings(f"#!/bin/bash\n{script}") == []


@pytest.mark.parametrize(
    ("given", "trap", "proposed"),
    [
        ("B:TERM@20", "", "TERM@300"),
        ("B:TERM@120", "", "TERM@120"),
        ("B:USR1@20", "", "USR1@300"),
        ("B:USR1@20", "trap 'kill -USR1 $PID' USR1\n", "B:USR1@300"),
        ("TERM@20", "", "TERM@300"),
    ],
)
def test_h5_lint_proposes_one_signal_for_one_line(given: str, trap: str, proposed: str) -> None:
    found = findings(f"#!/bin/bash\n#SBATCH -n 1 --signal={given}\n{trap}srun python a.py\n")
    assert {signal for m in found for signal in re.findall(r"--signal=(\S+?@\d+)", m.fix)} == {proposed}


def test_h5_kf6_diagnose_says_of_the_line_what_lint_says() -> None:
    log = (
        "2026-11-03T08:58:00 [trainer] caught SIGTERM, writing emergency checkpoint to /ckpt/step_8123\n"
        "slurmstepd: error: *** STEP 991.0 ON h1 CANCELLED AT 2026-11-03T09:00:01 DUE TO TIME LIMIT ***\n"
        "srun: error: h1: tasks 0-3: Killed\n"
    )
    script = "#!/bin/bash\n#SBATCH -n 4\n#SBATCH --signal=B:SIGTERM@120\nsrun python train.py\n"
    fix = diagnose(LogText(log), script=parse(script, "job.sbatch")).fixes[0].do
    assert "--signal=B:SIGTERM@120 (job.sbatch:3)" in fix
    assert "to `--signal=TERM@360`" in fix
    assert "`--signal=TERM@120`" in one(script, "signal-window").fix


@pytest.mark.parametrize(
    "launch",
    [
        'L="torchrun --nproc-per-node=8 --nnodes=2"\nL+=" --rdzv-backend=c10d --rdzv-endpoint=$(hostname):0"\nsrun $L a.py\n',
        'A="--nnodes=2"\nA+=" --rdzv-backend=c10d --rdzv-endpoint=$(hostname):0"\nsrun torchrun $A a.py\n',
        "L=$(cat <<EOF\ntorchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$H:0\nEOF\n)\nsrun $L a.py\n",
        "L=torchrun\nread -r -d '' L <<EOF\ntorchrun --nnodes=2 --rdzv-backend=c10d\nEOF\nsrun $L a.py\n",
        'L=torchrun\nprintf -v L "torchrun --nnodes=2 --rdzv-backend=%s" c10d\nsrun $L a.py\n',
        'srun torchrun "${OPTIONS[@]}" a.py\n',
        "srun torchrun --nproc-per-node=8 $(cat options) a.py\n",
        "srun torchrun --nproc-per-node 8 --max-restarts 3 $OPTIONS a.py\n",
        "srun ./launch.sh a.py\n",
        "srun apptainer run --nv img.sif a.py\n",
        "srun python a.py --strategy MultiWorkerMirroredStrategy\n",
        "srun python -m mpi4py a.py\n",
    ],
)
def test_nothing_is_claimed_of_a_command_that_the_script_does_not_tell(launch: str) -> None:
    assert findings(PER_NODE + launch) == []


@pytest.mark.parametrize(
    "options",
    ["--nproc_per_node $GPUS a.py", "--nproc_per_node=8 a.py $ARGS", "-m my.train $ARGS", "--standalone $ARGS a.py"],
)
def test_what_is_unknown_behind_an_option_or_the_program_hides_none(options: str) -> None:
    assert [m.check for m in findings(f"{PER_NODE}srun torchrun {options}\n")] == ["nodes-train-alone"]


@pytest.mark.parametrize("first", ["#!/bin/zsh\n", "#!/bin/bash -eo pipefail\n"])
def test_the_first_line_counts(first: str) -> None:
    body = "for f (*.txt) { python a.py $f }\n" if "zsh" in first else "srun python a.py | tee log\n"
    assert findings(f"{first}#SBATCH -n 4\n{body}") == []


@pytest.mark.parametrize(
    "script",
    [
        "srun bash -c 'train --node_rank=$SLURM_NODEID'",
        'srun bash -c "train --node_rank=\\$SLURM_NODEID"',
        "srun -w $SLURMD_NODENAME -N 1 -n 1 hostname",
        "srun -N 1 -n 1 show --rank $SLURM_PROCID",
        "srun --job-name=step-$SLURM_STEP_ID show",
        "srun train --local_rank=$SLURM_LOCALID",
        "echo $SLURM_PROCID $SLURM_NODEID\nsrun train",
        "cat > notes.txt <<EOF\n$SLURM_NODEID\nEOF\nsrun train",
        "srun bash <<'EOF'\nshow $SLURM_PROCID\nEOF",
        "srun bash -c '\nNODE_RANK=$SLURM_NODEID\nshow $NODE_RANK\n'",
        "srun awk '{print $1}' file.txt",
    ],
)
def test_variables_that_each_task_fills_in_itself(script: str) -> None:
    assert [m for m in findings(f"{PER_NODE}{script}\n") if m.level != "note"] == []


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
    assert findings(f"#!/bin/bash\n{script}\n") == []
