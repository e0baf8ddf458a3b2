"""Who was first, and why: the promises of the verdict on small logs, each with one difficulty."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from cases import codes, finding_of, values
from simulate import Job, interleave, speak, written
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.model import Finding
from slurmdoctor.search.reader import Reader

pytestmark = pytest.mark.usefixtures("golden_verdicts")

GLOO_LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.7.0.3]:4123. This is typically caused by a remote worker crashing."


def started(ranks: int) -> list[str]:
    return [f"{r}: 2026-05-01 10:00:00,00{r} INFO rank {r}/{ranks}" for r in range(ranks)]


def raised(rank: int, error: str, at: str | None = "10:00:05") -> list[str]:
    head = [f"{rank}: 2026-05-01 {at},000 ERROR stopped"] if at else []
    return [
        *head,
        f"{rank}: [rank{rank}]: Traceback (most recent call last):",
        f'{rank}: [rank{rank}]:   File "/opt/demo/fit.py", line 20, in <module>',
        f"{rank}: [rank{rank}]:     main()",
        f"{rank}: [rank{rank}]: {error}",
    ]


def text_of(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


def verdict(*parts: list[str]) -> Diagnosis:
    return diagnose(text_of(*parts))


def finding(*parts: list[str]) -> Finding:
    return finding_of(text_of(*parts))


def first(found: Diagnosis) -> int | None:
    assert found.first_failure is not None
    return found.first_failure.rank


def cause(found: Diagnosis) -> str | None:
    return found.cause.id if found.cause else None


def test_a_segfault_that_only_srun_saw_wins_over_loud_victims() -> None:
    victims = [line for r in (0, 1, 3) for line in raised(r, GLOO_LOST, f"10:00:0{5 + r}")]
    ends = ["srun: error: n1: tasks 0-1,3: Exited with exit code 1", "srun: error: n1: task 2: Segmentation fault"]
    found = verdict(started(4), victims, ends)
    assert (cause(found), first(found), found.exit.signal) == ("segfault", 2, "SIGSEGV")
    assert values(finding(started(4), victims, ends).how, "witness-alone")["witness"] == "srun"


def test_witnesses_that_differ_are_shown() -> None:
    ends = ["srun: error: n1: task 2: Exited with exit code 1", "srun: error: n1: task 2: Segmentation fault"]
    found = finding(started(4), raised(2, "KeyError: 'a'"), ends)
    assert found.exit is not None
    assert found.exit.code == 1
    differing = values(found.reasons, "witnesses-differ")
    assert (differing["rank"], [exit.signal for exit in differing["others"].values()]) == (2, ["SIGSEGV"])


def test_witnesses_that_agree_are_not_spoken_of() -> None:
    found = finding(started(4), raised(2, "KeyError: 'a'"), ["srun: error: n1: task 2: Exited with exit code 1"])
    assert "witnesses-differ" not in codes(found.reasons)


def test_the_steps_code_is_kept_apart_from_the_first_failures_own() -> None:
    ends = [
        "srun: error: n1: task 2: Exited with exit code 1",
        "srun: error: n1: tasks 0-1,3: Exited with exit code 143",
    ]
    found = verdict(started(4), raised(2, "KeyError: 'a'"), ends)
    assert (found.exit.code, found.exit.step_code) == (1, 143)


def test_where_all_fail_alike_it_is_said_so() -> None:
    found = finding(
        [f"{r}: 2026-05-01 10:00:00,00{r} INFO world_size=4" for r in range(4)],
        *(raised(r, "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.json'") for r in range(4)),
    )
    assert found.alike == (0, 1, 2, 3)
    assert values(found.how, "all-alike") == {"count": 4, "rank": 0, "all": True}


def test_where_no_rank_can_be_read_there_is_none() -> None:
    found = finding_of(
        "Traceback (most recent call last):\n  File \"/opt/demo/fit.py\", line 20, in <module>\n    main()\nKeyError: 'a'\n"
    )
    assert (found.cause, found.origin.rank) == ("python-error", None)
    assert codes(found.how) == {"only-error"}


def test_two_local_ranks_of_one_number_are_no_rank() -> None:
    trace = '[default3]:Traceback (most recent call last):\n[default3]:  File "/opt/demo/fit.py", line 20, in <module>\n[default3]:    main()\n'
    log = "".join(f"[default{r}]:2026-05-01 10:00:0{r},000 INFO ready\n" for r in range(4))
    log += f"[default3]:2026-05-01 10:01:00,000 ERROR stopped\n{trace}[default3]:ZeroDivisionError: division by zero\n"
    log += f"[default3]:2026-05-01 10:01:09,000 ERROR stopped\n{trace}[default3]:{GLOO_LOST}\n"
    found = diagnose(log)
    assert first(found) is None
    assert codes(finding_of(log).how) == {"local-rank-only"}
    assert all(one.rank is None for one in found.evidence)


def test_without_stamps_the_file_orders_and_confidence_falls() -> None:
    rivals = [
        *raised(1, "KeyError: 'a'", None),
        *raised(3, "FileNotFoundError: [Errno 2] No such file or directory: '/x'", None),
    ]
    found = verdict(["0: loading", "1: loading", "2: loading", "3: loading"], rivals)
    assert found.coverage.order == "file"
    assert found.cause is not None
    assert found.cause.confidence == "medium"
    assert found.others


def test_with_stamps_time_beats_the_file() -> None:
    found = verdict(started(4), raised(1, GLOO_LOST, "10:00:09"), raised(3, "KeyError: 'a'", "10:00:05"))
    assert (first(found), found.coverage.order) == (3, "timestamps")


def test_an_out_of_memory_after_a_vain_wait_is_a_consequence() -> None:
    watchdog = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
    waits = [
        f"{r}: [rank{r}]:[E501 10:20:00.{r}00000000 ProcessGroupNCCL.cpp:632] [Rank {r}] {watchdog}" for r in (0, 1, 3)
    ]
    found = finding(
        started(4),
        waits,
        raised(1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "10:20:03"),
    )
    assert (found.cause, found.origin.rank) == ("collective-timeout", 2)
    assert values(found.reasons, "after-own-wait") == {"causes": ("cuda-oom",)}


def test_who_only_waited_is_not_named() -> None:
    found = verdict(started(4), *(raised(r, GLOO_LOST, f"10:00:0{5 + r}") for r in (0, 1)))
    assert cause(found) == "peer-lost"
    assert first(found) is None


def test_earlier_attempts_are_told_in_the_facts() -> None:
    log = [
        "SLURM_JOB_ID=101",
        *started(4),
        *raised(1, "PermissionError: [Errno 13] Permission denied: '/data/a'"),
        "srun: error: n1: task 1: Exited with exit code 1",
        "SLURM_JOB_ID=102",
        *(line.replace("10:00", "11:00") for line in started(4)),
        *raised(2, "KeyError: 'a'", "11:00:05"),
        "srun: error: n2: task 2: Exited with exit code 1",
    ]
    found = verdict(log)
    assert (cause(found), first(found)) == ("python-error", 2)
    assert found.facts["attempts"] == 2
    assert found.facts["earlier"] == [{"cause": "permission-denied", "rank": 1}]


def test_every_rank_stands_somewhere_and_only_once() -> None:
    found = diagnose(written(interleave(speak(Job(ranks=16, root=5)), 3)))
    ranks = [rank for group in found.ranks for rank in group.ranks]
    assert sorted(ranks) == list(range(16))
    assert found.ranks[0].standing == "first"
    assert all(group.line for group in found.ranks)


def test_a_thousand_ranks_say_the_same_as_8() -> None:
    small = diagnose(written(interleave(speak(Job(ranks=8, root=5, cause="cuda-oom")), 7)))
    text = written(speak(Job(ranks=1024, per_node=8, root=5, cause="cuda-oom", steps=2)))
    large = diagnose(text)
    assert (cause(large), first(large)) == (cause(small), first(small)) == ("cuda-oom", 5)
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
    text = written(
        speak(Job(ranks=512, per_node=8, root=5, cause="cuda-oom", steps=2, victim=victim, repeats=10)), label
    )
    assert text.count("\n") > 30_000
    monkeypatch.setattr(Reader, "_confirmed", counted)
    large = diagnose(text)
    assert (cause(large), first(large)) == (cause(small), first(small)) == ("cuda-oom", 5)
    assert asked < 1000


def test_what_a_checkpoint_collected_is_not_the_printers_error() -> None:
    def printed(*above: str) -> Diagnosis:
        head = "3: [rank3]: Traceback (most recent call last): (RANK 2)"
        frame = '3: [rank3]:   File "/opt/demo/fit.py", line 9, in load'
        error = "3: [rank3]: RuntimeError: Missing key in checkpoint state_dict: optimizer.state."
        return diagnose("\n".join([*above, head, frame, "3: [rank3]:     go()", error]) + "\n")

    alone = "3: [rank3]: torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([2])"
    assert first(printed(alone)) == 2
    assert first(printed()) is None, "others may have failed with it"
