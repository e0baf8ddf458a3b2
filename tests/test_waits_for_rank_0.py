"""Ranks that waited for rank 0's ncclUniqueId: whether rank 0 was slow, the network is broken, or nobody can tell."""

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
BAR = "0: Fetching 12 files:  42%|####1     | 5/12 [04:12<06:40, 57.21s/it]\n"


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
        HEAD + BAR + waits(range(2, 4)) + ended(*NODES),
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
    found = diagnose(HEAD + BAR + waits(range(2, 4)) + ended(*NODES))
    assert "Fetching 12 files: 5 of 12" in said(found)
    assert any("5/12" in proof.text for proof in found.evidence)


FAR = waits(range(2, 4), frames=_START) + ended(*NODES)


@pytest.mark.parametrize(
    ("log", "first", "out"),
    [
        # of two nodes either may be the one that cannot reach the other
        ("0: > setting random seeds to 1234 ...\n" + FAR, "sinfo", NODES),
        ("0: Fetching 12 files: 100%|#####| 12/12 [00:12<00:00, 1.01it/s]\n" + FAR, "sinfo", NODES),
        ("0: W0512 10:31:21.1 torch/distributed/elastic/agent/server/api.py:745] Received Signals.SIGTERM death signal\n" + FAR, "sinfo", NODES),
        (waits(range(6, 8), frames=_START) + ended(*FOUR), "node04", ("node04",)),
        (waits(range(2, 8), frames=_START) + ended(*FOUR), "Test the network of node01 first", ()),
        # a timeout of an hour is not raised to an hour
        (BAR + waits(range(2, 4), error=_NEW.replace("600000", "3600000")) + ended(*NODES), "120 min", ()),
    ],
)  # fmt: skip
def test_where_no_work_of_rank_0_is_seen_the_network_is_tested(log: str, first: str, out: tuple[str, ...]) -> None:
    found = diagnose(HEAD + log)
    assert first in found.fixes[0].do
    assert SLOW not in said(found)
    assert left_out(found) == out


def test_the_seeds_own_three_lines_send_to_rank_0() -> None:
    found = diagnose(
        "[rank8] is setting up NCCL communicator and retrieving ncclUniqueId from [0]\n... wait timeout after 600000ms\n"
        "This may indicate a possible application crash on rank 0\n"
    )
    assert found.fixes[0].do.startswith("Look at rank 0 first")
