"""Completion in real shells: what TAB makes of a line that was begun."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cases import run

SHELLS = ("bash", "zsh", "fish")
BEGUN = {
    "slurmdoctor diagn": "slurmdoctor diagnose",
    "slurmdoctor rules che": "slurmdoctor rules check",
    "slurmdoctor diagnose --exit-st": "slurmdoctor diagnose --exit-status",
    "slurmdoctor diagnose --format mark": "slurmdoctor diagnose --format markdown",
    "slurmdoctor explain cuda-o": "slurmdoctor explain cuda-oom",
    "slurmdoctor explain cuda-oom/hydra": "slurmdoctor explain cuda-oom/hydra-call",
    "slurmdoctor diagnose job-4": "slurmdoctor diagnose job-4711.out",
    "slurmdoctor diagnose -o repor": "slurmdoctor diagnose -o reports",
    "slurmdoctor lint trai": "slurmdoctor lint train.sbatch",
    "slurmdoctor diagnose --script trai": "slurmdoctor diagnose --script train.sbatch",
}
INTERACTIVE = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}
SETUP = {"bash": "PS1='> '; bind 'set bell-style none'", "zsh": "PS1='> '; autoload -U compinit; compinit -u -D"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a job in it, in which the program is found by its name."""
    program = tmp_path / "bin" / "slurmdoctor"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m slurmdoctor "$@"\n')
    program.chmod(0o755)
    work = tmp_path / "work"
    (work / "reports").mkdir(parents=True)
    for name in ("job-4711.out", "train.sbatch"):
        (work / name).touch()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "dumb")
    return tmp_path


def typed(shell: str, begun: str, home: Path) -> str:
    """The line after TAB: at an interactive shell's prompt, which then prints it."""
    script = home / f"completion.{shell}"
    script.write_bytes(run(_SLURMDOCTOR_COMPLETE=f"{shell}_source").stdout)
    if shell == "fish":
        done = subprocess.run(
            ["fish", "--no-config", "-c", f"source {script}; complete -C '{begun}'"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        (only,) = done.stdout.splitlines()
        return " ".join([*begun.split()[:-1], only.split("\t")[0]]).rstrip("/")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        INTERACTIVE[shell], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as ran:
        os.close(theirs)
        os.write(ours, f"{SETUP[shell]}; source {script}; echo REA''DY\n".encode())
        _until(ours, "READY")
        os.write(ours, f"{begun}\t".encode())
        _until(ours, None)
        os.write(ours, b"\x01echo 'LINE<'\x05 '>EN'D\n")
        shown = _until(ours, ">END\r")
        os.write(ours, b"exit\n")
        ran.wait(timeout=20)
    os.close(ours)
    return " ".join(shown.rpartition("LINE<")[2].partition(">END")[0].split()).rstrip("/")


def _until(terminal: int, end: str | None) -> str:
    """What is shown until that; or, without it, until nothing has been shown for a while."""
    shown, begun = "", time.monotonic()
    while time.monotonic() - begun < 30 and not (end and end in shown):
        if select.select([terminal], [], [], 1.5)[0]:
            shown += os.read(terminal, 65536).decode("utf-8", "replace")
        elif end is None:
            break
    return shown


@pytest.mark.parametrize("begun", BEGUN)
@pytest.mark.parametrize("shell", [pytest.param(one, marks=pytest.mark.slow) for one in SHELLS])
def test_tab_completes(shell: str, begun: str, home: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    assert typed(shell, begun, home) == BEGUN[begun]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not here")
def test_tab_completes_in_fish(home: Path) -> None:
    assert typed("fish", "slurmdoctor explain cuda-o", home) == "slurmdoctor explain cuda-oom"


def asked(line: str, rules: str = "") -> subprocess.CompletedProcess[bytes]:
    number = str(len(line.split()) - (not line.endswith(" ")))
    return run(_SLURMDOCTOR_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=number, SLURMDOCTOR_RULES=rules)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("slurmdoctor ", {"diagnose", "explain", "lint", "hook", "rules", "help"}),
        ("slurmdoctor explain oom", set()),
        ("slurmdoctor diagnose --redact ", {"default", "strict", "off"}),
        ("slurmdoctor rules ", {"list", "check", "new", "test"}),
    ],
)
def test_what_is_offered(line: str, offered: set[str]) -> None:
    found = {row.partition(",")[2] for row in asked(line).stdout.decode().splitlines()}
    assert offered <= found
    assert "footer" not in found, "it is for the hook alone"


def test_a_broken_call_leaves_the_line_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("cause: [\n")
    found = asked("slurmdoctor explain c", str(tmp_path))
    assert (found.stdout.strip(), found.stderr) == (b"", b"")
