"""Many jobs in one process: the rules are read once and seen when they change, no job changes the next one's verdict, memory stays."""

import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from rule_files import cause_file, put
from slurmdoctor import UserError, diagnose, diagnose_text
from slurmdoctor.knowledge import paths
from slurmdoctor.readers import targets

load = import_module("slurmdoctor.knowledge.loading")  # the package has a function of this name
LOGS = sorted((Path(__file__).parent / "fixtures").glob("*/*.log"))[::9]
LINE = "[rank3]: loader.TapeError: tape library is gone after 30 s"


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds pass."""
    passed = [1e9]
    monkeypatch.setattr(load, "monotonic", lambda: sum(passed))
    return passed.append


def test_jobs_within_a_second_look_at_the_rules_once(
    wait: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def data_of(name: str) -> bytes:
        looked.append(name)
        return paths.data_of(name)

    monkeypatch.setattr(load, "data_of", data_of)
    wait(load.FRESH)
    for _ in range(5):
        diagnose_text(LINE)
    once = len(looked)
    assert once == len(set(looked)) > 50
    wait(load.FRESH)
    diagnose_text(LINE)
    assert len(looked) == 2 * once


def test_a_changed_folder_of_rules_is_seen_a_second_later_and_no_folder_is_mistaken_for_another(
    tmp_path: Path, wait: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("here", "there"):
        put(tmp_path / name / "rules" / f"tape-{name}.yaml", cause_file(f"site/tape-{name}"))
    assert diagnose_text(LINE).cause.id == "python-error"
    monkeypatch.chdir(tmp_path / "here")
    assert diagnose_text(LINE, rules=["rules"]).cause.id == "site/tape-here"
    monkeypatch.setenv("SLURMDOCTOR_RULES", os.fspath(tmp_path / "there" / "rules"))
    assert diagnose_text(LINE).cause.id == "site/tape-there"
    rules = tmp_path / "there" / "rules" / "tape-there.yaml"
    rules.write_text(rules.read_text().replace("lost the tape library", "lost its tape"))
    wait(load.FRESH)
    assert diagnose_text(LINE).cause.title == "lost its tape"
    rules.write_text("cause: [")
    wait(load.FRESH)
    with pytest.raises(UserError):
        diagnose_text(LINE)


def test_what_the_search_needs_of_the_rules_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnose_text(LINE)
    made: list[object] = []
    monkeypatch.setattr(targets, "Matcher", lambda *fields: made.append(fields))
    assert diagnose_text(LINE.replace("30", "31")).cause.id == "python-error"
    assert not made


def test_no_job_changes_the_verdict_on_another() -> None:
    def verdicts(logs: list[Path]) -> dict[Path, str]:
        return {log: diagnose(log, rank_timelines=False).to_json() for log in logs}

    assert verdicts(LOGS) == verdicts(LOGS[::-1])
