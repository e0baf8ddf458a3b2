"""`slurmdoctor rules check`: the mistakes that people make, each told with its line and its mend."""

import os
import shutil
from pathlib import Path

import pytest
import yaml

from rule_files import cause_file, put
from slurmdoctor.knowledge import builtin
from slurmdoctor.knowledge.paths import names
from slurmdoctor.knowledge.problems import Problem, shown
from slurmdoctor.knowledge.rule_reader import read
from slurmdoctor.knowledge.workshop.check import check, check_paths, render
from slurmdoctor.knowledge.workshop.scaffold import draft
from slurmdoctor.model import Knowledge

NOTHING = Knowledge({}, (), ())
BAD, MADE = (Path(__file__).parent / name for name in ("bad_rules", "made_rules"))
MISTAKES = sorted(BAD.glob("*.yaml"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small part of our catalogue: reading all of it for each mistake would take a minute."""
    folder = tmp_path_factory.mktemp("ours")
    part = ["memory/cuda-oom", "communication/peer-lost", "communication/collective-timeout", "scheduler/sigterm"]
    for name in ("formats", "fragments", *part):
        file = folder / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        shutil.copy(Path(builtin(), f"{name}.yaml"), file)
    shutil.copy(MADE / "facts.yaml", folder)
    return folder


def problems_of(ours: Path, *paths: Path) -> list[Problem]:
    loaded = read((ours, *paths))
    return check(loaded, {shown(file) for path in paths for file in names(path)}).problems


def site(folder: Path, name: str, explains: str = "[]", regex: str = "tape library is gone", **changed: str) -> Path:
    return put(folder / f"{name}.yaml", cause_file(f"site/{name}", explains=explains, regex=f"'{regex}'", **changed))


@pytest.mark.parametrize("file", MISTAKES, ids=lambda file: file.stem)
def test_a_mistake_is_told_with_its_line_and_its_mend(ours: Path, file: Path) -> None:
    """`SLURMDOCTOR_BLESS=1 pytest` writes the expected texts anew: read the difference before you commit it."""
    told = "".join(f"{p.place.line}:{p.place.column}: {p.what}; {p.mend}\n" for p in problems_of(ours, file))
    expected = file.with_suffix(".expected")
    if os.environ.get("SLURMDOCTOR_BLESS"):
        expected.write_text(told)
    if "YAML cannot be read" in told and not hasattr(yaml, "CSafeLoader"):
        pytest.skip("libyaml words its errors in its own way")
    assert told == expected.read_text()
    assert told, "the mistake is not found"


def test_all_mistakes_are_told_at_once(ours: Path, tmp_path: Path) -> None:
    for file in (BAD / "unknown-key.yaml", BAD / "short-literal.yaml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert {Path(p.place.file).name for p in problems_of(ours, tmp_path)} == {"unknown-key.yaml", "short-literal.yaml"}


def test_a_good_file_has_no_problems_and_without_a_line_that_a_rule_must_not_take_a_note(tmp_path: Path) -> None:
    file = site(tmp_path, "tape")
    files, problems, notes = check_paths([file], (builtin(),))
    assert [rule.id for file in files for rule, _ in file.rules] == ["site/tape/loader"]
    assert problems == notes == []
    put(file, file.read_text().replace("'tape library is back'", ""))
    checked = check_paths([file], (builtin(),))
    assert (checked.problems, [note.place.line for note in checked.notes]) == ([], [13])


def test_braces_that_name_no_fragment_are_a_mistake(tmp_path: Path) -> None:
    shutil.copy(MADE / "fragments.yaml", tmp_path)
    site(tmp_path, "tape", regex=r"{robot_am}|\{robot_arm}|\p{letter}{2,3}|tape library is gone")
    (told,) = [problem for problem in check_paths([tmp_path], (builtin(),)).problems if "fragment" in problem.what]
    assert told.mend.startswith("did you mean `robot_arm`?")


def test_crosstalk_is_told_at_the_example_or_at_the_rule_where_that_file_is_not_checked(
    ours: Path, tmp_path: Path
) -> None:
    loaded = read((ours, site(tmp_path, "tape"), robot := site(tmp_path, "robot", regex="library is gone")))
    told = [p for p in check(loaded, {str(robot)}).problems if "an example of" in p.what]
    assert {p.place.file for p in told} == {str(robot)}
    both = [("tape", "robot"), ("robot", "tape")]
    takes = {f"`site/{one}/loader` also takes an example of `site/{other}/loader`" for one, other in both}
    assert {p.what.partition(":")[0] for p in told} == takes


@pytest.mark.parametrize(("role", "explains"), [("hint", "[]"), ("root", "[site/tape]")])
def test_a_hint_and_an_explained_cause_may_share_a_line(ours: Path, tmp_path: Path, role: str, explains: str) -> None:
    site(tmp_path, "tape")
    site(tmp_path, "robot", role=role, explains=explains)
    assert problems_of(ours, tmp_path) == []


def test_a_problem_is_shown_with_its_line_and_a_caret_and_steers_no_terminal(ours: Path, tmp_path: Path) -> None:
    (problem,) = problems_of(ours, BAD / "short-literal.yaml")
    place, line, caret, mend = render(problem).splitlines()
    assert place.endswith("`literals`: Expected `str` of length >= 6")
    assert line.index("'gone'") == caret.index("^")
    assert mend.startswith("  fix: write long, rare text")
    steering = problems_of(ours, site(tmp_path, "tape", regex="tape\u009b31m"))
    assert "\u009b" not in "".join(map(render, steering))


def test_a_cause_of_ours_says_more_than_a_sites_must(
    ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = site(tmp_path, "tape")
    assert problems_of(ours, file) == []
    monkeypatch.setattr("slurmdoctor.knowledge.workshop.check.builtin", lambda: tmp_path)
    file.write_text(file.read_text().replace("- do: Restart", "- when: node\n    do: Restart"))
    assert [problem.what for problem in problems_of(ours, file)] == [
        "a cause of ours lacks `falsepositives`",
        "a cause of ours lacks `references`",
        "some logs get no fix",
        "a fix of ours lacks `why`",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "3: [rank3]: OSError: [Errno 5] raid controller gave up on '/scratch/p1/data.bin' after 30.5 s",
        "2026-11-21 09:24:45,860 ERROR tape library (slot 7): door is open, code 0x1f",
        "it's 'quoted' and \"double\" # with a comment: and a colon",
        "gpu-7: 17/64 tapes (33%) are [lost] {really} | ^$ *+?",
        "12345678",
    ],
)
def test_a_draft_passes_but_for_what_it_leaves_to_do(ours: Path, tmp_path: Path, line: str) -> None:
    file = tmp_path / "tape.yaml"
    file.write_text(draft("site/tape", "loader", line, read((ours,)).knowledge))
    told = problems_of(ours, file)
    assert {p.what for p in told} == {f"`{key}` is empty" for key in ("title", "summary", "source", "do", "why")}


def test_a_draft_without_a_line_names_what_to_write(ours: Path, tmp_path: Path) -> None:
    file = tmp_path / "tape.yaml"
    file.write_text(draft("site/tape", "loader", None, NOTHING))
    assert {"`match` is empty", "`regex` is empty"} <= {p.what for p in problems_of(ours, file)}
    assert all("is empty" in p.what for p in problems_of(ours, file))


def test_a_draft_extends_a_known_cause_and_names_the_family_and_what_follows_of_the_nearest_one(ours: Path) -> None:
    known = read((ours,)).knowledge
    text = draft("cuda-oom", "tape", "tape memory is full", known)
    assert (text.startswith("cause: cuda-oom\nextends: true"), "fixes" in text) == (True, False)
    text = draft("site/tape", "loader", "loader: out of memory, tried to allocate 3 tapes", known)
    assert text.startswith(
        "cause: site/tape   # its lines are most like those of cuda-oom, of the family memory\ntitle"
    )
    assert "explains: [collective-timeout, " in text
    assert "explains: []" in draft("site/tape", "loader", "the robot's arm is stuck", known)


@pytest.mark.parametrize(("size", "told"), [(140, []), (141, ["this alternative has 302 characters, more than 300"])])
def test_a_long_alternative_is_to_be_split(ours: Path, tmp_path: Path, size: int, told: list[str]) -> None:
    file = site(tmp_path, "tape", regex=f"tape library is gone{'x?' * size}")
    assert [problem.what for problem in problems_of(ours, file)] == told
