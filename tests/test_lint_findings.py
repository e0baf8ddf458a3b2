"""Scripts that hold a mistake in its many forms, and scripts that only look like it: what lint promises to tell apart."""

import re

import pytest

from slurmdoctor import LogText, diagnose
from slurmdoctor.model import ScriptMistake
from slurmdoctor.slurm.script import lint, parse

BASH = "#!/bin/bash\n"
HEAD = BASH + "#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8\n"
PER_NODE = HEAD.replace("ntasks-per-node=8", "ntasks-per-node=1")
ONE_NODE = PER_NODE.replace("nodes=2", "nodes=1")
ONE_TASK = ONE_NODE.replace("=8", "=1")
TWO, FOUR = HEAD.replace("node=8", "node=2"), HEAD.replace("node=8", "node=4")
ARRAY = BASH + "#SBATCH --array=0-9 --ntasks=1\n"
TASKS = BASH + "#SBATCH -n 8\n"
EIGHT = "#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\nsrun python train.py\n"
RUN = "srun python train.py\n"
MEGATRON = "srun python pretrain_gpt.py"
ONE_QUEUE, ANY_QUEUES = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n", "export CUDA_DEVICE_MAX_CONNECTIONS={}\n"
UV = "export UV_CACHE_DIR=/lustre/uv\n"
RECIPE = "srun python scripts/training/run_recipe.py --recipe r\n"
CONTAINER = "srun --container-image=a.sqsh bash -c 'uv run --no-sync python scripts/training/finetune.py'\n"
IN_CONTAINER = "srun --container-image=/lustre/a.sqsh bash -c "
PORT = "export MASTER_PORT=${MASTER_PORT:-29500}\n"
LOOP = "while true; do date; sleep 120; done &"
LOST = "(\n  date_loop.sh &\n  export CLOCK=$!\n)\nsrun python train.py\nkill $CLOCK\n"
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
RUNS_ON = [
    LOOP,
    "until false; do date; sleep 120; done &",
    "for i in $(seq 999); do nvidia-smi; sleep 60; done > gpu.log &",
    "{ while sleep 120; do date; done; } &",
    'bash -c "while sleep 120; do date; done" &',
    '[ -z "$QUIET" ] && nvidia-smi dmon &',
    "nohup ./monitor.sh | tee m.log &",
]
LAST_TESTS = {
    '[ -z "$A" ] && [ $SLURM_LOCALID -eq 0 ] && kill $PID': "test-at-end",
    "[[ -n $PID ]] && kill $PID  # the monitor": "test-at-end",
    "[ $? -ne 0 ] && exit 1": "test-at-end",
    "[ $STATUS -ne 0 ] || true": "",
    "[ $? -ne 0 ] && exit 1\nexit 0": "",
}
ASKS = (" --gpus-per-node=4", " --gres=gpu:h100:4", " --gpus=8", " --gpus-per-task=1", " --tres-per-task=gres/gpu:1")
NO_GPU = BASH + "#SBATCH --nodes=2 --ntasks-per-node=4{}\nexport NEMO_HOME=/lustre/nemo\nsrun{} python a.py\n"
TORCHRUN = BASH + "#SBATCH --nodes=1 --ntasks-per-node=1\nsrun torchrun --standalone --nproc_per_node=8 train.py\n"
SH = (HEAD + "srun python train.py | tee log\n").replace("/bin/bash", "/bin/sh")
FUNCTION = 'train() {\n  srun python train.py --tp 6 "$@"\n}\ntrain --lr 1\n'
FEW = HEAD.replace("--ntasks-per-node=8 ", "")

