"""What every command shows on a terminal, in a pipe and in between: colors as the user says."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cases import LOG, run
from slurmdoctor.report import look

COMMANDS = {"diagnose": ["diagnose", str(LOG)], "explain": ["explain", "cuda-oom"], "lint": ["lint", "-"]}
SETTINGS = [
    ({}, False),
    ({"FORCE_COLOR": "1"}, True),
    ({"FORCE_COLOR": "0"}, False),
    ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
]


@pytest.mark.parametrize(("setting", "coloured"), SETTINGS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_pipe_has_colours_where_they_are_forced(command: str, setting: dict[str, str], coloured: bool) -> None:
    shown = run(*COMMANDS[command], stdin=b"#!/bin/bash\nsrun a\n", **{"NO_COLOR": "", "FORCE_COLOR": "", **setting})
    assert (b"\x1b[" in shown.stdout) is coloured


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a command prints on a terminal, standard error too."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "NO_COLOR": "", "FORCE_COLOR": "", "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-m", "slurmdoctor", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as ran:
        os.close(theirs)
        shown = b""
        while True:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # it has ended
                break
        ran.wait(timeout=120)
    os.close(ours)
    return shown.decode()


@pytest.mark.parametrize(("setting", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_a_terminal_has_colours_but_where_they_are_not_wanted(setting: dict[str, str], coloured: bool) -> None:
    assert look(Terminal(), {"COLUMNS": "80", **setting}).colour is coloured


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_first_call_says_that_it_prepares_and_the_next_one_does_not(tmp_path: Path) -> None:
    folder = tmp_path / "rules"
    folder.mkdir()
    source = (Path(__file__).parent / "bad_rules" / "short-literal.yaml").read_text()
    (folder / "short-literal.yaml").write_text(source.replace("['gone']", "['library is gone']"))
    call = ["diagnose", "--rules", str(folder), str(LOG)]
    cache = {"XDG_CACHE_HOME": str(tmp_path), "NO_COLOR": "1"}
    first, second = on_a_terminal(*call, **cache), on_a_terminal(*call, **cache)
    *notes, report = first.split("\r\x1b[K")
    assert set(notes) == {"preparing the rules, once (a few seconds) ..."}
    assert report == second
    assert second.startswith("✗ rank 5")
