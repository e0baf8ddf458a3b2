"""The golden verdict of every labelled log: all of the JSON but the version. `make bless` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension
from syrupy.filters import props

from cases import Case, cases, printed

SEED_LOGS = Path(__file__).parent / "seed_logs"


@pytest.fixture
def golden(snapshot: SnapshotAssertion) -> SnapshotAssertion:
    return snapshot.with_defaults(extension_class=JSONSnapshotExtension, exclude=props("slurmdoctor"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_verdict(case: Case, golden: SnapshotAssertion) -> None:
    assert json.loads(printed(case.folder, case.arguments, "json")) == golden


@pytest.mark.parametrize("log", sorted(SEED_LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_verdict_of_a_seed_log(log: Path, golden: SnapshotAssertion) -> None:
    assert json.loads(printed(SEED_LOGS, [log.name], "json")) == golden
