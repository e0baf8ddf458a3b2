"""What kept the others waiting: work as long as their timeout, an end that hung, a node on sockets, a broken pair of nodes."""

import pytest

import slurmdoctor
from slurmdoctor import Diagnosis, diagnose

_WAITED = "[E ProcessGroupNCCL.cpp:475] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for {ran} milliseconds before timing out.\n"
_STAMPED = "[rank{r}]:[E218 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1200000) ran for 1200027 milliseconds before timing out.\n"
_ABORTED = "srun: error: gpu01: tasks 0-1: Aborted (core dumped)\n"
_BAR = "{what}:   9%|9         | 2800/29695 [{elapsed}<4:48:08, 1.55 examples/s]"


def _all_that_is_said(found: Diagnosis) -> str:
    retry = found.retry.advice if found.retry else None
    return " ".join([*found.reasons, *(f"{fix.do} {fix.why}" for fix in found.fixes), str(retry)])


def _waits(*ranks: int, ran: int = 1800328) -> str:
    return "".join(_WAITED.format(r=rank, ran=ran) for rank in ranks)


@pytest.mark.parametrize("end", ["", "\r", "\n", " "])
@pytest.mark.parametrize(
    "what", ["Running tokenizer on dataset", "Map (num_proc=8)", "Generating train split", "Fetching 9 files"]
)
def test_data_that_was_prepared_as_long_as_the_others_wait_is_told(what: str, end: str) -> None:
    found = slurmdoctor.diagnose(_BAR.format(what=what, elapsed="29:55") + end + _waits(2, 1, 3))
    said = _all_that_is_said(found)
    assert found.facts["busy"] in ("preparing", "fetching")
    assert "2800 of 29695 after 29:55" in said
    assert "try the network" not in said.lower()


@pytest.mark.parametrize(
    "log",
    [
        _BAR.format(what="Running tokenizer on dataset", elapsed="02:10") + "\n" + _waits(2, 1, 3),
        _BAR.format(what="Epoch 3", elapsed="29:55") + _waits(2, 1, 3),
        _BAR.format(what="Map", elapsed="29:55")
        + "\nstep 1/9 loss 3.1 9 ms\nstep 2/9 loss 3.0 9 ms\n"
        + _waits(2, 1, 3),
        "2026-02-18 10:45:25,496 - root - INFO - Saving latest checkpoint model\n" + _STAMPED.format(r=7),
        "saving the checkpoint\n" + _waits(0, 1),
    ],
    ids=["short", "training", "steps followed", "just begun", "no time"],
)
def test_work_that_explains_no_wait_is_not_told(log: str) -> None:
    assert "busy" not in slurmdoctor.diagnose(log).facts


def test_a_save_as_long_as_the_timeout_is_told() -> None:
    log = "2026-02-18 10:28:25,496 - root - INFO - Saving latest checkpoint model of epoch 3\n" + _STAMPED.format(r=7)
    found = slurmdoctor.diagnose(log)
    assert found.facts["busy"] == "saving"
    assert "one process was saving" in " ".join(found.reasons)


def test_a_training_that_was_complete_before_its_end_hung_is_told_so() -> None:
    found = slurmdoctor.diagnose("`Trainer.fit` stopped: `max_epochs=40` reached.\n" + _waits(0, 1) + _ABORTED)
    said = _all_that_is_said(found)
    assert "training is complete" in said
    assert "fabric" not in " ".join(found.reasons)
    later = slurmdoctor.diagnose(
        "`Trainer.fit` stopped: `max_epochs=40` reached.\nstep 1/90 loss 3.1 9 ms\nstep 2/90 loss 3.0 9 ms\n"
        + _waits(0, 1)
    )
    assert "busy" not in later.facts


IB = "{n}:2201:2309 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.1.0.1{k}<0>\n"
IB_SHORT = "{n}:2201:2309 [0] NCCL INFO Using network IB\n"
NO_DEVICE = "{n}:2201:2309 [0] NCCL INFO NET/IB : No device found.\n"
SOCKET = "{n}:2201:2309 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.13<0>\n"
SOCKET_SHORT = "{n}:2201:2309 [0] NCCL INFO Using network Socket\n"
CHANNEL = "{n}:2201:2309 [1] NCCL INFO Channel 00/0 : 5[1] -> 1[1] [send] via NET/Socket/0\n"
ENDED = "srun: error: {n}: tasks {a}-{b}: Aborted (core dumped)\n"
NODES = ("node01", "node02", "node03", "node04")


