"""The wheel holds the rules and the schema, and works where nothing of the clone is."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_all_rules_and_the_schema(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (ROOT / "rules").rglob("*.yaml"):
        assert f"slurmdoctor/rules/{path.relative_to(ROOT / 'rules').as_posix()}" in names
    assert {"slurmdoctor/report/schema.json", "slurmdoctor/py.typed"} <= names


def test_it_diagnoses_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    (tmp_path / "job.log").write_text("[rank3]: Traceback (most recent call last):\n[rank3]: KeyError: 'x'\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); import slurmdoctor; "
        f"assert slurmdoctor.__file__.startswith({str(tmp_path)!r}); "
        f"print(slurmdoctor.diagnose([{str(tmp_path / 'job.log')!r}]).first_failure.rank)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert ran.stdout.strip() == "3", ran.stderr
