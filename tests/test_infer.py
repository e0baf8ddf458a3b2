"""Who was first, in which order, and why: the promises of the verdict on small logs, each with one difficulty."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from builders import LIMIT, raised
from cases import codes, finding_of, values
from simulate import Job, interleave, speak, written
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.search.reader import Reader

pytestmark = pytest.mark.usefixtures("golden_verdicts")

LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.7.0.3]:4123. This is typically caused by a remote worker crashing."


def named(found: Diagnosis) -> tuple[str | None, int | None]:
    return found.cause.id, found.first_failure.rank


def test_two_local_ranks_of_one_number_are_no_rank() -> None:
    log = "".join(f"[default{r}]:2026-05-01 10:00:0{r},000 INFO ready\n" for r in range(4))
    for second, error in (("00", "ZeroDivisionError: division by zero"), ("09", LOST)):
        log += f"[default3]:2026-05-01 10:01:{second},000 ERROR stopped\n" + raised(error, "[default3]:")
    found = diagnose(log)
    assert found.first_failure.rank is None
    assert codes(finding_of(log).how) == {"local-rank-only"}
    assert all(one.rank is None for one in found.evidence)


def test_every_rank_stands_somewhere_and_only_once() -> None:
    found = diagnose(written(interleave(speak(Job(ranks=16, root=5)), 3)))
    ranks = [rank for group in found.ranks for rank in group.ranks]
    assert sorted(ranks) == list(range(16))
    assert found.ranks[0].standing == "first"
    assert all(group.line for group in found.ranks)


def test_a_thousand_ranks_say_the_same_as_8() -> None:
    small = diagnose(written(interleave(speak(Job(ranks=8, root=5, cause="cuda-oom")), 7)))
    large = diagnose(written(speak(Job(ranks=1024, per_node=8, root=5, cause="cuda-oom", steps=2))))
    assert named(large) == named(small) == ("cuda-oom", 5)
    assert sum(len(group.ranks) for group in large.ranks) == 1024
    assert len(large.ranks) <= 4


@pytest.mark.parametrize(("victim", "label"), [("gloo", "srun"), ("program", "mpi")])
def test_tens_of_thousands_of_lines_are_confirmed_a_few_times(
    victim: str, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ports, ranks and times of 512 ranks differ: that must not make each of their lines a new one to the regexes."""
    asked = 0
    confirmed = Reader._confirmed

    def counted(self: Reader, matchers: Iterable[int], line: bytes, text: str) -> list[tuple[int, str]]:
        nonlocal asked
        asked += 1
        return confirmed(self, matchers, line, text)

    small = diagnose(written(speak(Job(ranks=8, root=5, cause="cuda-oom", victim=victim)), label))
    many = Job(ranks=512, per_node=8, root=5, cause="cuda-oom", steps=2, victim=victim, repeats=10)
    text = written(speak(many), label)
    assert text.count("\n") > 30_000
    monkeypatch.setattr(Reader, "_confirmed", counted)
    assert named(diagnose(text)) == named(small) == ("cuda-oom", 5)
    assert asked < 1000


def test_what_a_checkpoint_collected_is_not_the_printers_error() -> None:
    def printed(*above: str) -> int | None:
        head = "3: [rank3]: Traceback (most recent call last): (RANK 2)"
        frame = '3: [rank3]:   File "/opt/demo/fit.py", line 9, in load'
        error = "3: [rank3]: RuntimeError: Missing key in checkpoint state_dict: optimizer.state."
        log = "\n".join([*above, head, frame, "3: [rank3]:     go()", error])
        return diagnose(f"{log}\n").first_failure.rank

    alone = "3: [rank3]: torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([2])"
    assert printed(alone) == 2
    assert printed() is None, "others may have failed with it"


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("2026-05-01 10:00:05,000 ERROR ", "2026-05-01 10:00:09,000 ERROR "),
        ("2026-05-01T10:00:05.1Z ", "2026-05-01T10:00:09.1Z "),
        ("2026-05-01T12:00:05+02:00 ", "2026-05-01T10:00:09+00:00 "),
        ("[2026-05-01 10:00:05,000] [ERROR] ", "[2026-05-01 10:00:09,000] [ERROR] "),
        ("[E501 10:00:05.000000000 fit.cpp:1] ", "[E501 10:00:09.000000000 fit.cpp:1] "),
        ("E0501 10:00:05.000000 411 fit.py:1] ", "E0501 10:00:09.000000 411 fit.py:1] "),
        ("May 01 10:00:05 ", "May 01 10:00:09 "),
    ],
)
def test_stamps_of_every_style_order_what_the_file_does_not(early: str, late: str) -> None:
    log = f"1: {late}ERROR stopped\n" + raised("KeyError: 'b'", "1: ")
    log += f"0: {early}ERROR stopped\n" + raised("FileNotFoundError: [Errno 2] No such file or directory: '/a'", "0: ")
    found = diagnose(log)
    assert (found.coverage.order, *named(found)) == ("timestamps", "file-not-found", 0)


