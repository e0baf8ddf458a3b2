"""Who else tells of a process's end: Horovod, Lightning, mpirun, GNU time and the shell."""

from __future__ import annotations

import pytest

import slurmdoctor

pytestmark = pytest.mark.usefixtures("golden_verdicts")

WITNESSES = {
    "Process 3 exit with status code 137.": (3, 137),
    "RuntimeError: Horovod detected\nProcess name: 2\nExit code: 3\n": (2, 3),
    "|| Exit code: 3\nProcess name: 2\n": (2, 3),
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n  Process name: [[11192,1],8]\n  Exit code:    3\n": (
        8,
        3,
    ),
    "[rank: 1] Child process with PID 23026 terminated with code -11. Forcefully terminating all other processes\n": (
        None,
        -11,
    ),
    "step 1 loss 2.0 lr 1\nCommand exited with non-zero status 5\n": (None, 5),
    "step 1 loss 2.0 lr 1\nCommand terminated by signal 11\n": (None, -11),
    "python: mm.c:10: x: odd\nAborted (core dumped)\n": (None, 134),
}


@pytest.mark.parametrize(("log", "told"), WITNESSES.items())
def test_each_says_who_ended_and_how(log: str, told: tuple[int | None, int]) -> None:
    found = slurmdoctor.diagnose(log).to_dict()
    assert found["verdict"] == "failed"
    rank, code = told
    if rank is not None:
        assert found["first_failure"]["rank"] == rank
    signals = {-11: "SIGSEGV", 134: "SIGABRT", 137: "SIGKILL"}
    assert found["exit"]["code"] == code or found["exit"]["signal"] == signals.get(code, "")


def test_a_log_that_ends_before_the_last_status_line_names_nobody() -> None:
    """Rank 2 did time out with the others; only the line that tells its group is missing."""
    head = "[rank{0}]:[E626 06:24:44.90388191{0} ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    work = "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    status = (
        "[rank{0}]:[E626 06:24:44.90645762{0} ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception (either an error "
        "or timeout) detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.\n"
    )
    log = "".join((head + work + status).format(rank) for rank in (1, 0)) + (head + work).format(2)
    found = slurmdoctor.diagnose(log).to_dict()
    assert found["cause"]["id"] == "collective-timeout"
    assert found["first_failure"]["rank"] is None
