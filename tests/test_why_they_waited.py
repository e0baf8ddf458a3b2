"""What kept the others waiting: work as long as their timeout, a slow rank 0, an end that hung, a node on sockets, a broken link."""

import pytest

from builders import left_out, said, watchdog
from slurmdoctor import Diagnosis, diagnose

BAR = "{}:   9%|9         | 2800/29695 [{}<4:48:08, 1.55 examples/s]"
STEPS = "\nstep 1/90 loss 3.1 9 ms\nstep 2/90 loss 3.0 9 ms\n"
COMPLETE = "`Trainer.fit` stopped: `max_epochs=40` reached.\n"
SAVING = "2026-02-18 10:{}:25,496 - root - INFO - Saving latest checkpoint model of epoch 3\n"
STAMPED = watchdog(7, "[rank7]:[E218 10:48:25.033625188 ProcessGroupNCCL.cpp:632] ", minutes=20)


def waited(*ranks: int) -> str:
    return "".join(watchdog(rank, "[E ProcessGroupNCCL.cpp:475] ", minutes=30) for rank in ranks)


WAITED = waited(2, 1, 3)
WORK: list[tuple[str, str | None]] = [
    *((BAR.format(what, "29:55") + end + WAITED, "preparing") for end in ("", "\r", "\n", " ")
      for what in ("Running tokenizer on dataset", "Map (num_proc=8)", "Generating train split")),
    (BAR.format("Fetching 9 files", "29:55") + WAITED, "fetching"),
    (BAR.format("Map", "29:55") + "\n" + WAITED + "step 1/9 loss 3.1 9 ms\n", "preparing"),
    (SAVING.format(28) + STAMPED, "saving"),
    (COMPLETE + WAITED + "srun: error: gpu01: tasks 0-1: Aborted (core dumped)\n", "finished"),
    # too short; training; steps followed; just begun; no time
    (BAR.format("Map", "02:10") + "\n" + WAITED, None),
    (BAR.format("Epoch 3", "29:55") + WAITED, None),
    (BAR.format("Map", "29:55") + STEPS + WAITED, None),
    (COMPLETE + STEPS + WAITED, None),
    (WAITED + COMPLETE, None),
    (SAVING.format(45) + STAMPED, None),
    ("saving the checkpoint\n" + waited(0, 1), None),
]  # fmt: skip
"""A log, and the work of a process that lasted as long as the others waited."""


@pytest.mark.parametrize(("log", "busy"), WORK)
def test_work_as_long_as_the_others_wait_is_the_reason(log: str, busy: str | None) -> None:
    found = diagnose(log)
    assert found.facts.get("busy") == busy
    assert busy is None or "fabric" not in " ".join(found.reasons)
    assert ("2800 of 29695 after 29:55" in said(found)) is (busy in ("preparing", "fetching"))


IB = "{n}:2201:2309 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.1.0.1{k}<0>\n"
IB_SHORT = "{n}:2201:2309 [0] NCCL INFO Using network IB\n"
NO_DEVICE = "{n}:2201:2309 [0] NCCL INFO NET/IB : No device found.\n"
SOCKET = "{n}:2201:2309 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.13<0>\n"
SOCKET_SHORT = "{n}:2201:2309 [0] NCCL INFO Using network Socket\n"
CHANNEL = "{n}:2201:2309 [1] NCCL INFO Channel 00/0 : 5[1] -> 1[1] [send] via NET/Socket/0\n"
NODES = ("node01", "node02", "node03", "node04")
ENDED = "srun: error: {n}: tasks {a}-{b}: Aborted (core dumped)\n"


def job(lines: dict[str, str], seq: int = 9) -> Diagnosis:
    """Eight ranks on four nodes hang; some nodes print a line of NCCL."""
    log = "".join(line.format(n=node, k=k) for k, (node, line) in enumerate(lines.items()))
    log += "".join(watchdog(r, f"[rank{r}]:[E512 10:44:12.311 ProcessGroupNCCL.cpp:685] ", seq) for r in range(8))
    found = diagnose(log + "".join(ENDED.format(n=n, a=2 * k, b=2 * k + 1) for k, n in enumerate(NODES)))
    assert found.cause.id == "collective-timeout"
    return found


@pytest.mark.parametrize("socket", [NO_DEVICE, SOCKET, SOCKET_SHORT, NO_DEVICE + SOCKET, CHANNEL])
@pytest.mark.parametrize("ib", [IB, IB_SHORT])
def test_the_one_node_on_sockets_is_named_and_left_out(socket: str, ib: str) -> None:
    found = job({"node01": ib, "node03": socket})
    assert "node03" in found.fixes[0].do
    assert "ibstatus" in found.fixes[0].do
    assert "which rank is at fault" not in said(found)
    assert (found.retry and found.retry.advice, left_out(found)) == ("elsewhere", ("node03",))


