"""In CI: the GitHub Action's own shell steps, run as a runner does; the pre-commit hook; annotations and their limits."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from slurmdoctor import diagnose
from slurmdoctor.cli import cli
from slurmdoctor.report import lint_report as github, render
from tables import parsed

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = parsed((ROOT / "action.yml").read_text())
BIN = Path(sys.executable).parent
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
OOM = "step 1\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
GOOD = "#!/bin/bash\n#SBATCH --time=1\nset -e\nsrun hostname\n"
BAD = "#!/bin/bash\n#SBATCH --time=1\nset -e\nexport MASTER_PORT=29500\nsrun torchrun --nnodes=2 --master_port=29500 a.py\n"


class Run(NamedTuple):
    """What a run of the action left."""

    status: int
    output: str
    outputs: dict[str, str]
    summary: str

    @property
    def commands(self) -> list[str]:
        """The lines that GitHub takes for workflow commands."""
        shown, stopped = [], None
        for line in self.output.splitlines():
            if stopped is not None:
                stopped = None if line == f"::{stopped}::" else stopped
            elif line.startswith("::stop-commands::"):
                stopped = line.removeprefix("::stop-commands::")
            elif line.lstrip().startswith("::") or "##[" in line:
                shown.append(line)
        return shown


def act(where: Path, inputs: Mapping[str, str], install: bool = False) -> Run:
    """Run the action's steps in a folder, with bash as GitHub calls it and the variables that it sets."""
    temp = where.parent / "runner"
    shutil.rmtree(temp, ignore_errors=True)
    temp.mkdir()
    if not install:
        (temp / "slurmdoctor" / "bin").mkdir(parents=True)
        (temp / "slurmdoctor" / "bin" / "slurmdoctor").symlink_to(BIN / "slurmdoctor")
    files = {"GITHUB_OUTPUT": temp / "output", "GITHUB_STEP_SUMMARY": temp / "summary"}
    for file in files.values():
        file.touch()
    values = {name: about.get("default", "") for name, about in ACTION["inputs"].items()} | dict(inputs)
    known = {**os.environ, **{name: str(file) for name, file in files.items()}}
    known |= {"RUNNER_TEMP": str(temp), "GITHUB_ACTION_PATH": str(ROOT)}
    said, status = "", 0
    for step in ACTION["runs"]["steps"]:
        if step["name"].startswith("Install") and not install:
            continue
        env = {name: INPUT.sub(lambda m: values[m[1]], text) for name, text in step["env"].items()}
        bash = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(bash, cwd=where, env=known | env, capture_output=True, text=True, timeout=300)
        said, status = said + done.stdout + done.stderr, done.returncode
        if status:
            break
    outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    return Run(status, said, outputs, files["GITHUB_STEP_SUMMARY"].read_text())


def committed(where: Path) -> None:
    """Make a repository of the folder."""
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qma"]
    for words in (["init", "-q"], ["add", "-A"], commit):
        subprocess.run(["git", *words], cwd=where, check=True, capture_output=True)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with a good and a bad script, and a page that only shows one."""
    where = tmp_path / "repo"
    (where / "jobs").mkdir(parents=True)
    (where / "jobs" / "bad one.sbatch").write_text(BAD)
    (where / "jobs" / "good").write_text(GOOD)
    (where / "page.md").write_text(f"# Example\n\n```\n{BAD}```\n")
    (where / "job.log").write_text(OOM)
    committed(where)
    return where


# ── the files ────────────────────────────────────────────────────────────────────────────────


def test_no_input_is_pasted_into_a_script() -> None:
    """GitHub fills `${{ }}` in before bash reads the line: there a name could be a command."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]


# ── the action ───────────────────────────────────────────────────────────────────────────────


def test_lint_annotates_its_findings_and_fails(repo: Path) -> None:
    done = act(repo, {"paths": "jobs/*"})
    assert (done.status, done.outputs["status"]) == (1, "1")
    warning = "::warning file=jobs/bad one.sbatch,line=4,title=slurmdoctor port-fixed::"
    assert any(line.startswith(warning) for line in done.commands)
    assert "| `jobs/bad one.sbatch:4` | warning |" in done.summary
    assert '"wrong": true' in Path(done.outputs["report"]).read_text()
    assert act(repo, {"paths": "jobs/good"}).status == 0


def test_lint_finds_the_batch_scripts_itself(repo: Path) -> None:
    done = act(repo, {})
    assert "jobs/bad one.sbatch" in done.summary
    assert "page.md" not in done.output + done.summary
    assert "in 2 files" in done.summary
    shutil.rmtree(repo / "jobs")
    done = act(repo, {})
    assert (done.status, done.outputs["status"]) == (0, "0")


def test_diagnose_annotates_the_log_s_line_and_sums_up(repo: Path) -> None:
    done = act(repo, {"command": "diagnose", "paths": "job.log"})
    assert (done.status, done.outputs["status"]) == (1, "1")
    assert [line[:57] for line in done.commands] == ["::error file=job.log,line=2,title=slurmdoctor%3A cuda-oom"]
    assert "ran out of GPU memory" in done.summary
    assert "✗ rank 3 ran out of GPU memory" in done.output
    done = act(repo, {"command": "diagnose", "paths": "job.log", "fail-on": "never", "args": "--redact strict"})
    assert (done.status, done.outputs["status"]) == (0, "1")


