"""The golden decisions of every labelled log: all of the verdict but its prose. `make bless` writes them anew."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from cases import Case, cases, decisions, printed

SEED_LOGS = Path(__file__).parent / "seed_logs"


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_verdict(case: Case, snapshot: SnapshotAssertion) -> None:
    with decisions() as found:
        printed(case.folder, case.arguments, "json")
    assert "\n\n".join(found) == snapshot


@pytest.mark.parametrize("log", sorted(SEED_LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_verdict_of_a_seed_log(log: Path, snapshot: SnapshotAssertion) -> None:
    with decisions() as found:
        printed(SEED_LOGS, [log.name], "json")
    assert "\n\n".join(found) == snapshot