def test_stamps_without_a_year_take_it_from_the_log() -> None:
    log = "0: 2025-12-31 23:59:00,000 INFO begin\n1: x\n0: [E1231 23:59:10.000000000 fit.cpp:1] ERROR stopped\n"
    assert diagnose(log + raised("KeyError: 'a'", "0: ")).first_failure.time == "2025-12-31T23:59:10"


def test_the_first_failure_is_first_by_aligned_clocks() -> None:
    """Rank 1 on the second node, whose clock is five minutes ahead, fails first, rank 0 twelve seconds after it."""

    def stamp(rank: int, seconds: int) -> str:
        minutes, rest = divmod(seconds + 300 * rank, 60)
        return f"{rank}: 2026-04-02 09:{minutes:02d}:{rest:02d},000"

    log = "".join(f"{r}: 2026-04-02 09:00:00,000 INFO starting on cn{r + 1:02d}: rank {r} of 2\n" for r in (0, 1))
    log += "".join(f"{stamp(r, 5 * n)} INFO step {n}/100 loss 2.0\n" for n in range(1, 9) for r in (0, 1))
    for rank, at, error in ((0, 57, "KeyError: 'mask'"), (1, 45, "ZeroDivisionError: division by zero")):
        log += f"{stamp(rank, at)} ERROR stopped\n" + raised(error, f"{rank}: [rank{rank}]: ")
    assert diagnose(log).first_failure.rank == 1
    assert values(finding_of(log).how, "first-unexplained")["aligned"] is True


def test_py_spy_shows_who_hung_behind_a_time_limit() -> None:
    log = ""
    for rank in range(4):
        inner = "read (fsspec/spec.py:1941)" if rank == 2 else f"all_reduce (torch/distributed_c10d.py:{2500 + rank})"
        head = f'Process 41{rank}1: python train.py\nPython v3.11.9 (/usr/bin/python3.11)\nThread 41{rank}1 (idle): "MainThread"'
        lines = f"{head}\n    {inner}\n    <module> (train.py:60)".splitlines()
        log += "".join(f"{rank}: {line}\n" for line in lines)
    found = diagnose(log + LIMIT)
    assert named(found) == ("hang", 2)
    assert values(finding_of(log + LIMIT).how, "stands-elsewhere")["here"] == "read (fsspec/spec.py:1941)"
    assert [group.standing for group in found.ranks] == ["suspect", "waiting"]


def test_faulthandler_shows_who_hung() -> None:
    places = ['"/opt/torch/distributed_c10d.py", line 2501 in all_reduce'] * 4
    places[1] = '"/opt/demo/data.py", line 88 in fetch'
    log = ""
    for rank, place in enumerate(places):
        log += f"{rank}: Timeout (0:10:00)!\n{rank}: Thread 0x00007f1{rank} (most recent call first):\n{rank}:   File {place}\n"
    assert diagnose(log + LIMIT).first_failure.rank == 1


STEPS = "".join(f"step {n} loss 2.{n} lr 1e-4\n" for n in range(5))


def test_slurms_word_in_the_first_ranks_file_is_not_that_ranks(tmp_path: Path) -> None:
    """No clock tells what came first of jobs that leave a file for each rank and one for Slurm."""
    oom = "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"
    for rank, below in enumerate((raised(LOST) + oom, raised(LOST), "", raised(LOST))):
        (tmp_path / f"rank_{rank}.log").write_text(STEPS + below)
    (tmp_path / "slurm-77.out").write_text("srun: error: gn1: task 2: Out Of Memory\n")
    assert named(diagnose(tmp_path)) == ("host-oom", 2)


@pytest.mark.parametrize("name", ["rank", "r", "gpu"])
def test_what_a_files_name_counts_is_no_node(tmp_path: Path, name: str) -> None:
    for n in range(4):
        (tmp_path / f"train_4711_{name}{n}.log").write_text(STEPS + (raised(LOST) if n == 2 else ""))
    found = diagnose(tmp_path)
    assert f"{name}2" not in str(found).replace(f"_{name}2", "")
    assert found.first_failure.node is None