def test_of_several_jobs_each_gets_an_annotation(repo: Path) -> None:
    for job in range(4711, 4724):
        (repo / f"slurm-{job}.out").write_text(OOM)
    done = act(repo, {"command": "diagnose", "paths": "slurm-*.out"})
    assert (done.status, len(done.commands)) == (1, 10)
    assert "GitHub shows 10 annotations of a kind; left out: 3 more errors" in done.output
    assert done.summary.count("cuda-oom") >= 1


BAD_CALLS: list[dict[str, str]] = [{"command": "survey"}, {"fail-on": "sometimes"}, {"command": "diagnose"}]
BAD_CALLS += [{"command": "diagnose", "paths": "*.none"}, {"paths": "jobs/good", "args": "--no-such-option"}]


@pytest.mark.parametrize("inputs", BAD_CALLS)
def test_a_bad_call_fails_with_an_annotation(inputs: Mapping[str, str], repo: Path) -> None:
    done = act(repo, inputs)
    (annotation,) = done.commands
    assert (done.status, annotation.partition("::slurmdoctor")[0][:26]) == (2, "::error title=slurmdoctor:")


def test_neither_inputs_nor_logs_are_commands(repo: Path) -> None:
    act(repo, {"command": "lint; touch broken", "paths": "$(touch broken)\n`touch broken`", "args": "$(touch broken)"})
    assert not (repo / "broken").exists()
    evil = "::error::gotcha"
    lines = f"{evil}\n[rank3]: RuntimeError: {evil}\n{evil} CUDA out of memory\n{'x ' * 46}{evil} ##[error]\n"
    (repo / "job.log").write_text(lines + OOM)
    (annotation,) = act(repo, {"command": "diagnose", "paths": "job.log"}).commands
    assert annotation.startswith("::error file=job.log")


@pytest.mark.slow
def test_the_action_installs_itself(repo: Path) -> None:
    done = act(repo, {"command": "diagnose", "paths": "job.log", "python": sys.executable}, install=True)
    assert (done.status, done.outputs.get("status")) == (1, "1"), done.output


# ── annotations ──────────────────────────────────────────────────────────────────────────────


def test_what_is_said_cannot_leave_its_annotation() -> None:
    item = github.Annotation("error", "a,b::c", "100%\n::warning::x", "my: file,1.log", 3)
    assert github.commands([item]) == "::error file=my%3A file%2C1.log,line=3,title=a%2Cb%3A%3Ac::100%25 ::warning::x\n"


def test_every_verdict_has_its_kind() -> None:
    kinds = {
        OOM: "::error title=slurmdoctor%3A cuda-oom",
        "step 1\nTraining completed successfully.\n": "::notice title=slurmdoctor::no failure found (read 1 file, ",
        "hello\n": "::warning title=slurmdoctor::the log does not show",
    }
    assert [log for log, begins in kinds.items() if not render(diagnose(log), "github").startswith(begins)] == []


# ── lint of many files ───────────────────────────────────────────────────────────────────────


BATCH = (
    GOOD,
    "#!/bin/bash\necho late\n#SBATCH -N 1\n",
    "# a comment, and no interpreter\n\n#SBATCH -N 1\nsrun a\n",
    "\ufeff#!/bin/sh\r\n#SBATCH -N 1\r\n",
    "#!/usr/bin/env python3\n#SBATCH -N 1\nimport a\n",
)
OTHERS = ("#!/bin/bash\necho hello\n", "# A page\n\nText.\n\n#SBATCH -N 1\n", "print('#SBATCH')\n", "", "\0\x01#SBATCH")


def test_batch_only_leaves_out_what_sbatch_would_not_take(tmp_path: Path) -> None:
    for text in (*BATCH, *OTHERS):
        (tmp_path / "file").write_bytes(text.encode())
        done = CliRunner().invoke(cli, ["lint", "--batch-only", str(tmp_path / "file")])
        assert ("no batch scripts to check" in done.output) is (text in OTHERS), text
        assert text in BATCH or done.exit_code == 0, text


def test_lint_as_a_table_holds_against_bars_and_markup(tmp_path: Path) -> None:
    script = tmp_path / "a|b.sbatch"
    script.write_text(BAD.replace("set -e\n", "") + "cleanup\n")
    said = CliRunner().invoke(cli, ["lint", "--format", "markdown", str(script)]).output
    rows = [row for row in said.splitlines() if row.startswith("| ")]
    assert any(r"`\|\| exit`" in row for row in rows)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}


# ── the hook, and our own examples ───────────────────────────────────────────────────────────


@pytest.mark.slow
def test_pre_commit_runs_the_hook_from_a_clone(repo: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    others = shutil.ignore_patterns(".venv", ".git", ".*_cache", ".hypothesis", "build", "corpus")
    shutil.copytree(ROOT, clone, ignore=others, symlinks=True)
    committed(clone)
    command = [
        sys.executable,
        "-m",
        "pre_commit",
        "try-repo",
        str(clone),
        "slurmdoctor-lint",
        "--all-files",
        "--verbose",
    ]
    env = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, cwd=repo, env=env, capture_output=True, text=True, timeout=560)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "jobs/bad one.sbatch:4: warning: the port 29500 is fixed" in done.stdout
    assert "page.md" not in done.stdout


def test_our_own_scripts_are_without_findings() -> None:
    scripts = sorted(map(str, (ROOT / "examples").glob("*.sbatch")))
    assert scripts
    done = CliRunner().invoke(cli, ["lint", *scripts])
    assert (done.exit_code, done.output) == (0, "no problems found\n")
