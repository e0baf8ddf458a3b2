"""The README shows what the program really prints."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROSE = re.sub(r"```.*?```", "", README, flags=re.S)


def test_the_report_shown_is_the_report_printed() -> None:
    block = next(b for b in re.findall(r"```\n(.*?)```", README, re.S) if b.startswith("$ slurmdoctor diagnose"))
    command, _, shown = block.partition("\n")
    environment = {**os.environ, "COLUMNS": "92", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    arguments = command.split()[2:]
    printed = subprocess.run(
        [sys.executable, "-m", "slurmdoctor", *arguments], cwd=ROOT, env=environment, capture_output=True, timeout=120
    )
    assert printed.stdout.decode().rstrip() == shown.rstrip()


@pytest.mark.parametrize("target", ["demo", "test", "bench"])
def test_every_make_target_named_is_there(target: str) -> None:
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w./-]+)\)", README))))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[a-z-]+)", PROSE))))
def test_every_option_named_is_there(option: str) -> None:
    helps = "".join(
        subprocess.run(
            [sys.executable, "-m", "slurmdoctor", *words, "--help"], capture_output=True, text=True, timeout=60
        ).stdout
        for words in (["diagnose"], ["hook"], ["lint"])
    )
    assert option in helps or option in ("--label",)


def test_every_option_of_diagnose_is_in_the_readme_or_the_docs() -> None:
    told = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    command = [sys.executable, "-m", "slurmdoctor", "diagnose", "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown, re.M)) - {"--help", "--output"}
    assert len(options) > 12
    assert {option for option in options if not re.search(rf"`{option}\b", told)} == set()
    assert "`-o FILE`" in told or "-o report" in told


def test_make_mutate_names_tests_that_are_there() -> None:
    selected = re.findall(r'^  "(tests/test_\w+\.py)",$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert len(selected) > 10
    assert not [path for path in selected if not (ROOT / path).exists()]


def test_ci_runs_the_test_command_and_the_slow_tests() -> None:
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert {"make test", "make test-slow", "make release-check"} <= set(commands)