FOUND: dict[str, list[tuple[str, str]]] = {
    "expert TP is what the program takes it for": [
        (HEAD + "srun python train.py --tp 2 --ep 16 --etp 2\n", "experts-unlike-gpus"),
    ],
    "torchrun of an environment is left in peace": [
        (f"{ONE_NODE}{command}\n", "")
        for command in (
            "uv sync\nuv run torchrun --standalone --nproc_per_node=8 train.py",
            "uv sync\nsource .venv/bin/activate\ntorchrun --standalone --nproc_per_node=8 train.py",
            "uv sync\n.venv/bin/torchrun --standalone --nproc_per_node=8 train.py",
            "conda activate fit\ntorchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
            "module load pytorch/2.5\ntorchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
            "srun --container-image=nemo.sqsh torchrun --standalone --nproc_per_node=8 pretrain_gpt.py",
            "torchrun --standalone --nproc_per_node=8 train.py",
        )
    ],
    "the overlap of experts wants 32 connections, however they are set": [
        (HEAD + script, "")
        for script in (
            "srun bash -c 'export CUDA_DEVICE_MAX_CONNECTIONS=32; python a.py --overlap-moe-expert-parallel-comm'\n",
            "srun --export=ALL,CUDA_DEVICE_MAX_CONNECTIONS=32 python a.py --overlap-moe-expert-parallel-comm\n",
            "srun env CUDA_DEVICE_MAX_CONNECTIONS=32 python a.py --overlap-moe-expert-parallel-comm\n",
        )
    ],
    "one connection before Blackwell, and without FSDP": [
        (f"{HEAD}{MEGATRON} --context-parallel-size 2\n", "max-connections-missing"),
        (HEAD + ANY_QUEUES.format("$N") + MEGATRON + " --context-parallel-size 2\n", ""),
        (f"{HEAD}{MEGATRON} --context-parallel-size 2 --use-megatron-fsdp\n", ""),
        (HEAD.replace("--nodes", "--partition=gb200 --nodes") + MEGATRON + " --context-parallel-size 2\n", ""),
        (f"{HEAD}{ONE_QUEUE}srun python train.py --use-fsdp\n", ""),
    ],
    "what runs on in the background is ended": [
        *((f"{HEAD}{left}\n{RUN}wait\n", "background-left") for left in RUNS_ON),
        (f"{HEAD}{LOOP}\nCLOCK=$!\n{RUN}kill $CLOCK\n", ""),
        (f"{HEAD}date_loop.sh & A=$!\nnvidia-smi dmon & B=$!\n{RUN}kill $A\nwait\n", "background-left:4"),
        (f"{HEAD}date_loop.sh & A=$!\nnvidia-smi dmon & B=$!\n{RUN}kill $A $B\nwait\n", ""),
    ],
    "work side by side is left in peace": [
        (HEAD + work, "")
        for work in (
            "srun -n 8 python a.py &\nsrun -n 8 python b.py &\nwait\n",
            "for seed in 1 2; do srun -n 8 python a.py --seed $seed & done\nwait\n",
            "( srun -n 8 python a.py; echo done ) &\nwait\n",
            "mpirun -np 4 ./a x & mpirun -np 4 ./a y &\nwait\n./post\n",
            f"timeout 600 nvidia-smi -l 30 > gpu.log &\n{RUN}wait\n",
            'for f in *; do bwa $f &\npids+=($!); done\nfor p in "${pids[@]}"; do wait $p; done\n',
            f"nvidia-smi dmon > gpu.log &\n{RUN}",
            "tensorboard --logdir runs &\nT=$!\nsrun python train.py &\nP=$!\nwait $P\n",
            "jupyter lab --port 8888 &\nwait\n",
            f"{{ nvidia-smi; ./post; sleep 5; }} &\n{RUN}wait\n",
            f"while true; do [ -e done ] && break; sleep 5; done &\n{RUN}wait\n",
        )
    ],
    "a folder on one node is none to work in": [
        *(
            (head + command, found)
            for head, found in ((HEAD, "kept-on-one-node"), (ONE_TASK, ""))
            for command in (
                f"cd /tmp/Megatron-LM\n{RUN}",
                f"pushd /scratch/local/app\n{RUN}",
                "srun bash -c 'cd /local/scratch/app && python train.py'\n",
            )
        ),
        (f"{HEAD}srun --ntasks-per-node=1 tar -xf app.tar -C /tmp/app\ncd /tmp/app\n{RUN}", ""),
        (f"{HEAD}( cd /tmp/build && make )\n{RUN}", ""),
    ],
    "a default port is noted where two jobs can meet": [
        (HEAD.replace("--nodes=2", "--nodes=2 --exclusive") + PORT + RUN, ""),
    ],
    "a test as the last line fails a good job": [
        *((f"{HEAD}srun bash -c '\npython3 train.py\n{last}\n'\n", found) for last, found in LAST_TESTS.items()),
    ],
    "a process id stays in its subshell": [
        (HEAD + '[ -z "$QUIET" ] && ' + LOST, "pid-lost:5"),
        (HEAD + LOST.replace(")\nsrun", "  kill $CLOCK\n)\nsrun").replace("train.py\nkill $CLOCK", "train.py"), ""),
        (HEAD + PRELAUNCH, "background-left:4 pid-lost:5 after-exec:8 test-at-end:12"),
    ],
    "a default without its dash": [
        (f"{HEAD}{twin}\n{RUN}", "")
        for twin in ("A=${A:-0}", "A=${B:1}", "A=${B:0:8}", "A=${B: -1}", "A=${B:i}", "# A=${A:0}", "A=${A:+1}")
    ],
    "what keeps an old run from being resumed": [
        (f"{HEAD}# rm -rf nemo_experiments\n{RECIPE}", "stale-experiments"),
        (f"{HEAD}set -e\n{RECIPE}rm -rf nemo_experiments\n", "stale-experiments"),
        *(
            (f"{HEAD}{clears}\n{RECIPE}", "")
            for clears in (
                "rm -r -f ./nemo_experiments/default",
                'mv "$W/nemo_experiments" old',
            )
        ),
        (HEAD + RECIPE.replace("\n", " checkpoint.save=/lustre/ckpt/$SLURM_JOB_ID\n"), ""),
    ],
    "a script for GPUs requests some": [
        (NO_GPU.format("", ""), "gpus-not-requested"),
        *((NO_GPU.format(asks, ""), "") for asks in ASKS),
        *((NO_GPU.format("", asks), "") for asks in ASKS),
        (NO_GPU.format("", "").replace("NEMO_HOME", "CUDA_VISIBLE_DEVICES"), ""),
        (TORCHRUN, "gpus-not-requested"),
        (TORCHRUN.replace("=8", "=1"), ""),
    ],
    "the sizes that count are those of the step": [
        (FEW + "srun --ntasks-per-node=8 python train.py\n", ""),
        (FEW + "srun --ntasks-per-node=4 python train.py\n", "tasks-unlike-gpus"),
        (ONE_NODE.replace("--ntasks-per-node=1", "--ntasks=1") + "srun python a.py\n", "one-task-many-gpus"),
        # Slurm ignores the tasks per node of srun where sbatch told the tasks
        (FOUR + "srun --ntasks-per-node=2 python train.py\n", ""),
        (f"{BASH}#SBATCH -N1 -n2 --gpus=8\nsrun -n1 --gpus=4 torchrun --standalone --nproc-per-node=4 a.py\n", ""),
        (f"{BASH}#SBATCH -n1 --gpus=8\nCUDA_VISIBLE_DEVICES=4,5 torchrun --standalone --nproc-per-node=2 a.py\n", ""),
        (f"{PER_NODE}#SBATCH hetjob\n#SBATCH --nodes=4\nsrun python a.py : python b.py --tp 64\n", "sizes-not-checked"),
    ],
    "Gloo uses NCCL's interface": [
        (
            f"{HEAD}IB=$(ip -br addr | awk '/^ib/ {{print $1}}')\nexport NCCL_SOCKET_IFNAME=$IB GLOO_SOCKET_IFNAME=$IB\n{RUN}",
            "",
        ),
    ],
    "scripts of other kinds are left in peace": [
        (script, "")
        for script in (
            PER_NODE
            + "i=0\nfor n in $NODES; do\n  srun -N1 -n1 -w $n torchrun --nnodes=2 --node_rank=$i --nproc_per_node=8 a.py &\n  i=$((i+1))\ndone\nwait\n",
            PER_NODE + "srun python3 MaxText/train.py configs/base.yml\n",
            ONE_NODE + "srun python -m vllm.entrypoints.openai.api_server --tensor-parallel-size 8\n",
            HEAD + "srun ./wrap.sh python train.py --local_rank '$SLURM_LOCALID'\n",
            HEAD + "srun singularity exec --nv a.sif bash -c 'RANK=$SLURM_PROCID python train.py'\n",
            ONE_TASK + "python train.py\n",
            BASH + "#SBATCH --nodes=2 --ntasks-per-node=8\nsrun python count_words.py\n",
            HEAD + "SHORT=${SLURM_JOB_ID:0:4}\n" + RUN,
            PER_NODE
            + "srun bash -c 'bash -c \"torchrun --nnodes=2 --node_rank=\\$SLURM_NODEID --nproc-per-node=8 train.py\"'\n",
            TWO + "srun bash -c 'set -o pipefail; python train.py | tee log'\n",
            TWO + "OMP_NUM_THREADS=4 RANK=0 srun python train.py\n",
        )
    ],
    "arrays and functions are followed": [
        (HEAD + 'ARGS=(--tp 6)\nARGS+=(--pp 1)\nsrun python train.py "${ARGS[@]}"\n', "sizes-unlike-gpus"),
        (HEAD + FUNCTION.replace("train --lr 1", "srun python other.py"), ""),
    ],
    "what is read in may set what is missing": [
        (f"{HEAD}source settings.sh\n{CONTAINER}", "settings-not-read"),
        (f"{HEAD}source ~/envs/fit/bin/activate\n{CONTAINER}", "nemo-home-missing uv-cache-missing"),
    ],
    "the first line names the interpreter, and counts": [
        *((begin + EIGHT, "no-interpreter") for begin in ("", "\n", "\ufeff#!/bin/bash\n", "# my job\n")),
        ("#!/bin/bash -eo pipefail\n#SBATCH -n 4\nsrun python a.py | tee log\n", ""),
    ],
    "the #SBATCH lines of a Python script are checked": [
        (
            '#!/usr/bin/env python3\n#SBATCH --output=$HOME/a.log\nprint("<YOUR_NAME>" if 1 < 2 else "")\n',
            "not-checked variable-in-directive",
        ),
    ],
    "a comment leaves a finding out": [
        (HEAD + script + RUN, "")
        for script in (
            "export MASTER_PORT=29500  # slurmdoctor: ignore[port-fixed]\n",
            "# slurmdoctor: ignore\nexport MASTER_PORT=29500\n",
            "# slurmdoctor: ignore[pid-lost, port-fixed]\n# the cluster has one user\nexport MASTER_PORT=29500\n",
            "#slurmdoctor:ignore[ port-fixed ]\nexport \\\n  MASTER_PORT=29500\n",
        )
    ],
    "a comment elsewhere or of another check leaves it in": [
        (HEAD + script + RUN, "port-fixed")
        for script in (
            "export MASTER_PORT=29500  # slurmdoctor: ignore[pid-lost]\n",
            "# slurmdoctor: ignore[port-fixed]\n\nexport MASTER_PORT=29500\n",
            "export MASTER_PORT=29500\n# slurmdoctor: ignore[port-fixed]\n",
        )
    ],
    "the tasks of an array write logs and files of their own": [
        (f"{ARRAY}#SBATCH --output=out.log\npython a.py\n", "array-one-log:3"),
        (f"{ARRAY}#SBATCH -e %x_%A.err\npython a.py\n", "array-one-log:3"),
        *(
            (f"{ARRAY}{own}python a.py\n", "")
            for own in (
                "#SBATCH --output=logs/%A_%a.log\n",
                "#SBATCH --output=%x-%j.log --error=/dev/null\n",
                "#SBATCH --output=all.log --open-mode=append\n",
            )
        ),
        (BASH + "#SBATCH --array=7 --ntasks=1 --output=seven.log\npython a.py\n", ""),
        *(
            (ARRAY + own, "")
            for own in (
                "python a.py >> result.csv\n",
                "cd run_$SLURM_ARRAY_TASK_ID\npython a.py > result.csv\n",
                "if [ $SLURM_ARRAY_TASK_ID = 0 ]; then python head.py > head.csv; fi\n",
                "(( SLURM_ARRAY_TASK_ID == 1 )) && python a.py > one.log\n./b $SLURM_ARRAY_TASK_ID\n",
            )
        ),
        (TASKS + "srun python a.py > result.csv\n", ""),
    ],
    "an exit status is not lost in a pipe": [
        (TASKS + "mpirun -np 8 python a.py 2>&1 | tee a.log\n", "exit-status-in-pipe:3"),
        (TASKS + "srun python a.py |& tee a.log\nstatus=${PIPESTATUS[0]}\nexit $status\n", ""),
    ],
    "an array that is used is set, and asked for": [
        (f"{ARRAY}mapfile -t FILES < list.txt\npython a.py ${{FILES[$SLURM_ARRAY_TASK_ID]}}\n", ""),
        (f"{ARRAY}read -ra FILES <<< 'a b'\npython a.py ${{FILES[$SLURM_ARRAY_TASK_ID]}} ${{PIPESTATUS[1]}}\n", ""),
        (BASH + "#SBATCH -n 1\n# $SLURM_ARRAY_TASK_ID is 0\npython a.py ${SLURM_ARRAY_TASK_ID:-0}\n", ""),
    ],
    "memory, time and CPUs are in Slurm's units": [
        (f"{BASH}#SBATCH {options}\npython a.py\n", found)
        for options, found in (
            ("--mem=64 --gres=gpu:1", "memory-in-megabytes:2"),
            ("--mem=0 --gres=gpu:1", ""),
            ("--mem-per-cpu=500 --gres=gpu:1", ""),
            ("-t 24:00", "time-in-minutes:2"),
            ("--time=2-00:00", ""),
            ("-N 2 --ntasks-per-node=128 --cpus-per-task=16", "cpus-beyond-node:2"),
            ("--nodes=4 --ntasks=256 --cpus-per-task=2", ""),
        )
    ],
    "a log's folder is there before the job": [
        (BASH + "#SBATCH --error=logs/a/%j.err\nmkdir -p ./logs/a/\npython a.py\n", "log-folder-late:2"),
        (BASH + "#SBATCH --output=logs/%j.out\nmkdir -p ckpt logs/$SLURM_JOB_ID\npython a.py\n", ""),
    ],
    "#SBATCH lines are written as sbatch reads them": [
        (BASH + "#SBATCH --job-name=a # = b\n#SBATCH --comment='--a = b'\npython a.py\n", ""),
        (BASH + "#SBATCH -n 1\n#sbatch --mem=64G\npython a.py\n", "directive-commented-out:3"),
        (BASH + "# SBATCH options below\n#SBATCH -n 1\n##SBATCH --mem=64G\npython a.py\n# SBATCH --mem=1G\n", ""),
        (
            BASH
            + "#SBATCH -n 1\n# SBATCH --array=0-9 would run this ten times\n# SBATCH --mem takes megabytes\npython a.py\n",
            "",
        ),
    ],
    "a script waits for what it starts": [
        (TASKS + "for i in 1 2; do\n  srun -n 1 ./a $i &\ndone\necho started\n", "background-at-end:4"),
        (TASKS + "srun -n 1 ./server &\nsrun -n 7 ./client\n", ""),
    ],
    "nothing is claimed of a command that the script does not tell": [
        (PER_NODE + launch, "")
        for launch in (
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
        )
    ],
    "what is unknown behind an option or the program hides none": [
        (f"{PER_NODE}srun torchrun {options}\n", "nodes-train-alone")
        for options in (
            "--nproc_per_node $GPUS a.py",
            "--nproc_per_node=8 a.py $ARGS",
            "-m my.train $ARGS",
            "--standalone $ARGS a.py",
        )
    ],
    "uv run in a container syncs on every task, unless one process did before": [
        (f"{HEAD}{UV}srun -N 1 --ntasks=1 bash -c 'uv sync'\n{IN_CONTAINER}'uv run python train.py'\n", ""),
        (f"{HEAD}{UV}srun uv run python train.py\n", ""),
    ],
    "an address is the same in all tasks": [
        (f"{PER_NODE}srun torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d {option} train.py\n", found)
        for option, found in (
            ("--rdzv-endpoint=$SLURMD_NODENAME:$PORT", ""),
            ("--master_addr $SLURMD_NODENAME", ""),
            ("--master_addr=${SLURMD_NODENAME}", ""),
            ("--node_rank $SLURM_NODEID", "expanded-too-early"),
        )
    ],
    "variables that each task fills in itself": [
        (f"{PER_NODE}{script}\n", "")
        for script in (
            "srun -w $SLURMD_NODENAME -N 1 -n 1 hostname",
            "srun -N 1 -n 1 show --rank $SLURM_PROCID",
            "srun --job-name=step-$SLURM_STEP_ID show",
            "srun train --local_rank=$SLURM_LOCALID",
            "echo $SLURM_PROCID $SLURM_NODEID\nsrun train",
            "cat > notes.txt <<EOF\n$SLURM_NODEID\nEOF\nsrun train",
            "srun bash <<'EOF'\nshow $SLURM_PROCID\nEOF",
            "srun bash -c '\nNODE_RANK=$SLURM_NODEID\nshow $NODE_RANK\n'",
            "srun awk '{print $1}' file.txt",
        )
    ],
    "variables that the batch shell fills in for all": [
        (f"{HEAD}{script}\n", found)
        for script, found in (
            ("srun bash <<EOF\nshow $SLURM_PROCID\nEOF", "expanded-too-early:4"),
            ("cat > run.sh <<EOF\nshow $SLURM_PROCID\nEOF\nsrun bash run.sh", "expanded-too-early:4"),
            ("srun --output=log-$SLURM_PROCID.txt train", "expanded-too-early:3"),
            ("RANK=$SLURM_PROCID srun python a.py", "exported-too-early:3"),
            ("export RANK=$SLURM_PROCID\nsrun bash -c 'export RANK=$SLURM_PROCID; python a.py'", ""),
            ("srun show '$SLURM_PROCID'", "never-filled-in:3"),
            ("srun 'python a.py'", "never-filled-in:3"),
        )
    ],
}

