"""The commands of a survey where its packages are missing."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {missing!r} else find(name, package)
sys.argv = ["slurmdoctor", *{args!r}]
from slurmdoctor.cli import main
main()
"""


def run_without(missing: list[str], *args: str) -> subprocess.CompletedProcess[str]:
    code = _WITHOUT.format(missing=missing, args=list(args))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("missing", [["pyarrow"], ["duckdb"], ["pyarrow", "duckdb"]])
def test_a_survey_without_its_extra_says_in_a_line_what_to_install(missing: list[str]) -> None:
    done = run_without(missing, "survey", "logs", "--out", "found")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert all(name in done.stderr for name in (*missing, "pip install '.[survey]'"))


def test_the_help_needs_no_extra() -> None:
    done = run_without(["pyarrow", "duckdb", "dask", "distributed"], "survey", "--help")
    assert done.returncode == 0
    assert "survey" in done.stdout


def test_no_other_command_imports_what_only_a_survey_needs() -> None:
    code = "import sys; from slurmdoctor.cli import cli; import slurmdoctor.cli.diagnose, slurmdoctor.pipeline\n"
    code += "print([m for m in ('pyarrow', 'duckdb', 'dask', 'distributed', 'slurmdoctor.survey') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
