"""Builds what a release publishes into dist/, and proves it. `make release-check` runs it.

What is proved: one source makes the same bytes whenever and wherever it is built; PyPI takes the metadata; the compiled search uses
only what all Pythons from 3.10 on promise; each file gives a diagnosis in an empty environment, without network and without the clone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
DEMO = ROOT / "tests" / "fixtures" / "demo-cascade"
FOUND = ("rank 5 on gpu-a2", "disk-full")
"""What a diagnosis of the demo says."""
COMPILED, PYTHON = "(search: compiled C)", "(search: plain Python"
ALONE = ("unshare", "--user", "--map-root-user", "--net", "--")
"""Runs a command without network, where the kernel lets users do that."""


class ReleaseError(Exception):
    """What is wrong with the release."""


def run(*command: str | Path, cwd: Path = ROOT, env: Mapping[str, str] = MappingProxyType({})) -> str:
    """What the command printed."""
    seen = {**os.environ, **env}
    done = subprocess.run(command, cwd=cwd, env=seen, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for a while."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def build(target: str, compiled: str = "require", source: Path = ROOT) -> tuple[str, bytes]:
    """(name, content) of a source distribution or a wheel."""
    with folder() as made:
        command = (sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", made)
        run(*command, cwd=source, env={"SLURMDOCTOR_COMPILE": compiled})
        (file,) = made.iterdir()
        return file.name, file.read_bytes()


def build_all() -> tuple[Path, Path, Path]:
    """The source distribution and the wheels with and without compiled search, in dist/; the first wheel also from the first."""
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    source, native, pure = build("sdist"), build("wheel"), build("wheel", compiled="no")
    for name, content in (source, native, pure):
        (DIST / name).write_bytes(content)
        print(f"built     {name}  {len(content) / 1e6:.1f} MB")
    if build("sdist") != source:
        raise ReleaseError(f"{source[0]} has other bytes when it is built again")
    with folder() as unpacked:
        with tarfile.open(DIST / source[0]) as archive:
            archive.extractall(unpacked, filter="data")
        (root,) = unpacked.iterdir()
        if build("wheel", source=root) != native:
            raise ReleaseError(f"{native[0]} has other bytes when it is built from {source[0]}")
    print("the same  bytes again, also from the source distribution in another folder")
    return DIST / source[0], DIST / native[0], DIST / pure[0]


def inspect(source: Path, native: Path, pure: Path) -> None:
    """What PyPI and other Pythons ask of the files."""
    tools = Path(sys.executable).parent
    run(tools / "twine", "check", "--strict", source, native, pure)
    run(tools / "check-wheel-contents", native, pure)
    run(tools / "abi3audit", "--strict", "--assume-minimum-abi3", "3.10", native)
    print("accepted  by twine, check-wheel-contents and abi3audit")


def fetch(wheel: Path, wheels: Path) -> None:
    """What slurmdoctor needs to run and to be built, as wheels: the only part that asks a package index."""
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--only-binary=:all:")
    run(*pip, "--dest", wheels, wheel, *needs)
    (wheels / wheel.name).unlink()


def isolated(command: tuple[str | Path, ...], home: Path, wheels: Path = Path()) -> str:
    """What the command printed, without network, as a user who has no settings."""
    env = {"HOME": str(home), "PATH": os.defpath, "NO_COLOR": "1", "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    env |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    env |= {name: "" for name in os.environ if name.startswith(("PYTHONPATH", "PYTHONHOME", "SLURMDOCTOR_"))}
    return run(*command, cwd=home, env=env)


def try_out(file: Path, wheels: Path, version: str, alone: tuple[str, ...]) -> None:
    """Install a file where nothing is, and diagnose the demo with it."""
    with folder() as home:
        venv.create(home / "venv", with_pip=True)
        tools = home / "venv" / "bin"
        quiet = ("--quiet", "--disable-pip-version-check")
        isolated((*alone, tools / "python", "-m", "pip", "install", *quiet, file), home, wheels)
        shutil.copytree(DEMO, home / "logs")
        diagnose(file.name, (*alone, tools / "slurmdoctor"), home, version)


def try_zipapp(native: Path, wheels: Path, version: str, alone: tuple[str, ...]) -> None:
    """Make the single file of the wheel, and diagnose the demo with it."""
    with folder() as home:
        shutil.copytree(DEMO, home / "logs")
        tools, file = Path(sys.executable).parent, home / "slurmdoctor.pyz"
        made = (tools / "shiv", "--quiet", "--preamble", ROOT / "packaging" / "zipapp.py", "--output-file", file)
        isolated((*made, "--console-script", "slurmdoctor", "--python", sys.executable, native), home, wheels)
        diagnose(file.name, (*alone, file), home, version)


def diagnose(name: str, program: tuple[str | Path, ...], home: Path, version: str) -> None:
    """Prove that the program knows its version and its search, and what broke the demo."""
    says = isolated((*program, "--version"), home)
    search = PYTHON if name.endswith("-none-any.whl") else COMPILED
    if not says.startswith(f"slurmdoctor {version} {search}"):
        raise ReleaseError(f"{name}: --version says {says.strip()!r}, not {version} and {search!r}")
    report = isolated((*program, "diagnose", "logs"), home)
    if any(words not in report.splitlines()[0] for words in FOUND):
        raise ReleaseError(f"{name}: the demo's report lacks one of {FOUND}:\n{report}")
    print(f"works     {name}")


def main() -> None:
    """Build, inspect, and try out each file."""
    version = run(sys.executable, "-m", "hatchling", "version").strip()
    files = build_all()
    inspect(*files)
    can = shutil.which(ALONE[0]) and subprocess.run((*ALONE, "true"), capture_output=True, check=False).returncode == 0
    with folder() as wheels:
        fetch(files[1], wheels)
        for file in files:
            try_out(file, wheels, version, ALONE if can else ())
        try_zipapp(files[1], wheels, version, ALONE if can else ())
    print(f"slurmdoctor {version} can be published")


if __name__ == "__main__":
    try:
        main()
    except ReleaseError as error:
        raise SystemExit(f"release-check: {error}") from None