SIZED = f"{HEAD}srun python train.py --tp"
SAYS: list[tuple[str, str]] = [
    # sizes: what would fit is computed for this script
    (f"{HEAD}{ONE_QUEUE}{MEGATRON} --tp 4 --expert-model-parallel-size 8\n", "EP 8 x PP 1 = 32 does|EP 4 or EP 2, or request 4 nodes (32 GPUs)"),
    (f"{SIZED} 8 --pp 3\n", "Set PP 2 or PP 1, or request 3 nodes (24 GPUs)."),
    (f"{SIZED} 4 --micro-batch-size 3 --global-batch-size 32\n", "Set the global batch to 36, a multiple of 12."),
    (f"{SIZED} 1 --ep 8 --num-experts 60\n", "Set EP 4 or EP 2: that fits 60 experts, 16 processes."),
    (f"{SIZED} 8 --num-attention-heads 20\n", "Set TP 4 or TP 2: that fits 20 heads, 8 GPUs of a node, 16 processes."),
    # what a fix says depends on the script
    *((f"{HEAD}{q}{MEGATRON} --overlap-moe-expert-parallel-comm --tp 2\n", "=32` before") for q in (ONE_QUEUE, ANY_QUEUES.format(8))),
    (f"{HEAD}nvidia-smi dmon > gpu.log &\nbwa mem a > b &\n{RUN}wait\n", "`wait` in line 6 name the process ids of the work"),
    (f"{HEAD}nvidia-smi dmon &\n{RUN}wait\n".replace("bash", "sh"), "`PID=$!; trap 'kill $PID' EXIT` on|delete the `wait` in line 5"),
    (f"{HEAD}{LOOP}\n{RUN}wait\n", "this `while` loop runs|`trap 'kill $(jobs -p)' EXIT` above it, and delete the `wait` in line 5"),
    (HEAD + PRELAUNCH, "Start it outside of ( ... )|line 12 and traps never run"),
    (HEAD + LOST, "CLOCK is set inside ( ... ), and empty outside: the kill in line 8 ends nothing"),
    (f'{HEAD}OMP_NUM_THREADS="${{OMP_NUM_THREADS:8}}"\n{RUN}', "Write `${OMP_NUM_THREADS:-8}`"),
    (NO_GPU.format("", ""), "--gpus-per-node=4"),
    ((HEAD + RUN).replace("\n", "\r\n"), r"Run `sed -i 's/\r$//' job.sbatch`."),
    (SH, "`#!/bin/bash` in the first line"),
    (f"{HEAD}srun --output=log-$SLURM_PROCID.txt train\n", "Write `%t` in --output"),
    (f"{HEAD}srun train --rank $SLURM_PROCID\n", "with $SLURM_PROCID between the single quotes"),
    (f'{HEAD}srun bash -c "train --rank=$SLURM_PROCID"\n', r"`--rank=\$SLURM_PROCID`"),
    (f"{BASH}#SBATCH --output=$USER-$SLURM_JOB_ID.log\n{RUN}", "Write `--output=%u-%j.log`"),
    (f"{BASH}#SBATCH --output=$HOME/a.log\n{RUN}", '`sbatch --output="$HOME/a.log" job.sbatch`'),
]  # fmt: skip


