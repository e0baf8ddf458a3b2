"""Small logs beside Slurm's record of their job: the golden verdict of each pair. `make bless` writes them anew."""

from typing import Any

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from cases import decisions
from slurmdoctor import diagnose
from slurmdoctor.model import JobRecord, Step, from_sacct
from slurmdoctor.slurm.script.parser import parse

STEADY = "".join(f"2026-11-20 10:{m:02d}:30 step {m}/90 loss 1.5\n" for m in range(1, 60))
HUNG = "".join(STEADY.splitlines(keepends=True)[:11])
RAISED = """[rank3]: Traceback (most recent call last):
[rank3]:   File "/scratch/demo/train.py", line 41, in main
[rank3]:     raise ValueError("no rows in shard 7")
[rank3]: ValueError: no rows in shard 7
srun: error: gpu07: task 3: Exited with exit code 1
srun: error: gpu07: tasks 0-2,4-7: Terminated
"""
LOST = """[rank1]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2300, remote process exited or there was a network error
[rank5]: RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.7]:31701
"""
LIMIT = "slurmstepd: error: *** JOB 42 ON gpu07 CANCELLED AT {} DUE TO TIME LIMIT ***\n"
LOGS = {
    "nothing": "",
    "steps": STEADY,
    "steps stop": HUNG,
    "finished": HUNG + "2026-11-20 10:13:00 Training completed in 13 min\n",
    "raised": STEADY[:600] + RAISED,
    "raised, then finished": STEADY[:600] + RAISED + "2026-11-20 10:40:00 Training completed in 40 min\n",
    "exit 1": HUNG + "srun: error: gpu07: task 3: Exited with exit code 1\n",
    "SIGTERM": HUNG + "srun: error: gpu07: tasks 0-7: Terminated\n",
    "SIGKILL": HUNG + "srun: error: gpu08: task 12: Killed\n",
    "SIGSEGV": HUNG + "srun: error: gpu08: task 12: Segmentation fault (core dumped)\n",
    "USR1": HUNG + "srun: error: gpu07: tasks 0-15: User defined signal 1\n",
    "peers lost": HUNG + LOST,
    "out of GPU memory": HUNG + "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
    "cancelled": HUNG + "slurmstepd: error: *** STEP 42.0 ON gpu07 CANCELLED AT 2026-11-20T11:00:00 ***\n",
    "time limit": HUNG + LIMIT.format("2026-11-20T11:00:00"),
}
BASE = JobRecord(
    "42", uid=4001, nodes=("gpu07", "gpu08"), num_nodes=2, num_tasks=16, tasks_per_node=8, time_limit=3600, elapsed=3600,
    start=1795168800.0, end=1795172400.0, req_mem=200 << 30, command="/scratch/demo/job.sbatch a", sources=frozenset({"sacct"}),
)  # fmt: skip
BATCH = Step("batch", "batch", "FAILED", from_sacct("1:0"), ("gpu07",))


def job(state: str | None, exit: str | None = None, *steps: Step, **more: Any) -> JobRecord:
    ended = from_sacct(exit) if exit else None
    return replace(BASE, state=state, exit=ended, steps=(BATCH, *steps) if steps else (), **more)


def step(state: str, exit: str, *nodes: str, **more: Any) -> Step:
    return Step("0", "train", state, from_sacct(exit), nodes or ("gpu07", "gpu08"), **more)


