"""The rules themselves: every rule and example proven, every cause of the public contract described."""

import os
from collections import Counter
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import get_args
from unittest import mock

import pytest
import yaml

from slurmdoctor.knowledge import builtin
from slurmdoctor.knowledge.paths import names
from slurmdoctor.knowledge.problems import shown
from slurmdoctor.knowledge.rule_reader import read
from slurmdoctor.knowledge.workshop import proof
from slurmdoctor.knowledge.workshop.check import check, render
from slurmdoctor.knowledge.workshop.proof import peeled, takes
from slurmdoctor.model import Cause, Trait
from slurmdoctor.ranks.labels import LabelReader
from tables import parsed

CONTRACT_HEAD = (
    "# The causes that a diagnosis may name, each with its family and role: scripts and chat bots depend on them.\n"
)
ROOT = Path(__file__).parents[1]
TRAITS: tuple[Trait, ...] = get_args(Trait)
LOADED = read((builtin(),))
KNOWN = LOADED.knowledge
LABELS = LabelReader(KNOWN.formats)
FILES = [shown(file) for file in names(builtin())]
CAUSES = list(KNOWN.causes.values())


@cache
def problems(*, worse_than_linear: bool = False) -> dict[str, list[str]]:
    """What `rules check` says, by file. To try each pattern on lines that are made to hold it up takes most of the time."""
    told: dict[str, list[str]] = {}
    with nullcontext() if worse_than_linear else mock.patch.object(proof, "slowest", return_value=None):
        checked = check(LOADED, FILES)
    for problem in (*checked.problems, *checked.notes):
        told.setdefault(problem.place.file, []).append(render(problem))
    return told


@pytest.mark.parametrize("file", FILES, ids=lambda file: Path(file).stem)
def test_rules_check_finds_nothing(file: str) -> None:
    assert not problems().get(file, []), "\n\n".join(problems()[file])


@pytest.mark.slow
def test_no_pattern_of_a_rule_file_takes_more_than_linear_time() -> None:
    assert problems(worse_than_linear=True) == {}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_no_rule_stands_above_one_whose_lines_it_takes(cause: Cause) -> None:
    certain = [
        rule for rule in cause.rules if rule.role != "hint" and not rule.general and rule.applies_to != "message"
    ]
    hidden = {
        (rule.id, above.id)
        for at, rule in enumerate(certain)
        for line in rule.match
        for above in certain[:at]
        if takes(above, line, peeled(line, LABELS))
    }
    assert not hidden


def test_no_cause_of_the_public_contract_is_renamed_or_taken_away() -> None:
    """Causes are added to it: `SLURMDOCTOR_BLESS=1 pytest` writes the new ones into contract.yaml."""
    file = Path(__file__).with_name("contract.yaml")
    contract = parsed(file.read_text())
    now = {cause.id: f"{cause.family} {cause.role}" for cause in CAUSES}
    assert {cause: now.get(cause) for cause in contract} == contract
    if os.environ.get("SLURMDOCTOR_BLESS"):
        file.write_text(CONTRACT_HEAD + yaml.safe_dump(now))


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.id)
def test_a_fix_is_a_sentence_in_the_imperative(cause: Cause) -> None:
    for fix in cause.fixes:
        first = fix.do.split()[0]
        assert fix.do.endswith((".", "`", ")", "!")), f"no full stop: {fix.do}"
        assert first[:1].isupper() or first[:1] in "{`'\"", f"no sentence: {fix.do}"
        assert first.lower() not in ("you", "please", "consider", "maybe", "the", "this", "it"), (
            f"no imperative: {fix.do}"
        )
        assert len(fix.do) <= 420, f"too long to read at night: {fix.do}"


@pytest.mark.parametrize("trait", TRAITS)
def test_a_trait_is_documented_and_some_cause_has_it(trait: Trait) -> None:
    assert f"\n| `{trait}` | " in (ROOT / "docs" / "rules.md").read_text()
    assert KNOWN.traits[trait]


@pytest.mark.parametrize("key", ["slurm_states", "endings"])
def test_a_state_and_an_ending_belong_to_one_cause(key: str) -> None:
    claims = Counter(one for cause in CAUSES for one in getattr(cause, key))
    assert claims
    assert not [one for one, count in claims.items() if count > 1]


def test_each_fragment_is_used() -> None:
    defined = {entry.id for file in LOADED.files for entry, _ in file.tables().get("fragments", ())}
    text = "\n".join(Path(file).read_text() for file in names(builtin()))
    assert defined
    assert not [name for name in defined if f"{{{name}}}" not in text]


def test_titles_tell_causes_apart() -> None:
    assert not [title for title, count in Counter(cause.title for cause in CAUSES).items() if count > 1]
