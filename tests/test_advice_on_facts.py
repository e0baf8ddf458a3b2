"""Issue 23, 12 and 13: a fix is offered on what the log shows, and what is absent is said after a search."""

import pytest

from slurmdoctor import diagnose
from slurmdoctor.slurm.script.parse import parse

LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-10-02T13:49:40 DUE TO TIME LIMIT ***\n"
STEPS = "".join(f"[2026-10-02 11:{m:02d}:01] iteration {m}/ 5000 | lm loss: 2.1E+00 |\n" for m in range(1, 50))
SAVE = "[step 300] loss=9.5 | step_time=4.40s\nINFO Async checkpoint save started: /n/ck/step_300\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.02 GiB is free.\n"
MOE = '0: Traceback (most recent call last):\n0:   File "/opt/moe/experts.py", line 9, in __init__\n0: ' + OOM
HELD = "".join(f"[Step {s}] Node 0/GPU 0: Loss=1.2 | Mem=37.9GB/40GB\n" for s in range(100, 700, 100))
BUILD = """  × Failed to build `demo==1.0`
      ModuleNotFoundError: No module named 'torch'
      hint: This error likely indicates that `demo@1.0` depends on `torch`, but doesn't declare it as a build dependency.
"""
CRASH = "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\nBacktrace for this error:\n"
WAIT = "".join(
    f"{r}: [rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
    "c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms\n"
    for r in (8, 9)
)


@pytest.mark.parametrize(
    ("log", "said", "never"),
    [
        ("0: num_moe_experts=64\n" + MOE, "EP of this job is not known", "holds all"),
        ("0: Expert parallel size: 4\n0: num_moe_experts=64\n" + MOE, "from 4 to 8", "without it"),
        (HELD + OOM, "37.9GB/40GB", "Look for what grew"),
        (STEPS + LIMIT, "2026-10-02T11:49:01", "was found"),
        (SAVE + LIMIT, "why the save did not end", "longer --time"),
        ("Creating virtual environment at: .venv\n" * 16 + LIMIT, "`srun --ntasks=1 uv sync`", "longer --time"),
        (BUILD, 'no-build-isolation-package = ["demo"]', "Install torch"),
        (CRASH, "PROGRAM core", "Rebuild it against this PyTorch"),
        ("t.sh: line 5: module: command not found\nt.sh: line 6: mpirun: command not found\n", "bash -l", "module or activate"),
        (WAIT + "srun: error: n202: tasks 8-9: Exited with exit code 1\n", "`ibstatus` on n202", "data set"),
        ("FileNotFoundError: [Errno 2] No such file or directory: '/tmp/ckpt/a.pt'\n", "on shared storage", "in a container, mount"),
        ("OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub/a'\n", "HF_HOME", "delete"),
        ("This job has exceeded its memory quota and will be terminated\n", "mem", "does not show"),
        ("bash: /proj/demo/train.py: Permission denied\n", "chmod +x", "does not show"),
    ],
)  # fmt: skip
def test_a_fix_stands_on_what_the_log_shows(log: str, said: str, never: str) -> None:
    text = " ".join(diagnose(log).to_text(width=400).split())
    assert said in text
    assert never not in text


KILLED = "srun: error: n1: task 2: Out Of Memory\n"
PIECES = OOM.replace("1.02 GiB is free", "1.02 GiB is free. Of the allocated memory 20.0 GiB is allocated by PyTorch, and 15.9 GiB is reserved by PyTorch but unallocated")  # fmt: skip
PORT = "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n"


@pytest.mark.parametrize(
    ("log", "script", "said", "never"),
    [
        (KILLED, "#SBATCH --mem=0 --exclusive", "more nodes", "--mem=0` takes"),
        (PIECES, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "smaller micro batch", "expandable_segments"),
        (OOM, "srun python pretrain_gpt.py --micro-batch-size 1 --recompute-granularity full", "recomputed already", "activation checkpointing"),
        (STEPS[:60] + LIMIT, "#SBATCH --time=UNLIMITED --signal=TERM@300 --requeue", "on the signal of --signal=TERM@300", "longer --time"),
        (PORT, "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))", "who holds the port", "Derive the port"),
    ],
)  # fmt: skip
def test_no_fix_asks_for_what_the_script_does(log: str, script: str, said: str, never: str) -> None:
    head = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4\n"
    text = " ".join(diagnose(log, script=parse(f"{head}{script}\n")).to_text(width=400).split())
    assert said in text
    assert never not in text.partition(" fix ")[2]
