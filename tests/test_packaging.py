"""The wheel holds the rules and the schema, and works where nothing of the clone is."""

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from cases import COMPILES

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


def built(folder: Path, source: Path = ROOT, env: Mapping[str, str] = MappingProxyType({})) -> Path:
    pytest.importorskip("hatchling")
    pytest.importorskip("setuptools")
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command = [*wheel, "-w", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def source_distribution(folder: Path) -> Path:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, check=True, capture_output=True, cwd=ROOT, timeout=120)
    (source,) = folder.glob("*.tar.gz")
    return source


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
    wheel = built(tmp_path, env=env)
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not any(name.endswith(".so") for name in zipfile.ZipFile(wheel).namelist())


@pytest.mark.skipif(not COMPILES, reason="needs a C compiler and Python's headers")
def test_a_wheel_is_the_same_byte_for_byte_wherever_it_is_built(wheel: Path, tmp_path: Path) -> None:
    with tarfile.open(source_distribution(tmp_path)) as archive:
        archive.extractall(tmp_path, filter="data")
    (elsewhere,) = tmp_path.glob("slurmdoctor-*/")
    assert built(tmp_path / "again", elsewhere).read_bytes() == wheel.read_bytes()


def test_the_source_distribution_holds_what_git_holds(tmp_path: Path) -> None:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a clone")
    with tarfile.open(source_distribution(tmp_path)) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert held == {"PKG-INFO", *(name for name in listed.stdout.split("\0") if name and (ROOT / name).exists())}


def test_an_installation_is_small(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(tmp_path / "site"), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    files = [file for file in (tmp_path / "site").rglob("*") if file.is_file()]
    assert any(file.suffix == ".pyc" for file in files)
    blocks = sum(-(-file.stat().st_size // 4096) * 4096 for file in files)
    assert blocks < 40e6, f"{blocks / 1e6:.1f} MB, by what disks count in"


def test_the_wheel_holds_all_rules_and_the_schema(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in (ROOT / "rules").rglob("*.yaml"):
        assert f"slurmdoctor/rules/{path.relative_to(ROOT / 'rules').as_posix()}" in names
    others = ("report/schema.json", "report/templates/job.html.j2", "py.typed")
    assert {f"slurmdoctor/{name}" for name in others} <= names
    assert any(name.endswith(".data/data/share/man/man1/slurmdoctor.1") for name in names)


# ── the first start ──────────────────────────────────────────────────────────────────────────

FIRST = """
import sys
sys.path[:0] = {path!r}
import slurmdoctor
assert slurmdoctor.__file__.startswith({path[0]!r})
found = slurmdoctor.diagnose([{log!r}])
print(found.first_failure.rank, found.cause.id, *sorted({{"yaml"}} & sys.modules.keys()))
"""
"""Prints what was found, and whether it took yaml to read rules."""


def installed(wheel: Path, folder: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def started(tmp_path: Path, *path: Path, cache: Path = Path("/dev/null/none"), python: str = sys.executable) -> str:
    """What a start from these folders says of a log."""
    (tmp_path / "job.log").write_text("[rank3]: Traceback (most recent call last):\n[rank3]: KeyError: 'x'\n")
    code = FIRST.format(path=[str(folder) for folder in path], log=str(tmp_path / "job.log"))
    env = {"PATH": os.defpath, "XDG_CACHE_HOME": str(cache), "HOME": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run([python, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120, env=env)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_the_first_start_reads_no_rule(wheel: Path, tmp_path: Path) -> None:
    site = installed(wheel, tmp_path)
    assert started(tmp_path, site) == "3 python-error"
    assert started(tmp_path, site, cache=tmp_path / "cache") == "3 python-error"
    assert not (tmp_path / "cache").exists(), "nothing was left to be kept"


def test_rules_that_were_changed_since_are_read(wheel: Path, tmp_path: Path) -> None:
    site = installed(wheel, tmp_path)
    (file,) = (site / "slurmdoctor" / "rules").rglob("python-error.yaml")
    seen = file.stat()
    # the same length and time: the text alone tells
    file.write_text(file.read_text().replace("role: root", "role: hint"))
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert "yaml" in started(tmp_path, site, cache=tmp_path / "cache")
    assert "yaml" not in started(tmp_path, site, cache=tmp_path / "cache")
