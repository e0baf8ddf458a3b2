"""What publishes slurmdoctor: the tag, the changelog's notes, and workflows that hold no secret and trust nobody more than they must."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import slurmdoctor
from tables import parsed

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = (ROOT / "pyproject.toml").read_text()
PYTHONS = re.findall(r"Programming Language :: Python :: (3\.\d+)", PROJECT)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ── the tag and its notes ────────────────────────────────────────────────────────────────────

CHANGELOG = """# Changelog

## 1.2.0 - 2026-12-01

### Added
- A page.

## 1.1.0 - 2026-11-01
- Older.
"""


def test_the_notes_are_the_changelogs_section_of_the_version() -> None:
    assert script("notes").notes("v1.2.0", "1.2.0", CHANGELOG) == "### Added\n- A page."


@pytest.mark.parametrize(
    ("tag", "version", "changelog", "says"),
    [
        ("v1.2.1", "1.2.0", CHANGELOG, "the tag must be v1.2.0"),
        ("1.2.0", "1.2.0", CHANGELOG, "the tag must be v1.2.0"),
        ("v1.3.0", "1.3.0", CHANGELOG, "no section `## 1.3.0 - YYYY-MM-DD`"),
        ("v1x2.0", "1x2.0", CHANGELOG, "no section"),
        ("v1.2.0", "1.2.0", CHANGELOG.replace(" - 2026-12-01", " (unreleased)"), "write the day of the release"),
        ("v1.2.0", "1.2.0", "## 1.2.0 - 2026-12-01\n\n## 1.1.0 - 2026-11-01\n- Older.\n", "says nothing of 1.2.0"),
    ],
)
def test_a_tag_is_refused(tag: str, version: str, changelog: str, says: str) -> None:
    notes = script("notes")
    with pytest.raises(notes.TagError, match=re.escape(says)):
        notes.notes(tag, version, changelog)


def test_a_refusal_is_one_line() -> None:
    command = [sys.executable, "packaging/notes.py", "v0.0"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr.count("\n")) == (1, 1)
    assert ran.stderr.startswith("notes.py: the tag is v0.0, but __version__")


# ── what the docs promise ────────────────────────────────────────────────────────────────────

DOCS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
PROGRAMS = [*(ROOT / "src").rglob("*.py"), *(ROOT / "examples").rglob("*.*"), *(ROOT / "packaging").rglob("*.*")]
FROM_PYPI = re.compile(
    r"\b(?:(?:pip|pipx|uv tool) install(?!.*--find-links)(?: [^\s`,|;]+)*? |uvx )['\"]?slurmdoctor\b(?![-/.]\w)"
)


def test_the_docs_tell_how_to_get_it_today_and_later_and_nothing_comes_from_pypi_before_it_does() -> None:
    for file in (*DOCS, *PROGRAMS):
        heading = ""
        for line in file.read_text(errors="replace").splitlines():
            heading = line if line.startswith("## ") else heading
            assert not FROM_PYPI.search(line) or "after the first release" in (heading + line).lower(), (file, line)
    text = (ROOT / "docs" / "install.md").read_text()
    assert len(FROM_PYPI.findall(text)) > 2, "or the loop above looks for nothing"
    for today in ("pipx install .", "uv tool install .", "make zipapp", "packaging/Containerfile", "--no-index"):
        assert today in text
    assert "docs/install.md" in (ROOT / "README.md").read_text()


def test_make_says_so_where_python_is_too_old_and_sets_nothing_up(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text(f"#!{sys.executable}\nimport sys\nsys.version_info = (3, 9, 18)\nexec(sys.argv[2])\n")
    old.chmod(0o755)
    command = ["make", "demo", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode != 0
    assert f"slurmdoctor needs Python {PYTHONS[0]} or newer, and {old} is 3.9: make demo PYTHON=python3" in ran.stderr
    assert "docs/install.md" in ran.stderr
    assert not (tmp_path / "venv").exists()


# ── recipes ──────────────────────────────────────────────────────────────────────────────────

_LISTED = PROJECT.split("dependencies = [")[1].split("\n]")[0].replace("backports.zstd", "backports-zstd")
NEEDS = dict(re.findall(r'^  "([\w.-]+)>=([\d.]+)', _LISTED, re.M))
"""What the program needs to run, and which version at least."""
TO_BUILD = dict(re.findall(r'"([\w.-]+)>=([\d.]+)', re.findall(r"^requires = \[(.*)\]", PROJECT, re.M)[0]))
SPACK = ROOT / "packaging/spack/spack_repo/slurmdoctor"


def bounds(entries: list[str]) -> dict[str, str]:
    text = "\n".join(entries).replace("backports.zstd", "backports-zstd").replace("py-tree-sitter ", "tree-sitter ")
    return dict(re.findall(r"^([\w.-]+) >=([\d.]+)$", text, re.M))


def test_the_conda_recipe_asks_for_what_the_project_does() -> None:
    recipe = parsed((ROOT / "packaging/conda/recipe.yaml").read_text())
    assert recipe["context"]["version"] == slurmdoctor.__version__
    assert bounds(recipe["requirements"]["run"]) == NEEDS
    assert bounds(recipe["requirements"]["host"]) == TO_BUILD
    assert recipe["build"]["python"]["version_independent"] is True


def test_the_spack_package_asks_for_what_the_project_does() -> None:
    text = (SPACK / "packages/slurmdoctor/package.py").read_text()
    assert re.findall(r'^    version\("([^"]+)"', text, re.M) == [slurmdoctor.__version__]
    rows = re.findall(r'depends_on\("py-([\w-]+)@([\d.]+):", type=(.*?)(?:, when=.*)?\)\n', text)
    for needed, kind in ((NEEDS, '"run"'), (TO_BUILD, '"build"')):
        asked = {name: bound for name, bound, kinds in rows if kind in kinds}
        assert {n: asked.get(n) for n in needed} == {n: re.sub(r"(?:\.0)+$", "", bound) for n, bound in needed.items()}
    assert {name for name, *_ in rows} == NEEDS.keys() | TO_BUILD.keys()
    for package in SPACK.glob("packages/*/package.py"):
        compile(package.read_text(), str(package), "exec")


# ── the workflows ────────────────────────────────────────────────────────────────────────────


def workflow(name: str) -> dict[str, Any]:
    loaded = parsed((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())
    assert isinstance(loaded, dict)
    return loaded


def combined(job: dict[str, Any]) -> list[tuple[str, str]]:
    """The (system, Python) pairs that a job's matrix makes."""
    matrix = job["strategy"]["matrix"]
    pairs = [(os, python) for os in matrix["os"] for python in matrix["python"]]
    return pairs + [(entry["os"], entry["python"]) for entry in matrix.get("include", ())]


