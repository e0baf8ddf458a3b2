"""A wrong call is one line that says what to type instead, and exit status 2."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cases import one_line, run
from slurmdoctor import cli

Call = Callable[[str], tuple[int, str, str]]
"""A line of words -> the exit status, what is printed, and what is said on standard error."""
WRONG = {
    "diagnse job.log": ("no command `diagnse`", "did you mean `slurmdoctor diagnose`?"),
    "Lint x": ("did you mean `slurmdoctor lint`?",),
    "job.log": ("did you mean `slurmdoctor diagnose job.log`?",),
    "logs/": ("did you mean `slurmdoctor diagnose logs/`?",),
    "4711_3": ("did you mean `slurmdoctor diagnose 4711_3`?",),
    "-": ("did you mean `slurmdoctor diagnose -`?",),
    "train.sbatch": ("did you mean `slurmdoctor lint train.sbatch`?",),
    "foo": ("no command `foo`", "`slurmdoctor --help` lists them"),
    "rules chek": ("no command `chek`", "did you mean `slurmdoctor rules check`?"),
    "help diagnse": ("no command `diagnse`", "did you mean `slurmdoctor diagnose`?"),
    "--hlep": ("--hlep", "--help"),
    "diagnose --formt json": ("--formt", "--format", "`slurmdoctor diagnose --help` shows how"),
    "diagnose --json": ("--json", "did you mean --format json?"),
    "diagnose job.log --beside-log": ("--beside-log needs a job's id",),
    "diagnose --job 1 --beside-log -o x.txt": ("two places",),
    "diagnose -j 2": ("-j", "`slurmdoctor diagnose --help` shows how"),
    "diagnose --format jsno": ("--format", "jsno", "json"),
    "diagnose --format": ("--format",),
    "diagnose --jobs 99": ("--jobs", "99", "64"),
    "diagnose --time-limit 0": ("--time-limit", "1<=x<=86400"),
    "diagnose --time-limit 1.5": ("--time-limit", "integer"),
    "diagnose --exit-status x": ("--exit-status", "integer"),
    "diagnose --ranks=3": ("--ranks",),
    "lint": ("SCRIPT", "`slurmdoctor lint --help` shows how"),
    "survey logs": ("--out",),
    "rules check nowhere": ("nowhere", "does not exist"),
    "mcp --allow nowhere": ("nowhere", "does not exist"),
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
