"""What each rank did over time, as the log shows it: the timelines that a page draws."""

from pathlib import Path

import pytest

from builders import watchdog
from cases import Case, cases, verdict_of
from simulate import Job, speak, written
from slurmdoctor import diagnose
from slurmdoctor.model import Mark, RankTimeline, RankTimelines

STEP = "{rank}: [2026-03-21 02:{minute:02d}:{second:02d},114] [INFO] [rank {rank}] step {step}/5000 loss 2.31"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79.11 GiB"
RAISED = """{rank}: [rank{rank}]: Traceback (most recent call last):
{rank}: [rank{rank}]:   File "/home/ada/train.py", line 41, in main
{rank}: [rank{rank}]:     row = shards[name]
{rank}: [rank{rank}]: KeyError: 'shard-00417'"""
BY_SLURM = "slurmstepd: error: *** JOB 4711 ON gpu-01 CANCELLED AT 2026-03-21T02:{}:03 DUE TO {} ***"
EXITED = "srun: error: gpu-01: task {}: Exited with exit code 1"


def steps(ranks: int, minutes: int, silent_from: dict[int, int] | None = None) -> list[str]:
    """A step a minute of each rank, from 02:00 on; some ranks stop at a minute."""
    until = silent_from or {}
    return [
        STEP.format(rank=rank, minute=minute, second=rank, step=10 * minute)
        for minute in range(minutes)
        for rank in range(ranks)
        if minute < until.get(rank, minutes)
    ]


def timed_out(*ranks: int, at: str = "13:10") -> list[str]:
    return [watchdog(r, f"{r}: [rank{r}]:[E321 02:{at}.013 ProcessGroupNCCL.cpp:616] ").rstrip() for r in ranks]


def timelines_of(*lines: str) -> RankTimelines:
    return diagnose("\n".join(lines) + "\n").rank_timelines


def rank_timeline(found: RankTimelines, rank: int) -> RankTimeline:
    return next(one for one in found.timelines if rank in one.ranks)


def way(found: RankTimelines, rank: int) -> str:
    """The states of a rank in order, and when it came into each but the first."""

    def clock(at: float) -> str:
        assert found.start is not None
        minutes, seconds = divmod(round(found.start + at) % 3600, 60)
        return f"{minutes:02d}:{seconds:02d}"

    first, *later = rank_timeline(found, rank).spans
    return ", ".join([first.state, *(f"{span.state} {clock(span.start)}" for span in later)])


def marks(found: RankTimelines, rank: int, kind: str) -> list[Mark]:
    return [mark for mark in rank_timeline(found, rank).marks if mark.kind == kind]


SILENT_3 = [
    *steps(8, 4),
    *timed_out(0, 1, 2, 4, 5, 6, 7),
    "srun: error: gpu-01: tasks 0-2,4-7: Aborted (core dumped)",
    "srun: error: gpu-01: task 3: Killed",
]
ABORTED = [*timed_out(0, 1, 3), "srun: error: gpu-01: tasks 0-1,3: Aborted (core dumped)"]
PLACED = [f"{rank}: gpu-0{rank // 2 + 1}:4012{rank}:4012{rank} [0] NCCL INFO comm 0x55d0 rank {rank} nranks 4 cudaDev 0" for rank in range(4)]  # fmt: skip
LOST_NODE = [*PLACED, *steps(4, 4), "srun: error: Node failure on gpu-02", BY_SLURM.format("09", "NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS")]  # fmt: skip
FINISHED = "[2026-03-21 02:10:00,114] [INFO] {}training finished"
WAYS: dict[str, tuple[list[str], dict[int, str]]] = {
    "who waited did so since the collective began, and who never came was silent": (
        SILENT_3, {0: "running, waiting 03:10, followed 13:10, gone 13:10", 3: "running, silent 03:10, gone 13:10"},
    ),
    "an error before the timeouts is first, and its rank is gone while the others wait": (
        [*steps(4, 4), f"2: [rank2]: {OOM}", EXITED.format(2), *ABORTED],
        {0: "running, waiting 03:10, followed 13:10, gone 13:10", 2: "running, failed 03:03, gone 03:03"},
    ),
    "a traceback that was held back came before those who waited for it": (
        [*steps(4, 4), *ABORTED[:3], RAISED.format(rank=2), EXITED.format(2)], {2: "running, failed 03:10, gone 13:10"},
    ),
    "who stopped while others made steps was silent": (
        [*steps(4, 30, {1: 5}), RAISED.format(rank=3), EXITED.format(3)],
        {0: "running", 1: "running, silent 04:01", 3: "running, failed 29:03, gone 29:03"},
    ),
    "a rank of which nothing was read is silent throughout": (
        ["using world size: 4, data-parallel size: 4", *steps(3, 5), RAISED.format(rank=1)], {3: "silent"},
    ),
    "the ranks of a lost node are gone when Slurm says so": (
        LOST_NODE, {0: "running, silent 03:03, gone 09:03", 2: "running, silent 03:03, gone 09:03"},
    ),
    "a job that stood still is silent from its last step to its end": (
        [*steps(2, 10), BY_SLURM.format("59", "TIME LIMIT")], {0: "running, silent 09:01, gone 59:03"},
    ),
    "a healthy job runs and finishes": (
        [*steps(2, 10), *(f"{rank}: " + FINISHED.format(f"[rank {rank}] ") for rank in range(2))], {0: "running, finished 10:00"},
    ),
    "all ranks finish with a program that says so once": (
        [*steps(4, 10), FINISHED.format("")], dict.fromkeys(range(4), "running, finished 10:00"),
    ),
    "who failed as it was left behind did not finish": (
        [*steps(2, 10), "1: " + FINISHED.format("[rank 1] "), RAISED.format(rank=1), EXITED.format(1)],
        {1: "running, failed 10:00, gone 10:00"},
    ),
    "of two attempts the last one is shown": (
        [*steps(2, 5), RAISED.format(rank=0), BY_SLURM.format("05", "JOB REQUEUE"),
         *(line.replace("21 02:0", "21 02:3") for line in steps(2, 5)), f"1: [rank1]: {OOM}", EXITED.format(1)],
        {0: "running", 1: "running, failed 34:01, gone 34:01"},
    ),
}  # fmt: skip
"""What each rank did, and since when."""


