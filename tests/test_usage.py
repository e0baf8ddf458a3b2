"""A wrong call is one line that says what to type instead, and exit status 2."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cases import one_line, run
from slurmdoctor import cli
from tables import table

Call = Callable[[str], tuple[int, str, str]]
"""A line of words -> the exit status, what is printed, and what is said on standard error."""
WRONG = table("wrong_calls")


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
