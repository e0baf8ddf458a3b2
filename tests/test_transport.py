"""One node that falls back to sockets is named; a first collective that hangs is told how to look; a broken pair has two ends."""

from __future__ import annotations

import pytest

from slurmdoctor import Diagnosis, diagnose

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
    assert found.cause is not None
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


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ("IB interface: ib0\nNodes:        2\n", "GLOO_SOCKET_IFNAME=ib0"),
        ("", "GLOO_SOCKET_IFNAME"),
    ],
)
def test_gloo_peers_that_time_out_are_told_the_interface(head: str, wanted: str) -> None:
    error = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n"
    log = head + "".join(
        f'{r}: Traceback (most recent call last):\n{r}:   File "async_save.py", line 58, in save\n{r}: {error}'
        for r in range(4, 8)
    )
    found = diagnose(log)
    assert wanted in found.fixes[0].do


RETRIES = "{n}:411:866 [2] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {peer}<33397> with error 12, opcode 0, len 0, vendor err 129 (Recv)\n"
FAILED = '[rank{r}]: Traceback (most recent call last):\n[rank{r}]:   File "train.py", line 7, in main\n[rank{r}]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a network error, NCCL version 2.21.5\n'


def broken(*links: tuple[str, str], steps: str = "") -> Diagnosis:
    """Nodes that each print that a peer no longer answers."""
    text = "".join(RETRIES.format(n=node, peer=peer) for node, peer in links)
    found = diagnose(steps + text + FAILED.format(r=2))
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


def test_before_the_first_step_the_gid_is_told() -> None:
    first = " ".join(fix.do for fix in broken(("node03", "10.0.3.7")).fixes)
    assert "NCCL_IB_GID_INDEX" in first
    assert "ibv_devinfo" in first
    steps = "".join(
        f"iteration {n}/ 5000, elapsed time per iteration (ms): 812.4, lm loss: 2.31\n" for n in range(1, 9)
    )
    later = " ".join(fix.do for fix in broken(("node03", "10.0.3.7"), steps=steps).fixes)
    assert "NCCL_IB_GID_INDEX" not in later
