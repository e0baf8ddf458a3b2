"""Slurm's and the launchers' lines are believed where they print them; what a script, a diff, a test or a chat shows of them is none."""

import pytest

import builders
from slurmdoctor import Diagnosis, diagnose

TASK = "srun: error: gpu09: task 3: Out Of Memory"
LIMIT = builders.LIMIT.rstrip()
NODE = "srun: error: Node failure on gpu09"
AGENT = "failed (exitcode: 1) local_rank: 3 (pid: 77) of binary: /usr/bin/python"
TABLE = [
    "Root Cause (first observed failure):",
    "[0]:",
    "  rank      : 3 (local_rank: 3)",
    "  exitcode  : -9 (pid: 42)",
]
STEPS = "".join(f"[rank{rank}]: step {step}/30 loss 2.1\n" for step in range(30) for rank in range(4))
RAISED = builders.raised("KeyError: 5", "[rank2]: ")


def verdict(shown: str) -> Diagnosis:
    return diagnose(f"{shown}\n{STEPS}{RAISED}{builders.FAILED}")


@pytest.mark.parametrize(
    "line", [TASK, LIMIT, AGENT, "mpirun noticed that process rank 3 with PID 5 on node n exited on signal 9 (Killed)."]
)
@pytest.mark.parametrize(
    "around",
    ["-{}", "+{}", "{} is read as host-oom ... ok", "+ echo '{}'", '    raise ValueError("{}")', "# last time: {}", "> {}", "-# {}", "old/slurm-1.out:13:{}", "t.py::test_b[{}] PASSED", "E    assert '{}' == 1", "    {}", "prompt: my job says {} what is it?", "prompt: my job says {}", "[10:04] kim: {}", "last_error={}", "    fix {}", "4700\tkim\t{}", "1. {}", "INFO parsed line: {}"],
)  # fmt: skip
def test_what_is_only_shown_is_no_launchers_line(around: str, line: str) -> None:
    found = verdict(around.format(line))
    assert (found.cause.id, found.first_failure.rank) == ("python-error", 2)


def test_no_launcher_speaks_through_a_rank() -> None:
    shown = "\n".join(f"[rank1]: {line}" for line in (*TABLE, TASK, LIMIT))
    assert verdict(shown).cause.id == "python-error"


@pytest.mark.parametrize(
    "above",
    [
        "", "4: ", "Epoch 3 loss 0.2", "2026-11-20T12:41:09.123Z stderr F ", " 45%|###  | 9/20 [00:10<00:12, 4.2it/s]",
        "Loading data... ", "Loading data: ", "Saving model ... ", "Downloading: 45% ", "loss 0.2 ", "loss=", "(3/8) ", "Once upon a time, ",
        '{"loss": 2.31}', 'Saving "model.pt" 45%', "{'loss': 2.31, 'grad", "stderr: ", "[gpu09] ", "ERROR: ", "[E] ", "gpu09[3]: ", "Mar 01 10:00:00 login1 ",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("line", "cause"), [(TASK, "host-oom"), (LIMIT, "time-limit"), (NODE, "node-failure")])
def test_a_launchers_own_line_is_believed_behind_labels_and_what_others_left_open(
    above: str, line: str, cause: str
) -> None:
    assert diagnose(f"{STEPS}{above}{line}\n").cause.id == cause


@pytest.mark.parametrize("label", ["0: ", "gpu09: ", "[gpu09] "])
def test_a_table_is_read_behind_labels_that_few_lines_carry(label: str) -> None:
    steps = "".join(f"step {step} loss 2\n" for step in range(38))
    found = diagnose(steps + "".join(f"{label}{line}\n" for line in TABLE))
    assert (found.cause.id, found.first_failure.rank) == ("killed", 3)
