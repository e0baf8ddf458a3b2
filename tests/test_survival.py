"""An error that the job outlived is not its end: who printed it, what that writer did after it, and what ended the job tell."""

from __future__ import annotations

import pytest

from slurmdoctor import diagnose
from slurmdoctor.report.result import Diagnosis

SHELL = "/var/spool/slurmd/job99/slurm_script: line 3: python: command not found\n"
STEPS = "".join(f"{rank}: iteration {step} loss 2.1\n" for step in range(1, 31) for rank in range(4))
PLAIN = "".join(f"step {step} loss 2.{step}\n" for step in range(30))
LIMIT = "slurmstepd: error: *** JOB 4711 ON gpu07 CANCELLED AT 2026-11-20T12:41:09 DUE TO TIME LIMIT ***\n"
KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\n"
FAILED = "srun: error: gpu07: task 2: Exited with exit code 1\n"


def raised(file: str = "/x/train.py", error: str = "KeyError: 'x'", label: str = "", where: str = "<module>") -> str:
    lines = ["Traceback (most recent call last):", f'  File "{file}", line 3, in {where}', "    f()", error]
    return "".join(f"{label}{line}\n" for line in lines)


def told(found: Diagnosis) -> tuple[str | None, str | None]:
    return (found.cause.id, found.cause.confidence) if found.cause else (None, None)


def test_a_shells_line_is_outlived_by_the_ranks_work() -> None:
    found = diagnose(SHELL + STEPS + raised(label="2: ") + FAILED)
    assert told(found) == ("python-error", "high")
    assert told(diagnose(SHELL + raised(label="2: ") + FAILED))[0] == "command-not-found"


def test_a_traceback_that_somebody_caught_holds_no_output_back() -> None:
    assert (
        diagnose(raised("/x/video.py", "ModuleNotFoundError: No module named 'decord'", where="load") + PLAIN).verdict
        == "no-failure"
    )
    assert diagnose(raised() + PLAIN).verdict == "failed"


@pytest.mark.parametrize(
    "word", ["generated: ", "[agent] tool output:\n", "sample 3:\n", "Assistant: here it is\n", "Q: why?\n"]
)
@pytest.mark.parametrize("ending", [LIMIT, KILLED, "step 31 loss 2.0\n"])
def test_what_a_program_shows_as_its_data_ended_nothing(word: str, ending: str) -> None:
    assert (
        told(diagnose(PLAIN + word + raised(error="ZeroDivisionError: division by zero") + ending))[0] != "python-error"
    )


@pytest.mark.parametrize(
    "word", ["stderr: ", "ERROR: ", "worker 3 failed:\n", "Error executing job with overrides: []\n"]
)
def test_what_a_program_relays_is_its_end(word: str) -> None:
    assert told(diagnose(PLAIN + word + raised() + FAILED))[0] == "python-error"


@pytest.mark.parametrize(
    "talk", ["accuracy: 0.41\n", "pass@1: 0.42\n", "done, results written to out.json\n", "all 100 tasks finished\n"]
)
def test_results_below_an_error_make_it_doubtful_and_with_status_zero_none(talk: str) -> None:
    log = PLAIN + raised("/opt/demo/solve.py") + talk
    assert told(diagnose(log)) == ("python-error", "medium")
    assert diagnose(log, exit_status=0).verdict == "no-failure"
    assert told(diagnose(PLAIN + raised(), exit_status=0))[0] == "python-error"


def test_a_banner_below_an_error_makes_it_doubtful_and_proves_nothing() -> None:
    assert told(diagnose(PLAIN + raised() + "Training complete\n")) == ("python-error", "medium")
    assert told(diagnose(PLAIN + raised() + "Training complete\n", exit_status=0))[0] == "python-error"


def test_what_slurm_ended_after_an_exception_is_not_sure_to_have_ended_by_it() -> None:
    assert told(diagnose(PLAIN + raised() + LIMIT))[1] == "medium"
    assert told(diagnose(PLAIN + raised() + FAILED + LIMIT)) == ("python-error", "high")


def test_a_rank_that_slurm_does_not_name_is_not_sure() -> None:
    raises = raised(label="[rank3]: ")
    assert told(diagnose(raises + FAILED))[1] == "medium"
    assert told(diagnose(raises + FAILED.replace("task 2", "task 3")))[1] == "high"


def test_the_table_of_a_ranks_end_above_its_own_steps_is_another_runs() -> None:
    table = "Root Cause (first observed failure):\n[0]:\n  host      : gpu01\n  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 42)\n"
    work = "".join(f"[rank{rank}]: step {step} loss 2.1\n" for step in range(30) for rank in range(4))
    found = diagnose(table + work + raised(label="[rank2]: ") + FAILED)
    assert found.first_failure is not None
    assert found.first_failure.rank == 2


STEPS = "".join(f"step {n} loss 2.0\n" for n in range(1, 31))
OOM = raised(error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("Q: torch.Size([2, 16, 4096, 128])\n", ""),
        ("Predictions:\n[[0.1, 0.2]]\n", ""),
        ("User: kim\n", FAILED),
        ("Human: eval off\n", "Make sure to have access to it.\n"),
        ("", "GPU health check: PASSED\n"),
        ("", "rsync failed, retrying in 5 s\n"),
        ("", "Exit code: 0\n"),
        ("2026-11-20 12:00:00 WARNING - exception in training loop, shutting down\n", "2026-11-20 12:00:01 INFO - shutting down\n"),
        ("", "".join(f"async writer: batch {n}/4 written\n" for n in range(1, 5))),
    ],
)  # fmt: skip
def test_words_around_a_real_error_do_not_excuse_it(above: str, below: str) -> None:
    assert told(diagnose(STEPS + above + OOM + below))[0] == "cuda-oom"


def test_one_ranks_goodbye_is_none_of_anothers() -> None:
    raises = raised(error="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", label="[rank3]: ")
    log = "[rank0]: step 1/10 loss 2.0\n" + raises + "[rank0]: All done\n"
    assert told(diagnose(log))[0] == "cuda-oom"


@pytest.mark.parametrize(
    "below", ["reward 0.4\n", "Trial 3 completed after 10 iterations.\n", "=== 3 passed in 2.1s ===\n"]
)
def test_beside_a_status_of_0_one_more_line_shows_that_the_error_ended_nothing(below: str) -> None:
    assert diagnose("stdout of agent 1\n" + raised() + below, exit_status=0).verdict == "no-failure"
    assert diagnose("stdout of agent 1\n" + raised(), exit_status=0).verdict == "failed"