@pytest.mark.parametrize(
    "lines",
    [
        {"node01": IB, "node03": IB_SHORT},
        {"node01": SOCKET_SHORT},
        dict.fromkeys(NODES, SOCKET_SHORT),
        {"node01": IB} | dict.fromkeys(NODES[1:], SOCKET_SHORT),
        {"node01": IB + SOCKET_SHORT},
    ],
    ids=["all on InfiniBand", "one line", "all on sockets", "most on sockets", "one node tells both"],
)
def test_no_node_is_named_where_none_stands_apart(lines: dict[str, str]) -> None:
    found = job(lines)
    assert found.facts.get("socket_nodes") is None
    assert left_out(found) == ()


def test_of_two_nodes_on_sockets_among_four_both_are_left_out() -> None:
    assert left_out(job({"node01": IB, "node02": SOCKET, "node03": SOCKET})) == ("node02", "node03")


def test_sockets_are_not_why_a_rank_ran_out_of_memory() -> None:
    oom = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    assert "node03" not in said(diagnose(IB.format(n="node01", k=0) + SOCKET.format(n="node03") + oom))


@pytest.mark.parametrize(("seq", "first"), [(0, True), (1, True), (2, True), (733, False)])
def test_only_a_first_collective_that_hangs_is_a_matter_of_set_up(seq: int, first: bool) -> None:
    fix = job({}, seq).fixes[0].do
    assert ("GLOO_SOCKET_IFNAME" in fix) is ("NCCL_IB_GID_INDEX" in fix) is first


RETRIES = "{}:411:866 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {}<33397> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n"
FAILED = '[rank{0}]: Traceback (most recent call last):\n[rank{0}]:   File "train.py", line 7, in main\n[rank{0}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, {1}, NCCL version 2.21.5\n'
REMOTE = "remote process exited or there was a network error"


def broken(*links: tuple[str, str]) -> Diagnosis:
    """Nodes that each print that a peer no longer answers."""
    found = diagnose("".join(RETRIES.format(*link) for link in links) + FAILED.format(2, REMOTE))
    assert (found.cause.id, found.retry and found.retry.advice) == ("nccl-transport", "elsewhere")
    return found


def test_both_ends_of_a_broken_link_are_named() -> None:
    found = broken(("node03", "10.0.3.7"))
    assert "node03" in found.fixes[0].do
    assert "10.0.3.7" in found.fixes[0].do
    assert left_out(found) == ("node03",)
    assert "10.0.3.7" in str(found.retry)
    assert "mid-run" not in str(found.cause.title)


def test_the_end_that_several_links_share_is_the_broken_one() -> None:
    found = broken(("node03", "10.0.3.7"), ("node04", "10.0.3.7"))
    assert found.fixes[0].do.startswith("Leave out the node behind 10.0.3.7")
    assert left_out(found) == ()
    assert left_out(broken(("node03", "10.0.3.7"), ("node03", "10.0.3.8"))) == ("node03",)


def test_where_all_ranks_fail_before_a_step_the_fabric_is_suspect() -> None:
    links = RETRIES.format("node03", "10.0.3.4") + RETRIES.format("node04", "10.0.3.3")
    ends = ENDED.format(n="node03", a=0, b=0) + ENDED.format(n="node04", a=1, b=1)
    found = diagnose("world size: 2\n" + links + FAILED.format(0, REMOTE) + FAILED.format(1, REMOTE) + ends)
    assert found.fixes[0].do.startswith("Set NCCL_IB_GID_INDEX")
    assert left_out(found) == ()


