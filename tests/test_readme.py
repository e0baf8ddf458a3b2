"""The README shows what the program really prints."""

import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner
from website.outputs import printed

from slurmdoctor.cli import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PROSE = re.sub(r"```.*?```", "", README, flags=re.S)


def test_the_picture_is_of_the_report_printed() -> None:
    """`make docs` makes it; what pages show as text is held by tests/test_site.py."""
    picture = re.search(r"!\[[^\]]+\]\(([\w./]+\.svg)\)", README)
    assert picture
    shown: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(
        r'<text class="slurmdoctor-r[^>]*?x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', (ROOT / picture[1]).read_text()
    ):
        shown.setdefault(float(y), []).append((float(x), unescape(text)))
    rows = ["".join(text for _, text in sorted(shown[y])) for y in sorted(shown)]
    command = "slurmdoctor diagnose tests/fixtures/demo-cascade"
    assert letters("".join(rows)) == letters(f"$ {command}{printed(f'COLUMNS=100 {command}')}")


def letters(text: str) -> str:
    return re.sub(r"\s", "", text)


def test_the_first_screen_says_what_it_is_shows_a_report_and_two_commands() -> None:
    screen = README.splitlines()[:16]
    assert "rank that broke your training job" in screen[2]
    assert any(line.startswith("![") for line in screen)
    assert [line.split("#")[0].strip() for line in screen if line.startswith("make ")] == ["make demo", "make test"]
    assert len(README.splitlines()) <= 90


@pytest.mark.parametrize("target", ["demo", "test", "bench"])
def test_every_make_target_named_is_there(target: str) -> None:
    assert f"make {target}" in README
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M)


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[a-z-]+)", PROSE))))
def test_every_option_named_is_there(option: str) -> None:
    assert option in "".join(map(shown, ("diagnose", "hook", "lint"))) or option in ("--label",)


def shown(command: str) -> str:
    """The help of a command."""
    return CliRunner().invoke(cli, [command, "--help"]).stdout


def test_every_option_of_diagnose_is_in_the_readme_or_the_docs() -> None:
    told = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", shown("diagnose"), re.M)) - {"--help", "--output"}
    assert len(options) > 12
    assert {option for option in options if not re.search(rf"`{option}\b", told)} == set()
    assert "`-o FILE`" in told or "-o report" in told


def test_make_mutate_names_tests_that_are_there() -> None:
    selected = re.findall(r'^  "(tests/test_\w+\.py)",$', (ROOT / "pyproject.toml").read_text(), re.M)
    assert len(selected) > 10
    assert not [path for path in selected if not (ROOT / path).exists()]


def test_ci_runs_the_test_command_and_the_slow_tests() -> None:
    commands = (ROOT / ".ci" / "run").read_text().splitlines()
    assert {"time make test", "time make test-slow", "time make release-check"} <= set(commands)
