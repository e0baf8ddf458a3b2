"""Who is absent: the size from whatever prints it, members by whatever label; nobody who printed anything is called silent."""

from collections.abc import Callable
from pathlib import Path

import pytest

from builders import watchdog
from slurmdoctor import Diagnosis, diagnose

Label = Callable[[int], str]


def torch(rank: int) -> str:
    return f"[rank{rank}]:[E1120 10:11:12.{rank:03}417 ProcessGroupNCCL.cpp:616] "


def waited(*ranks: int, label: Label = torch) -> str:
    return "".join(watchdog(rank, label(rank), 871) for rank in ranks)


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
    verdict = diagnose("world_size=8\n" + waited(0, 1, 2, 3, 4, 6, 7, label=label))
    assert (verdict.cause.id, rank_of(verdict)) == ("collective-timeout", 5)
    assert "7 of 8 ranks timed out in SeqNum 871 (ALLREDUCE); rank 5 never reported it" in why(verdict)


SIZES = {
    "NCCL INFO": "n1:14054:14825 [3] NCCL INFO comm 0x9bc5a80 rank 3 nranks 8 cudaDev 3 busId 4e000 - Init COMPLETE",
    "environment": "export WORLD_SIZE=8",
    "accelerate": "+ accelerate launch --num_processes 8 train.py",
    "torchrun": "+ torchrun --nnodes=2 --nproc_per_node=4 train.py",
    "DeepSpeed": "[2026-01-01 10:00:00,000] [INFO] [launch.py:180:main] dist_world_size=8",
    "srun": "+ srun --ntasks=8 python train.py",
    "srun, nodes": "#SBATCH --nodes=2\n+ srun --ntasks-per-node=4 python train.py",
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_the_size_is_read_from_whatever_prints_it(size: str) -> None:
    verdict = diagnose(f"{size}\n{waited(*range(7))}")
    assert (verdict.facts.get("world_size"), rank_of(verdict)) == (8, 7)


def test_the_largest_rank_is_not_the_last_one() -> None:
    verdict = diagnose(waited(*range(7)))
    assert (verdict.facts.get("world_size"), rank_of(verdict)) == (None, None)
    assert "ranks 0-6 waited" in why(verdict)
    assert " of 7" not in why(verdict)


@pytest.mark.parametrize("rank", [1, 3])
def test_of_one_ranks_log_nobody_is_called_absent(rank: int) -> None:
    verdict = diagnose(watchdog(rank, torch(rank), op="GATHER", numel=(99, 0)))
    assert (rank_of(verdict), verdict.coverage.silent_ranks) == (None, ())
    assert "nothing" not in why(verdict)


def test_a_rank_that_printed_anything_is_not_called_silent() -> None:
    stuck = "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    waits = watchdog(2, torch(2), op="_ALLGATHER_BASE", numel=(10, 80))
    later = (f"{torch(r).replace('10:11', '10:19')}[PG ID 0 PG GUID 0(default_pg) Rank {r}] {stuck}\n" for r in (5, 7))
    assert diagnose(waits + "".join(later)).coverage.silent_ranks == (0, 1, 3, 4, 6)


def test_a_rank_with_a_file_of_its_own_may_be_missing_but_is_not_silent(tmp_path: Path) -> None:
    for rank in range(8):
        (tmp_path / f"rank_{rank}.log").write_text("step 10 loss 1.0\n" + (watchdog(rank) if rank != 5 else ""))
    verdict = diagnose(tmp_path)
    assert (rank_of(verdict), verdict.coverage.silent_ranks) == (5, ())


def joined(*ranks: int) -> str:
    lines = (f"initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/8\n" for rank in ranks)
    return "GPU available: True, used: True\n" + "".join(lines)


@pytest.mark.parametrize(
    ("log", "absent"),
    [
        (joined(1, 2, 0, 3), ("4 of 8 ranks", "ranks 4-7")),
        (joined(0, 1, 2, 4, 5, 6, 7), ("7 of 8 ranks", "ranks 3 ")),
        (joined(*range(8)), ()),
        (joined(0, 1, 2, 3) + "All distributed processes registered. Starting with 8 processes\n", ()),
        (joined(0, 1, 2, 3) + "step 1/9 loss 3.1 9 ms\nstep 2/9 loss 3.0 9 ms\n", ()),
    ],
    ids=["half", "all but one", "all", "registered", "steps were made"],
)
def test_a_log_that_ends_while_ranks_join_shows_who_is_absent(log: str, absent: tuple[str, ...]) -> None:
    verdict = diagnose(log)
    assert (verdict.verdict, "joined" in why(verdict)) == ("unknown", bool(absent))
    assert [words for words in absent if words not in why(verdict)] == []


CAST, GATHER = ("BROADCAST", (70, 70)), ("_ALLGATHER_BASE", (513, 2052))


def differing(*who: tuple[int, int, str, tuple[int, int]]) -> Diagnosis:
    return diagnose("".join(watchdog(rank, torch(rank), *work) for rank, *work in who))  # type: ignore[arg-type]


def test_who_waits_ahead_in_another_operation_left_the_common_order() -> None:
    verdict = differing((0, 341, *GATHER), (1, 339, *CAST), (2, 339, *CAST))
    assert rank_of(verdict) == 0
    assert "rank 0 waits in SeqNum 341 (_ALLGATHER_BASE), 2 ahead of SeqNum 339 (BROADCAST)" in why(verdict)


def test_numbers_far_apart_are_two_groups_and_prove_no_laggard() -> None:
    verdict = differing((0, 96117, *CAST), (1, 96117, *CAST), (2, 96117, *CAST), (7, 64088, *CAST))
    assert rank_of(verdict) is None
    assert "different process groups" in why(verdict)


def test_who_waits_in_another_group_is_followed_to_whom_that_group_waits_for() -> None:
    data = "".join(watchdog(r // 2, f"{torch(r)}[PG ID 9 PG GUID 9(dp) Rank {r // 2}] ", 40) for r in (0, 2, 6))
    pair = watchdog(0, f"{torch(4)}[PG ID 3 PG GUID 3(tp) Rank 0] ", 77)
    assert rank_of(diagnose(f"world_size=8\n{data}{pair}")) in (None, 5)


def signal(rank: int, whose: str) -> str:
    return (
        f"{torch(rank)}[PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal due to a collective timeout from "
        f"{whose} and we will try our best to dump the debug info. Last enqueued NCCL work: 1261, last completed NCCL work: 1259.\n"
    )


def test_the_dump_signal_names_who_timed_out_first() -> None:
    observed = torch(0) + "Observed flight recorder dump signal from another rank via TCPStore.\n"
    verdict = diagnose(observed + signal(0, " rank 13"))
    assert (verdict.cause.id, rank_of(verdict)) == ("collective-timeout", None)
    assert "rank 13 timed out first" in why(verdict)
    assert any("from  rank 13" in item.text for item in verdict.evidence)
    verdict = diagnose("world_size=4\n" + signal(2, " rank 3") + waited(0, 1))
    assert rank_of(verdict) == 2
    assert "3 of 4 ranks timed out" in why(verdict)


def ended(*lists: str, how: str = "Terminated") -> str:
    return "".join(f"srun: error: node{n}: tasks {tasks}: {how}\n" for n, tasks in enumerate(lists, start=1))


FAILED = "slurmstepd: error: *** STEP 4711.0 ON node1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TASK FAILURE ***\n"


@pytest.mark.parametrize(
    ("log", "rank", "node"),
    [
        (FAILED + ended("0-57,59-63"), 58, "node1"),
        (FAILED + ended("0-7", "8-9,11-15", "16-23"), 10, "node2"),
        (ended("0,2-3", how="Killed") + FAILED, 1, "node1"),
        (FAILED + "".join(f"srun: error: node1: task {n}: Terminated\n" for n in (0, 1, 3)), 2, "node1"),
    ],
)
def test_the_task_that_slurm_did_not_have_to_stop_is_the_one_that_failed(log: str, rank: int, node: str) -> None:
    verdict = diagnose(f"{log}srun: Force Terminated StepId=4711.0\n")
    assert (verdict.cause.id, rank_of(verdict), verdict.first_failure.node) == ("exit-code", rank, node)
    assert (verdict.exit.code, verdict.retry and verdict.retry.advice) == (None, "unknown")


@pytest.mark.parametrize(
    "log",
    [
        FAILED + ended("0-63"),
        FAILED + ended("0-3,60-63"),
        FAILED.replace("TASK FAILURE", "TIME LIMIT") + ended("0-57,59-63"),
        "srun: error: node1: task 3: Exited with exit code 7\n" + FAILED + ended("0-2,4-57,59-63"),
        "3: KeyError: 'x'\n" + FAILED + ended("0-2,4-57,59-63"),
    ],
)
def test_a_gap_in_a_list_accuses_nobody_where_it_proves_nothing(log: str) -> None:
    assert rank_of(diagnose(log)) != 58


def test_that_a_task_failed_is_shown_though_not_which_one() -> None:
    verdict = diagnose(FAILED + ended("0-63"))
    assert "one of its tasks had failed" in str(verdict.first_failure.how)
    assert (verdict.retry and verdict.retry.advice) == "after-fix"


def enters(rank: int, seq: int) -> str:
    """What each rank prints with TORCH_DISTRIBUTED_DEBUG=DETAIL."""
    shown = f"CollectiveFingerPrint(SequenceNumber={seq}, OpType=ALLREDUCE, TensorShape=[], TensorDtypes=Float)"
    return f"[I ProcessGroupWrapper.cpp:562] [Rank {rank}] Running collective: {shown}\n"


def test_who_had_entered_fewer_collectives_is_shown_and_not_accused() -> None:
    numbers = [enters(r, seq) for seq in range(3, 1277) for r in range(4)] + [enters(r, 1277) for r in (0, 1, 3)]
    killed = "[ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=3'] exits with return code = -9\n"
    verdict = diagnose("".join(numbers) + killed)
    assert (verdict.cause.id, rank_of(verdict)) == ("killed", None)
    shown = "rank 2 had entered collective 1276 (ALLREDUCE) when the log ended, ranks 0-1,3 had entered 1277"
    assert shown in why(verdict)


@pytest.mark.parametrize(
    "lines",
    [
        "".join(enters(rank, seq) for seq in range(3, 40) for rank in range(4)),
        'patterns: ["Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE"]\nstep 10/10 loss 1.0\n',
    ],
)
def test_a_job_that_prints_such_lines_and_ends_well_is_left_in_peace(lines: str) -> None:
    assert diagnose(f"world_size=4\n{lines}Training completed.\n").verdict != "failed"
