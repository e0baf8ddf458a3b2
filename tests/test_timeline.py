"""Order and attempts: what came first, which try the verdict is about, and what was survived."""

from __future__ import annotations

import pytest

from cases import finding_of, values
from slurmdoctor import Diagnosis, diagnose

pytestmark = pytest.mark.usefixtures("golden_verdicts")

TRACE = 'Traceback (most recent call last):\n{0}  File "/opt/demo/fit.py", line 9, in <module>\n{0}    main()'
AGENT = "torch/distributed/elastic/multiprocessing/api.py:874]"


def raised(head: str, error: str) -> str:
    return f"{head}{TRACE.format(head)}\n{head}{error}\n"


def cause(found: Diagnosis) -> str | None:
    return found.cause.id if found.cause else None


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
    log = f"1: {late}ERROR stopped\n" + raised("1: ", "KeyError: 'b'")
    log += f"0: {early}ERROR stopped\n" + raised("0: ", "FileNotFoundError: [Errno 2] No such file or directory: '/a'")
    found = diagnose(log)
    assert found.coverage.order == "timestamps"
    assert (cause(found), found.first_failure and found.first_failure.rank) == ("file-not-found", 0)


def test_stamps_without_a_year_take_it_from_the_log() -> None:
    log = "0: 2025-12-31 23:59:00,000 INFO begin\n1: x\n0: [E1231 23:59:10.000000000 fit.cpp:1] ERROR stopped\n"
    found = diagnose(log + raised("0: ", "KeyError: 'a'"))
    assert found.first_failure is not None
    assert found.first_failure.time == "2025-12-31T23:59:10"


def test_no_stamps_is_said_so() -> None:
    log = (
        "0: begin\n1: begin\n" + raised("0: ", "KeyError: 'a'") + raised("1: ", "OSError: [Errno 5] Input/output error")
    )
    found = diagnose(log)
    assert found.coverage.order == "file"
    assert values(finding_of(log).how, "first-unexplained")["order"] == "file"
    assert found.cause is not None
    assert found.cause.confidence != "high"


def test_a_restart_by_torchrun_is_another_attempt() -> None:
    def attempt(minute: int, error: str) -> str:
        head = f"E0501 10:{minute:02d}:00.000000 77 {AGENT} failed (exitcode: 1) local_rank: 1 (pid: 9{minute}) of binary: /opt/venv/bin/python\n"
        return f"[rank1]: {TRACE.format('[rank1]: ')}\n[rank1]: {error}\n{head}"

    log = (
        attempt(1, "KeyError: 'a'")
        + "step 1/50 loss 2.0\nstep 2/50 loss 1.9\n"
        + attempt(9, "ZeroDivisionError: division by zero")
    )
    found = diagnose(log)
    assert found.facts["attempts"] == 2
    assert found.facts["earlier"] == [{"cause": "python-error", "rank": 1}]
    assert found.first_failure is not None
    assert "ZeroDivisionError" in (found.first_failure.text or "")


def test_a_requeue_appended_to_one_file_is_another_attempt() -> None:
    log = "step 10/100 loss 2.0\nstep 11/100 loss 2.0\n"
    log += "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2026-05-01T10:00:00 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
    log += "step 10/100 loss 2.0\nstep 11/100 loss 2.0\nstep 12/100 loss 2.0\n" + raised("", "KeyError: 'a'")
    found = diagnose(log)
    assert (cause(found), found.facts["attempts"]) == ("python-error", 2)
    assert found.facts["earlier"][0]["cause"] == "node-failure"


def test_one_jobs_id_printed_by_every_rank_is_one_attempt() -> None:
    log = "".join(f"{r}: SLURM_JOB_ID=4711\n" for r in range(4)) + raised("2: ", "KeyError: 'a'")
    assert diagnose(log).facts["attempts"] == 1


def test_what_was_survived_is_not_the_verdict() -> None:
    log = (
        "step 1/9 loss 2.0\n"
        + raised("", "ConnectionError: retry later")
        + "".join(f"step {n}/9 loss 2.0\n" for n in range(2, 10))
    )
    assert diagnose(log).verdict == "no-failure"
    found = diagnose(log + raised("", "KeyError: 'a'"))
    assert cause(found) == "python-error"
    assert values(finding_of(log + raised("", "KeyError: 'a'")).reasons, "survived") == {"count": 1}
