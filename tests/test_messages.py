"""The last words of programs that are not Python: what failed is named by its own words, else it is `program-error` or `build-failed`."""

from __future__ import annotations

from typing import Any

import pytest

import slurmdoctor

BAR = "--------------------------------------------------------------------------\n"
ABORTED = (
    f"{BAR}MPI_ABORT was invoked on rank {{0}} in communicator MPI_COMM_WORLD\nwith errorcode 1.\n\n"
    f"NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\n{BAR}"
)
ESPRESSO = (
    " %%%%%%%%%%%%%%%%%%%%\n     Error in routine {0} (10):\n     {1}\n %%%%%%%%%%%%%%%%%%%%\n\n     stopping ...\n"
)
STACK = "Image              PC                Routine            Line        Source\nsolver             0000000000989A95  advance_             186  step.f90\n"
BUILD = "gcc -c -o run.o run.c\nrun.c:86:24: error: too few arguments to function 'advance'\nmake: *** [Makefile:16: run.o] Error 1\n"
NO_PROGRAM = (
    f"{BAR}{{0}} was unable to launch the specified application as it could not access\nor execute an executable:\n\n"
    f"Executable: ./solver\nNode: node07\n\nwhile attempting to start process rank 0.\n{BAR}"
)


def told(*logs: str) -> dict[str, Any]:
    return slurmdoctor.diagnose("".join(logs)).to_dict()


def shown(found: dict[str, Any]) -> str:
    """What the report quotes first."""
    return "\n".join([found["first_failure"]["text"] or "", *(line["text"] for line in found["evidence"][:3])])


CAUSES = {
    "forrtl: severe (24): end-of-file during read, unit 5, file /scratch/demo/in.nml\n" + STACK: "program-error",
    "forrtl: severe (38): error during write, unit 4, file /scratch/demo/wfc8.dat\n" + STACK: "storage-io",
    "forrtl: No space left on device\nforrtl: severe (38): error during write, unit 4, file /scratch/wfc\n"
    + STACK: "disk-full",
    "forrtl: severe (29): file not found, unit 11, file /scratch/demo/in.dat\n" + STACK: "file-not-found",
    "forrtl: severe (41): insufficient virtual memory\n" + STACK: "host-oom",
    "forrtl: severe (174): SIGSEGV, segmentation fault occurred\n" + STACK: "segfault",
    "At line 7 of file step.f90 (unit = 10, file = 'in.dat')\nFortran runtime error: End of file\n\nError termination. Backtrace:\n": "program-error",
    "At line 7 of file step.f90\nFortran runtime error: Cannot open file 'in.dat': No such file or directory\n": "file-not-found",
    ESPRESSO.format("cdiaghg", "problems computing cholesky"): "program-error",
    ESPRESSO.format("davcio", 'error while writing from file "./out.wfc1"'): "storage-io",
    ESPRESSO.format("read_pp", "file Si.upf not found"): "file-not-found",
    'ERROR: LoadError: KeyError: key "rho" not found\nStacktrace:\n [1] getindex(g::Group, name::String)\n': "program-error",
    "ERROR: LoadError: SystemError: close: Disk quota exceeded\nStacktrace:\n [1] error(s::String)\n": "disk-full",
    "Error in solve.default(A) : \n  system is exactly singular: U[3,3] = 0\nCalls: fit -> solve\nExecution halted\n": "program-error",
    "Error in library(sf) : there is no package called 'sf'\nExecution halted\n": "module-not-found",
    "Error in file(f) : cannot open the connection\nIn file(f) :\n  cannot open file 'in.csv': No such file or directory\nExecution halted\n": "file-not-found",
    'Exception in thread "main" java.lang.IllegalStateException: no input\n\tat demo.Main.main(Main.java:7)\n': "program-error",
    "{\x08Error using load\nUnable to read file 'in.mat'. No such file or directory.\n}\x08\n": "file-not-found",
    "Fatal error:\nFile 'topol.tpr' does not exist or is not accessible.\n": "file-not-found",
    "-------------- FATAL CALLED ---------------\nFATAL CALLED FROM FILE:  <stdin>  LINE:   859\ncheck comm_start\n": "program-error",
    "[0] --> FOAM FATAL IO ERROR: \n[0] keyword div is undefined in dictionary\n[0] \nFOAM parallel run exiting\n": "program-error",
    " ****************\n * [ABORT]                 *\n *  \\___/   SCF run NOT converged.  *\n ****************\n": "program-error",
    BUILD: "build-failed",
    "main.o: in function `main':\nmain.c:(.text+0x1f): undefined reference to `advance'\ncollect2: error: ld returned 1 exit status\n": "build-failed",
    BUILD + NO_PROGRAM.format("mpirun"): "build-failed",
    NO_PROGRAM.format("prterun"): "command-not-found",
    "\n[12345] signal (11.1): Segmentation fault\nin expression starting at /scratch/demo/a.jl:3\n": "segfault",
    "Operating system error: Cannot allocate memory\nError allocating 8589934592 bytes\n": "host-oom",
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  cannot open mesh file /scratch/a.msh\n": "file-not-found",
    "terminate called after throwing an instance of 'std::out_of_range'\n  what():  vector::_M_range_check: __n\n": "abort",
    "Error in rule align:\n    jobid: 7\n    shell:\n        align x\n\nExiting because a job execution failed. Look above for error message\n": "program-error",
}


@pytest.mark.parametrize(("log", "cause"), CAUSES.items())
def test_the_programs_own_words_name_the_cause(log: str, cause: str) -> None:
    found = told("reading the input\n" * 20, log)
    assert found["verdict"] == "failed"
    assert found["cause"]["id"] == cause


