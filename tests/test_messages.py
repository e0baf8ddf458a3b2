"""The last words of programs: what failed is named by its own words, and not by what is printed after every failure of its kind."""

from typing import Any

import pytest

import slurmdoctor
from tables import table

CASES: dict[str, dict[str, Any]] = table("message_cases")


def told(*logs: str) -> dict[str, Any]:
    return slurmdoctor.diagnose("".join(logs)).to_dict()


def shown(found: dict[str, Any]) -> str:
    """What the report quotes first."""
    return "\n".join([found["first_failure"]["text"] or "", *(line["text"] for line in found["evidence"][:3])])


@pytest.mark.parametrize("name", CASES)
def test_the_programs_own_words_name_the_cause(name: str) -> None:
    found, case = told("reading the input\n" * 20, CASES[name]["log"]), CASES[name]
    end = found["exit"]["signal"] or found["exit"]["code"]
    read = {"cause": found["cause"]["id"], "rank": found["first_failure"]["rank"], "end": end}
    read |= {"retry": found["retry"]["advice"], "text": case.get("text")}
    assert {key: read[key] for key in case if key != "log"} == {key: case[key] for key in case if key != "log"}
    assert case.get("text", "") in found["first_failure"]["text"]
    assert "retry" not in case or found["retry"]["exclude_nodes"] == []


@pytest.mark.parametrize("name", ["fortran-end-of-file", "fortran-disk-full", "gfortran-no-file"])
def test_a_rank_that_says_so_among_others_is_named(name: str) -> None:
    others = "".join(f"{rank}: step {step} energy {step / 7:.4f}\n" for step in range(9) for rank in range(4))
    labelled = "".join(f"2: {line}\n" for line in CASES[name]["log"].splitlines())
    found = told(others, labelled, "srun: error: node07: task 2: Exited with exit code 24\n")
    first, cause = found["first_failure"], CASES[name]["cause"]
    assert (found["cause"]["id"], first["rank"], found["exit"]["code"]) == (cause, 2, 24)


FINISHED = [
    "Error in rule align:\n    jobid: 7\nTrying to restart job 7.\n",
    "Error in try(f(x)) : no such row\n",
    "checking for fftw... conftest.c:9:10: fatal error: fftw3.h: No such file or directory\nno\n",
    "Relative error: 1e-9\nError in energy: 3.2e-7\nFatal errors: 0\n",
    "fatal: not a git repository (or any of the parent directories): .git\n",
    "early stopping: no gain in 5 epochs, stopping\n",
    "[3f/a0b1c2] NOTE: Process `ALIGN (3)` terminated with an error exit status (1) -- Error is ignored\n",
    "STOP 0\nFORTRAN STOP\n",
]


@pytest.mark.parametrize("log", FINISHED)
def test_a_healthy_job_with_such_words_is_not_accused(log: str) -> None:
    steps = "".join(f"step {n}/40 loss {2 - n / 40:.3f} 41 ms/step\n" for n in range(1, 41))
    found = told("step 0/40 loss 2.1 41 ms/step\n", log, steps, "Training completed in 0:31\n")
    assert found["verdict"] == "no-failure"
    assert told("reading\n", log, "the sum is 17\n" * 20)["verdict"] != "failed"


def test_the_message_below_its_first_line_is_shown() -> None:
    found = told(CASES["mpi-abort"]["log"])
    assert "Error in routine cdiaghg" in shown(found)
    assert "problems computing cholesky" in shown(found)


BUILD = CASES["compiler"]["log"]
NVCC = "fatbinary fatal   : Unknown option '-image3'\nmake: *** [flow] Error 2\n"


@pytest.mark.parametrize(
    "build", [BUILD, NVCC, "run.o:(.text+0x1f): undefined reference to 'solve'\nmake: *** [flow] Error 1\n"]
)
@pytest.mark.parametrize(
    "lacked",
    [
        "job.sh: line 13: ./flow: No such file or directory\n",
        "srun: error: execve(): ./flow: No such file or directory\n",
        "",
    ],
)
def test_a_program_that_was_not_built_is_not_the_cause(build: str, lacked: str) -> None:
    found = told("module load nvhpc\n", build, lacked)
    assert found["cause"]["id"] == "build-failed"
    assert build.splitlines()[-2] in shown(found)


def test_an_exit_code_says_no_more_than_its_source() -> None:
    assert told("reading\nsrun: error: node07: task 2: Exited with exit code 1\n")["exit"]["class"] == "other"


def test_a_communicator_s_teardown_is_no_failure() -> None:
    closed = CASES["proxy-closed"]["log"].splitlines(keepends=True)[0]
    assert told(closed * 3)["verdict"] == "unknown"