@pytest.mark.parametrize(("lines", "ways"), WAYS.values(), ids=WAYS)
def test_what_each_rank_did_and_since_when(lines: list[str], ways: dict[int, str]) -> None:
    found = timelines_of(*lines)
    assert {rank: way(found, rank) for rank in ways} == ways


def test_who_printed_nothing_stands_apart_and_is_marked_where_the_others_began_to_wait() -> None:
    found = timelines_of(*SILENT_3)
    [mark] = marks(found, 3, "first")
    assert (mark.cause, mark.file, mark.line) == ("collective-timeout", None, None)
    assert mark.text == "never joined the collective that the other ranks waited in"
    suspect, other = rank_timeline(found, 3), rank_timeline(found, 0)
    assert (suspect.standing, suspect.ended, other.ended) == ("suspect", "SIGKILL", "SIGABRT")


def test_ranks_of_several_nodes_share_a_timeline() -> None:
    assert rank_timeline(timelines_of(*LOST_NODE), 1).nodes == ("gpu-01", "gpu-02")


def test_all_that_failed_alike_are_first_and_share_a_timeline() -> None:
    tracebacks = "\n".join(RAISED.format(rank=rank) for rank in range(8))
    found = timelines_of(*steps(8, 4), tracebacks, "srun: error: gpu-01: tasks 0-7: Exited with exit code 1")
    [one] = found.timelines
    assert (one.ranks, one.standing, one.ended) == (tuple(range(8)), "first", "exit code 1")
    assert [span.state for span in one.spans] == ["running", "failed", "gone"]


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.truth.get("failed", True)], ids=lambda case: case.name
)
def test_every_failure_is_marked_with_the_rank_of_the_verdict(case: Case) -> None:
    found = verdict_of(case.name)
    if not found.rank_timelines.timelines or found.verdict != "failed":
        pytest.skip("nothing over time, or no failure")
    marked = [one for one in found.rank_timelines.timelines if any(mark.kind == "first" for mark in one.marks)]
    assert marked
    rank = found.first_failure.rank
    assert rank is None or any(rank in one.ranks for one in marked)


def test_a_run_of_hours_is_shown_from_the_last_steps_on() -> None:
    hours = (line.replace(" 02:", f" {hour:02d}:") for hour in range(2, 9) for line in steps(2, 59))
    found = timelines_of(*hours, f"1: [2026-03-21 08:58:40,114] [ERROR] [rank 1] {OOM}", EXITED.format(1))
    assert found.start is not None
    assert found.end is not None
    assert found.end - found.start < 600
    assert found.began < -6 * 3600
    assert way(found, 1) == "running, failed 58:40, gone 58:40"
    assert [mark.text for mark in marks(found, 0, "step")][-1] == "step 580/5000"


def test_labels_of_the_axis_are_round_times_of_the_logs_clock() -> None:
    found = timelines_of(*(line.replace(",114]", ",114+02:00]") for line in SILENT_3))
    assert found.since.startswith("2026-03-21 02:0")
    assert [label for _, label in found.ticks[:3]] == ["02:02:00", "02:04:00", "02:06:00"]
    assert all(0 <= at <= (found.end or 0) - (found.start or 0) for at, _ in found.ticks)


