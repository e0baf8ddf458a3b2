"""Ranks that waited for rank 0's ncclUniqueId: whether rank 0 was slow, the network is broken, or nobody can tell."""

from __future__ import annotations

import pytest

from slurmdoctor import Diagnosis, diagnose

_SAVE = """\
  File "/opt/Megatron-Bridge/examples/conversion/hf_megatron_roundtrip_multi_gpu.py", line 251, in <module>
    main()
  File "/opt/Megatron-Bridge/src/megatron/bridge/models/conversion/auto_bridge.py", line 688, in save_hf_weights
    dist.barrier()
"""
_START = """\
  File "/opt/Megatron-Bridge/src/megatron/bridge/training/initialize.py", line 412, in _initialize_distributed
    torch.distributed.barrier(device_ids=[get_local_rank_preinit()])
"""
_STEP = "srun: error: {node}: tasks {tasks}: Exited with exit code 1\n"
_NEW = "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
_OLD = "Socket Timeout"
HEAD = "0: > initialized torch distributed ...\n"
SLOW = "minutes=60"


def waits(ranks: range, frames: str = _SAVE, error: str = _NEW, label: str = "{r}: ", clock: str = "") -> str:
    """The tracebacks of ranks that gave up, as srun -l labels them."""
    text = ""
    for rank in ranks:
        message = (
            f"torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
            f"c10d key-value store by key '0', but store->get('0') got error: {error}\n"
        )
        lines = f"{clock}Traceback (most recent call last):\n{frames}{message}".splitlines(keepends=True)
        text += "".join(f"{label.format(r=rank)}[rank{rank}]: {line}" for line in lines)
    return text


def ended(*nodes: str) -> str:
    """srun's last lines: two ranks on each node, rank 0's own are stopped."""
    far = "".join(_STEP.format(node=node, tasks=f"{2 * n}-{2 * n + 1}") for n, node in enumerate(nodes) if n)
    stopped = f"slurmstepd: error: *** STEP 4711.0 ON {nodes[0]} CANCELLED AT 2026-05-12T10:31:22 ***\n"
    return f"{far}{stopped}srun: error: {nodes[0]}: tasks 0-1: Terminated\n"


def said(found: Diagnosis) -> str:
    assert found.cause is not None
    assert found.cause.id == "nccl-id-timeout"
    return " ".join(f"{fix.do} {fix.why}" for fix in found.fixes)


def left_out(found: Diagnosis) -> tuple[str, ...]:
    assert found.retry is not None
    return found.retry.exclude_nodes


NODES = ("node01", "node02")
FOUR = ("node01", "node02", "node03", "node04")


@pytest.mark.parametrize(
    "log",
    [
        HEAD + "0: Fetching 12 files:  42%|####1     | 5/12 [04:12<06:40, 57.21s/it]\n" + waits(range(2, 4)) + ended(*NODES),
        HEAD + waits(range(2, 4)) + ended(*NODES),
        HEAD + waits(range(2, 4), error=_OLD, label="") + ended(*NODES),
        HEAD + "0: Saving HF-ckpt in /scratch/demo/out...\n" + waits(range(2, 8)) + ended(*FOUR),
        HEAD + "0: downloading artifact 3/12\n" + waits(range(2, 4), frames=_START) + ended(*NODES),
        HEAD + waits(range(1, 4)) + ended(*NODES),
        HEAD + waits(range(2, 4), clock="2026-05-12 10:30:55,123 ") + "0: 2026-05-12 10:31:02,123 INFO saved tokenizer\n" + ended(*NODES),
        HEAD + waits(range(2, 4), frames=_START) + "0: still here\n" + ended(*NODES),
        waits(range(8, 9), label=""),
    ],
    ids=["a bar", "only the save's frame", "old wording", "four nodes", "no save's frame", "ranks beside it too", "seconds later", "it spoke after", "a paste"],
)  # fmt: skip
def test_a_slow_rank_0_needs_a_longer_timeout_and_no_other_nodes(log: str) -> None:
    found = diagnose(log)
    assert SLOW in found.fixes[0].do
    assert "NCCL_SOCKET_IFNAME" not in said(found)
    assert "run on other nodes" not in said(found)
    assert left_out(found) == ()


def test_where_its_last_words_tell_of_work_they_are_quoted() -> None:
    bar = "0: Fetching 12 files:  42%|####1     | 5/12 [04:12<06:40, 57.21s/it]\n"
    found = diagnose(HEAD + bar + waits(range(2, 4)) + ended(*NODES))
    assert "Fetching 12 files: 5 of 12" in said(found)
    assert any("5/12" in proof.text for proof in found.evidence)


@pytest.mark.parametrize(
    "last", ["0: > setting random seeds to 1234 ...\n", "0: Fetching 12 files: 100%|#####| 12/12 [00:12<00:00, 1.01it/s]\n",
             "0: W0512 10:31:21.1 torch/distributed/elastic/agent/server/api.py:745] Received Signals.SIGTERM death signal\n"]
)  # fmt: skip
def test_only_another_nodes_ranks_and_no_work_of_rank_0_is_the_network(last: str) -> None:
    found = diagnose(HEAD + last + waits(range(2, 4), frames=_START) + ended(*NODES))
    assert "sinfo" in found.fixes[0].do
    assert SLOW not in said(found)
    assert left_out(found) == NODES  # either may be the one


def test_one_node_of_four_is_left_out() -> None:
    found = diagnose(HEAD + waits(range(6, 8), frames=_START) + ended(*FOUR))
    assert "node04" in found.fixes[0].do
    assert left_out(found) == ("node04",)


def test_where_all_other_nodes_wait_rank_0s_own_is_tested() -> None:
    found = diagnose(HEAD + waits(range(2, 8), frames=_START) + ended(*FOUR))
    assert "Test the network of node01 first" in found.fixes[0].do
    assert left_out(found) == ()


def test_a_timeout_of_an_hour_is_not_raised_to_an_hour() -> None:
    bar = "0: Fetching 12 files:  42%|####1     | 5/12 [04:12<06:40, 57.21s/it]\n"
    found = diagnose(HEAD + bar + waits(range(2, 4), error=_NEW.replace("600000", "3600000")) + ended(*NODES))
    assert "120 min" in found.fixes[0].do
    assert SLOW not in said(found)


def test_the_seeds_own_three_lines_send_to_rank_0() -> None:
    found = diagnose(
        "[rank8] is setting up NCCL communicator and retrieving ncclUniqueId from [0]\n... wait timeout after 600000ms\n"
        "This may indicate a possible application crash on rank 0\n"
    )
    assert found.fixes[0].do.startswith("Look at rank 0 first")
