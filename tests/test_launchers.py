"""A launcher is an entry of a rule file: its label and its exit report, and no Python."""

from pathlib import Path

import pytest

from builders import watchdog
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


MIXED = """<r3@boat-1> Traceback (most recent call last):
<r2@boat-1>   File "/opt/demo/other.py", line 3, in idle
<r3@boat-1>   File "/opt/demo/train.py", line 7, in step
<r3@boat-1> KeyError: 'tokens'
"""
ENDS: dict[str, tuple[str, int, int | None, str | None]] = {
    "skiff: process 2 (pid 4121) went down\nskiff: status 41\nskiff: stopping the others\n": ("exit-code", 2, 41, None),
    "skiff: process 1 (pid 4120) went down\nskiff: log kept\nskiff: by SIGSEGV\n": ("segfault", 1, -11, "SIGSEGV"),
    f"{MIXED}skiff: process 3 (pid 4122) went down\nskiff: status 1\n": ("python-error", 3, 1, None),
}


@pytest.mark.parametrize(("log", "ended"), ENDS.items())
def test_a_made_up_launcher_names_cause_rank_node_and_how_it_ended(
    log: str, ended: tuple[str, int, int | None, str | None], site: Path
) -> None:
    found = diagnose(STEPS + log, rules=[site])
    first = found.first_failure
    assert (found.cause.id, first.rank, found.exit.code, found.exit.signal) == ended
    assert (found.exit.how, found.facts["launcher"]) == ("skiff", "skiff")
    assert (first.node, "train.py" in str(first.traceback)) == (("boat-1", True) if MIXED in log else (None, False))
    assert "other.py" not in str(first.traceback)
    assert diagnose(STEPS + log).exit.code is None, "without its entry the words are no exit"


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
        entry = report.replace(right, wrong or right).replace("skiff", f"skiff{number}")
        (tmp_path / f"{number}.yaml").write_text(entry)
    problems = check_paths([tmp_path], [builtin()]).problems
    found = {Path(str(problem.place).partition(":")[0]).stem for problem in problems}
    assert found == {str(number + 1) for number in range(len(SLIPS))}


def test_a_broken_entry_is_told_when_a_job_is_diagnosed(tmp_path: Path) -> None:
    (tmp_path / "skiff.yaml").write_text(LAUNCHER.replace("literals:", "litterals:"))
    with pytest.raises(UserError):
        load([tmp_path])


MPIRUN = """mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[11192,1],8]
  Exit code:    3
"""
LIGHTNING = (
    "[rank: 1] Child process with PID 23026 terminated with code -11. Forcefully terminating all other processes\n"
)
WITNESSES = {
    "Process 3 exit with status code 137.": (3, 137, "SIGKILL"),
    "RuntimeError: Horovod detected\nProcess name: 2\nExit code: 3\n": (2, 3, None),
    "|| Exit code: 3\nProcess name: 2\n": (2, 3, None),
    MPIRUN: (8, 3, None),
    LIGHTNING: (1, -11, "SIGSEGV"),
    "step 1 loss 2.0 lr 1\nCommand exited with non-zero status 5\n": (None, 5, None),
    "step 1 loss 2.0 lr 1\nCommand terminated by signal 11\n": (None, -11, "SIGSEGV"),
    "python: mm.c:10: x: odd\nAborted (core dumped)\n": (None, None, "SIGABRT"),
}
"""What Horovod, Lightning, mpirun, GNU time and the shell print: who ended and how."""


@pytest.mark.usefixtures("golden_verdicts")
@pytest.mark.parametrize(("log", "ended"), WITNESSES.items())
def test_each_witness_shows_who_ended_and_how(log: str, ended: tuple[int | None, int | None, str | None]) -> None:
    found = diagnose(log)
    assert found.verdict == "failed"
    assert (found.first_failure.rank, found.exit.code, found.exit.signal) == ended


@pytest.mark.usefixtures("golden_verdicts")
def test_a_log_that_ends_before_the_last_status_line_names_nobody() -> None:
    """Rank 2 did time out with the others; only the line that tells its group is missing."""
    label = "[rank{0}]:[E626 06:24:44.90645762{0} ProcessGroupNCCL.cpp:1785] "
    status = (
        label
        + "[PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception (either an error or timeout) detected by watchdog at work: 808, "
        "last enqueued NCCL work: 811, last completed NCCL work: 807.\n"
    )
    waits = [watchdog(rank, label.format(rank), 808) for rank in range(3)]
    found = diagnose(waits[1] + status.format(1) + waits[0] + status.format(0) + waits[2])
    assert (found.cause.id, found.first_failure.rank) == ("collective-timeout", None)
