"""Who was first, and why: the promises of the verdict on small logs, each with one difficulty."""

from collections.abc import Iterable

import pytest

from cases import codes, finding_of
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
    return found.first_failure.rank


def cause(found: Diagnosis) -> str | None:
    return found.cause.id


def test_two_local_ranks_of_one_number_are_no_rank() -> None:
    trace = '[default3]:Traceback (most recent call last):\n[default3]:  File "/opt/demo/fit.py", line 20, in <module>\n[default3]:    main()\n'
    log = "".join(f"[default{r}]:2026-05-01 10:00:0{r},000 INFO ready\n" for r in range(4))
    log += f"[default3]:2026-05-01 10:01:00,000 ERROR stopped\n{trace}[default3]:ZeroDivisionError: division by zero\n"
    log += f"[default3]:2026-05-01 10:01:09,000 ERROR stopped\n{trace}[default3]:{GLOO_LOST}\n"
    found = diagnose(log)
    assert first(found) is None
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