def test_clocks_that_are_apart_are_shown_as_one(tmp_path: Path) -> None:
    """gpu-02's clock is 35 minutes ahead; by that clock the other rank waited from 02:40:20 on."""
    failed = f"1: [2026-03-21 02:40:30,114] [ERROR] [rank 1] {OOM}"
    for rank, end in enumerate((*timed_out(0, at="15:20"), failed)):
        lines = [STEP.format(rank=rank, minute=35 * rank + n, second=1, step=10 * n) for n in range(6)]
        log = "".join(line.removeprefix(f"{rank}: ") + "\n" for line in (*lines, end))
        (tmp_path / f"gpu-0{rank + 1}.log").write_text(log)
    found = diagnose(sorted(tmp_path.iterdir())).rank_timelines
    assert "failed 40:30" in way(found, 1)
    assert "waiting 40:20" in way(found, 0)


def test_lines_are_masked_and_hosts_renamed() -> None:
    secret = "2: [rank2]: RuntimeError: login failed for https://ada:hunter2secret@vault.example.org/x"
    text = "\n".join([*SILENT_3[:-2], secret, "srun: error: gpu-07: tasks 0-2,4-7: Aborted (core dumped)\n"])
    assert "hunter2secret" not in repr(diagnose(text).rank_timelines)
    strict = diagnose(text, redact="strict").rank_timelines
    assert "gpu-07" not in repr(strict)
    assert rank_timeline(strict, 0).nodes == ("host-1",)


def test_texts_are_short_and_few() -> None:
    error = f"0: [rank0]: RuntimeError: CUDA error: an illegal memory access was encountered {'x' * 5000}"
    found = timelines_of(*steps(2, 5), *[error] * 50)
    assert max(len(mark.text) for one in found.timelines for mark in one.marks) <= 200
    assert rank_timeline(found, 0).left_out > 0


def test_a_timeline_quotes_no_other_ranks_line() -> None:
    found = diagnose(written(speak(Job(ranks=128, per_node=8, root=5, cause="cuda-oom", steps=2)))).rank_timelines
    quoted = [(one, mark) for one in found.timelines for mark in one.marks if mark.kind == "error" and mark.file]
    assert quoted
    assert all(f"rank{mark.rank}]" in mark.text or f"{mark.rank}: " in mark.text for _, mark in quoted)
    assert all(mark.rank in one.ranks for one, mark in quoted if one.ranks)


def test_the_json_contract_has_none_and_who_does_not_need_them_does_not_wait_for_them() -> None:
    log = "\n".join(SILENT_3) + "\n"
    assert "rank_timelines" not in diagnose(log).to_dict()
    assert diagnose(log, rank_timelines=False).rank_timelines == RankTimelines()


def test_a_thousand_ranks_share_few_rows_and_none_is_lost() -> None:
    found = diagnose(written(speak(Job(ranks=1024, per_node=8, root=5, cause="cuda-oom", steps=2)))).rank_timelines
    assert len(found.timelines) <= 48
    shown = [rank for one in found.timelines for rank in one.ranks]
    assert sorted((*shown, *found.left_out)) == list(range(1024))


def test_sixty_ranks_that_all_ended_at_their_own_step_and_in_their_own_way() -> None:
    ends = (f"srun: error: gpu-01: task {rank}: Exited with exit code {rank + 1}" for rank in range(60))
    made = steps(60, 30, {rank: rank // 2 + 1 for rank in range(60)})
    found = timelines_of(*made, RAISED.format(rank=3), *ends)
    assert found.by_order
    assert (found.timelines[0].ranks, found.timelines[0].first) == ((3,), True)
    assert (len(found.timelines), len(found.left_out)) == (48, 12)


@pytest.mark.parametrize(
    "log",
    [
        "[rank3]: KeyError: 'x'",
        "hello\nworld",
        "",
        "python: can't open file 'train.py': [Errno 2] No such file or directory",
        BY_SLURM.format("59", "TIME LIMIT"),
    ],
)
def test_a_line_or_two_are_no_timelines(log: str) -> None:
    assert timelines_of(log) == RankTimelines()


def test_one_process_has_one_timeline() -> None:
    made = (f"2026-03-21 02:0{n}:00,114 INFO step {n}0/500 loss 2.3" for n in range(2))
    [one] = timelines_of(
        *made, "2026-03-21 02:02:00,114 ERROR CUDA out of memory. Tried to allocate 2.00 GiB", OOM
    ).timelines
    assert (one.ranks, [span.state for span in one.spans]) == ((), ["running", "failed"])


def test_what_follows_is_not_drawn_before_the_root_where_its_lines_have_no_time(tmp_path: Path) -> None:
    lost = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.31.4.2]:3483\n"
    made = "".join(f"2026-11-20 13:{m:02d}:00 step {m}/900 loss 1.0\n" for m in range(12))
    logs = (made + lost, f"{made}2026-11-20 13:12:10 {OOM}\n", "2026-11-20 08:00:00 starting\n" + lost)
    for rank, text in enumerate(logs):
        (tmp_path / f"rank_{rank}.log").write_text(text)
    found = diagnose(tmp_path).rank_timelines
    for rank, state in ((0, "followed 12:10"), (1, "failed 12:10"), (2, "followed 12:10")):
        assert state in way(found, rank)
