"""NCCL's warnings of both nodes: all ranks that failed are counted, and some of them stand first."""

from pathlib import Path

import pytest

from slurmdoctor import diagnose

LOGS = Path(__file__).parent / "seed_logs"
WARN = "{n}:90{r}:99{r} [{l}] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22\n"
ENDS = (
    "srun: error: node01: tasks 0-3: Exited with exit code 1\nsrun: error: node02: tasks 4-7: Exited with exit code 1\n"
)
FAILED = "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.3\n"


def log(label: str) -> str:
    warned = "".join(
        label.format(r=r) + WARN.format(n=f"node0{1 + r // 4}", r=r, l=r % 4) for r in (6, 1, 5, 7, 4, 3, 0, 2)
    )
    return "world size: 8\n" + warned + "".join(FAILED.format(r=r) for r in range(8)) + ENDS


@pytest.mark.parametrize("label", ["{r}: ", ""], ids=["srun -l", "no labels"])
def test_all_eight_failed_and_the_first_are_told(label: str) -> None:
    found = diagnose(log(label))
    assert found.cause.id == "nccl-init"
    assert found.extent.ranks == tuple(range(8))
    assert any(group.standing == "first" for group in found.ranks)
    assert "ibstatus` on node0" not in found.fixes[0].do
    assert found.retry is not None
    assert not found.retry.exclude_nodes
