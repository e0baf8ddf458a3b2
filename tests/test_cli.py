"""The command line: one verdict for every way in; bad input gets one line and exit status 2; never a traceback."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from cases import FIXTURES
from slurmdoctor import __version__
from slurmdoctor.cli import cli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

DEMO = FIXTURES / "demo-cascade"
LOG = next(p for p in DEMO.iterdir() if p.suffix == ".out")
ENVIRONMENT = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}


def run(*arguments: str | Path, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "slurmdoctor", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, env={**ENVIRONMENT, **environment}, timeout=120)


def said(result: subprocess.CompletedProcess[bytes]) -> dict[str, object]:
    assert result.returncode == 0, result.stderr.decode()
    found: dict[str, object] = json.loads(result.stdout)
    return {key: found[key] for key in ("verdict", "cause", "exit", "cascade")}


def test_a_folder_a_file_stdin_and_a_pipe_say_the_same() -> None:
    by_file = said(run("diagnose", "--format", "json", LOG))
    by_folder = said(run("diagnose", "--format", "json", DEMO))
    by_pipe = said(run("diagnose", "--format", "json", "-", stdin=LOG.read_bytes()))
    with LOG.open("rb") as stream:
        redirected = subprocess.run(
            [sys.executable, "-m", "slurmdoctor", "diagnose", "--format", "json"],
            stdin=stream, capture_output=True, env=ENVIRONMENT, timeout=120,
        )  # fmt: skip

    def without_file(found: dict[str, object]) -> str:
        return json.dumps(found).replace(json.dumps(str(LOG))[1:-1], "-")

    assert without_file(by_file) == without_file(by_folder) == without_file(by_pipe) == without_file(said(redirected))


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstd.compress,
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_logs_say_the_same(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"job.log.{ending}"
    path.write_bytes(COMPRESS[ending](LOG.read_bytes()))
    assert (
        said(run("diagnose", "--format", "json", path))["cause"]
        == said(run("diagnose", "--format", "json", LOG))["cause"]
    )


def test_the_json_fits_its_schema() -> None:
    schema = json.loads((Path(__file__).parents[1] / "src/slurmdoctor/report/schema.json").read_text())
    jsonschema.validate(json.loads(run("diagnose", "--format", "json", LOG).stdout), schema)


def test_the_report_is_short_and_plain_through_a_pipe() -> None:
    text = run("diagnose", LOG).stdout.decode()
    assert "rank 5" in text.splitlines()[0]
    assert "disk-full" in text.splitlines()[0]
    assert len(text.splitlines()) <= 15
    assert "\x1b" not in text


def test_exit_code_tells_scripts_what_was_found(tmp_path: Path) -> None:
    fine = tmp_path / "fine.log"
    fine.write_text("step 1/2 loss 0.5 40 ms/step\nstep 2/2 loss 0.4 40 ms/step\ntraining finished\n")
    silent = tmp_path / "silent.log"
    silent.write_text("0: hello\n1: hello\nsrun: error: n1: task 1: Exited with exit code 3\n")
    assert run("diagnose", LOG).returncode == 0
    assert run("diagnose", "--exit-code", LOG).returncode == 1
    assert run("diagnose", "--exit-code", fine).returncode == 0
    assert run("diagnose", "--exit-code", silent).returncode == 3


def test_an_empty_log_is_unknown_and_no_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert said(run("diagnose", "--format", "json", empty))["verdict"] == "unknown"


def one_line(result: subprocess.CompletedProcess[bytes], *words: str) -> None:
    assert result.returncode == 2
    message = result.stderr.decode()
    assert message.count("\n") == 1, message
    assert "Traceback" not in message
    for word in words:
        assert word in message, message


def test_a_missing_file_names_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "slurm-123.out").write_text("x\n")
    one_line(run("diagnose", tmp_path / "slurm-124.out"), "no such file", "did you mean", "slurm-123.out")


def test_a_folder_without_logs_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()\n")
    one_line(run("diagnose", tmp_path), "no log files")


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "core.log"
    path.write_bytes(b"\x7fELF" + bytes(range(256)) * 40)
    one_line(run("diagnose", path), "not a text log")
    one_line(run("diagnose", tmp_path), "not a text log")


def test_a_binary_file_in_a_folder_of_logs_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "core.log").write_bytes(random.Random(1).randbytes(9000))
    shutil.copy(LOG, tmp_path)
    assert json.loads(run("diagnose", "--format", "json", tmp_path).stdout)["coverage"]["files"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_told(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    path.write_text("x\n")
    path.chmod(0)
    one_line(run("diagnose", path), "permission denied")


def test_a_pattern_that_matches_nothing_is_told(tmp_path: Path) -> None:
    one_line(run("diagnose", f"{tmp_path}/*.out"), "no file matches")


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    path = tmp_path / "job.log.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00garbage")
    one_line(run("diagnose", path), "cannot decompress")


def test_a_broken_rule_file_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("cause: site/mine\ntitle: x\nrules: [\n")
    result = run("diagnose", "--rules", tmp_path, LOG)
    assert result.returncode == 2
    assert "mine.yaml:" in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


def test_an_unknown_option_is_a_usage_error() -> None:
    one_line(run("diagnose", "--colour", LOG), "no such option", "--colour", "`slurmdoctor diagnose --help` shows how")


def test_a_closed_pipe_is_no_error() -> None:
    script = f'"{sys.executable}" -m slurmdoctor diagnose "{LOG}" | true; echo "${{PIPESTATUS[0]}}"'
    result = subprocess.run(["bash", "-c", script], capture_output=True, env=ENVIRONMENT, timeout=120)
    assert result.stdout.decode().strip() == "0"
    assert result.stderr == b""


def test_the_version_is_told() -> None:
    assert __version__ in run("--version").stdout.decode()


@pytest.mark.parametrize(("setting", "coloured"), [({"FORCE_COLOR": "1"}, True), ({}, False)])
def test_a_pipe_gets_colours_where_they_are_forced(setting: dict[str, str], coloured: bool) -> None:
    found = CliRunner(env={"NO_COLOR": None, "FORCE_COLOR": None, **setting}).invoke(
        cli, ["diagnose", "-"], input="[rank3]: KeyError: 'x'\n"
    )
    assert ("\x1b[" in found.output) is coloured
