"""The man page: made from the texts of --help, and what mandoc has nothing to say against."""

import shutil
import subprocess
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from website.manual import page

from cases import run

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "man" / "slurmdoctor.1"


def test_the_page_is_fresh(snapshot: SnapshotAssertion) -> None:
    """`make docs` regenerates it, and so does `make bless`."""
    if snapshot.session.update_snapshots:
        FILE.write_text(page())
    assert FILE.read_text() == page()


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="needs mandoc")
def test_mandoc_finds_nothing_wrong() -> None:
    done = subprocess.run(["mandoc", "-T", "lint", str(FILE)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("command", ["diagnose", "explain", "lint", "hook", "rules check", "config"])
def test_it_has_every_option_of_the_help(command: str) -> None:
    shown = page().replace("\\-", "-").partition(f'.SS "slurmdoctor {command}"\n')[2].partition(".SS")[0]
    helped = run(*command.split(), "--help").stdout.decode().splitlines()
    options = {line.split()[0].rstrip(",") for line in helped if line.startswith("  -")}
    assert options
    assert {option for option in options if option not in shown} <= {"-h", "--help"}


@pytest.mark.parametrize("head", ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"])
def test_it_has_what_a_reader_looks_for(head: str) -> None:
    assert f"\n.SH {head}\n.TP\n" in page()
