"""A wrong call is one line that says what to type instead, and exit status 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurmdoctor import cli
from test_cli import one_line, run

Call = Callable[[str], tuple[int, str, str]]
"""A line of words -> the exit status, what is printed, and what is said on standard error."""
WRONG = {
    "diagnse job.log": ("no command `diagnse`", "did you mean `diagnose`?"),
    "explian cuda-oom": ("no command `explian`", "did you mean `explain`?"),
    "Lint x": ("did you mean `lint`?",),
    "version": ("did you mean `slurmdoctor --version`?",),
    "analyze x": ("did you mean `diagnose`?",),
    "job.log": ("did you mean `slurmdoctor diagnose job.log`?",),
    "slurm-12.out": ("did you mean `slurmdoctor diagnose slurm-12.out`?",),
    "logs/": ("did you mean `slurmdoctor diagnose logs/`?",),
    "4711": ("did you mean `slurmdoctor diagnose 4711`?",),
    "4711_3": ("did you mean `slurmdoctor diagnose 4711_3`?",),
    "-": ("did you mean `slurmdoctor diagnose -`?",),
    "train.sbatch": ("did you mean `slurmdoctor lint train.sbatch`?",),
    "cuda-oom": ("did you mean `slurmdoctor explain cuda-oom`?",),
    "foo": ("no command `foo`", "`slurmdoctor --help` lists them"),
    "rules chek": ("no command `chek`", "did you mean `slurmdoctor rules check`?"),
    "help diagnse": ("no command `diagnse`", "did you mean `diagnose`?"),
    "--hlep": ("has no option --hlep", "did you mean --help?"),
    "diagnose --formt json": ("`slurmdoctor diagnose` has no option --formt", "did you mean --format?"),
    "diagnose -format json": ("has no option -format", "did you mean --format?"),
    "diagnose --json": ("has no option --json", "did you mean --format json?"),
    "diagnose -f json": ("has no option -f", "did you mean --format?"),
    "-v": ("has no option -v", "did you mean -V?"),
    "diagnose -j 2": ("has no option -j", "`slurmdoctor diagnose --help` lists them"),
    "--format json job.log": ("--format is an option of `slurmdoctor diagnose`", "slurmdoctor diagnose --format"),
    "diagnose --format jsno": ("--format cannot be `jsno`", "did you mean `json`?"),
    "diagnose --format": ("--format needs a value", "text, json, markdown"),
    "diagnose --jobs 99": ("--jobs cannot be `99`", "a number from 1 to 64"),
    "diagnose --exit-status x": ("--exit-status cannot be `x`", "a whole number"),
    "diagnose --job": ("--job needs a value", "slurmdoctor diagnose --job ID"),
    "diagnose --ranks=3": ("--ranks takes no value",),
    "lint": ("`slurmdoctor lint` needs SCRIPT", "`slurmdoctor lint SCRIPT...`"),
    "survey logs": ("`slurmdoctor survey` needs --out", "`slurmdoctor survey [PATH]... --out DIR`"),
    "survey logs --outt found": ("--outt", "--out"),
    "rules new": ("`slurmdoctor rules new` needs CAUSE",),
    "rules check nowhere": ("no such file or folder: nowhere",),
    "hook more": ("more", "`slurmdoctor hook --help` shows how"),
}


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["slurmdoctor", *line.split()])
        status = cli._run()
        told = capfd.readouterr()
        return status, told.out, told.err

    return call


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_call_is_one_line(line: str, called: Call) -> None:
    status, out, told = called(line)
    assert (status, out) == (2, "")
    assert told.startswith("slurmdoctor: ")
    assert told.count("\n") == 1
    for words in WRONG[line]:
        assert words in told


def test_a_log_of_any_name_is_diagnosed_and_not_called(called: Call, tmp_path: Path) -> None:
    (tmp_path / "lin t").touch()
    assert "`slurmdoctor diagnose lin't`" not in called("lin")[2]
    one_line(run(tmp_path / "lin t"), f"did you mean `slurmdoctor diagnose '{tmp_path}/lin t'`?")


@pytest.mark.parametrize(
    ("line", "same"),
    [("", "--help"), ("rules", "rules --help"), ("help", "--help"), ("help rules check", "rules check --help")],
)
def test_help_is_no_error(line: str, same: str, called: Call) -> None:
    shown = called(line)
    assert shown == called(same)
    assert (shown[0], shown[2]) == (0, "")
    assert shown[1].startswith("Usage: slurmdoctor")


def test_the_list_of_commands_cuts_no_sentence(called: Call) -> None:
    assert "..." not in called("--help")[1].replace("[ARGS]...", "")
