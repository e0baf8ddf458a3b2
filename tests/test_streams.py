"""Closed, full and broken standard streams: one line that says what to do, exit status 2, and never a traceback."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from slurmdoctor.input import streams
from slurmdoctor.input.opening import open_sources
from slurmdoctor.model import UserError

PROGRAM = f"'{sys.executable}' -m slurmdoctor"
LOG = "step 1 loss 2\nRuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
FULL = "the report cannot be written: No space left on device: free some room"
COMMANDS = ("diagnose --format json job.log", "rules list", "--help")


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "job.log").write_text(LOG)
    return subprocess.run(["bash", "-c", command], cwd=folder, text=True, capture_output=True, timeout=60)


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("slurmdoctor: ")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        *(pytest.param(f"{one} >/dev/full", FULL, marks=full) for one in COMMANDS),
        *((f"{one} >&-", "standard output is closed") for one in COMMANDS),
        *((f"{one} <&-", "standard input is closed") for one in ("diagnose", "lint -", "mcp")),
    ],
)
def test_a_full_disk_and_a_closed_stream_that_is_needed_are_named(command: str, words: str, tmp_path: Path) -> None:
    if command.startswith("mcp"):
        pytest.importorskip("mcp")
    refused(shell(f"{PROGRAM} {command}", tmp_path), words)


@pytest.mark.parametrize("streams", ["2>&-", "<&- 2>&-"])
def test_what_is_not_needed_may_be_closed(streams: str, tmp_path: Path) -> None:
    done = shell(f"{PROGRAM} diagnose job.log {streams}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cuda-oom" in done.stdout


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_where_nobody_can_be_told_the_status_still_tells(streams: str, tmp_path: Path) -> None:
    assert shell(f"{PROGRAM} diagnose nothing.log {streams}", tmp_path).returncode == 2


def test_a_broken_pipe_ends_quietly(tmp_path: Path) -> None:
    done = shell(f"{PROGRAM} rules list | true; echo ${{PIPESTATUS[0]}}", tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_a_full_folder_for_temporary_files_is_told(tmp_path: Path) -> None:
    def small() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1024 * 1024, resource.RLIM_INFINITY))

    many = f"import sys; sys.stdout.write({'worker says hello' + chr(10)!r} * 2_000_000)"
    with subprocess.Popen([sys.executable, "-c", many], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as log:
        done = subprocess.run(
            [sys.executable, "-m", "slurmdoctor", "diagnose"], stdin=log.stdout, text=True, capture_output=True,
            preexec_fn=small, env={**os.environ, "TMPDIR": str(tmp_path)}, timeout=60,
        )  # fmt: skip
        log.kill()
    refused(done, "no room for a copy of the piped or decompressed log: File too large: set TMPDIR")


def test_no_folder_for_temporary_files_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not needed before so much was read that memory is not the place for it."""
    monkeypatch.setattr(streams, "_IN_MEMORY", 10_000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    (tmp_path / "job.log").write_bytes(LOG.encode("utf-16") * 2000)
    (source,) = open_sources([tmp_path / "job.log"]).sources
    with pytest.raises(UserError, match="set TMPDIR to a folder with room"):
        list(source.blocks())
