"""`-o FILE`: the report in a file, whole or not at all; its ending tells the format; the exit status stays."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from test_cli import LOG, one_line, run

SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n#SBATCH --mem=4G\n"
STARTS = {
    "report.txt": "✗ rank 5",
    "report.md": "**✗ rank 5",
    "report.json": '{\n  "schema_version"',
    "report": "✗ rank 5",
}


@pytest.mark.parametrize("name", STARTS)
def test_the_ending_tells_the_format(tmp_path: Path, name: str) -> None:
    ran = run("diagnose", LOG, "-o", tmp_path / name, FORCE_COLOR="1", NO_COLOR="", COLUMNS="50")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    written = (tmp_path / name).read_text()
    assert written.startswith(STARTS[name])
    assert "\x1b" not in written


def test_the_option_is_stronger_than_the_ending(tmp_path: Path) -> None:
    run("diagnose", LOG, "--format", "json", "--output", tmp_path / "report.md")
    assert json.loads((tmp_path / "report.md").read_text())["verdict"] == "failed"


def test_the_exit_status_stays(tmp_path: Path) -> None:
    assert run("diagnose", "--exit-code", LOG, "-o", tmp_path / "report.txt").returncode == 1
    script = tmp_path / "job.sbatch"
    script.write_text(SCRIPT)
    assert run("lint", script, "-o", tmp_path / "lint.json").returncode == 1
    assert json.loads((tmp_path / "lint.json").read_text())["files"][0]["wrong"]


def test_an_ending_that_names_no_format_is_refused(tmp_path: Path) -> None:
    one_line(run("diagnose", LOG, "-o", tmp_path / "report.pdf"), "report.pdf: no format ends in .pdf: use ")
    assert not list(tmp_path.iterdir())


def test_beside_log_without_a_job_is_refused() -> None:
    one_line(run("diagnose", LOG, "--beside-log"), "--beside-log needs a job's id")


def test_a_dash_is_standard_output() -> None:
    assert run("diagnose", LOG, "-o", "-").stdout == run("diagnose", LOG).stdout


def test_it_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "report.txt"
    place.write_text("old\n" * 1000)
    place.chmod(0o640)
    with place.open() as reader:
        run("diagnose", LOG, "-o", place)
        assert reader.read().startswith("old"), "who reads the old one keeps it"
    assert place.read_text().startswith("✗ rank 5")
    assert place.stat().st_mode & 0o777 == 0o640
    assert [file.name for file in tmp_path.iterdir()] == ["report.txt"]


def test_a_link_of_ones_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "latest.txt").symlink_to("run1.txt")
    run("diagnose", LOG, "-o", tmp_path / "latest.txt")
    assert (tmp_path / "latest.txt").is_symlink()
    assert (tmp_path / "run1.txt").read_text().startswith("✗ rank 5")


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/fd/1"])
def test_what_is_no_file_is_written_to(place: str) -> None:
    assert run("diagnose", LOG, "-o", place).stdout.startswith("✗ rank 5".encode())
    assert run("diagnose", LOG, "-o", "/dev/null").returncode == 0


REFUSED = {
    "": ("names nothing", "name a file"),
    "folder": ("is a folder", "folder/report.txt"),
    "folder/": ("is a folder", "folder/report.txt"),
    "none/report.txt": ("folder none is not there", "mkdir -p none"),
    "job.log": ("is the file that is read", "another file"),
    "folder/../job.log": ("is the file that is read", "another file"),
    "/dev/full": ("cannot be written", "free space"),
}


@pytest.mark.parametrize("place", REFUSED)
def test_a_place_that_cannot_be_is_one_line(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "job.log").write_bytes(LOG.read_bytes())
    one_line(run("diagnose", "job.log", "-o", place), "slurmdoctor: ", *REFUSED[place])
    assert (tmp_path / "job.log").read_bytes() == LOG.read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "job.log"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_others_is_one_line(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    one_line(run("diagnose", LOG, "-o", tmp_path / "report.txt"), "may not write", "a folder of your own")


def test_two_places_are_refused(tmp_path: Path) -> None:
    one_line(run("diagnose", "--job", "1", "--beside-log", "-o", tmp_path / "x.txt"), "two places")


@pytest.mark.parametrize("named", ["logs", "logs/*.out", "logs/job.out", "-", None])
def test_a_log_is_never_replaced_however_it_is_named(tmp_path: Path, named: str | None) -> None:
    log = tmp_path / "logs" / "job.out"
    log.parent.mkdir()
    log.write_bytes(LOG.read_bytes())
    call = [sys.executable, "-m", "slurmdoctor", "diagnose", *([named] if named else []), "-o", str(log)]
    with log.open("rb") as stdin:
        ran = subprocess.run(call, cwd=tmp_path, stdin=stdin, capture_output=True, text=True)
    assert ran.returncode == 2
    assert "is the file that is read" in ran.stderr
    assert log.read_bytes() == LOG.read_bytes()


def test_a_report_among_the_logs_is_replaced_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(LOG.read_bytes())
    for _ in range(2):
        assert run("diagnose", tmp_path, "-o", tmp_path / "report.txt").returncode == 0
    assert (tmp_path / "report.txt").read_text().startswith("✗ rank 5")
