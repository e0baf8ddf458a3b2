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
