"""The last lines of jobs without a known cause, grouped by what they say, each kind with the command that drafts a rule for it."""

import random
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from slurmdoctor.cli import cli
from slurmdoctor.survey.answers import UnknownKind
from slurmdoctor.survey.unknown import draft_command, kinds_of
from tables import table

LINES = table("last_lines")

HOSTILE = [
    "solver: can't read 'part 3'; rm -rf ~ `id` $(id) $HOME !! \\ \"x\" | & < > * ? # {a,b}",
    "-x --folder=/ solver failed: bad option",
    "\x1b[31msolver failed\x1b[0m: \x07 bell \x00 and \u202e turned round",
    "résolveur échoué : l'étape 3 a échoué",
    "求解器失败: 第 3 步",
    "'",
    "x" * 5000,
    "solver:  part\t3   failed",
]

Line = tuple[str, str | None, float | None]
"""A job's last line, its user, and the GPU hours that it lost."""


def counted(lines: Sequence[Line], most: int = 1000) -> tuple[UnknownKind, ...]:
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE lines (last_line TEXT, "user" TEXT, lost DOUBLE)')
        connection.executemany("INSERT INTO lines VALUES ($1, $2, $3)", lines)
        return kinds_of(connection, most)


def kinds(*lines: str) -> tuple[UnknownKind, ...]:
    return counted([(line, "kim", 1.0) for line in lines])


@pytest.mark.parametrize(("pattern", "lines"), LINES["kinds"].items())
def test_lines_that_differ_from_run_to_run_are_one_kind(pattern: str, lines: list[str]) -> None:
    assert [(kind.pattern, kind.jobs) for kind in kinds(*lines)] == [(pattern, 2)]


def test_lines_that_say_the_same_are_one_kind_and_others_are_others() -> None:
    assert [len(kinds(*lines)) for lines in LINES["same"]] == [1] * len(LINES["same"])
    assert [len(kinds(*lines)) for lines in LINES["different"]] == [len(lines) for lines in LINES["different"]]


def test_jobs_users_and_hours_are_counted() -> None:
    rows: list[Line] = [("tape 3 is lost", "kim", 1.1), ("tape 4 is lost", "lee", 2.2), ("tape 31 is lost", "kim", None), ("no key", None, 0.1)]  # fmt: skip
    first, second = counted(rows)
    assert (first.jobs, first.users, first.gpu_hours_lost, first.example) == (3, 2, 3.3, "tape 3 is lost")
    assert (second.jobs, second.users) == (1, 0)
    assert counted(rows, most=1) == (first,)


def test_the_order_of_the_lines_does_not_matter_and_no_job_is_lost() -> None:
    rng = random.Random(7)
    words = ["tape", "disk", "mesh", "lost", "torn", "node07", "'x'", "/a/b", "17", "of", "3.5"]
    rows = [(" ".join(rng.choices(words, k=rng.randrange(1, 9))), rng.choice(["kim", "lee", None]), rng.random()) for _ in range(600)]  # fmt: skip
    first = counted(rows)
    rng.shuffle(rows)
    assert counted(rows) == first
    assert sum(kind.jobs for kind in first) == 600


def test_the_command_can_be_pasted_whatever_the_line_holds(tmp_path: Path) -> None:
    found = [kinds(line)[0] for line in HOSTILE]
    assert all(kind.example.isprintable() and kind.pattern.isprintable() for kind in found)
    said = 'slurmdoctor() { printf "%s\\n" "$#" "$@"; }; ' + "; ".join(kind.draft for kind in found)
    shown = subprocess.run(["sh", "-c", said], capture_output=True, text=True, cwd=tmp_path, check=True).stdout
    lines = shown.splitlines()
    for at, kind in enumerate(found):
        count, rules, new, _, line = lines[5 * at : 5 * at + 5]
        assert (count, rules, new, line.removeprefix("--line=")) == ("4", "rules", "new", kind.example[:300])


@pytest.mark.parametrize("line", [HOSTILE[0], "loader.TapeError: tape library is gone after 30 s"])
def test_the_command_drafts_a_rule_that_takes_the_line(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(kinds(line)[0].draft)[1:]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert len(list(tmp_path.glob("*.yaml"))) == 1
    left = [row for row in done.output.splitlines() if row.startswith("  line ")]
    assert [row for row in left if "is empty" not in row] == []  # nothing but what a person has to say is missing


def test_the_example_is_one_of_the_lines_that_most_look_like() -> None:
    (kind,) = kinds("KeyError: 3", "KeyError: 'mask'", "KeyError: 'labels'")
    assert (kind.pattern, kind.example) == ("KeyError: <name>", "KeyError: 'mask'")


def test_blanks_stay_as_they_are_for_a_pattern_has_to_match_them() -> None:
    assert kinds("Error in routine   read (2):")[0].draft.endswith("'Error in routine   read (2):'")


def test_each_draft_has_a_name_of_its_own() -> None:
    taken: set[str] = set()
    patterns = ("a tape is lost", "a tape is lost", "3", "4", "KeyError:")
    drafts = [draft_command(pattern, "x", taken).split()[3].removeprefix("site/") for pattern in patterns]
    assert drafts == ["a-tape-is-lost", "a-tape-is-lost-2", "unknown-end", "unknown-end-2", "key-error"]
