"""Who is absent: the size from whatever tells it, members by whatever label; nobody who spoke is called silent."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from slurmdoctor import diagnose
from slurmdoctor.report.result import Diagnosis

Label = Callable[[int], str]


def watchdog(rank: int, seq: int = 871, op: str = "ALLREDUCE", numel: tuple[int, int] = (64, 64), ran: int = 0) -> str:
    return (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn={numel[0]}, "
        f"NumelOut={numel[1]}, Timeout(ms)=600000) ran for {ran or 600010 + rank} milliseconds before timing out."
    )


def torch(rank: int) -> str:
    return f"[rank{rank}]:[E1120 10:11:12.{rank:03}417 ProcessGroupNCCL.cpp:616] "


def log(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def why(verdict: Diagnosis) -> str:
    return "; ".join(verdict.reasons)


def rank_of(verdict: Diagnosis) -> int | None:
    return verdict.first_failure.rank


LABELS: dict[str, Label] = {
    "torch >= 2.2": torch,
    "torch < 2.2": lambda rank: "[E ProcessGroupNCCL.cpp:457] ",
    "srun -l": lambda rank: f"{rank}: [E ProcessGroupNCCL.cpp:457] ",
    "terminate": lambda rank: "  what():  ",
    "Ray": lambda rank: f"(Worker pid={4000 + rank}) [E ProcessGroupNCCL.cpp:563] ",
    "progress bar": lambda rank: f"Epoch 0:  6%|6   | 320/5001 [6:28<94:39,  1.37it/s]{torch(rank)}",
}


@pytest.mark.parametrize("label", LABELS.values(), ids=LABELS)
def test_the_same_rank_is_missing_whatever_the_label(label: Label) -> None:
    verdict = diagnose(log("world_size=8", *(label(r) + watchdog(r) for r in (0, 1, 2, 3, 4, 6, 7))))
    assert (verdict.cause.id, rank_of(verdict)) == ("collective-timeout", 5)
    assert "7 of 8 ranks timed out in SeqNum 871 (ALLREDUCE); rank 5 never reported it" in why(verdict)


SIZES = {
    "NCCL INFO": "n1:14054:14825 [3] NCCL INFO comm 0x9bc5a80 rank 3 nranks 8 cudaDev 3 busId 4e000 - Init COMPLETE",
    "Lightning": "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/8",
    "environment": "export WORLD_SIZE=8",
    "accelerate": "+ accelerate launch --num_processes 8 train.py",
    "accelerate's state": "Num processes: 8",
    "torchrun": "+ torchrun --nnodes=2 --nproc_per_node=4 train.py",
    "DeepSpeed": "[2026-01-01 10:00:00,000] [INFO] [launch.py:180:main] dist_world_size=8",
    "srun": "+ srun --ntasks=8 python train.py",
    "srun, nodes": "#SBATCH --nodes=2\n+ srun --ntasks-per-node=4 python train.py",
    "Slurm's environment": "SLURM_NTASKS=8",
    "torchelastic": "  global_world_sizes=[8, 8, 8, 8]",
    "mpirun": "+ mpirun -np 8 python train.py",
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_size_is_read_from_whatever_tells_it(size: str) -> None:
    verdict = diagnose(log(size, *(torch(r) + watchdog(r) for r in range(7))))
    assert (verdict.facts.get("world_size"), rank_of(verdict)) == (8, 7)


def test_the_largest_rank_is_not_the_last_one() -> None:
    verdict = diagnose(log(*(torch(r) + watchdog(r) for r in range(7))))
    assert (verdict.facts.get("world_size"), rank_of(verdict)) == (None, None)
    assert "ranks 0-6 waited" in why(verdict)
    assert " of 7" not in why(verdict)


@pytest.mark.parametrize("rank", [1, 3])
def test_of_one_ranks_log_nobody_is_called_absent(rank: int) -> None:
    verdict = diagnose(log(torch(rank) + watchdog(rank, op="GATHER", numel=(99, 0))))
    assert (rank_of(verdict), verdict.coverage.silent_ranks) == (None, ())
    assert "nothing" not in why(verdict)


def test_a_rank_that_printed_anything_is_not_called_silent() -> None:
    stuck = "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    waits = torch(2) + watchdog(2, op="_ALLGATHER_BASE", numel=(10, 80))
    later = (torch(r).replace("10:11", "10:19") + f"[PG ID 0 PG GUID 0(default_pg) Rank {r}] {stuck}" for r in (5, 7))
    verdict = diagnose(log(waits, *later))
    assert verdict.coverage.silent_ranks == (0, 1, 3, 4, 6)


def test_a_rank_with_a_file_of_its_own_may_be_missing_but_is_not_silent(tmp_path: Path) -> None:
    for rank in range(8):
        waits = [watchdog(rank)] if rank != 5 else []
        (tmp_path / f"rank_{rank}.log").write_text(log("step 10 loss 1.0", *waits))
    verdict = diagnose(tmp_path)
    assert (rank_of(verdict), verdict.coverage.silent_ranks) == (5, ())


# ── other collectives ────────────────────────────────────────────────────────────────────────


def differing(*who: tuple[int, int, str, tuple[int, int]]) -> Diagnosis:
    return diagnose(log(*(torch(rank) + watchdog(rank, seq, op, numel) for rank, seq, op, numel in who)))


CAST, GATHER = ("BROADCAST", (70, 70)), ("_ALLGATHER_BASE", (513, 2052))


def test_who_waits_ahead_in_another_operation_left_the_common_order() -> None:
    verdict = differing((0, 341, *GATHER), (1, 339, *CAST), (2, 339, *CAST))
    assert rank_of(verdict) == 0
    assert "rank 0 waits in SeqNum 341 (_ALLGATHER_BASE), 2 ahead of SeqNum 339 (BROADCAST)" in why(verdict)


def test_numbers_far_apart_are_two_groups_and_prove_no_laggard() -> None:
    verdict = differing((0, 96117, *CAST), (1, 96117, *CAST), (2, 96117, *CAST), (7, 64088, *CAST))
    assert rank_of(verdict) is None
    assert "different process groups" in why(verdict)


def test_who_waits_in_another_group_is_followed_to_whom_that_group_waits_for() -> None:
    def inside(rank: int, group: str, k: int, seq: int) -> str:
        return f"{torch(rank)}[PG ID {group} Rank {k}] " + watchdog(k, seq)

    pairs = [(r, f"{r // 2 + 1} PG GUID {r // 2 + 1}(tp)", r % 2) for r in range(8) if r != 5]
    data = [inside(r, "9 PG GUID 9(dp)", r // 2, 40) for r in (0, 2, 6)]
    verdict = diagnose(log("world_size=8", *data, inside(4, pairs[4][1], 0, 77)))
    assert rank_of(verdict) in (None, 5)


# ── dump signals ─────────────────────────────────────────────────────────────────────────────


def signal(rank: int, whose: str) -> str:
    return (
        f"{torch(rank)}[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from "
        f"{whose} and we will try our best to dump the debug info. Last enqueued NCCL work: 1261, last completed NCCL work: 1259."
    )


def test_the_dump_signal_names_who_timed_out_first() -> None:
    verdict = diagnose(
        log(torch(0) + "Observed flight recorder dump signal from another rank via TCPStore.", signal(0, " rank 13"))
    )
    assert (verdict.cause.id, rank_of(verdict)) == ("collective-timeout", None)
    assert "rank 13 timed out first" in why(verdict)
    assert any("from  rank 13" in item.text for item in verdict.evidence)


def test_who_gave_the_dump_signal_is_among_those_who_waited() -> None:
    verdict = diagnose(log("world_size=4", signal(2, " rank 3"), *(torch(r) + watchdog(r) for r in (0, 1))))
    assert rank_of(verdict) == 2
    assert "3 of 4 ranks timed out" in why(verdict)


def everyone(lines: Iterable[str]) -> str:
    return log("world_size=4", *lines, "Training completed.")


def test_a_job_that_quotes_a_watchdog_and_ends_well_is_left_in_peace() -> None:
    quoted = 'patterns: ["Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE"]'
    assert diagnose(everyone([quoted, "step 10/10 loss 1.0"])).verdict != "failed"


# ── srun's lists of tasks ────────────────────────────────────────────────────────────────────

FAILED = "slurmstepd: error: *** STEP 4711.0 ON node1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TASK FAILURE ***"


def ended(*lists: str, how: str = "Terminated") -> list[str]:
    return [f"srun: error: node{n}: tasks {tasks}: {how}" for n, tasks in enumerate(lists, start=1)]


@pytest.mark.parametrize(
    ("lines", "rank", "node"),
    [
        ([FAILED, *ended("0-57,59-63")], 58, "node1"),
        ([FAILED, *ended("0-7", "8-9,11-15", "16-23")], 10, "node2"),
        ([*ended("0,2-3", how="Killed"), FAILED], 1, "node1"),
        ([FAILED, *(f"srun: error: node1: task {n}: Terminated" for n in (0, 1, 3))], 2, "node1"),
    ],
)
def test_the_task_that_slurm_did_not_have_to_stop_is_the_one_that_failed(
    lines: list[str], rank: int, node: str
) -> None:
    verdict = diagnose(log(*lines, "srun: Force Terminated StepId=4711.0"))
    assert (verdict.cause.id, rank_of(verdict)) == ("exit-code", rank)
    assert (verdict.first_failure.node, verdict.exit.code, verdict.retry and verdict.retry.advice) == (
        node,
        None,
        "unknown",
    )


@pytest.mark.parametrize(
    "lines",
    [
        [FAILED, *ended("0-63")],
        [FAILED, *ended("0-3,60-63")],
        [FAILED.replace("TASK FAILURE", "TIME LIMIT"), *ended("0-57,59-63")],
        ["srun: error: node1: task 3: Exited with exit code 7", FAILED, *ended("0-2,4-57,59-63")],
        ["3: KeyError: 'x'", FAILED, *ended("0-2,4-57,59-63")],
    ],
)
def test_a_gap_in_a_list_accuses_nobody_where_it_proves_nothing(lines: list[str]) -> None:
    assert rank_of(diagnose(log(*lines))) != 58


def test_that_a_task_failed_is_told_though_not_which_one() -> None:
    verdict = diagnose(log(FAILED, *ended("0-63")))
    assert "one of its tasks had failed" in str(verdict.first_failure.how)
    assert verdict.retry is not None
    assert verdict.retry.advice == "after-fix"


# ── what each rank enters, with TORCH_DISTRIBUTED_DEBUG=DETAIL ───────────────────────────────


def enters(rank: int, seq: int) -> str:
    shown = f"CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, TensorShape=[], TensorDtypes=Float)"
    return f"[I ProcessGroupWrapper.cpp:562] [Rank {rank}] Running collective: {shown}"


def test_who_had_entered_fewer_collectives_is_told_and_not_accused() -> None:
    numbers = [enters(r, seq) for seq in range(3, 1277) for r in range(4)] + [enters(r, 1277) for r in (0, 1, 3)]
    killed = "[ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9"
    verdict = diagnose(log(*numbers, killed))
    assert (verdict.cause.id, rank_of(verdict)) == ("killed", None)
    assert "rank 2 had entered collective 1276 (ALLREDUCE) when the log ended, ranks 0-1,3 had entered 1277" in why(
        verdict
    )


def test_a_healthy_job_may_tell_what_it_enters() -> None:
    numbers = [enters(r, seq) for seq in range(3, 40) for r in range(4)]
    assert diagnose(everyone(numbers)).verdict != "failed"