@pytest.mark.parametrize(("kind", "files"), [("workflows", WORKFLOWS), ("actions", [ROOT / "action.yml"])])
def test_a_workflow_and_the_action_are_what_github_takes(kind: str, files: list[Path]) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.github-{kind}", *map(str, files)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_uses_only_actions_of_one_commit_and_may_only_read(file: Path) -> None:
    text = file.read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[\d.]+|\./\S*", action), action
    assert workflow(file.stem)["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert text.count("actions/checkout@") == text.count("persist-credentials: false")


def test_only_the_job_that_publishes_gets_an_identity_and_no_code_of_ours_runs_in_it() -> None:
    granted = {name: job["permissions"] for name, job in workflow("release")["jobs"].items() if "permissions" in job}
    assert granted == {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
    publish = workflow("release")["jobs"]["publish"]
    assert publish["environment"] == "pypi"
    assert not any("run" in step for step in publish["steps"])


def test_nothing_is_published_that_was_not_tried_on_every_python() -> None:
    jobs = workflow("release")["jobs"]
    assert jobs["publish"]["needs"] == ["try"]
    assert set(jobs["try"]["needs"]) == {"source", "wheels"}
    systems = jobs["wheels"]["strategy"]["matrix"]["os"]
    assert set(combined(jobs["try"])) == {(os, python) for os in systems for python in PYTHONS}


def test_the_tests_run_on_linux_and_macos_on_every_python() -> None:
    pairs = combined(workflow("ci")["jobs"]["test"])
    assert PYTHONS[0] == re.findall(r'requires-python = ">=(.+)"', PROJECT)[0]
    assert {python for os, python in pairs if os == "ubuntu-latest"} == set(PYTHONS)
    for system in ("ubuntu-24.04-arm", "macos-latest"):
        assert {python for os, python in pairs if os == system} >= {PYTHONS[0], PYTHONS[-1]}