def findings(script: str, name: str = "job.sbatch") -> list[ScriptMistake]:
    return lint(parse(script, name))


@pytest.mark.parametrize("promise", FOUND)
def test_it_finds_what_is_wrong_and_nothing_else(promise: str) -> None:
    for script, expected in FOUND[promise]:
        found = [f"{m.check}:{m.line}" if ":" in expected else m.check for m in findings(script)]
        assert found == expected.split(), script


@pytest.mark.parametrize(("script", "words"), SAYS)
def test_it_says_what_to_do_in_this_script(script: str, words: str) -> None:
    found = " ".join(f"{m.says}. {m.fix}" for m in findings(script))
    assert all(word in found for word in words.split("|")), found


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("train.py", "import torch\n", "this is Python, and nothing in it is checked"),
        ("job", "#!/usr/bin/env python3\nprint(1)\n", "this is Python, and nothing in it is checked"),
        ("job", "#!/usr/bin/python3.11 -u\n#SBATCH --nodes=1\n", "of this Python file, only the #SBATCH lines"),
        ("job", "#!/usr/bin/perl\n", "this is Perl, and nothing in it is checked"),
        ("model.yaml", "slurm:\n  nodes: 8\n", "this is YAML, and nothing in it is checked"),
        ("run.toml", "a = 1\n", "this is TOML, and nothing in it is checked"),
    ],
)
def test_what_is_no_batch_script_is_not_called_fine(name: str, text: str, says: str) -> None:
    (found,) = findings(text, name)
    assert says in found.says
    assert (found.check, found.level) == ("not-checked", "note")


