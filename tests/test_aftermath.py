"""A batch script goes on after its own small tools: what other programs print around their errors shows that these ended nothing."""

from __future__ import annotations

import pytest

from slurmdoctor import diagnose

SHELL = "/var/spool/slurmd/job881/slurm_script: line 9: "
WORK = "".join(f"graph {n}/40 read, {n * 12} nodes\n" for n in range(1, 9))
BANNER = "==========\nJob finished at 10:00\nThu Nov 12 10:00:00 CET 2026\nreal\t0m1.0s\nuser\t0m0.5s\nsys\t0m0.1s\nState: RUNNING\n"


def verdict(text: str) -> str:
    return diagnose(text + "\n").verdict


@pytest.mark.parametrize(
    "log",
    [
        f"{SHELL}conda: command not found\n{WORK}",
        f"{SHELL}/scratch/demo/env/bin/activate: No such file or directory\n{WORK}",
        f"cp: cannot stat 'out/*.csv': No such file or directory\n{WORK}",
        f"{WORK}cp: cannot stat 'out/*.csv': No such file or directory",
        f"{WORK}fatal: could not read Username for 'https://git.example.org': No such device or address",
        f"git@git.example.org: Permission denied (publickey).\nfatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\nand the repository exists.\n{WORK}",
        f"wget: unable to resolve host address 'data.example.org'\n{WORK}",
    ],
)
def test_what_other_programs_print_shows_that_the_script_went_on(log: str) -> None:
    assert verdict(log) == "unknown"


@pytest.mark.parametrize(
    "log",
    [
        f"{SHELL}orca: command not found\n{BANNER}",
        f"cp: cannot stat 'input.dat': No such file or directory\n{BANNER}",
        # nothing else does the work of what starts it
        f"{SHELL}python: command not found\n{WORK}",
        f"{SHELL}./simulate: No such file or directory\n{WORK}",
        f"{SHELL}syntax error near unexpected token `done'\n{WORK}",
    ],
)
def test_a_scripts_own_banner_shows_nothing(log: str) -> None:
    assert verdict(log) == "failed"


def test_in_another_file_it_takes_more_words() -> None:
    from slurmdoctor.input.sources import Text

    errors = f"{SHELL}conda: command not found\n"
    assert diagnose([Text.source(errors, "job.err"), Text.source(BANNER, "job.out")]).verdict == "failed"
    assert diagnose([Text.source(errors, "job.err"), Text.source(WORK * 8, "job.out")]).verdict == "unknown"


def test_a_programs_error_after_it_is_the_cause() -> None:
    end = "Traceback (most recent call last):\n  File \"/scratch/demo/a.py\", line 3, in <module>\n    f()\nKeyError: 'x'\n"
    found = diagnose(f"{SHELL}conda: command not found\n{WORK}{end}")
    assert found.cause is not None
    assert found.cause.id == "python-error"


STAMP = "2026-11-02 10:00:0{} - {} - "
TRACE = "Traceback (most recent call last):\n  File \"/scratch/demo/a.py\", line 3, in count\n    f()\nFileNotFoundError: [Errno 2] No such file or directory: 'x'\n"


@pytest.mark.parametrize(
    "log",
    [
        # each line of it, as torch._dynamo prints what it falls back from
        "".join(
            f"[2026-03-01 10:00:00,330] torch._dynamo.convert_frame: [WARNING] {line}\n" for line in TRACE.splitlines()
        ),
        # below the record, and records go on
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\n{TRACE}{STAMP.format(1, 'INFO')}epoch 1 begins\n",
        f"WARNING:root:Failed to import apex: {TRACE}done\n",
        "[rank2]:[W1102 10:00:03.123456789 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=62, addr=[n1]:41012, remote=[n1]:29500): failed to recv, got 0 bytes\n",
    ],
)
def test_who_logs_an_error_as_a_warning_goes_on(log: str) -> None:
    assert verdict(log) == "unknown"


@pytest.mark.parametrize(
    "log",
    [
        # the last record before a process dies need not be about why
        f"{STAMP.format(0, 'WARNING')}the seed is not set\n{TRACE}{STAMP.format(1, 'INFO')}rank 1 begins\n",
        f"{STAMP.format(0, 'WARNING')}Could not count the FLOPs\n{TRACE}",
        f"{STAMP.format(0, 'ERROR')}the step failed\n{TRACE}{STAMP.format(1, 'INFO')}closing\n",
        f"[W1102 10:00:03.123456789 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3\n{TRACE}{STAMP.format(1, 'INFO')}rank 1 begins\n",
    ],
)
def test_a_warning_above_an_error_of_its_own_excuses_nothing(log: str) -> None:
    assert verdict(log) == "failed"


def test_tracebacks_that_end_nothing() -> None:
    numpy = 'versions of NumPy, modules must be compiled with NumPy 2.0.\n\nTraceback (most recent call last):  File "<string>", line 1, in <module>\n  File "/scratch/demo/a.py", line 2, in <module>\n    import numexpr\nAttributeError: _ARRAY_API not found\n'
    tracker = "Traceback (most recent call last):\n  File \"/usr/lib/python3.10/multiprocessing/resource_tracker.py\", line 209, in main\n    cache[rtype].remove(name)\nKeyError: '/psm_a1b2c3'\n"
    assert verdict(numpy + "read 40 rows") == verdict(tracker) == "unknown"
    assert verdict(numpy + TRACE) == "failed"


def test_a_log_that_ends_within_a_frame_was_cut() -> None:
    assert diagnose("step 5/60 loss 1.4 47.2 ms/step\n" + TRACE[:60]).verdict == "failed"