@pytest.mark.parametrize("label", ["{}: ", ""], ids=["srun -l", "no labels"])
def test_of_a_link_that_all_ranks_warn_of_all_have_failed_and_some_stand_first(label: str) -> None:
    warn = "{n}:90{r}:99{r} [{l}] misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument errno 22\n"
    log = "".join(label.format(r) + warn.format(n=NODES[r // 4], r=r, l=r % 4) for r in (6, 1, 5, 7, 4, 3, 0, 2))
    log += "".join(FAILED.format(r, "unhandled system error").splitlines(keepends=True)[-1] for r in range(8))
    log += "".join(f"srun: error: {NODES[k]}: tasks {4 * k}-{4 * k + 3}: Exited with exit code 1\n" for k in (0, 1))
    found = diagnose("world size: 8\n" + log)
    assert (found.cause.id, found.extent.ranks, left_out(found)) == ("nccl-init", tuple(range(8)), ())
    assert any(group.standing == "first" for group in found.ranks)
    assert "ibstatus` on node0" not in found.fixes[0].do


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
_NEW = "wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
HEAD = "0: > initialized torch distributed ...\n"
SLOW = "minutes=60"
FETCHING = "0: Fetching 12 files:  42%|####1     | 5/12 [04:12<06:40, 57.21s/it]\n"


def no_id(ranks: range, frames: str = _SAVE, error: str = _NEW, label: str = "{r}: ", clock: str = "") -> str:
    """The tracebacks of ranks that gave up waiting for rank 0's ncclUniqueId, as srun -l labels them."""
    text = ""
    for rank in ranks:
        message = (
            f"torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
            f"c10d key-value store by key '0', but store->get('0') got error: {error}\n"
        )
        lines = f"{clock}Traceback (most recent call last):\n{frames}{message}".splitlines(keepends=True)
        text += "".join(f"{label.format(r=rank)}[rank{rank}]: {line}" for line in lines)
    return text


def ended(nodes: int) -> str:
    """srun's last lines: two ranks on each node, rank 0's own are stopped."""
    far = "".join(
        f"srun: error: {NODES[n]}: tasks {2 * n}-{2 * n + 1}: Exited with exit code 1\n" for n in range(1, nodes)
    )
    stopped = "slurmstepd: error: *** STEP 4711.0 ON node01 CANCELLED AT 2026-05-12T10:31:22 ***\n"
    return f"{far}{stopped}srun: error: node01: tasks 0-1: Terminated\n"


@pytest.mark.parametrize(
    "log",
    [
        HEAD + FETCHING + no_id(range(2, 4)) + ended(2),
        HEAD + no_id(range(2, 4)) + ended(2),
        HEAD + no_id(range(2, 4), error="Socket Timeout", label="") + ended(2),
        HEAD + "0: Saving HF-ckpt in /scratch/demo/out...\n" + no_id(range(2, 8)) + ended(4),
        HEAD + "0: downloading artifact 3/12\n" + no_id(range(2, 4), frames=_START) + ended(2),
        HEAD + no_id(range(1, 4)) + ended(2),
        HEAD + no_id(range(2, 4), clock="2026-05-12 10:30:55,123 ") + "0: 2026-05-12 10:31:02,123 INFO saved tokenizer\n" + ended(2),
        HEAD + no_id(range(2, 4), frames=_START) + "0: still here\n" + ended(2),
        no_id(range(8, 9), label=""),
    ],
    ids=["a bar", "only the save's frame", "old wording", "four nodes", "no save's frame", "ranks beside it too", "seconds later", "it spoke after", "a paste"],
)  # fmt: skip
def test_a_slow_rank_0_needs_a_longer_timeout_and_no_other_nodes(log: str) -> None:
    found = diagnose(log)
    assert (found.cause.id, left_out(found)) == ("nccl-id-timeout", ())
    assert SLOW in found.fixes[0].do
    assert "NCCL_SOCKET_IFNAME" not in said(found)
    assert "run on other nodes" not in said(found)
    assert ("Fetching 12 files: 5 of 12" in said(found)) is (FETCHING in log)
    assert any("5/12" in proof.text for proof in found.evidence) is (FETCHING in log)


FAR = no_id(range(2, 4), frames=_START) + ended(2)


@pytest.mark.parametrize(
    ("log", "first", "out"),
    [
        # of two nodes either may be the one that cannot reach the other
        ("0: > setting random seeds to 1234 ...\n" + FAR, "sinfo", NODES[:2]),
        ("0: Fetching 12 files: 100%|#####| 12/12 [00:12<00:00, 1.01it/s]\n" + FAR, "sinfo", NODES[:2]),
        ("0: W0512 10:31:21.1 torch/distributed/elastic/agent/server/api.py:745] Received Signals.SIGTERM death signal\n" + FAR, "sinfo", NODES[:2]),
        (no_id(range(6, 8), frames=_START) + ended(4), "node04", ("node04",)),
        (no_id(range(2, 8), frames=_START) + ended(4), "Test the network of node01 first", ()),
        # a timeout of an hour is not raised to an hour
        (FETCHING + no_id(range(2, 4), error=_NEW.replace("600000", "3600000")) + ended(2), "120 min", ()),
    ],
)  # fmt: skip
def test_where_no_work_of_rank_0_is_seen_the_network_is_tested(log: str, first: str, out: tuple[str, ...]) -> None:
    found = diagnose(HEAD + log)
    assert (found.cause.id, left_out(found)) == ("nccl-id-timeout", out)
    assert first in found.fixes[0].do
    assert SLOW not in said(found)


def test_the_seeds_own_three_lines_send_to_rank_0() -> None:
    found = diagnose(
        "[rank8] is setting up NCCL communicator and retrieving ncclUniqueId from [0]\n... wait timeout after 600000ms\n"
        "This may indicate a possible application crash on rank 0\n"
    )
    assert found.fixes[0].do.startswith("Look at rank 0 first")
