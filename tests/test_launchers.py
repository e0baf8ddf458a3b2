"""A launcher is an entry of a rule file: its label and its exit report, and no Python."""

from pathlib import Path

import pytest

from slurmdoctor import UserError, diagnose
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.knowledge.workshop.check import check_paths

LAUNCHER = r"""
formats:
  - id: skiff-label
    source: skiff >= 2, our launcher
    pattern: '^<r(?P<rank>\d+)@(?P<node>[\w-]+)> '
    samples: [{line: '<r3@boat-2> hello', rank: 3, node: boat-2, text: hello}]
    no_match: ['<rank 3> hello']
exit_reports:
  - id: skiff/ended
    witness: skiff
    launcher: skiff
    source: skiff >= 2, our launcher
    literals: ['skiff: process ']
    pattern: '^skiff: process (?P<rank>\d+) \(pid (?P<pid>\d+)\) went down'
    near: '^skiff: (?:status (?P<code>\d+)|by (?P<signal>SIG[A-Z]+))'
    below: 2
    samples:
      - {line: "skiff: process 3 (pid 77) went down\nskiff: status 41", rank: 3, pid: 77, code: 41}
      - {line: "skiff: process 3 (pid 77) went down\nskiff: log kept\nskiff: by SIGSEGV", rank: 3, signal: SIGSEGV}
    no_match: ['skiff: process 3 went to sleep', 'skiff: process 3 (pid 77) went down']
"""
STEPS = "".join(f"<r{rank}@boat-{rank // 2}> step {step} loss 3.1\n" for step in range(3) for rank in range(4))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "skiff.yaml").write_text(LAUNCHER)
    return folder


def test_a_made_up_launcher_names_rank_node_and_code(site: Path) -> None:
    log = STEPS + "skiff: process 2 (pid 4121) went down\nskiff: status 41\nskiff: stopping the others\n"
    found = diagnose(log, rules=[site])
    assert found.verdict == "failed"
    assert found.first_failure.rank == 2
    assert (found.exit.code, found.exit.signal, found.exit.how) == (41, None, "skiff")
    assert found.facts["launcher"] == "skiff"


def test_its_signal_is_the_cause_where_the_rank_printed_nothing(site: Path) -> None:
    log = STEPS + "skiff: process 1 (pid 4120) went down\nskiff: log kept\nskiff: by SIGSEGV\n"
    found = diagnose(log, rules=[site])
    assert (found.cause.id, found.first_failure.rank, found.exit.signal) == ("segfault", 1, "SIGSEGV")


def test_its_label_names_the_rank_and_node_of_a_traceback(site: Path) -> None:
    log = STEPS + (
        "<r3@boat-1> Traceback (most recent call last):\n"
        '<r2@boat-1>   File "/opt/demo/other.py", line 3, in idle\n'
        '<r3@boat-1>   File "/opt/demo/train.py", line 7, in step\n'
        "<r3@boat-1> KeyError: 'tokens'\n"
        "skiff: process 3 (pid 4122) went down\nskiff: status 1\n"
    )
    found = diagnose(log, rules=[site])
    assert (found.first_failure.rank, found.first_failure.node) == (3, "boat-1")
    assert not any("other.py" in row for row in found.first_failure.traceback)
    assert (found.exit.code, found.exit.how) == (1, "skiff")


def test_without_its_entry_the_launchers_words_are_no_exit() -> None:
    found = diagnose(STEPS + "skiff: process 2 (pid 4121) went down\nskiff: status 41\n")
    assert found.exit.code is None


SLIPS = {
    "rank: 3, pid: 77, code: 41}": "rank: 3, pid: 77, code: 42}",
    "^skiff: (?:status": "^skiff: (?:state",
    "(?P<code>": "(?P<kode>",
    "literals: ['skiff: process ']": "literals: ['skiff: process ', 'skiff: never']",
    "'skiff: process 3 went to sleep'": '"skiff: process 3 (pid 77) went down\\nskiff: status 1"',
    "below: 2": "below: many",
    "    below: 2": "    from_lable: [node]",
}


def test_a_slip_in_the_entry_is_found(tmp_path: Path) -> None:
    report = LAUNCHER[LAUNCHER.index("exit_reports:") :]
    for number, (right, wrong) in enumerate([("", ""), *SLIPS.items()]):
        assert right in report
        (tmp_path / f"{number}.yaml").write_text(
            report.replace(right, wrong or right).replace("skiff", f"skiff{number}")
        )
    problems = check_paths([tmp_path], [builtin()]).problems
    assert {Path(str(problem.place).partition(":")[0]).stem for problem in problems} == {
        str(number + 1) for number in range(len(SLIPS))
    }


def test_a_broken_entry_is_told_when_a_job_is_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "skiff.yaml").write_text(LAUNCHER.replace("literals:", "litterals:"))
    with pytest.raises(UserError):
        load([tmp_path])


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


@pytest.mark.usefixtures("golden_verdicts")
@pytest.mark.parametrize(("log", "told"), WITNESSES.items())
def test_each_says_who_ended_and_how(log: str, told: tuple[int | None, int]) -> None:
    found = diagnose(log).to_dict()
    assert found["verdict"] == "failed"
    rank, code = told
    if rank is not None:
        assert found["first_failure"]["rank"] == rank
    signals = {-11: "SIGSEGV", 134: "SIGABRT", 137: "SIGKILL"}
    assert found["exit"]["code"] == code or found["exit"]["signal"] == signals.get(code, "")


@pytest.mark.usefixtures("golden_verdicts")
def test_a_log_that_ends_before_the_last_status_line_names_nobody() -> None:
    """Rank 2 did time out with the others; only the line that tells its group is missing."""
    head = "[rank{0}]:[E626 06:24:44.90388191{0} ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    work = "WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600020 milliseconds before timing out.\n"
    status = (
        "[rank{0}]:[E626 06:24:44.90645762{0} ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception (either an error "
        "or timeout) detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807.\n"
    )
    log = "".join((head + work + status).format(rank) for rank in (1, 0)) + (head + work).format(2)
    found = diagnose(log).to_dict()
    assert found["cause"]["id"] == "collective-timeout"
    assert found["first_failure"]["rank"] is None
