"""What every command shows on a terminal and in a pipe: colors as the user says, a bar for what takes long, and nothing after Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.logs import write

from cases import LOG, run

COMMANDS = {"diagnose": ["diagnose", str(LOG)], "explain": ["explain", "cuda-oom"], "lint": ["lint", "-"]}
MAIN = "from slurmdoctor.cli import main, output; output.PATIENCE = float(__import__('os').environ.get('PATIENCE', 9)); main()"


@pytest.mark.parametrize(("setting", "coloured"), [({}, False), ({"FORCE_COLOR": "1"}, True)])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_has_colours_where_they_are_forced(command: str, setting: dict[str, str], coloured: bool) -> None:
    shown = run(*COMMANDS[command], stdin=b"#!/bin/bash\nsrun a\n", **{"NO_COLOR": "", "FORCE_COLOR": "", **setting})
    assert (b"\x1b[" in shown.stdout) is coloured


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a command prints on a terminal, standard error too."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "NO_COLOR": "1", "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-c", MAIN, *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as ran:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # it has ended
                break
        assert ran.wait(timeout=120) == 0
    os.close(ours)
    return shown.decode()


def test_the_first_call_says_that_it_prepares_and_the_next_one_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    source = (Path(__file__).parent / "bad_rules" / "short-literal.yaml").read_text()
    (folder / "short-literal.yaml").write_text(source.replace("['gone']", "['library is gone']"))
    call = ["diagnose", "--rules", str(folder), str(LOG)]
    first, second = (on_a_terminal(*call, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2))
    *notes, report = first.split("\r\x1b[K")
    assert set(notes) == {"preparing the rules, once (a few seconds) ..."}
    assert report == second
    assert second.startswith("✗ rank 5")


@pytest.mark.parametrize(("patience", "bar"), [("0", True), ("60", False)])
def test_a_bar_is_shown_when_it_takes_longer(patience: str, bar: bool) -> None:
    assert ("reading" in on_a_terminal("diagnose", str(LOG), PATIENCE=patience)) is bar


def test_ctrl_c_ends_with_130_and_leaves_nobody(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    write(log, "noisy", 2_000_000)
    log.write_bytes(log.read_bytes() * 32)
    process = subprocess.Popen(
        [sys.executable, "-m", "slurmdoctor", "diagnose", "--jobs", "3", "-", str(log)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    time.sleep(1.5)  # it waits for its standard input to end
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, b"", b"")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