RECORDS = {
    "PENDING": job("PENDING", reason="Resources"),
    "RUNNING": job("RUNNING"),
    "COMPLETED": job("COMPLETED", "0:0"),
    "COMPLETED, step failed": job("COMPLETED", "0:0", step("FAILED", "1:0")),
    "COMPLETED, step out of memory": job("COMPLETED", "0:0", step("OUT_OF_MEMORY", "0:125", "gpu08")),
    "COMPLETED, derived 137": job("COMPLETED", "0:0", derived=from_sacct("137:0")),
    "FAILED": job("FAILED", "1:0"),
    "FAILED, step 143": job("FAILED", "1:0", step("FAILED", "15:0")),
    "FAILED, step cancelled by its user": job("FAILED", "0:15", step("CANCELLED", "0:15", cancelled_by=4001)),
    "FAILED, derived 1": job("FAILED", "1:0", derived=from_sacct("1:0")),
    "COMPLETED, derived 0": job("COMPLETED", "0:0", derived=from_sacct("0:0")),
    "COMPLETED, an earlier step failed": job("COMPLETED", "0:0", step("FAILED", "1:0"), step("COMPLETED", "0:0")),
    "footer: 1 after a failed step": job("RUNNING", None, step("FAILED", "3:0"), exit_status=1),
    "FAILED, derived out of memory": job("FAILED", "1:0", derived=from_sacct("0:125")),
    "FAILED by the warning": job("FAILED", "0:10", elapsed=3490, warned_by="SIGUSR1", warned_before=120),
    "FAILED long before the warning": job("FAILED", "0:10", elapsed=1200, warned_by="SIGUSR1", warned_before=120),
    "FAILED, a node down": job("FAILED", "1:0", bad_nodes={"gpu08": "DOWN (Not responding)"}),
    "FAILED, a node drained": job("FAILED", "1:0", bad_nodes={"gpu08": "IDLE+DRAIN (Xid 79 [root@2026-11-20T11:30:00])"}),
    "REQUEUED": job("REQUEUED", "0:0"),
    "OUT_OF_MEMORY": job("OUT_OF_MEMORY", "0:125", step("OUT_OF_MEMORY", "0:125", "gpu08", max_rss=190 << 30)),
    "TIMEOUT": job("TIMEOUT", "0:15"),
    "TIMEOUT of a step": job("TIMEOUT", "0:15", step("CANCELLED", "0:15")),
    "NODE_FAIL": job("NODE_FAIL", "1:0", bad_nodes={"gpu08": "DOWN (Not responding)"}),
    "NODE_FAIL, two nodes": job("NODE_FAIL", "1:0", bad_nodes={"gpu07": "DOWN", "gpu08": "DRAINED"}),
    "PREEMPTED": job("PREEMPTED", "0:15", preempted_at=1795171000.0),
    "CANCELLED after a preemption": job("CANCELLED", "0:15", preempted_at=1795171000.0),
    "CANCELLED by its user": job("CANCELLED", "0:15", cancelled_by=4001),
    "CANCELLED by root": job("CANCELLED", "0:15", cancelled_by=0),
    "CANCELLED by another user": job("CANCELLED", "0:15", cancelled_by=7),
    "footer: 0": job("COMPLETING", exit_status=0),
    "footer: 1": job("RUNNING", exit_status=1),
    "footer: 0 while srun runs": job("RUNNING", exit_status=0, running_children=("srun",)),
    "footer: 143 while srun runs": job("RUNNING", exit_status=143, running_children=("srun",)),
    "footer: at the limit": job("COMPLETING", exit_status=143, reason="TimeLimit"),
    "unknown state": job("SOMETHING_NEW", "1:0"),
}  # fmt: skip
SCRIPTS = {
    "status lost in a pipe": "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py 2>&1 | tee run.log\n",
    "warning not handled": "#!/bin/bash\n#SBATCH --signal=B:USR1@120\nsrun python train.py\n",
    "port 29500": "#!/bin/bash\n#SBATCH --nodes=2\nexport MASTER_PORT=29500\nsrun torchrun --nnodes 2 --nproc-per-node 8 train.py\n",
    "sizes": "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8\nsrun python train.py --tensor-model-parallel-size 3 --num-experts 64\n",
}
TAKEN = (
    HUNG
    + "[rank0]: torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"
)
SIZES = HUNG + "0: AssertionError: world size (16) is not divisible by total_model_size (3)\n"
SHOWN = ("verdict", "first", "exit", "then", "because", "fixes", "retry")


def brief(log: str, record: JobRecord | None, script: str | None = None) -> str:
    """What a verdict decides, in one line."""
    with decisions() as found:
        diagnose(log, record=record, script=parse(script, "job.sbatch") if script else None)
    return " | ".join(line for line in found[0].splitlines() if line.startswith(SHOWN))


@pytest.mark.parametrize("name", RECORDS)
def test_verdicts_beside_a_record(name: str, snapshot: SnapshotAssertion) -> None:
    assert {log: brief(text, RECORDS[name]) for log, text in LOGS.items()} == snapshot


@pytest.mark.parametrize("name", SCRIPTS)
def test_verdicts_beside_a_script(name: str, snapshot: SnapshotAssertion) -> None:
    logs = {log: LOGS[log] for log in ("nothing", "raised", "finished", "USR1")} | {"port taken": TAKEN, "sizes": SIZES}
    found = {}
    for log, text in logs.items():
        for record in ("no record", "COMPLETED", "FAILED by the warning"):
            found[f"{log}, {record}"] = brief(text, RECORDS.get(record), SCRIPTS[name])
    assert found == snapshot
