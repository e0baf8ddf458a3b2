"""Labels that no list knows: whatever stands before each line, the verdict is that of the same log without it."""

from __future__ import annotations

import pytest

import slurmdoctor
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import Origin
from slurmdoctor.ranks.label_learning import learn
from slurmdoctor.ranks.labels import LabelReader

LABELS = LabelReader(load([builtin()]).formats)

_RAISED = (
    (0, "loading the data"),
    (1, "loading the data"),
    (0, "step 1/100 loss 3.21 12 ms/step"),
    (0, "step 2/100 loss 3.11 12 ms/step"),
    (3, "Traceback (most recent call last):"),
    (3, '  File "/scratch/demo/train.py", line 88, in <module>'),
    (3, "    main()"),
    (3, '  File "/scratch/demo/train.py", line 61, in main'),
    (3, "    loss.backward()"),
    (3, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
)
_CRASHED = (
    (0, "loading the data"),
    (1, "loading the data"),
    (3, "Fatal Python error: Segmentation fault"),
    (3, ""),
    (3, "Current thread 0x00007f12 (most recent call first):"),
    (3, '  File "/scratch/demo/loader.py", line 12 in read'),
)
_OF_A_RANK = (
    "{r}: ", "[rank{r}]: ", "[12:01:02] [{r}] ", "rank{r}: ", "Rank {r}: ", "[Rank {r}/8] ", "(rank {r}) ", "rank={r} ",
    "[global rank {r}] ", "<stderr:{r}> ", "[1,{r}]<stderr>: ", "[1,mpirank:{r},algo-1]<stderr>:", "worker-{r} | ", "worker-{r}  | ",
    "[gpu{r}] ", "GPU {r}: ", "[Process {r}] ", "<{r}> ", "#{r} ", "{r}> ", "({r}) ", "[{r}/8] ", "R{r} | ", "task {r}: ",
    "【2026-03-01 10:00:00】[rank{r}]: ", "【10:00:00】[rank{r}] ", "10.1.2.3: [rank{r}]: ", "[dp0 tp1 rank{r}] ",
    "2026-03-01 10:00:00.123 | ERROR    | __main__:main:12 - [rank {r}] ", "2026-03-01 10:00:00,123 - ERROR - rank {r} - ",
    "train-worker-{r} pytorch ", "[pod/train-worker-{r}/pytorch] ",
)  # fmt: skip
_OF_NO_RANK = (
    "node07: ",
    "pod-5f2c-xk2lp trainer ",
    "(RayWorker pid=4{r}1, ip=10.0.0.2) ",
    "[Node 1/GPU {r}] ",
    "10.1.2.3: ",
)


def _verdict(log: str) -> tuple[str | None, int | None]:
    """The cause and the first rank."""
    found = slurmdoctor.diagnose(log)
    return found.cause.id if found.cause else None, found.first_failure.rank if found.first_failure else None


def _labelled(lines: tuple[tuple[int, str], ...], label: str) -> str:
    return "".join(f"{label.format(r=rank)}{text}\n" for rank, text in lines)


@pytest.mark.parametrize("label", _OF_A_RANK)
@pytest.mark.parametrize(("lines", "cause"), [(_RAISED, "cuda-oom"), (_CRASHED, "segfault")], ids=["raised", "crashed"])
def test_a_label_hides_neither_the_line_behind_it_nor_its_rank(
    lines: tuple[tuple[int, str], ...], cause: str, label: str
) -> None:
    assert _verdict(_labelled(lines, label)) == (cause, 3)


@pytest.mark.parametrize("label", _OF_NO_RANK)
def test_a_label_without_a_rank_hides_nothing_and_is_no_rank(label: str) -> None:
    assert _verdict(_labelled(_RAISED, label)) == ("cuda-oom", None)


def test_node_and_gpu_make_a_rank_where_the_log_tells_how_many_a_node_has() -> None:
    log = "launching on 4 nodes x 8 GPUs\n" + _labelled(_RAISED, "[Node 2/GPU {r}] ")
    assert _verdict(log) == ("cuda-oom", 2 * 8 + 3)


@pytest.mark.parametrize(
    "lines",
    [
        [f"[Step {n}] loss 3.{n}" for n in range(9)],
        [f"Epoch {n}: loss 3.{n}" for n in range(9)],
        [f"[{n}/9] Building CXX object a{n}.o" for n in range(9)],
        [f"layer {n}: Linear(8, 8)" for n in range(9)],
        [f"(WARNING){text}" for _, text in _RAISED],
        ["[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1)"] * 4,
        [f"model.layers.{n}.weight: torch.Size([8, 8])" for n in range(9)],
        ["see file 3: all is well"] * 5,
    ],
)
def test_what_only_looks_like_a_label_stays_in_its_line(lines: list[str]) -> None:
    form = learn(lines, LABELS)
    assert not form.learnt
    assert LABELS.strip_labels(lines[-1], form) == (Origin(), lines[-1])


@pytest.mark.parametrize(
    "label", ["[10:00:01][gpu0{n}][{r}] ", "[2026-05-12 10:00:01][gpu0{n}][{r}] ", "dgx-0{n} [{r}] ", "[node0{n} {r}] "]
)
def test_s17_a_number_behind_a_host_is_a_rank_where_no_two_hosts_share_one(label: str) -> None:
    spoken = "".join(f"{label.format(n=1 + rank // 4, r=rank)}step {rank} loss 3.2\n" for rank in range(8))
    raised = "".join(f"{label.format(n=2, r=6)}{text}\n" for rank, text in _RAISED if rank == 3)
    found = slurmdoctor.diagnose(spoken + raised)
    assert found.first_failure is not None
    assert (found.first_failure.rank, found.cause and found.cause.id) == (6, "cuda-oom")
    assert (found.first_failure.node or "").endswith("2")


@pytest.mark.parametrize("label", ["gpu0{n}-{g}> ", "gpu0{n} [{g}] ", "[gpu0{n}] "])
def test_s17_a_host_is_no_local_rank(label: str) -> None:
    spoken = "".join(f"{label.format(n=1 + rank // 4, g=rank % 4)}step {rank} loss 3.2\n" for rank in range(8))
    raised = "".join(f"{label.format(n=2, g=2)}{text}\n" for rank, text in _RAISED if rank == 3)
    assert _verdict(spoken + raised) == ("cuda-oom", None)
