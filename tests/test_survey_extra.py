"""The commands of a survey where its packages are missing."""

import subprocess
import sys

import pytest

WITHOUT = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {missing!r} else find(name, package)
sys.argv = ["slurmdoctor", "survey", *{args!r}]
import slurmdoctor.cli.diagnose, slurmdoctor.pipeline
print([name for name in ("pyarrow", "duckdb", "dask", "distributed", "slurmdoctor.survey.rows") if name in sys.modules], flush=True)
from slurmdoctor.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("missing", "args", "code"),
    [(["duckdb"], ["logs", "--out", "x"], 2), (["pyarrow", "duckdb"], ["report", "x"], 2), (["pyarrow", "duckdb"], ["--help"], 0)],
)  # fmt: skip
def test_what_only_a_survey_needs_is_imported_by_nothing_else_and_told_where_it_is_missing(
    missing: list[str], args: list[str], code: int
) -> None:
    command = [sys.executable, "-c", WITHOUT.format(missing=missing, args=args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[0]) == (code, "[]")
    told = [*missing, "pip install '.[survey]'"] if code else []
    assert done.stderr.count("\n") == (code > 0)
    assert all(name in done.stderr for name in told)
