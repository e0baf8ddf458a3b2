"""Stack dumps: the few ranks that stand elsewhere than the many are the suspects."""

import pytest

from cases import finding_of, values
from slurmdoctor import diagnose
from slurmdoctor.infer.waiting_ranks import odd_ones

pytestmark = pytest.mark.usefixtures("golden_verdicts")

LIMIT = "slurmstepd: error: *** JOB 99 ON n1 CANCELLED AT 2026-05-01T12:00:00 DUE TO TIME LIMIT ***\n"


def py_spy(odd: int | None) -> str:
    lines = []
    for r in range(4):
        lines += [
            f"{r}: Process 41{r}1: python train.py",
            f"{r}: Python v3.11.9 (/usr/bin/python3.11)",
            f'{r}: Thread 41{r}1 (idle): "MainThread"',
        ]
        inner = (
            "read (fsspec/spec.py:1941)"
            if r == odd
            else f"all_reduce (torch/distributed/distributed_c10d.py:{2500 + r})"
        )
        lines += [f"{r}:     {inner}", f"{r}:     <module> (train.py:60)"]
    return "\n".join(lines) + "\n" + LIMIT


def faulthandler(odd: int) -> str:
    lines = []
    for r in range(4):
        place = (
            '"/opt/demo/data.py", line 88 in fetch'
            if r == odd
            else '"/opt/torch/distributed_c10d.py", line 2501 in all_reduce'
        )
        lines += [
            f"{r}: Timeout (0:10:00)!",
            f"{r}: Thread 0x00007f1{r} (most recent call first):",
            f"{r}:   File {place}",
        ]
    return "\n".join(lines) + "\n" + LIMIT


def test_nobody_stands_out_where_all_differ_or_two_dumped() -> None:
    assert odd_ones({0: "a", 1: "b", 2: "c", 3: "d"}) is None
    assert odd_ones({0: "a", 1: "b"}) is None
    assert odd_ones({0: "a", 1: "a", 2: "a"}) is None


def test_py_spy_shows_who_hung_behind_a_time_limit() -> None:
    found = diagnose(py_spy(odd=2))
    assert (found.cause.id, found.first_failure.rank) == ("hang", 2)
    assert values(finding_of(py_spy(odd=2)).how, "stands-elsewhere")["here"] == "read (fsspec/spec.py:1941)"
    assert [g.standing for g in found.ranks] == ["suspect", "waiting"]


def test_faulthandler_shows_who_hung() -> None:
    found = diagnose(faulthandler(odd=1))
    assert found.first_failure.rank == 1
