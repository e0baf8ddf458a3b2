"""The command line: one verdict for every way in; bad input gets one line and exit status 2; never a traceback."""

import json
from pathlib import Path

import pytest

from cases import COMPRESS, LOG, Called, one_line, run, started
from slurmdoctor import __version__


def said(called: Called) -> str:
    """What was found, whatever the log is called."""
    assert called.returncode == 0, called.stderr.decode()
    found = json.loads(called.stdout)
    shown = json.dumps({key: found[key] for key in ("verdict", "cause", "exit", "cascade")})
    return shown.replace(str(LOG), "-")


def test_every_way_in_says_the_same(tmp_path: Path) -> None:
    as_json = ("diagnose", "--format", "json")
    by_file = said(run(*as_json, LOG))
    assert said(run(*as_json, LOG.parent)) == said(run(*as_json, "-", stdin=LOG.read_bytes())) == by_file
    with LOG.open("rb") as redirected:
        assert said(started(*as_json, stdin=redirected)) == by_file
    for ending, compress in COMPRESS.items():
        path = tmp_path / f"job.log.{ending}"
        path.write_bytes(compress(LOG.read_bytes()))
        assert said(run(*as_json, path)).replace(str(path), "-") == by_file


def test_exit_code_tells_scripts_what_was_found(tmp_path: Path) -> None:
    fine = tmp_path / "fine.log"
    fine.write_text("step 1/2 loss 0.5 40 ms/step\nstep 2/2 loss 0.4 40 ms/step\ntraining finished\n")
    silent = tmp_path / "silent.log"
    silent.write_text("0: hello\n1: hello\nsrun: error: n1: task 1: Exited with exit code 3\n")
    assert run("diagnose", LOG).returncode == 0
    assert [run("diagnose", "--exit-code", log).returncode for log in (LOG, fine, silent)] == [1, 0, 3]


@pytest.mark.parametrize(
    ("file", "asked", "words"),
    [
        ("slurm-123.out", "slurm-124.out", ("no such file", "did you mean", "slurm-123.out")),
        ("train.py", "", ("no log files",)),
        ("job.log", "*.out", ("no file matches",)),
    ],
)
def test_what_cannot_be_read_is_one_line(file: str, asked: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / file).write_text("x\n")
    one_line(run("diagnose", tmp_path / asked), *words)


def test_the_version_is_told() -> None:
    assert __version__ in run("--version").stdout.decode()
