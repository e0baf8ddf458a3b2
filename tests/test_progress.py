"""A bar for what takes longer than a second, on a terminal alone; Ctrl-C ends with 130."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.logs import write

FIXTURE = Path(__file__).parent / "fixtures" / "demo-cascade"


def _on_a_terminal(*args: str) -> tuple[int, bytes]:
    """(exit status, what was shown on standard error) of a program whose standard error is a terminal."""
    ours, theirs = pty.openpty()
    code = "from slurmdoctor.cli import main, output; output.PATIENCE = float(__import__('os').environ['PATIENCE']); main()"
    process = subprocess.Popen([sys.executable, "-c", code, *args], stdout=subprocess.PIPE, stderr=theirs)
    os.close(theirs)
    shown = b""
    assert process.stdout is not None
    while process.poll() is None or shown[-1:] == b"":
        try:
            shown += os.read(ours, 65536) or b""
        except OSError:
            break
    process.stdout.read()
    status = process.wait()
    os.close(ours)
    return status, shown


def test_the_bar_is_shown_when_it_takes_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATIENCE", "0")
    monkeypatch.setenv("TERM", "xterm")
    status, shown = _on_a_terminal("diagnose", str(FIXTURE))
    assert status == 0
    assert b"reading" in shown


def test_the_bar_is_not_shown_when_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATIENCE", "60")
    assert _on_a_terminal("diagnose", str(FIXTURE)) == (0, b"")


def test_ctrl_c_ends_with_130_and_leaves_nobody(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    write(log, "noisy", 2_000_000)
    for _ in range(5):
        with log.open("r+b") as file:
            data = file.read()
            file.write(data)
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