def hang(seq: int, world: int = 8) -> str:
    return "".join(
        f"[rank{r}]:[E512 10:44:12.311 ProcessGroupNCCL.cpp:685] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600041 milliseconds before timing out.\n"
        for r in range(world)
    )


def job(lines: dict[str, str], seq: int = 9) -> str:
    """Eight ranks on four nodes; each node prints its NCCL line."""
    said = "".join(line.format(n=node, k=k) for k, (node, line) in enumerate(lines.items()))
    ends = "".join(ENDED.format(n=node, a=2 * k, b=2 * k + 1) for k, node in enumerate(NODES))
    return said + hang(seq) + ends


def said(found: Diagnosis) -> str:
    assert found.cause.id == "collective-timeout"
    return " ".join([*found.reasons, *(f"{fix.do} {fix.why}" for fix in found.fixes)])


@pytest.mark.parametrize("socket", [NO_DEVICE, SOCKET, SOCKET_SHORT, NO_DEVICE + SOCKET, CHANNEL])
@pytest.mark.parametrize("ib", [IB, IB_SHORT])
def test_the_one_node_on_sockets_is_named_and_left_out(socket: str, ib: str) -> None:
    found = diagnose(job({"node01": ib, "node03": socket}))
    assert "node03" in found.fixes[0].do
    assert "ibstatus" in found.fixes[0].do
    assert "which rank is at fault" not in said(found)
    assert found.retry is not None
    assert (found.retry.advice, found.retry.exclude_nodes) == ("elsewhere", ("node03",))


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
    found = diagnose(job(lines))
    assert found.facts.get("socket_nodes") is None
    assert found.retry is not None
    assert not found.retry.exclude_nodes


@pytest.mark.parametrize("seq", [0, 1, 2])
def test_a_first_collective_that_hangs_tells_how_to_look(seq: int) -> None:
    first = diagnose(job({}, seq)).fixes[0].do
    for word in ("NCCL_DEBUG=INFO", "TORCH_DISTRIBUTED_DEBUG=DETAIL", "GLOO_SOCKET_IFNAME", "NCCL_IB_GID_INDEX"):
        assert word in first


def test_a_late_collective_that_hangs_is_no_matter_of_set_up() -> None:
    assert "GLOO_SOCKET_IFNAME" not in said(diagnose(job({}, 733)))


RETRIES = "{n}:411:866 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {peer}<33397> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n"
FAILED = '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "train.py", line 7, in main\n[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.21.5\n'


def broken(*links: tuple[str, str]) -> Diagnosis:
    """Nodes that each print that a peer no longer answers."""
    text = "".join(RETRIES.format(n=node, peer=peer) for node, peer in links)
    found = diagnose(text + FAILED.format(r=2))
    assert found.cause.id == "nccl-transport"
    assert found.cause.title is not None
    assert "mid-run" not in found.cause.title
    return found


def left_out(found: Diagnosis) -> tuple[str, ...]:
    assert found.retry is not None
    assert found.retry.advice == "elsewhere"
    return found.retry.exclude_nodes


def test_both_ends_of_a_broken_link_are_named() -> None:
    found = broken(("node03", "10.0.3.7"))
    assert "node03" in found.fixes[0].do
    assert "10.0.3.7" in found.fixes[0].do
    assert left_out(found) == ("node03",)
    assert found.retry is not None
    assert "10.0.3.7" in found.retry.why


def test_the_peer_that_several_nodes_name_is_the_broken_end() -> None:
    found = broken(("node03", "10.0.3.7"), ("node04", "10.0.3.7"))
    assert found.fixes[0].do.startswith("Leave out the node behind 10.0.3.7")
    assert left_out(found) == ()


def test_the_node_that_names_several_peers_is_left_out() -> None:
    assert left_out(broken(("node03", "10.0.3.7"), ("node03", "10.0.3.8"))) == ("node03",)


def test_where_all_ranks_fail_before_a_step_the_fabric_is_suspect() -> None:
    ends = ENDED.format(n="node03", a=0, b=0) + ENDED.format(n="node04", a=1, b=1)
    links = "".join(RETRIES.format(n=n, peer=p) for n, p in (("node03", "10.0.3.4"), ("node04", "10.0.3.3")))
    found = diagnose("world size: 2\n" + links + FAILED.format(r=0) + FAILED.format(r=1) + ends)
    assert found.fixes[0].do.startswith("Set NCCL_IB_GID_INDEX")
    assert found.retry is not None
    assert not found.retry.exclude_nodes
