"""The wheel holds the rules and the schema, and works where nothing of the clone is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cases import COMPILES

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def built(folder: Path, **env: str) -> Path:
    pytest.importorskip("hatchling")
    pytest.importorskip("setuptools")
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
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.mark.skipif(not COMPILES, reason="needs a C compiler and Python's headers")
def test_the_wheel_holds_the_compiled_loop_for_all_pythons_from_3_10_on(wheel: Path) -> None:
    assert "-cp310-abi3-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    assert sum("search/_native." in name and name.endswith((".so", ".pyi")) for name in names) == 2
    assert not any(name.endswith((".c", ".h")) for name in names)


@pytest.mark.parametrize("env", [{"SLURMDOCTOR_COMPILE": "no"}, {"CC": "false"}], ids=["not wanted", "no compiler"])
def test_without_a_compiler_the_wheel_is_python_alone(env: dict[str, str], tmp_path: Path) -> None:
    wheel = built(tmp_path, **env)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not any(name.endswith(".so") for name in zipfile.ZipFile(wheel).namelist())


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
