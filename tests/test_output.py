"""`-o FILE`: the report in a file, whole or not at all; its ending tells the format; the exit status stays."""

import json
import os
from pathlib import Path

import pytest

from cases import LOG, one_line, run, started

STARTS = {"a.txt": "✗ rank 5", "a.md": "**✗ rank 5", "a.json": '{\n  "schema_version"', "a": "✗ rank 5"}


def test_the_ending_tells_the_format(tmp_path: Path) -> None:
    for name, start in STARTS.items():
        ran = run("diagnose", LOG, "-o", tmp_path / name, FORCE_COLOR="1", NO_COLOR="", COLUMNS="50")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
        written = (tmp_path / name).read_text()
        assert written.startswith(start)
        assert "\x1b" not in written


def test_the_option_is_stronger_than_the_ending_and_a_dash_is_standard_output(tmp_path: Path) -> None:
    run("diagnose", LOG, "--format", "json", "--output", tmp_path / "report.md")
    assert json.loads((tmp_path / "report.md").read_text())["verdict"] == "failed"
    assert run("diagnose", LOG, "-o", "-").stdout == run("diagnose", LOG).stdout


def test_the_exit_status_stays(tmp_path: Path) -> None:
    assert run("diagnose", "--exit-code", LOG, "-o", tmp_path / "report.txt").returncode == 1
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=2\nsrun python train.py\n#SBATCH --mem=4G\n")
    assert run("lint", script, "-o", tmp_path / "lint.json").returncode == 1
    assert json.loads((tmp_path / "lint.json").read_text())["files"][0]["wrong"]


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


def test_a_link_of_ones_own_is_followed_and_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "latest.txt").symlink_to("run1.txt")
    run("diagnose", LOG, "-o", tmp_path / "latest.txt")
    assert (tmp_path / "latest.txt").is_symlink()
    assert (tmp_path / "run1.txt").read_text().startswith("✗ rank 5")
    assert started("diagnose", LOG, "-o", "/dev/stdout").stdout.startswith("✗ rank 5".encode())
    assert run("diagnose", LOG, "-o", "/dev/null").returncode == 0


REFUSED = {
    "": ("names nothing", "name a file"),
    "folder": ("is a folder", "folder/report.txt"),
    "folder/": ("is a folder", "folder/report.txt"),
    "none/report.txt": ("folder none is not there", "mkdir -p none"),
    "job.log": ("is the file that is read", "another file"),
    "folder/../job.log": ("is the file that is read", "another file"),
    "report.pdf": ("report.pdf: no format ends in .pdf: use ",),
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


def test_a_log_is_never_replaced_however_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "logs" / "job.out"
    log.parent.mkdir()
    log.write_bytes(LOG.read_bytes())
    for named in ("logs", "logs/*.out", "logs/job.out"):
        one_line(run("diagnose", named, "-o", log), "is the file that is read")
    with log.open("rb") as redirected:
        one_line(started("diagnose", "-o", log, stdin=redirected), "is the file that is read")
    assert log.read_bytes() == LOG.read_bytes()


def test_a_report_among_the_logs_is_replaced_by_the_next(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_bytes(LOG.read_bytes())
    for _ in range(2):
        assert run("diagnose", tmp_path, "-o", tmp_path / "report.txt").returncode == 0
    assert (tmp_path / "report.txt").read_text().startswith("✗ rank 5")