def test_one_signal_is_proposed_for_one_line() -> None:
    traps = "trap 'kill -USR1 $PID' USR1\n"
    proposed = {("B:TERM@20", ""): "TERM@300", ("B:TERM@120", ""): "TERM@120", ("B:USR1@20", ""): "USR1@300"}
    proposed |= {("B:USR1@20", traps): "B:USR1@300", ("TERM@20", ""): "TERM@300"}
    for (given, trap), signal in proposed.items():
        found = findings(f"{BASH}#SBATCH -n 1 --signal={given}\n{trap}srun python a.py\n")
        assert {one for m in found for one in re.findall(r"--signal=(\S+?@\d+)", m.fix)} == {signal}


def test_diagnose_says_of_the_line_what_lint_says() -> None:
    log = (
        "2026-11-03T08:58:00 [trainer] caught SIGTERM, writing emergency checkpoint to /ckpt/step_8123\n"
        "slurmstepd: error: *** STEP 991.0 ON h1 CANCELLED AT 2026-11-03T09:00:01 DUE TO TIME LIMIT ***\n"
        "srun: error: h1: tasks 0-3: Killed\n"
    )
    script = f"{BASH}#SBATCH -n 4\n#SBATCH --signal=B:SIGTERM@120\nsrun python train.py\n"
    fix = diagnose(LogText(log), script=parse(script, "job.sbatch")).fixes[0].do
    assert [
        words for words in ("--signal=B:SIGTERM@120 (job.sbatch:3)", "to `--signal=TERM@360`") if words not in fix
    ] == []
    assert "`--signal=TERM@120`" in "".join(m.fix for m in findings(script) if m.check == "signal-window")