@pytest.mark.parametrize(("log", "cause"), list(CAUSES.items())[:9:2])
def test_a_rank_that_says_so_among_others_is_named(log: str, cause: str) -> None:
    others = "".join(f"{rank}: step {step} energy {step / 7:.4f}\n" for step in range(9) for rank in range(4))
    found = told(
        others,
        "".join(f"2: {line}\n" for line in log.splitlines()),
        "srun: error: node07: task 2: Exited with exit code 24\n",
    )
    assert (found["cause"]["id"], found["first_failure"]["rank"], found["exit"]["code"]) == (cause, 2, 24)


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
    found = told(ESPRESSO.format("cdiaghg", "problems computing cholesky"), ABORTED.format(0))
    assert "Error in routine cdiaghg" in shown(found)
    assert "problems computing cholesky" in shown(found)


def test_the_compilers_first_error_is_shown_and_not_makes() -> None:
    assert told(BUILD)["first_failure"]["text"].startswith("run.c:86:24: error")


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


@pytest.mark.parametrize(("code", "cause", "end"), [(6, "abort", -6), (11, "segfault", -11), (12, "exit-code", 12)])
def test_intels_box_tells_the_signal_by_its_number_alone(code: int, cause: str, end: int) -> None:
    found = told(
        f"step 12 of 40\n{'=' * 83}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
        f"=   PID 9227 RUNNING AT node07\n=   EXIT CODE: {code}\n=   CLEANING UP REMAINING PROCESSES\n{'=' * 83}\n"
    )
    assert (found["cause"]["id"], found["exit"]["code"]) == (cause, end)


def test_mpi_abort_follows_and_tells_the_rank_and_the_code() -> None:
    found = told(ESPRESSO.format("cdiaghg", "problems computing cholesky"), ABORTED.format(3))
    assert (found["first_failure"]["rank"], found["exit"]["code"], found["exit"]["class"]) == (3, 1, "other")


def test_mpi_abort_of_many_names_nobody() -> None:
    more = "[node07:599] 11 more processes have sent help message help-mpi-api.txt / mpi-abort\n"
    found = told(ESPRESSO.format("davcio", "error while writing") * 2, ABORTED.format(0), more)
    assert (found["cause"]["id"], found["first_failure"]["rank"]) == ("storage-io", None)


def test_a_python_traceback_before_mpi_abort_is_the_cause() -> None:
    found = told(
        'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\nValueError: no cells\n',
        ABORTED.format(2),
    )
    assert (found["cause"]["id"], found["first_failure"]["rank"]) == ("python-error", 2)


def box(rank: int, end: str) -> str:
    return f"\n{'=' * 60}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {rank} PID {900 + rank} RUNNING AT node07\n=   {end}\n{'=' * 60}\n"


def test_hydras_boxes_stand_by_rank_and_the_victims_of_its_sigkill_among_them() -> None:
    killed, crashed = "KILLED BY SIGNAL: 9 (Killed)", "KILLED BY SIGNAL: 11 (Segmentation fault)"
    alone = told(*(box(rank, crashed if rank == 5 else killed) for rank in range(8)))
    assert (alone["cause"]["id"], alone["first_failure"]["rank"], alone["exit"]["signal"]) == ("segfault", 5, "SIGSEGV")
    several = told(*(box(rank, crashed if rank > 5 else killed) for rank in range(8)))
    assert (several["cause"]["id"], several["first_failure"]["rank"]) == ("segfault", None)
    everyone = told(*(box(rank, killed) for rank in range(8)))
    assert everyone["cause"]["id"] == "killed"


def test_mpirun_names_the_rank_that_it_noticed_not_the_first() -> None:
    crash = "[node07:{0}:0:{0}] Caught signal 11 (Segmentation fault: address not mapped to object at address 0xc0)\n"
    noticed = f"{BAR}mpirun noticed that process rank 3 with PID 448 on node node07 exited on signal 11 (Segmentation fault).\n{BAR}"
    several = told(*(crash.format(pid) for pid in (446, 447, 448)), noticed)
    assert (several["cause"]["id"], several["first_failure"]["rank"]) == ("segfault", None)
    one = told(crash.format(448), noticed)
    assert one["first_failure"]["rank"] == 3


def test_a_cpp_exceptions_words_are_shown_and_its_process_ends_by_abort() -> None:
    found = told(
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  cannot open mesh file a.msh\n",
        "srun: error: node07: task 2: Aborted (core dumped)\n",
    )
    assert (found["cause"]["id"], found["first_failure"]["rank"], found["exit"]["signal"]) == (
        "file-not-found",
        2,
        "SIGABRT",
    )


def test_of_many_processes_that_could_not_be_started_none_is_named() -> None:
    one = told(NO_PROGRAM.format("mpirun"))
    assert (one["first_failure"]["rank"], one["first_failure"]["node"]) == (0, "node07")
    assert told(NO_PROGRAM.format("mpirun"), "10 total processes failed to start\n")["first_failure"]["rank"] is None


def test_pals_ends_the_others_by_sigterm() -> None:
    found = told(
        "node19.hsn.example.org: rank 256 died from signal 11 and dumped core\nnode20.hsn.example.org: rank 0 died from signal 15\n"
    )
    first = found["first_failure"]
    assert (found["cause"]["id"], first["rank"], first["node"]) == ("segfault", 256, "node19.hsn.example.org")


@pytest.mark.parametrize("code", ["1", "2"])
def test_an_exit_code_says_no_more_than_its_source(code: str) -> None:
    log = f"reading\nsrun: error: node07: task 2: Exited with exit code {code}\n"
    assert told(log)["exit"]["class"] == "other"
