"""The commands of `slurmdoctor rules`, as they are typed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from builders import raised
from rule_files import cause_file, put
from slurmdoctor.cli.rules import rules
from slurmdoctor.knowledge.workshop.check import cases, precision, recall, run
from slurmdoctor.model import Diagnosis, FirstFailure, NamedCause, UserError

HERE = Path(__file__).parent
LINE = "3: [rank3]: OSError: [Errno 5] raid controller gave up on '/scratch/p1/data.bin' after 30.5 s"


@pytest.fixture(autouse=True)
def no_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SLURMDOCTOR_RULES", raising=False)


def typed(*words: object) -> Result:
    return CliRunner().invoke(rules, [str(word) for word in words])


def test_list_names_every_rule_and_a_sites_own(tmp_path: Path) -> None:
    assert "  cuda-oom               root " in typed("list").output
    (oom,) = [row for row in json.loads(typed("list", "--format", "json").output) if row["id"] == "cuda-oom"]
    assert (oom["family"], oom["role"]) == ("memory", "root")
    assert any(rule["id"] == "cuda-oom/torch" and "PyTorch" in rule["source"] for rule in oom["rules"])
    assert "site/tape" in typed("list", "--rules", put(tmp_path / "tape.yaml", cause_file("site/tape"))).output


def test_check_exits_1_for_problems_and_0_without() -> None:
    bad = typed("check", HERE / "bad_rules" / "short-literal.yaml")
    assert bad.exit_code == 1
    assert bad.output.endswith("1 problem in 1 file\n")
    assert typed("check", HERE / "bad_rules" / "nowhere.yaml").exit_code == 2


def test_a_newcomers_way_from_a_line_to_a_rule_that_works(tmp_path: Path) -> None:
    """CONTRIBUTING.md, followed to the letter."""
    made = typed("new", "our-raid", "--line", LINE, "--folder", tmp_path)
    assert made.exit_code == 0, made.output
    assert "5 fields to fill in:" in made.output
    file = tmp_path / "our-raid.yaml"
    assert typed("check", file).exit_code == 1
    text = file.read_text()
    for draft, written in (
        ("title: 'TODO'", "title: lost the scratch array"),
        ("TODO What happens and why, in a few plain sentences.", "The array's controller gave up, and reads fail."),
        ("TODO the program that prints it, and since which version", "our raid driver >= 2"),
        ("TODO What to do, as an imperative sentence.", "Mount it again: ask the operators."),
        ("'TODO'", "Its disks are not the job."),
        ("no_match: []", "no_match: ['raid controller is back after 3 s']"),
    ):
        assert draft in text
        text = text.replace(draft, written)
    file.write_text(text)
    checked = typed("check", file)
    assert checked.exit_code == 0, checked.output
    assert checked.output.startswith("1 file, 1 pattern, 2 examples: all proven in ")
    log = tmp_path / "job.log"
    log.write_text(f"3: Traceback (most recent call last):\n{LINE}\n")
    command = [sys.executable, "-m", "slurmdoctor", "diagnose", str(log), "--rules", str(tmp_path), "--format", "json"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed)["cause"]["id"] == "site/our-raid"


def test_what_contributing_shows_is_proven(tmp_path: Path) -> None:
    page = (HERE.parent / "CONTRIBUTING.md").read_text()
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "lost-tape.yaml").write_text(shown)
    checked = typed("check", tmp_path / "lost-tape.yaml").output
    assert checked.startswith("1 file, 1 pattern, 2 examples: all proven in "), checked
    (command,) = re.findall(r"rules new lost-tape --line '(.*)'", page)
    drafted = typed("new", "lost-tape", "--line", command, "--folder", tmp_path / "draft").output
    assert drafted.replace(f"{tmp_path}/draft/", "").splitlines()[:2] == re.findall(
        r"^(?:lost-tape.yaml is|  line 2:).*", page, re.M
    )


@pytest.mark.parametrize(
    ("line", "alike", "unlike"),
    [
        ("loader.TapeError: tape vol7 (node gpu12) is gone", "loader.TapeError: tape vol8 (node gpu3) is gone", "loader.TapeError: disk vol7 (node gpu12) is gone"),
        ("loader.S3Error: bucket b2 lost 3 parts", "loader.S3Error: bucket b17 lost 40 parts", "loader.S3Error: disk b2 lost 3 parts"),
        ("raid md0 of rack-4 failed after 1.5s", "raid md127 of rack-12 failed after 30s", "raid xd0 of rack-4 failed after 1.5s"),
    ],
)  # fmt: skip
def test_a_draft_takes_the_same_line_of_another_node_and_disk(
    tmp_path: Path, line: str, alike: str, unlike: str
) -> None:
    typed("new", "our-raid", "--line", line, "--folder", tmp_path)
    (pattern,) = re.findall(r"^    regex: '(.*)'$", (tmp_path / "our-raid.yaml").read_text(), re.M)
    assert [re.search(pattern, one) is not None for one in (line, alike, unlike)] == [True, True, False]


def test_new_never_overwrites(tmp_path: Path) -> None:
    typed("new", "our-raid", "--folder", tmp_path)
    assert "already exists" in str(typed("new", "our-raid", "--folder", tmp_path).exception)


@pytest.mark.parametrize("name", ["Our Raid", "our_raid", "../raid", "", "site/a/b"])
def test_new_wants_a_plain_name(tmp_path: Path, name: str) -> None:
    assert isinstance(typed("new", name, "--folder", tmp_path).exception, UserError)
    assert list(tmp_path.iterdir()) == []


def case(folder: Path, name: str, truth: str, log: str = "") -> None:
    put(folder / name / "truth.yaml", truth)
    put(folder / name / "job.log", log)


def verdict(cause: str, rank: int) -> Diagnosis:
    return Diagnosis("failed", NamedCause(cause, "f", "t", None, "high"), FirstFailure(rank=rank))


TRIALS = {
    "a": ("{failed: true, cause: cuda-oom, rank: 3, rank_certain: true}", verdict("cuda-oom", 1)),
    "b": ("{failed: true, cause: cuda-oom, also: [nccl-init], rank: 3, rank_certain: false}", verdict("nccl-init", 0)),
    "c": ("{failed: true, cause: nan, rank: 3}", verdict("cuda-oom", 3)),
    "d": ("{failed: false}", Diagnosis("no-failure")),
    "e": ("{failed: false}", verdict("nan", 0)),
}


def test_precision_and_recall(tmp_path: Path) -> None:
    for name, (truth, _) in TRIALS.items():
        case(tmp_path, name, truth)
    trial = run(list(cases(tmp_path)), lambda logs: TRIALS[logs[0].parent.name][1])
    shares = {cause: (recall(trial, cause), precision(trial, cause)) for cause in ("cuda-oom", "nan", "(healthy)")}
    assert shares == {"cuda-oom": (1.0, 2 / 3), "nan": (0.0, 0.0), "(healthy)": (0.5, 1.0)}
    assert [one.right_rank for one in trial] == [False, None, True, None, None]
    assert [one.case.folder.name for one in trial if not one.right] == ["c", "e"]


def test_test_tells_what_was_wrong(tmp_path: Path) -> None:
    oom = raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
    case(tmp_path, "right", "{failed: true, cause: cuda-oom}", oom)
    assert typed("test", tmp_path).exit_code == 0
    case(tmp_path, "wrong", "{failed: true, cause: nan}", oom)
    result = typed("test", tmp_path)
    assert result.exit_code == 1
    assert "  wrong: said cuda-oom, truth nan\n" in result.output
    assert "1 of 2 causes and 0 of 0 ranks right" in result.output
    assert re.search(r"^nan +1 +0 % +-$", result.output, re.M)


@pytest.mark.parametrize("truth", ["[]", "{failed: true}", "cause: cuda-oom", "{failed: true, cause: [", "failed: {a}"])
def test_a_truth_that_says_nothing_is_refused(tmp_path: Path, truth: str) -> None:
    case(tmp_path, "a", truth)
    with pytest.raises(UserError, match=r"truth\.yaml is no truth of a case"):
        list(cases(tmp_path))
    assert isinstance(typed("test", tmp_path / "a").exception, UserError)  # a folder without cases
