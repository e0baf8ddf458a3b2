"""What is printed after every failure of its kind is no cause: PyTorch's and NCCL's last lines, a communicator's teardown."""

from __future__ import annotations

from typing import Any

import pytest

import slurmdoctor

TAKEN_DOWN = (
    "[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
    "kernels, subsequent GPU operations might run on corrupted/incomplete data.\n"
    "[E ProcessGroupNCCL.cpp:460] To avoid data inconsistency, we are taking the entire process down.\n"
)
TERMINATED = "terminate called after throwing an instance of 'std::runtime_error'\n"
COMPLETION = "NET/IB : Got completion from peer 10.0.3.7<39138> with error 12, opcode 0, len 0, vendor err 129\n"
REMOTE = (
    "  what():  NCCL error: remote process exited or there was a network error, NCCL version 2.14.3\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\n"
)
ABORTED = "RuntimeError: NCCL communicator was aborted on rank 3.\n"
WATCHDOG = (
    "  what():  [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, "
    "Timeout(ms)=1800000) ran for 1801256 milliseconds before timing out.\n"
)
CLOSE = "node07:174:3265 [1] proxy.cc:1521 NCCL WARN [Proxy Service 1] Failed to execute operation Close from rank 1, retcode 3\n"
WORK = (
    "[rank14]:[E218 04:54:23.220620192 ProcessGroupNCCL.cpp:1844] [PG ID 12 PG GUID 120 Rank 0] "
    "Timeout at NCCL work: 151, last enqueued NCCL work: 152, last completed NCCL work: 150.\n"
)
RAYLET = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. Worker IP address: 10.0.3.7 "
    "Worker port: 10185 Worker PID: 90738 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with "
    "a connection error code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by "
    "OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly due to SIGSEGV.\n"
)
REMOTE_RANK = (
    "(Trainer pid=92234, ip=10.0.3.8) [rank1]:[E1224 13:23:05.483 ProcessGroupNCCL.cpp:542] [Rank 12] Collective "
    "WorkNCCL(SeqNum=1, OpType=BROADCAST, Timeout(ms)=1800000) raised the following async exception: NCCL error: remote "
    "process exited or there was a network error, NCCL version 2.21.5\n"
)


def diagnosed(log: str) -> dict[str, Any]:
    return slurmdoctor.diagnose(log).to_dict()


@pytest.mark.parametrize(
    ("log", "cause", "decisive"),
    [
        (TAKEN_DOWN + TERMINATED + REMOTE + COMPLETION, "nccl-transport", "10.0.3.7"),
        (TERMINATED + REMOTE + COMPLETION, "nccl-transport", "10.0.3.7"),
        (TERMINATED + REMOTE + COMPLETION + TAKEN_DOWN, "nccl-transport", "10.0.3.7"),
        (ABORTED + TAKEN_DOWN + TERMINATED + WATCHDOG.format(rank=5), "collective-timeout", "[Rank 5]"),
        (TAKEN_DOWN + TERMINATED + WATCHDOG.format(rank=5) + ABORTED, "collective-timeout", "[Rank 5]"),
        (CLOSE + WORK, "collective-timeout", "work: 151"),
        (RAYLET + REMOTE_RANK, "data-worker", "Worker PID: 90738"),
        (REMOTE_RANK + RAYLET, "data-worker", "Worker PID: 90738"),
    ],
)
def test_the_line_that_tells_more_is_the_cause(log: str, cause: str, decisive: str) -> None:
    found = diagnosed(log)
    assert found["cause"]["id"] == cause
    assert decisive in found["first_failure"]["text"]


def test_the_raylet_s_list_of_what_may_be_is_no_evidence() -> None:
    assert diagnosed(RAYLET)["cause"]["id"] == "data-worker"


@pytest.mark.parametrize("log", [REMOTE_RANK, ABORTED + WATCHDOG.format(rank=3), CLOSE + WORK])
def test_what_a_client_saw_speaks_against_no_node(log: str) -> None:
    retry = diagnosed(log)["retry"]
    assert (retry["advice"], retry["exclude_nodes"]) == ("after-fix", [])


def test_a_communicator_s_teardown_is_no_failure() -> None:
    assert diagnosed(CLOSE * 3)["verdict"] == "unknown"
